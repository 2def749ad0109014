"""A payload in a container reads its features and tells its status: the podman line of docs/jobs.md, on Debian 13.

The container's files are that Debian itself, so that no registry is needed.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.docs.pages import text_of
from tests.integration.debian import ROOT, later_debian

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

# In mounts of its own; a pure cgroup2 is shown, since crun takes no hybrid of both versions.
START = """set -e
mkdir -p "$1/image" "$1$2"
mount --bind "$1" "$1/image"
mount --bind "$2" "$1$2"
for folder in proc dev sys; do mount --rbind "/$folder" "$1/$folder"; done
mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
mount -t tmpfs tmpfs "$1/run"
. "$2/features/exports/slurm-77"
exec chroot "$1" sh -c "$3"
"""
PAYLOAD = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from client import Features, StatusWriter
features = Features.from_environment()
print(features.get("job", "job_id"), features.get("machine", "total_cpu"))
with StatusWriter(os.environ["JOBSTATUS"], allocated_cpu=8) as status:
    status.update(used_CPU=5, last_job_start=int(time.time()))
try:
    open(os.environ["JOBFEATURES"] + "/mine", "w")
except OSError as error:
    print(error.strerror)
"""


# What apptainer reads from its variable has the form of podman's --volume.
BY_VARIABLE = (
    """-e MACHINEFEATURES -e JOBFEATURES -e JOBSTATUS $(echo "-v $APPTAINER_BIND" | sed 's/,/ -v /g')"""
)


def test_a_payload_in_podman_reads_its_features_and_tells_its_status(tmp_path):
    with later_debian("trixie", ["podman"], tmp_path / "debian") as system:
        shared = tmp_path / "shared"
        shared.mkdir()
        job = {**os.environ, "SLURM_JOB_ID": "77", "SLURM_JOB_UID": "0"}
        publish = [
            "publish",
            "--batch",
            "slurm",
            "--features.root",
            f"{shared}/features",
            "--hook.ask",
            "never",
            "--features.bind",
            "apptainer",
        ]
        command = [sys.executable, "-m", "jobfeatures"]
        subprocess.run([*command, *publish, "--machine.total-cpu", "16"], env=job, check=True)
        status = shared / "features/jobstatus/slurm-77"
        shutil.copy(ROOT / "jobfeatures/client.py", status)
        (status / "payload.py").write_text(PAYLOAD)
        [line] = re.findall(
            r"^podman run (.+?) IMAGE COMMAND$", text_of("docs/jobs.md"), re.MULTILINE | re.DOTALL
        )
        here = "--storage-driver vfs run --rm --network none --cgroups disabled"
        unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", START, "sh"]
        for options in (line, BY_VARIABLE):
            (status / "used_CPU").unlink(missing_ok=True)
            words = f'podman {here} {options} --rootfs /image python3 "$JOBSTATUS/payload.py" "$JOBSTATUS"'
            done = subprocess.run([*unshare, system.root, shared, words], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines() == ["77 16", "Read-only file system"]
            assert (status / "used_CPU").read_text().strip() == "5"
