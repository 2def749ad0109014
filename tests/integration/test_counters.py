"""What the kernel counts for a job on cgroup v1, and the pressure of a group on v2: real groups, made by hand."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sampling.groups.cgroup import RARELY_SAMPLES
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from tests.running import is_removed

ROOT = Path("/sys/fs/cgroup")
NODE = "jfcounters"
JOB = JobKey("slurm", "987101")
V1_PATH = f"slurm_{NODE}/uid_0/job_{JOB.job_id}"
V2_PATH = f"system.slice/{NODE}_slurmstepd.scope/job_{JOB.job_id}"
LOOP = "while :; do :; done"


class Groups:
    """The groups of one job below the top of a hierarchy; all is removed at the end."""

    def __init__(self, until) -> None:
        self._until = until
        self._made: list[Path] = []
        self._started: list[subprocess.Popen] = []

    def make(self, top: Path, path: str) -> Path:
        group = top
        for part in path.split("/"):
            group = group / part
            if not group.exists():
                group.mkdir()
                self._made.append(group)
        return group

    def start(self, group: Path, *argv: str) -> subprocess.Popen:
        """Start a program within a group."""
        script = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
        self._started.append(
            subprocess.Popen(
                ["sh", "-c", script, str(group), *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        return self._started[-1]

    def remove(self, *groups: Path) -> None:
        for group in groups:
            self._until(lambda group=group: is_removed(group), 10)
            self._made.remove(group)

    def close(self) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self.remove(*reversed(self._made.copy()))


@pytest.fixture
def groups(until):
    if os.geteuid() != 0:
        pytest.skip("making control groups needs root")
    groups = Groups(until)
    yield groups
    groups.close()


@pytest.fixture
def sample():
    """Return a function that takes one look at the job."""
    sampler = Sampler(SamplerSettings(node_name=NODE, steps=True, process_io=True), SystemClock())
    yield lambda: sampler.sample().jobs[JOB]
    sampler.close()


def v1(controller: str) -> Path:
    """Return the hierarchy of a controller, or skip. A job is looked for in cpuacct, if there is any there."""
    top = ROOT / controller
    if not os.access(top, os.W_OK) or not (top / "cgroup.procs").exists():
        pytest.skip(f"no hierarchy of {controller} on cgroup v1 in {ROOT}")
    return top


def test_a_kill_in_a_task_and_failures_at_the_jobs_limit_count_for_the_job(groups, sample):
    groups.make(v1("cpuacct"), V1_PATH)
    job = groups.make(v1("memory"), V1_PATH)
    step = groups.make(job, "step_0")
    task = groups.make(step, "task_0")
    (job / "memory.limit_in_bytes").write_text(str(32 * 2**20))
    assert (sample().oom_kills, sample().memory_limit_hits) == (0, 0)
    process = groups.start(task, sys.executable, "-S", "-c", "bytearray(200 * 2**20)")
    assert process.wait(60) == -signal.SIGKILL
    # The kernel counts the kill in the task's group alone: it is not in the job's own file.
    assert "oom_kill 0\n" in (job / "memory.oom_control").read_text()
    told = sample()
    assert told.oom_kills == 1
    assert told.memory_limit_hits > 0
    assert {each.step for each in told.steps} == {"0"}
    groups.remove(task, step)
    again = sample()
    assert (again.oom_kills, again.memory_limit_hits) == (1, told.memory_limit_hits)


def after_a_while(sample):
    """Return the last of some looks: what hardly changes is not read at each."""
    for _ in range(2 * RARELY_SAMPLES):
        sample()
    return sample()


def test_what_a_job_moves_to_and_from_a_disk_is_counted_where_the_kernel_counts_it(groups, sample, tmp_path):
    job = groups.make(v1("blkio"), V1_PATH)
    groups.make(v1("cpuacct"), V1_PATH)
    assert sample().block_io is None  # nothing was moved, or nothing is counted: it does not say
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        # Since Linux 6.10 only disks with a limit are counted. This one is beyond any disk.
        (job / "blkio.throttle.read_bps_device").write_text(f"{number} {10**12}")
    except OSError:
        pytest.skip(f"{tmp_path} is on no disk of its own")
    file = tmp_path / "file"
    size = 4 * 2**20
    step = groups.make(job, "step_0")
    writing = ("dd", "if=/dev/zero", f"of={file}", f"bs={size}", "count=1", "oflag=direct")
    if groups.start(step, *writing).wait(60) != 0:
        pytest.skip(f"{tmp_path} cannot be written past the page cache")
    reading = ("dd", f"if={file}", "of=/dev/null", f"bs={size}", "count=1", "iflag=direct")
    assert groups.start(job, *reading).wait(60) == 0
    moved = after_a_while(sample).block_io
    assert moved.written_bytes >= size
    assert moved.read_bytes >= size
    assert moved.reads > 0
    assert moved.writes > 0


def test_the_cpus_of_a_job_are_those_of_its_cpuset_or_of_the_one_above(groups, sample):
    job = groups.make(v1("cpuset"), V1_PATH)
    groups.make(v1("cpuacct"), V1_PATH)
    assert sample().cpus is None  # nothing can run in it as it stands
    top = job.parents[2]
    for group in (job.parents[1], job.parent, job):
        (group / "cpuset.mems").write_text((top / "cpuset.mems").read_text())
        (group / "cpuset.cpus").write_text((top / "cpuset.cpus").read_text())
    assert after_a_while(sample).cpus == len(os.sched_getaffinity(1))
    (job / "cpuset.cpus").write_text("0")
    assert after_a_while(sample).cpus == 1


def test_a_step_has_time_of_its_own(groups, sample, until):
    job = groups.make(v1("cpuacct"), V1_PATH)
    groups.start(groups.make(job, "step_batch"), "sh", "-c", LOOP)
    groups.make(job, "step_extern")
    until(lambda: (sample().user_cpu_secs or 0) > 0.3, 30)
    steps = {each.step: each.user_cpu_secs + each.system_cpu_secs for each in sample().steps}
    assert steps["batch"] > 0.3
    assert steps["extern"] == 0


def test_tasks_that_wait_for_cpus_are_under_pressure(groups, sample, until):
    top = ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / "unified"
    if not os.access(top / "cgroup.procs", os.W_OK):
        pytest.skip("no cgroup v2 is mounted")
    job = groups.make(top, V2_PATH)
    if not (job / "cpu.pressure").exists():
        pytest.skip("the kernel counts no pressure")
    assert sample().pressure_secs.keys() >= {("cpu", "some"), ("memory", "full"), ("io", "some")}
    for _ in range(2 * os.cpu_count() + 1):
        groups.start(job, "sh", "-c", LOOP)
    until(lambda: sample().pressure_secs["cpu", "some"] > 0.2, 30)
    told = sample()
    assert told.user_cpu_secs > 0
    assert told.process_io is not None
    # Without the memory controller nothing is known of memory, which is not zero.
    if not (job / "memory.events").exists():
        assert (told.oom_kills, told.memory_limit_hits, told.memory.charged) == (None, None, None)


def test_steps_and_commands_are_on_the_page_where_they_are_asked_for(groups, start_exporter, until, tmp_path):
    job = groups.make(v1("cpuacct"), V1_PATH)
    groups.start(groups.make(job, "step_batch"), "sh", "-c", LOOP)
    exporter = start_exporter(
        "--batch.sources", "", "--features.root", str(tmp_path / "f"), "--sample.interval", "1s",
        "--node.name", NODE, "--jobs.steps", "--collector.processes", "--processes.top", "3",
    )  # fmt: skip
    labels = {"batch_system": "slurm", "job_id": JOB.job_id}
    until(lambda: exporter.series("batch_job_step_cpu_seconds_total", step="batch", mode="user", **labels))
    until(
        lambda: (
            sum(exporter.series("batch_job_command_cpu_seconds_total", command="sh", **labels).values()) > 0
        )
    )
    assert list(exporter.series("batch_job_command_processes", command="sh", **labels).values()) == [1]
    assert exporter.series("batch_job_io_read_bytes_total", **labels)
    assert exporter.series("batch_node_threads")
