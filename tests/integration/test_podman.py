"""The line of docs/install.md, by a real podman on control groups v2: from its container the daemon sees the host's jobs.

In a virtual machine with Debian 13, whose own files are the image's; the job's group is constructed, made by hand
after what Slurm writes. podman gives a container a control group namespace of its own where nobody says otherwise.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from tests.docs.pages import text_of
from tests.integration.debian import ROOT, later_debian

pytestmark = [pytest.mark.timeout(1500), pytest.mark.long]

FILE = ROOT / "packaging/Containerfile"
[LINE] = re.findall(
    r"^podman (run -d .*?) jobfeatures-exporter$", text_of("docs/install.md"), re.MULTILINE | re.DOTALL
)
HOST = "--cgroupns host"
JOB = "system.slice/slurmstepd.scope/job_7"

# Runs as root in the machine: a job of four processes that have used a second of CPU time together, then daemons.
SCRIPT = """
set -eu
mount --make-rshared /
mkdir -p /run/image /run/jobfeatures
mount --bind / /run/image
cd /sys/fs/cgroup
group=.
for part in {job} step_batch user task_0; do
    echo '+cpu +memory +pids' >$group/cgroup.subtree_control
    for each in $(echo $part | tr / ' '); do
        echo '+cpu +memory +pids' >$group/cgroup.subtree_control
        group=$group/$each
        mkdir -p $group
    done
done
for number in 1 2 3 4; do
    sh -c 'echo $$ >"$0/cgroup.procs" && exec python3 -S -c "
import time
kept = bytes(b\\"x\\" * (20 << 20))
while time.process_time() < 0.5: pass
open(\\"/run/ready.$1\\", \\"w\\").close()
time.sleep(10000)" "$1"' $group $number &
done
until [ "$(ls /run/ready.* 2>/dev/null | wc -l)" = 4 ]; do sleep 0.2; done
podman() {{ command podman --root /run/store --runroot /run/runroot --storage-driver vfs --cgroup-manager cgroupfs "$@"; }}
page() {{
    echo "PAGE $1"
    shift
    "$@" >/dev/null
    until curl -sf http://127.0.0.1:9819/-/ready >/dev/null; do
        podman ps -a --format '{{{{.Status}}}}' | grep -q Up || {{ podman logs jobfeatures-exporter; exit 1; }}
        sleep 0.5
    done
    echo "GROUP $(podman exec jobfeatures-exporter cat /proc/self/cgroup)"
    curl -sf http://127.0.0.1:9819/metrics
    echo END
    podman rm -f -t 5 jobfeatures-exporter >/dev/null
}}
{pages}
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    if not shutil.which("linux.uml"):
        pytest.skip("needs user-mode-linux")
    entry = " ".join(json.loads(re.search(r"(?m)^ENTRYPOINT (.+)$", FILE.read_text())[1]))
    image = f"-e PATH=/opt/jobfeatures-exporter/bin:/usr/bin --rootfs /run/image {entry} --batch.sources="
    lines = {"host": LINE, "own": LINE.replace(HOST, "")}
    pages = "".join(f"page {name} podman {line} {image}\n" for name, line in lines.items())
    folder = tmp_path_factory.mktemp("podman")
    share = folder / "share"
    share.mkdir()
    (share / "script").write_text(SCRIPT.format(job=JOB, pages=pages))
    with later_debian("trixie", ["podman"], folder / "debian") as system:
        product = system.root / "opt/jobfeatures-exporter"
        subprocess.run([ROOT / "tests/labs/suites/install.sh", product, "slurm", "3.13"], check=True)
        for each in ("host/proc", "host/sys", "etc/jobfeatures-exporter", "run/jobfeatures"):
            (system.root / each).mkdir(parents=True, exist_ok=True)
        (system.root / "etc/hosts").write_text("127.0.0.1 localhost uml\n")
        (system.root / "etc/mtab").unlink(missing_ok=True)
        (system.root / "etc/mtab").symlink_to("/proc/self/mounts")
        # compiled before: there nothing can be written, and each start would compile all of it
        system.run("python3", "-m", "compileall", "-q", "/opt/jobfeatures-exporter/lib", check=False)
        command = [
            ROOT / "tests/labs/uml/run.sh",
            "-m",
            "2G",
            "-r",
            system.root,
            share,
            "bash",
            "/mnt/script",
        ]
        environ = {**os.environ, "UML_TIMEOUT": "1200"}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=1300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def test_the_documented_line_says_that_the_host_s_namespace_is_taken():
    assert HOST in LINE


@pytest.mark.parametrize(("name", "group"), [("host", r"0::/.*libpod-\w{64}.*"), ("own", r"0::/")])
def test_the_daemon_in_its_container_sees_all_of_a_job_on_the_host(output, name, group):
    page = re.search(rf"(?ms)^PAGE {name}$(.*?)^END$", output)[1]
    assert re.fullmatch(group, re.search(r"(?m)^GROUP (.*)$", page)[1]), "what kind of namespace it has"

    def of(name, *more):
        wanted = ('batch_system="slurm"', 'job_id="7"', *more)
        lines = (line for line in page.splitlines() if line.startswith(f"{name}{{"))
        return [float(line.split()[-1]) for line in lines if all(each in line for each in wanted)]

    assert of("batch_job_processes") == [4]
    assert of("batch_job_threads") == [4]
    assert 1.5 < sum(of("batch_job_cpu_seconds_total")) < 60
    [anon] = of("batch_job_memory_bytes", 'component="anon"')
    assert 80 << 20 <= anon < 160 << 20
    assert sum(of("batch_job_io_read_bytes_total")) > 0
    assert "job_places_refused" not in page
