"""A payload in a container reads its features and tells its status: the lines of docs/jobs.md, and the variable.

podman runs on Debian 13 as root, apptainer on Debian's sid as an ordinary user. The container's files are that
Debian itself, so that no registry is needed.
"""

import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.docs.pages import text_of
from tests.integration.debian import ROOT, later_debian

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

# In mounts of its own. A new root, since who is in a mere chroot may make no user namespace; a pure cgroup2, since
# crun takes no hybrid of both versions.
START = """set -e
mkdir -p "$1/image" "$1/old" "$1$2"
mount --bind "$1" "$1"
mount --bind "$1" "$1/image"
mount --bind "$2" "$1$2"
for folder in proc dev sys; do mount --rbind "/$folder" "$1/$folder"; done
mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
mount -t tmpfs tmpfs "$1/run"
. "$2/features/exports/slurm-77"
cd "$1"
pivot_root . old
umount -l old
exec chroot . setpriv --reuid "$3" --regid "$3" --clear-groups sh -c "$4"
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


class Engine(NamedTuple):
    """How a payload is run; `by_variable` takes the binds from what the hooks export, `unbound` has none."""

    suite: str
    uid: int
    before: str  # the options, or the variable, of a line
    image: str
    by_variable: str
    unbound: str


ENGINES = {
    "podman": Engine(
        suite="trixie",
        uid=0,
        before="podman --storage-driver vfs run --rm --network none --cgroups disabled",
        image="--rootfs /image",
        # What apptainer reads from its variable has the form of podman's --volume.
        by_variable="-e MACHINEFEATURES -e JOBFEATURES -e JOBSTATUS "
        """$(echo "-v $APPTAINER_BIND" | sed 's/,/ -v /g')""",
        unbound="-e MACHINEFEATURES -e JOBFEATURES -e JOBSTATUS",
    ),
    "apptainer": Engine(
        suite="sid",
        uid=6001,
        before="env HOME=/home/alice apptainer exec --contain",  # without the node's own /tmp
        image="/image",
        by_variable="",
        unbound="",
    ),
}


def publish(shared, uid):
    """Publish the job's features as a prolog does; return its status directory, with the payload in it."""
    job = {**os.environ, "SLURM_JOB_ID": "77", "SLURM_JOB_UID": str(uid)}
    options = ["--batch", "slurm", "--features.root", f"{shared}/features", "--hook.ask", "never"]
    options += ["--features.bind", "apptainer", "--machine.total-cpu", "16"]
    subprocess.run([sys.executable, "-m", "jobfeatures", "publish", *options], env=job, check=True)
    status = shared / "features/jobstatus/slurm-77"
    shutil.copy(ROOT / "jobfeatures/client.py", status)
    (status / "payload.py").write_text(PAYLOAD)
    return status


@pytest.mark.parametrize("name", ENGINES)
def test_a_payload_reads_its_features_and_tells_its_status(tmp_path, name):
    engine = ENGINES[name]
    [line] = re.findall(
        rf"^{name} \w+ (.+?) IMAGE COMMAND$", text_of("docs/jobs.md"), re.MULTILINE | re.DOTALL
    )
    with later_debian(engine.suite, [name], tmp_path / "debian") as system:
        shared = tmp_path / "shared"
        shared.mkdir()
        status = publish(shared, engine.uid)

        def run(options, variable=""):
            words = f'{variable} {engine.before} {options} {engine.image} python3 "$JOBSTATUS/payload.py" "$JOBSTATUS"'
            start = ["unshare", "--mount", "--propagation", "private", "sh", "-c", START, "sh"]
            return subprocess.run(
                [*start, system.root, shared, str(engine.uid), words], capture_output=True, text=True
            )

        for options, variable in ((line, "unset APPTAINER_BIND;"), (engine.by_variable, "")):
            (status / "used_CPU").unlink(missing_ok=True)
            done = run(options, variable)
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines() == ["77 16", "Read-only file system"]
            assert (status / "used_CPU").read_text().strip() == "5"
        without = run(engine.unbound, "unset APPTAINER_BIND;")
        assert "can't open file" in without.stderr
        assert without.returncode == 2
