"""The package is installed again, removed and purged while a real Slurm starts jobs, whose hooks nobody took out.

Under systemd, in one boot. A hook that is missing for a moment would drain the node, or fail a job's task.
"""

import re
import shutil
from pathlib import Path

import pytest
from makepackages.layout import NAME, PREFIX

from tests.integration.debian import WITH_SLURM, clean_debian

pytestmark = pytest.mark.timeout(1600)  # all of it happens in the first test that asks
ROOT = Path(__file__).parents[2]
HOOKS = f"{PREFIX}/slurm"
BUSY = "srun: error: Unable to allocate resources: No error\nfailed: 1\n"  # slurmctld did not answer: no job was made
SCRIPT = f"""
export SLURM_LAB=/run/slurm-lab SLURM_LAB_NODES=1 SLURM_LAB_PREFIX=node SLURM_LAB_CPUS=4 SLURM_LAB_DB=0
rm -rf /etc/slurm; ln -s $SLURM_LAB/etc /etc/slurm
dpkg -i /mnt/*.deb
/mnt/labs/slurm/up.sh
sed -i /^SrunPortRange/d $SLURM_LAB/etc/slurm.conf # jobs follow so closely that closed ports would use it up
printf '%s\\n' Prolog={HOOKS}/prolog.sh TaskProlog={HOOKS}/taskprolog.sh Epilog={HOOKS}/epilog.sh >>/etc/slurm/slurm.conf
scontrol reconfigure; sleep 3
jobs() {{ # one after the other, until there is a file
    while ! [ -e /run/enough ]; do timeout 60 srun -Q -n 2 true || echo "failed: $?"; echo job >>/run/$1; done
}}
for each in 1 2; do jobs $each >>/run/failures 2>&1 & done
step() {{ # step NAME COMMAND...
    echo "=== $1"; "${{@:2}}" 2>&1; sleep 3
    echo "=== end $1"
    echo "=== state of $1"; scontrol -o show node node1 | grep -o 'State=[^ ]*\\|Reason=.*'; echo "=== end state of $1"
}}
step started systemctl start {NAME}
step upgraded dpkg -i /mnt/*.deb
step removed dpkg -r {NAME}
step left find {PREFIX}
step diverted dpkg-divert --list '{PREFIX}*'
step again dpkg -i /mnt/*.deb
step verified dpkg -V {NAME}
step purged dpkg -P {NAME}
touch /run/enough; wait
echo "=== failures"; cat /run/failures; echo "=== end failures"
echo "=== jobs"; cat /run/1 /run/2; echo "=== end jobs"
echo "=== told"; journalctl --no-pager -o cat -t jobfeatures; echo "=== end told"
/mnt/labs/slurm/down.sh
"""


@pytest.fixture(scope="module")
def seen(packages, tmp_path_factory):
    """Return what each step printed."""
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(0o755)
    shutil.copy(packages.deb, shared)
    shutil.copytree(ROOT / "tests/labs/slurm", shared / "labs/slurm")
    with clean_debian(tmp_path_factory.mktemp("debian"), WITH_SLURM) as system:
        (system.root / "etc/hostname").write_text("node1\n")
        (system.root / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.0.1 node1.example.org node1\n")
        said = system.boot(SCRIPT, shared)
    return dict(re.findall(r"^=== (.+)\n(?s:(.*?))^=== end \1$", said, re.MULTILINE))


def test_no_job_fails_and_the_node_is_never_drained(seen):
    assert len(seen["jobs"].split()) > 20
    said = seen["failures"].replace(BUSY, "")
    assert said == ""
    states = {name: text for name, text in seen.items() if name.startswith("state of ")}
    assert len(states) == 8
    assert {name: text for name, text in states.items() if "DRAIN" in text or "Reason" in text} == {}


@pytest.mark.parametrize("step", ["removed", "purged"])
def test_the_removal_says_in_one_line_which_hooks_are_still_named_and_what_stays(seen, step):
    [line] = [each for each in seen[step].splitlines() if each.startswith("warning: ")]
    assert "slurm: its configuration still names hooks of the package (Prolog, TaskProlog, Epilog)" in line
    assert HOOKS in line


def test_what_stays_are_scripts_that_do_nothing_and_belong_to_no_package(seen):
    assert set(seen["left"].split()) == {
        PREFIX, HOOKS, *(f"{HOOKS}/{name}.sh" for name in ("prolog", "taskprolog", "epilog"))
    }  # fmt: skip
    assert seen["diverted"] == ""


def test_each_hook_that_was_run_without_the_package_says_so_in_syslog(seen):
    for name in ("prolog", "taskprolog", "epilog"):
        assert f"{HOOKS}/{name}.sh: jobfeatures-exporter has been removed" in seen["told"]


def test_a_new_installation_takes_the_place_of_what_stayed(seen):
    assert seen["verified"] == ""
