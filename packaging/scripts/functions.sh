# shellcheck shell=sh
# Functions shared by the scripts of both kinds of package. None of them fails, so that the package can be
# installed without systemd, such as in a container or an image that is being built.
units='jobfeatures-exporter.socket jobfeatures-exporter.service jobfeatures-controller.service
jobfeatures-shutdowntime.timer'

has() { command -v "$1" >/dev/null 2>&1; }
runs_systemd() { [ -d /run/systemd/system ] && has systemctl; }

# make_user: create the user of the controller's service, by systemd if possible
make_user() {
  if has systemd-sysusers && systemd-sysusers jobfeatures-exporter.conf >/dev/null 2>&1 &&
    getent passwd jobfeatures >/dev/null; then
    return 0
  fi
  getent group jobfeatures >/dev/null || groupadd --system jobfeatures || true
  getent passwd jobfeatures >/dev/null ||
    useradd --system --gid jobfeatures --home-dir /var/lib/jobfeatures-exporter --no-create-home \
      --shell /usr/sbin/nologin --comment jobfeatures-exporter jobfeatures || true
}

# Marks that /run/jobfeatures existed before the first installation and must not be removed. A reboot clears both.
found=/run/jobfeatures-exporter.found

# note_folders: call it before make_folders, at a first installation
note_folders() {
  if [ -d /run/jobfeatures ]; then : >"$found" || true; fi
}

# make_folders: create what systemd would otherwise create at boot
make_folders() {
  if has systemd-tmpfiles && systemd-tmpfiles --create jobfeatures-exporter.conf >/dev/null 2>&1; then
    return 0
  fi
  [ -d /run/jobfeatures ] || mkdir -m 0755 /run/jobfeatures || true
}

# restart_services: restart the services that are running, with the new code
restart_services() {
  if runs_systemd; then
    systemctl daemon-reload || true
    for unit in $units; do
      case $unit in
      *.service) systemctl try-restart "$unit" || true ;;
      esac
    done
  fi
}

# stop_services: stop and disable all services
stop_services() {
  if has systemctl; then
    for unit in $units; do
      if runs_systemd; then systemctl stop "$unit" || true; fi
      systemctl --no-reload disable "$unit" >/dev/null 2>&1 || true
    done
  fi
}

# forget_jobs: remove the published features, which nothing would keep up to date any longer
forget_jobs() {
  if runs_systemd; then
    systemctl daemon-reload || true
    # shellcheck disable=SC2086  # several words
    systemctl reset-failed $units 2>/dev/null || true
  fi
  if [ -e "$found" ]; then
    rm -f "$found" || true
  elif [ -d /run/jobfeatures ] && ! [ -L /run/jobfeatures ]; then
    rm -rf /run/jobfeatures || true
  fi
}

prefix=/opt/jobfeatures-exporter
# shellcheck disable=SC2034
stubs=/run/jobfeatures-exporter.stubs # of the rpm, between its scripts
tab=$(printf '\t')

# systems_left: print a line for each batch system that still names hooks of ours, or may: name, tab, why
systems_left() {
  if left=$(timeout -k 5 60 "$prefix/bin/python3" -P -m jobfeatures_exporter.startup.hooksleft "$prefix" 2>/dev/null); then
    [ -z "$left" ] || printf '%s\n' "$left"
  else
    for each in "$prefix"/*/hook.sh; do
      each=${each%/*}
      [ "$each" = "$prefix/common" ] || printf '%s\tits hooks are not known (no answer from %s)\n' "${each##*/}" "$prefix/bin/python3"
    done
  fi
}

# lay_stubs HOW: put a stub, which does nothing, in the place of each hook that is still named, in one rename; before
# that, call HOW with the hook's path
lay_stubs() {
  systems_left | while IFS=$tab read -r system why; do
    laid=
    for hook in "$prefix/$system"/*.sh; do
      case ${hook##*/} in hook.sh | profile.sh | '*.sh') continue ;; esac # read by others, which do without
      "$1" "$hook" || true
      if cp "$prefix/share/stub.sh" "$hook.new" && chmod 0755 "$hook.new" && mv -f "$hook.new" "$hook"; then laid=yes; fi
    done
    [ -z "$laid" ] || echo "warning: $system: $why: scripts that do nothing stay in $prefix/$system, as nodes or jobs" \
      "would fail without them; take them out of its configuration, then delete $prefix" >&2
  done
}
