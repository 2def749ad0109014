#!/bin/bash
# pictures.sh FOLDER [MINUTES] - start the lab, wait, draw every dashboard into FOLDER.
#
# Needs prometheus, gcc, npm (610 MB are installed into FOLDER/render), chromium, pngquant, and the project in .venv.
# PROMETHEUS=URL takes a lab that runs already; then nothing is waited for.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
folder=$1 minutes=${2:-25}
mkdir -p "$folder/render"
folder=$(cd "$folder" && pwd)

cp "$here"/{package.json,package-lock.json,panels.tsx,render.mjs} "$folder/render"
[ -d "$folder/render/node_modules" ] || (cd "$folder/render" && NPM_CONFIG_LEGACY_PEER_DEPS=true npm ci --no-audit --no-fund)

if [ -z "${PROMETHEUS:-}" ]; then
    cd "$root"
    .venv/bin/python -m tests.labs.monitoring "$folder/lab" >"$folder/addresses.json" &
    lab=$!
    trap 'kill $lab; wait $lab || true' EXIT
    until PROMETHEUS=$(sed -n 's/.*"prometheus": "\(.*\)".*/\1/p' "$folder/addresses.json" 2>/dev/null) && [ -n "$PROMETHEUS" ]; do
        kill -0 $lab
        sleep 1
    done
    sleep $((minutes * 60))
fi

for board in "$root"/grafana/dashboards/*.json; do
    name=$(basename "$board" .json)
    chosen=()
    [ "$name" = job ] && chosen=(--var batch_system=slurm --var job_id=1003)
    [ "$name" = node ] && chosen=(--var instance=g1:9819)
    node "$folder/render/render.mjs" "$board" "$PROMETHEUS" "$folder/$name.png" --minutes "$minutes" "${chosen[@]}" |
        grep -v '"ok":true' || true
    pngquant --force --output "$folder/$name.png" "$folder/$name.png"
done
