#!/bin/bash
# nvitop 1.7.2 with nvidia-ml-py 13.615.71 (PyPI), on a machine without NVIDIA's driver library.
# One would guess: nvisel, made for `export CUDA_VISIBLE_DEVICES="$(nvisel …)"` in job scripts, fails where NVML is missing, as
# `nvitop --once` does (status 1); and Device.all() raises where Device.count() raises.
# What happens: nvisel prints an empty line with status 0 (the complaint is on stderr), so the job runs on with no card at all;
# only with --min-count does it fail. In the library Device.count() raises NVMLError_LibraryNotFound and Device.all(), which would
# ask for each of these devices, returns an empty list.
# Why it matters: on a node whose driver was lost, jobs fall back to the CPU instead of failing, and `for device in Device.all()`
# watches no card without an error.
set -euo pipefail
if ldconfig -p | grep -q libnvidia-ml; then
    echo "needs a machine without libnvidia-ml" >&2
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
PATH=$tmp/venv/bin:$PATH
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check nvitop==1.7.2 nvidia-ml-py==13.615.71 psutil==7.2.2 2>log || { cat log; exit 1; }
venv/bin/pip list --disable-pip-version-check 2>/dev/null | grep -E 'nvitop|nvidia'

runs() {  # runs COMMAND...: its status, what it prints, its first complaint
    status=0
    printed=$("$@" 2>complaint) || status=$?
    echo "$*: status $status, prints '$printed', complains: $(head -1 complaint | cut -c1-60)"
}
runs nvitop --once
[ "$status" = 1 ]
runs nvisel
[ "$status:$printed" = 0: ]
runs nvisel --min-count 1
[ "$status" != 0 ]
cat >ask.py <<'PYTHON'
from nvitop import Device
print("Device.all()", Device.all())
try:
    print("Device.count()", Device.count())
except Exception as error:
    print("Device.count()", type(error).__name__)
PYTHON
venv/bin/python ask.py 2>/dev/null | tee answer
[ "$(cat answer)" = "Device.all() []
Device.count() NVMLError_LibraryNotFound" ]
echo "Holds: without a driver nvisel succeeds and Device.all() is empty."
