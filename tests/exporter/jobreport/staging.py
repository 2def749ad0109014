"""Jobs made of real processes in control groups of their own (v1 and v2 together), measured by a real sampler.

What Prometheus would tell `report` of them is made of the exporter's pages, one a look.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures.records.series import Series, parse_lines
from jobfeatures.status.board import StatusBoard, StatusTarget
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.jobreport import queries
from jobfeatures_exporter.jobreport.asking import ReportQuestion, ask_all
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import GpuCard, GpuSample, JobGpu
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.scrape.collectors import COLLECTORS, allocation, collect
from jobfeatures_exporter.view.use import JobUse
from tests.exporter.jobreport.server import FakePrometheus
from tests.labs import blockingfile
from tests.running import until

CGROUP = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "unified")
LOOK_SECS = 0.5
SAMPLES = {metric.sample_name for each in COLLECTORS.values() for metric in each.metrics}


def why_not() -> str | None:
    """Return why no jobs can be staged here, None where they can be."""
    if (reason := blockingfile.why_not()) is not None:
        return reason
    if (os.cpu_count() or 1) < 2 or not Path("/proc/pressure/io").exists():
        return "this machine has no second CPU, or no pressure figures"
    there = all(os.access(CGROUP / each / "cgroup.procs", os.W_OK) for each in CONTROLLERS)
    return None if there else "this machine has no control groups of v1 beside those of v2"


@dataclass
class Staged:
    """One job: what its batch system says of it, and what it is kept to."""

    programs: tuple[str, ...]  # Python, each in a process
    cpus: int = 1  # that it was given
    on_cpu: int = 0  # that its processes run on
    memory: int | None = None
    quota: float | None = None  # of one CPU
    nodes: tuple[str, ...] = ("n1",)  # the programs run on the first
    status: str | None = None  # its JOBSTATUS
    suspended: bool = False  # for the latter half
    gpu_busy: float | None = None  # by figures: the share of its card's time
    hints: frozenset[str] = frozenset()  # that it should get


class Node:
    """Control groups of one node, as if there were several on this machine."""

    def __init__(self, name: str, staged: Mapping[str, Staged]) -> None:
        self.name = name
        self.staged = {job_id: each for job_id, each in staged.items() if name in each.nodes}
        self.pages: list[tuple[float, list[Series]]] = []
        node = f"staged-{os.getpid()}-{name}"
        self._top = f"slurm_{node}"
        self._made: list[Path] = []
        self._processes: list[subprocess.Popen] = []
        self._jobs: dict[JobKey, Job] = {}
        self._board = StatusBoard(SystemClock())
        self._sampler = Sampler(SamplerSettings(node_name=node), SystemClock(), jobs=lambda: self._jobs)

    def begin(self, stack: contextlib.ExitStack) -> None:
        """Start all jobs; the stack ends them."""
        stack.callback(self._close)
        for path in ("", "/uid_0"):
            self._make(path)
        # Whatever else this machine does, the staged jobs come first.
        (CGROUP / "cpu" / self._top / "cpu.shares").write_text("65536")
        for job_id, staged in self.staged.items():
            groups = self._make(f"/uid_0/job_{job_id}", staged)
            key = JobKey("slurm", job_id)
            limits = Limits(wall_secs=600, memory_bytes=staged.memory)
            self._jobs[key] = Job(
                key=key,
                state=JobState.RUNNING,
                uid=0,
                start_secs=time.time(),
                allocated_cpus=staged.cpus,
                allocated_gpus=None if staged.gpu_busy is None else 1,
                limits=limits,
            )
            enter = f"for each in {groups}: open(each + '/cgroup.procs', 'w').write('0')\ninput()\n"
            runs = staged.programs if self.name == staged.nodes[0] else ("import time; time.sleep(99)",)
            for program in runs:
                command = [sys.executable, "-c", enter + program]
                process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
                stack.callback(_end, process)
                self._processes.append(process)

    def wait(self) -> None:
        """Wait until all processes are in their control groups."""
        tasks = [CGROUP / f"unified/{self._top}/uid_0/job_{job_id}/cgroup.procs" for job_id in self.staged]
        until(lambda: sum(len(each.read_text().split()) for each in tasks) == len(self._processes))

    def go(self, start_secs: float) -> None:
        """Let all jobs begin."""
        self._jobs = {key: replace(job, start_secs=start_secs) for key, job in self._jobs.items()}
        for process in self._processes:
            process.stdin.write(b"\n")
            process.stdin.flush()

    def look(self, part: float) -> None:
        """Take a look, and keep the page that it makes; `part` of the time has gone by."""
        for job_id, staged in self.staged.items():
            key = JobKey("slurm", job_id)
            if staged.suspended and part > 0.5:
                self._jobs[key] = replace(self._jobs[key], state=JobState.SUSPENDED)
                frozen = CGROUP / f"unified/{self._top}/uid_0/job_{job_id}/cgroup.freeze"
                frozen.write_text("1")
        told = {
            JobKey("slurm", job_id): StatusTarget(staged.status, 0, staged.cpus)
            for job_id, staged in self.staged.items()
            if staged.status is not None
        }
        self._board.refresh(told)
        snapshot, gpus, job_gpus = self._sampler.sample(), [], []
        for job_id, staged in self.staged.items():
            if staged.gpu_busy is not None:
                key, uuid = JobKey("slurm", job_id), f"GPU-{job_id}"
                busy = staged.gpu_busy * (time.time() - self._jobs[key].start_secs)
                gpus.append(GpuSample(card=GpuCard(uuid=uuid), taken_at_secs=time.time(), busy_secs=busy))
                job_gpus.append(JobGpu(key=key, uuid=uuid, allocated=True, busy_secs=busy))
        context = Context(
            now_secs=time.time(),
            snapshot=replace(
                snapshot, gpus=tuple(gpus), job_gpus=tuple(job_gpus), gpu_drivers={"nvidia": True}
            ),
            jobs=self._jobs,
            statuses=self._board.view,
        )
        page = render(collect(context, COLLECTORS.keys()), openmetrics=False).decode()
        labels = {"job": "batch_nodes", "instance": self.name, "node": self.name}
        found = parse_lines(page, SAMPLES, source="page")
        self.pages.append((time.time(), [replace(each, labels={**labels, **each.labels}) for each in found]))

    def _make(self, path: str, staged: Staged | None = None) -> list[str]:
        made = [CGROUP / controller / f"{self._top}{path}" for controller in CONTROLLERS]
        for directory in made:
            directory.mkdir()
            self._made.append(directory)
        cpu, _, cpuset, memory, _ = made
        (cpuset / "cpuset.mems").write_text("0")
        (cpuset / "cpuset.cpus").write_text("0-1" if staged is None else str(staged.on_cpu))
        if staged is not None and staged.memory is not None:
            (memory / "memory.limit_in_bytes").write_text(str(staged.memory))
        if staged is not None and staged.quota is not None:
            (cpu / "cpu.cfs_quota_us").write_text(str(int(staged.quota * 100_000)))
        return [str(each) for each in made]

    def _close(self) -> None:
        self._sampler.close()
        for directory in reversed(self._made):
            directory.rmdir()


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()


def stage(acts: list[Mapping[str, Staged]], secs: float) -> dict[str, JobUse]:
    """Run the jobs, those of an act together, and return the report of each by its name."""
    reports: dict[str, JobUse] = {}
    with ahead_of_others():
        for named in acts:
            reports |= _play(named, secs)
    return reports


@contextlib.contextmanager
def ahead_of_others() -> Iterator[None]:
    """Let this thread not wait long for the staged jobs, which come before all others."""
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, -10)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, thread, 0)


def _play(named: Mapping[str, Staged], secs: float) -> dict[str, JobUse]:
    act = {str(number): each for number, each in enumerate(named.values(), 1)}
    nodes = [Node(name, act) for name in sorted({name for each in act.values() for name in each.nodes})]
    with contextlib.ExitStack() as stack:
        for node in nodes:
            node.begin(stack)
        for node in nodes:
            node.wait()
        began = time.time()
        for node in nodes:
            node.go(began)
        ended = began
        while ended - began < secs:
            time.sleep(LOOK_SECS)
            for node in nodes:
                node.look((time.time() - began) / secs)
            ended = time.time()
    return {name: _report(job_id, nodes, ended) for name, job_id in zip(named, act, strict=True)}


def _report(job_id: str, nodes: list[Node], now: float) -> JobUse:
    seen = [each for node in nodes for _, page in node.pages for each in page]
    highest, lasts = {}, {}
    for each in seen:
        key = each.name, frozenset(each.labels.items())
        lasts[key] = each
        highest.setdefault(key, []).append(each.value)
    maxima = {metric.sample_name for metric in queries.HIGHEST}
    highs = [
        replace(lasts[key], value=max(found) if key[0] in maxima else sum(found) / len(found))
        for key, found in highest.items()
    ]
    # Prometheus looks at steps of a second.
    steps = sum(
        after - before
        for (before, _), (after, page) in itertools.pairwise(nodes[0].pages)
        for each in page
        if each.name == allocation.STATE.sample_name
        and (each.labels["state"], each.labels["job_id"]) == ("SUSPENDED", job_id)
    )
    prometheus = FakePrometheus(lasts.values(), highest=highs, seen=now, is_current=True, steps=steps)
    question = ReportQuestion(job=job_id, at_secs=now, since_secs=604_800.0)
    (report,) = ask_all(prometheus, question).reports
    return report
