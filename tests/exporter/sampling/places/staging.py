"""A made-up host on which daemons of batch systems, users and containers make control groups."""

from __future__ import annotations

from pathlib import Path

from jobfeatures.batch import BatchSettings
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.snapshot import JobSample
from jobfeatures_exporter.sampling.places.finder import PlaceFinder
from tests.configured import changed
from tests.exporter.sampling.fakenode import FakeNode

HEX = "0123456789abcdef" * 4
SLURMD = "0::/system.slice/slurmd.service\n"
HOST_UIDS = "         0          0 4294967295\n"


class Host:
    """A node with control groups v2, and a finder of places there."""

    def __init__(self, node: FakeNode, top: Path) -> None:
        self.node = node
        self.programs = top / "sbin"
        self.programs.mkdir(mode=0o755)
        (node.cgroup / "cgroup.controllers").write_text("cpu memory\n")
        self.process(1, "systemd", "0::/init.scope\n")
        self.systems: list[str] = []
        self.delegated: set[str] = set()  # directories that systemd has marked so
        self.settings = BatchSettings()

    def process(
        self,
        pid: int,
        name: str,
        group: str,
        *,
        uid: int = 0,
        program: str | None = None,
        folder: Path | None = None,
        uid_map: str = HOST_UIDS,
        namespace: str = "4026531835",
    ) -> Path:
        """Start a process of root's on the host, or another."""
        path = self.node.process(pid, cgroup=group, uid=uid, name=name.encode())
        (path / "comm").write_text(f"{name}\n")
        (path / "uid_map").write_text(uid_map)
        (path / "ns").mkdir()
        for each in ("cgroup", "pid"):
            (path / "ns" / each).symlink_to(f"{each}:[{namespace}]")
        file = (folder or self.programs) / (program or name)
        file.touch(mode=0o755)
        (path / "exe").symlink_to(file)
        (path / "root").symlink_to("/")
        return path

    def job(self, path: str, pid: int, **usage: int) -> Path:
        """Make the group of a job with a process in it."""
        self.node.process(pid, cgroup=f"0::{path}\n")
        return self.node.job_v2(path.removeprefix("/"), **usage)

    def finder(self, *parents: str, candidates=None) -> PlaceFinder:
        """Return a finder that has looked once, with these in `batch.cgroup_parents`."""
        settings = changed(self.settings, batch_cgroup_parents=parents)
        root, procfs = str(self.node.cgroup), str(self.node.proc)
        found = PlaceFinder(settings, root=root, procfs=procfs, systems=lambda: self.systems)
        found.read_configuration()
        found.search(candidates)
        return found


def running(system: str, *job_ids: str, **more) -> dict[JobKey, Job]:
    """Return jobs that the batch system says run here."""
    keys = [JobKey(system, each) for each in job_ids]
    return {key: Job(key=key, state=JobState.RUNNING, **more) for key in keys}


def jobs_of(snapshot) -> dict[str, JobSample]:
    """Return what a snapshot says of batch jobs, by id."""
    return {key.job_id: job for key, job in snapshot.jobs.items() if isinstance(key, JobKey)}
