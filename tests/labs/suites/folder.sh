#!/bin/bash
# A folder with a later Debian and some of its packages, made once and kept; the labs of servers lie as layers over it.
#
#   folder.sh SUITE PACKAGE...    prints the folder's path; makes it first, in a minute or three, where it is not there
#
# It is named after the suite and the list of packages, so that another list makes another folder, and what the suite
# has renewed since is taken when the folder has been removed. Packages' signatures are checked. Never write into it.
set -euo pipefail
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
cache=${XDG_CACHE_HOME:-$HOME/.cache}/jobfeatures-exporter/suites
basics=(python3 python3-venv procps iproute2 ca-certificates curl)
[ $# -ge 1 ] || { echo "folder.sh SUITE PACKAGE..." >&2; exit 2; }
suite=$1
shift
folder=$cache/$suite-$(printf '%s\n' 1 "${basics[@]}" "$@" | sha256sum | head -c 10)
mkdir -p "$cache"
exec 9>"$folder.lock"
flock 9 # others may want it at the same time
if [ $# -gt 0 ] && ! [ -d "$folder" ]; then
    plain=$("$0" "$suite" 9>&-) # what all lists of packages of a suite begin with is made once
fi
if ! [ -d "$folder" ]; then
    partial=$folder.partial
    rm -rf --one-file-system "$partial"
    make() { # each step, or none after it: `set -e` means nothing where a failure is asked for
        if [ $# -gt 0 ]; then
            cp -a --reflink=auto "$plain" "$partial" && fill "$@"
        else
            debootstrap --keyring=/usr/share/keyrings/debian-archive-keyring.gpg --variant=minbase \
                --include="$(IFS=,; echo "${basics[*]}")" "$suite" "$partial"
        fi
    }
    fill() {
        printf '#!/bin/sh\nexit 101\n' >"$partial/usr/sbin/policy-rc.d" # nothing is started while it is made
        chmod 755 "$partial/usr/sbin/policy-rc.d"
        echo force-unsafe-io >"$partial/etc/dpkg/dpkg.cfg.d/unsafe-io"
        # MariaDB is configured with /proc; a mirror that has stood still for a week is good enough
        # shellcheck disable=SC2016
        unshare --mount --propagation private sh -c 'mount --rbind /proc "$0/proc"; exec chroot "$0" "$@"' "$partial" \
            sh -c 'apt-get -o Acquire::Check-Valid-Until=false update -q && apt-get install -qy --no-install-recommends "$@"' \
            sh "$@" || return
        rm -rf "$partial"/var/cache/apt/archives/*.deb
        for user in alice:6001 bob:6002; do
            chroot "$partial" useradd -m -s /bin/bash -u "${user#*:}" "${user%:*}" || return
        done
    }
    make "$@" </dev/null >"$folder.log" 2>&1 || { tail -n 20 "$folder.log" >&2; exit 1; }
    mv "$partial" "$folder"
fi
echo "$folder"
