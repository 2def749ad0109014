"""What proves a daemon, on the real /proc: a copy of sleep called slurmstepd."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.batch.slurm.groups import HIERARCHY
from jobfeatures_exporter.sampling.places.trust import find_daemons
from tests.running import until

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a daemon runs as root"),
]
STEP = ("slurmstepd", "60")
AS_USER = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture
def problem(tmp_path):
    """Return a function that starts the program in some way and returns what is wrong with it as a proof."""
    folder = Path(shutil.copytree("/bin", tmp_path / "sbin", ignore=lambda _, names: {*names} - {"sleep"}))
    (folder / "sleep").rename(folder / "slurmstepd")
    ours = (each for each in tmp_path.parents if "pytest-of" in str(each))
    for each in (folder / "slurmstepd", folder, tmp_path, *ours):
        each.chmod(0o755)
    started = []

    def problem(*before: str) -> str:
        process = subprocess.Popen([*before, str(folder / "slurmstepd"), "60"])
        started.append(process)

        def found():
            daemons = find_daemons(HIERARCHY, "/proc", trusted={0})
            ours = [
                each
                for each in daemons
                if os.path.realpath(f"/proc/{each.pid}/exe") == str(folder / "slurmstepd")
            ]
            return ours and ours[0]

        return until(found).problem

    problem.folder = folder
    yield problem
    for each in started:
        each.kill()
        each.wait()


def test_root_s_program_on_the_host_is_a_proof(problem):
    assert problem() == ""


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ((sys.executable, "-S", "-c", AS_USER), "is not root's"),
        (("unshare", "--user", "--map-root-user"), "is in a user namespace"),
        (("unshare", "--cgroup"), "its cgroup namespace is not the host's"),
    ],
)
def test_a_user_s_or_a_container_s_is_none(problem, before, why):
    assert why in problem(*before)


def test_nor_is_one_that_others_may_write(problem):
    problem.folder.chmod(0o777)
    assert "others than root can write" in problem()
