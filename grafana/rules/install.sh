#!/bin/sh
# Install the rules so that alerts lead to the runbook: install.sh URL FOLDER
# URL is where the pages of docs/ are, such as http://controller.example.org:9820/docs; FOLDER is one that
# rule_files of Prometheus names. Each file appears whole.
set -eu
url=${1-} folder=${2-}
case $url in
*[!A-Za-z0-9:/._~%@\[\]-]*) url= ;;
esac
case $url in
http://?* | https://?*) ;;
*)
    echo "install.sh: want a URL that begins with http:// or https://, and a folder" >&2
    exit 2
    ;;
esac
[ -d "$folder" ] || { echo "install.sh: $folder is no folder" >&2; exit 2; }
for file in "$(dirname "$0")"/*.yml; do
    made=$folder/.$(basename "$file").$$
    sed "s|\(runbook_url: \)docs/|\1${url%/}/|" "$file" >"$made"
    chmod 644 "$made"
    mv "$made" "$folder/jobfeatures-$(basename "$file")"
done
