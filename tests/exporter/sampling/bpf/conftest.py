"""The kernel's sums, real control groups, and programs whose doings are known."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.bpf.reader import KernelSums
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, JobDirectory
from tests.running import until

CGROUP = "/sys/fs/cgroup"
# Beside v1 there may be v2, without controllers: whose tasks are where, the kernel knows all the same.
HIERARCHIES = [CGROUP, *filter(os.path.exists, [f"{CGROUP}/unified"])]


@pytest.fixture
def hierarchy() -> str:
    """Return below which directory control groups are looked for."""
    return CGROUP


@pytest.fixture
def make_sums(hierarchy):
    """Return a function that begins to sum, or skips where this kernel, or this user, cannot."""
    with contextlib.ExitStack() as stack:

        def make(**more) -> KernelSums:
            if os.geteuid() != 0:
                pytest.skip("loading programs into the kernel needs root")
            try:
                sums = KernelSums(hierarchy, **more)
            except OSError as error:
                pytest.skip(f"the kernel has no sums for us: {error}")
            stack.callback(sums.close)
            return sums

        yield make


class Groups:
    """Control groups of the hierarchy that is summed; removed at the end, with their processes."""

    def __init__(self, hierarchy: str) -> None:
        tops = find_hierarchies(hierarchy)
        self.controller = "cpuacct" if "cpuacct" in tops else UNIFIED
        self.top = tops[self.controller]
        self.freezer = f"{CGROUP}/freezer" if self.controller == "cpuacct" else None
        self._made: list[str] = []

    def of_job(self, node: str, job_id: str) -> str:
        """Return where slurmd of one of several nodes of this machine has a job: other tests look elsewhere."""
        v1, v2 = f"/slurm_{node}/uid_0/job_{job_id}", f"/system.slice/{node}_slurmstepd.scope/job_{job_id}"
        return v1 if self.freezer else v2

    def make(self, path: str) -> JobDirectory:
        """Make a control group with those above it; return it as a job's."""
        place = self.top
        for part in path.strip("/").split("/"):
            place += f"/{part}"
            if not os.path.exists(place):
                os.mkdir(place)
                self._made.append(place)
        return JobDirectory(
            path=path,
            membership=Membership(batch_system="slurm", job_id="1"),
            groups={self.controller: place},
            inodes={self.controller: os.stat(place).st_ino},
        )

    def path(self, directory: JobDirectory) -> Path:
        return Path(directory.groups[self.controller])

    def join(self, directory: JobDirectory, pid: int) -> None:
        (self.path(directory) / "cgroup.procs").write_text(str(pid))

    def is_empty(self, directory: JobDirectory) -> bool:
        return not (self.path(directory) / "cgroup.procs").read_text()

    def remove(self, directory: JobDirectory) -> None:
        place = str(self.path(directory))
        self._remove(place)
        self._made.remove(place)

    def close(self) -> None:
        for place in map(Path, reversed(self._made)):
            members = place / "cgroup.procs"
            for pid in members.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            until(lambda members=members: not members.read_text())
            self._remove(str(place))

    @staticmethod
    def _remove(place: str) -> None:
        """Remove a group as soon as the kernel lets go of its last process."""

        def removed() -> bool:
            with contextlib.suppress(OSError):
                os.rmdir(place)
            return not os.path.exists(place)

        until(removed)


@pytest.fixture
def groups(hierarchy) -> Iterator[Groups]:
    groups = Groups(hierarchy)
    if os.geteuid() != 0 or not os.access(groups.top, os.W_OK):
        pytest.skip("making control groups needs root")
    yield groups
    groups.close()


@pytest.fixture(scope="session", name="compiled")
def compiled_programs(tmp_path_factory):
    """Return a function that compiles a program that stands beside the tests."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("programs")

    def compiled(name: str) -> Path:
        program = folder / name
        source = Path(__file__).with_name(f"{name}.c")
        command = ["gcc", "-O2", "-Wall", "-static", "-pthread", "-o", str(program), str(source)]
        subprocess.run(command, check=True)
        return program

    return compiled
