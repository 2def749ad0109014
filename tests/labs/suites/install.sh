#!/bin/bash
# install.sh FOLDER SYSTEM VERSION: make FOLDER the /opt/jobfeatures-exporter of a suite's node, for its Python VERSION (3.13), as pip
# makes a virtual environment of it, with the hooks of the batch SYSTEM. One that is whole is left alone.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
product=$1 system=$2 version=$3
[ ! -e "$product/pyvenv.cfg" ] || exit 0
uv=$project/.venv/bin/uv
[ -x "$uv" ] || uv=$(command -v uv) || { echo "install.sh: needs uv, which installs this project for the suite's Python" >&2; exit 1; }
mkdir -p "$product"/{bin,"$system"}
chmod 755 "$product" "$product"/{bin,"$system"}
ln -sfn /usr/bin/python3 "$product/bin/python3"
"$uv" pip install -q --target "$product/lib/python$version/site-packages" --python-version "$version" \
    --refresh-package jobfeatures-exporter "$project"
for command in jobfeatures:jobfeatures.__main__:run jobfeatures-exporter:jobfeatures_exporter.cli:main; do
    IFS=: read -r name module function <<<"$command"
    printf '#!/opt/jobfeatures-exporter/bin/python3\nimport sys\nfrom %s import %s\nsys.exit(%s())\n' \
        "$module" "$function" "$function" >"$product/bin/$name"
done
cp -L "$project/packaging/$system"/*.sh "$product/$system/"
chmod 755 "$product"/bin/jobfeatures* "$product/$system"/*
echo 'home = /usr/bin' >"$product/pyvenv.cfg"
