"""A sampler whose reader sums in the kernel: which processes it reads all the same, and what jobs have."""

from __future__ import annotations

import errno
from shutil import rmtree

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import KernelChecks, ProcessIo, Scheduling
from jobfeatures_exporter.sampling.bpf.byjob import Sums, TaskUsage
from jobfeatures_exporter.sampling.bpf.choice import Choice
from jobfeatures_exporter.sampling.bpf.reader import find_lists
from jobfeatures_exporter.sampling.groups.cgroup import RARELY_SAMPLES, STILL_SAMPLES
from jobfeatures_exporter.sampling.groups.figures import GroupFigures
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SampleExtras, SamplerSettings
from jobfeatures_exporter.sampling.stages.kernelsampler import KernelSampler
from jobfeatures_exporter.sampling.stages.reading import ALL_AGAIN_SAMPLES
from tests.running import FakeClock

KEY = JobKey("slurm", "7")
PATH = "system.slice/slurmstepd.scope/job_7"


class MadeUpSums:
    """Stands for the kernel: figures by path of the job."""

    def __init__(self) -> None:
        self.by_path: dict[str, Sums] = {}
        self.failing = False
        self.processes = 12
        self.is_closed = False

    def look(self, _directories) -> None:
        if self.failing:
            raise OSError(errno.EPERM, "Operation not permitted")

    def counts(self, _directory) -> bool:
        return True

    def sums_of(self, directory) -> Sums:
        return self.by_path.get(directory.path, sums(0))

    def paths_of(self, directory) -> list[str]:
        return list(directory.groups.values())

    def checks(self) -> KernelChecks:
        return KernelChecks(0, 0, 0, 30, 0)

    def close(self) -> None:
        self.is_closed = True


def sums(done: int, *, processes: int = 2, user: int | None = 1000) -> Sums:
    """Return sums all of whose figures are the same, those of time in seconds."""
    figures = TaskUsage(*[done] * len(TaskUsage._fields))._replace(waiting=done * 10**9)
    return Sums(figures, processes=processes, threads=3 * processes, running=1, blocked=1, user=user)


@pytest.fixture
def kernel():
    return MadeUpSums()


@pytest.fixture
def job(node):
    """Make one job's control group with a process in it."""
    (node.cgroup / "cgroup.controllers").write_text("cpu memory\n")
    group = node.cgroup / PATH
    group.mkdir(parents=True)
    (group / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n")
    (group / "memory.stat").write_text("anon 4096\nfile 0\nshmem 0\n")
    (group / "cgroup.procs").write_text("41\n")
    node.process(41, cgroup=f"0::/{PATH}\n")
    node.process(50)
    return group


@pytest.fixture
def make_sampler(node, kernel):
    made = []

    def make(**more) -> Sampler:
        settings = SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), process_io=True)
        made.append(Sampler(settings, FakeClock(), reader=Choice(kernel), **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_jobs_figures_are_the_kernels_but_cpu_and_memory_those_of_its_control_group(
    make_sampler, kernel, job
):
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(5)
    sampler.sample()
    sample = sampler.sample().jobs[KEY]
    assert (sample.processes, sample.threads, sample.uid) == (2, 6, 1000)
    assert sample.process_io == ProcessIo(
        read_bytes=5, written_bytes=5, data_read_bytes=5, data_written_bytes=5, data_cancelled_bytes=5
    )
    assert sample.scheduling == Scheduling(5.0, 5, 5, 5, running=1, blocked=1)
    assert (sample.user_cpu_secs, sample.system_cpu_secs, sample.memory.anon) == (2.0, 1.0, 4096)


def test_all_processes_are_read_at_first_and_now_and_then_and_where_somebody_wants_them(make_sampler, job):
    sampler = make_sampler()
    looks = [sampler.sample() for _ in range(ALL_AGAIN_SAMPLES + 1)]
    assert [number for number, each in enumerate(looks, 1) if each.lists_all] == [1, ALL_AGAIN_SAMPLES + 1]
    assert {len(each.processes) for each in looks if each.lists_all} == {2}
    assert all(each.process_count == 12 for each in looks if not each.lists_all)
    assert looks[-1].process_count is None
    assert sampler.sample(SampleExtras(all_processes=True)).lists_all


def test_huge_pages_that_no_group_counts_have_all_processes_read_as_long_as_any_is_in_use(
    make_sampler, kernel, job, node, monkeypatch
):
    pools = {2**21: 0}
    monkeypatch.setattr("jobfeatures_exporter.sampling.sampler.read_huge_pages", lambda *_: pools)
    node.huge_pages({41: 2})
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(1)
    looks = [sampler.sample() for _ in range(4)]
    assert [each.jobs[KEY].memory.hugetlb for each in looks] == [0] * 4
    assert [each.lists_all for each in looks] == [True, False, False, False]
    pools[2**21] = 2**30
    looks = [sampler.sample() for _ in range(4)]
    assert [each.jobs[KEY].memory.hugetlb for each in looks] == [None, 2**22, 2**22, 2**22]
    (job / "hugetlb.2MB.current").write_text("2097152\n")
    counted = make_sampler()
    looks = [counted.sample() for _ in range(4)]
    assert [each.jobs[KEY].memory.hugetlb for each in looks] == [2**21] * 4
    assert [each.lists_all for each in looks] == [True, False, False, False]


def test_processes_of_a_job_are_read_at_growing_gaps_and_those_of_nobody_never(make_sampler, kernel, job):
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(1)
    sampler.sample()
    read = [set(sampler.sample().processes) for _ in range(14)]
    assert [number for number, pids in enumerate(read, 1) if pids] == [1, 2, 4]
    assert set().union(*read) == {41}


def test_other_processes_of_a_settled_job_are_read_at_two_looks(make_sampler, kernel, job, node):
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(1)
    for _ in range(16):
        sampler.sample()
    node.process(42, cgroup=f"0::/{PATH}\n")
    (job / "cgroup.procs").write_text("41\n42\n")
    kernel.by_path[f"/{PATH}"] = sums(1, processes=3)
    read = [set(sampler.sample().processes) for _ in range(ALL_AGAIN_SAMPLES - 17)]
    assert [pids for pids in read if pids] == [{41, 42}] * 2


def test_a_job_with_a_threaded_group_is_listed_and_nothing_is_called_unreadable(
    make_sampler, kernel, job, fail_opening
):
    """cgroup.procs of a threaded group cannot be read; its process stands in the group above it (Linux 6.1 to 7.2)."""
    (job / "threads/threads").mkdir(parents=True)
    fail_opening("/threads/cgroup.procs", errno.EOPNOTSUPP)
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(1)
    sampler.sample()
    snapshot = sampler.sample()
    assert set(snapshot.processes) == {41}
    assert not [kind for kind in snapshot.unreadable if "cgroup" in kind]


def test_processes_of_a_settled_job_are_not_listed_while_the_kernel_counts_the_same(
    make_sampler, kernel, job, node, monkeypatch
):
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(1)
    for _ in range(16):
        sampler.sample()
    listed = []
    monkeypatch.setattr(KernelSampler, "_list", lambda looks, each: listed.append(each) or frozenset({41}))
    for _ in range(ALL_AGAIN_SAMPLES - 17):
        sampler.sample()
    assert listed == []
    kernel.by_path[f"/{PATH}"] = sums(2)  # one has ended and another begun
    for _ in range(ALL_AGAIN_SAMPLES):
        sampler.sample()
    assert len(listed) == 1


def test_of_a_job_whose_user_the_kernel_does_not_tell_a_process_does(make_sampler, kernel, job, node):
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(1, user=None)
    sampler.sample()
    assert sampler.sample().jobs[KEY].uid == (node.proc / "41").stat().st_uid


def test_jobs_that_only_processes_tell_have_all_of_them_read(make_sampler, job):
    named = JobKey("pbs", "9")
    jobs = {named: Job(key=named, state=JobState.RUNNING, processes=frozenset({50}))}
    sampler = make_sampler(jobs=lambda: jobs)
    sampler.sample()
    again = sampler.sample()
    assert again.lists_all
    assert again.jobs[named].processes == 1
    jobs = {KEY: Job(key=KEY, state=JobState.RUNNING, processes=frozenset({41}))}  # it has a control group
    assert not sampler.sample().lists_all


def test_a_job_whose_group_goes_before_its_processes_goes_on(make_sampler, kernel, job, node):
    """Have a job whose starter outlives its control group, and then its end."""
    starter = frozenset({50})
    jobs = {KEY: Job(key=KEY, state=JobState.RUNNING, processes=starter)}
    sampler = make_sampler(jobs=lambda: jobs)
    kernel.by_path[f"/{PATH}"] = sums(1)
    for _ in range(3):
        before = sampler.sample()
    assert not before.lists_all
    rmtree(job)
    rmtree(node.proc / "41")
    for _ in range(2):
        after = sampler.sample().jobs[KEY]
        assert (after.processes, after.accounting) == (1, before.jobs[KEY].accounting)
        assert after.user_cpu_secs == before.jobs[KEY].user_cpu_secs == 2.0


def test_sums_that_cannot_be_read_cost_a_reading_of_all_processes_and_no_figure_falls(
    make_sampler, kernel, job, node
):
    (node.proc / "41/io").write_text(
        "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 1\nwrite_bytes: 1\ncancelled_write_bytes: 1\n"
    )
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(5)
    sampler.sample()
    told = sampler.sample().jobs[KEY].process_io
    kernel.failing = True
    failed = sampler.sample()
    assert failed.lists_all
    assert failed.unreadable["kernel_sums_eperm"] == 1
    assert failed.jobs[KEY].process_io == told
    assert failed.jobs[KEY].processes == 1
    kernel.failing = False
    kernel.by_path[f"/{PATH}"] = sums(6)
    assert sampler.sample().jobs[KEY].process_io.read_bytes == 6


def test_input_and_output_are_left_out_where_nobody_wants_them(kernel, job, node):
    settings = SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup))
    sampler = Sampler(settings, FakeClock(), reader=Choice(kernel))
    sampler.sample()
    assert sampler.sample().jobs[KEY].process_io is None
    sampler.close()
    assert kernel.is_closed


@pytest.fixture
def rested(make_sampler, node, kernel, job):
    """Return a sampler at rest with a job, and what it says of a further sample."""
    (node.proc / "vmstat").write_text("nr_free_pages 1\noom_kill 7\n")
    (job / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    (job / "user.slice").mkdir()
    kernel.by_path[f"/{PATH}"] = sums(5)
    sampler = make_sampler()
    for _ in range(4):
        sampler.sample()
        assert not sampler.is_at_rest, "it is not settled which processes end with the job"
    sampler.sample()
    assert sampler.is_at_rest
    return sampler.read_between


def test_while_nothing_has_run_no_sample_is_needed(rested):
    assert not rested()


def test_a_group_that_cannot_be_read_any_more_needs_a_sample(rested, job):
    (job / "cpu.stat").write_text("usage_usec 3000001\nuser_usec 2000001\nsystem_usec 1000000\n")
    assert not rested(), "it has run, but what it has used is kept"
    (job / "cpu.stat").write_text("")
    assert rested()


class Waiting:
    """Stands for what waits for processes and reads their groups at their ends."""

    def __init__(self):
        self.pids, self.readings = set(), {}

    def follow(self, directories, first):
        self.directories, self.pids = directories, set(first)

    def take(self):
        taken, self.readings = self.readings, {}
        return taken


def test_once_a_process_that_was_waited_for_has_ended_those_that_are_left_are_waited_for(
    make_sampler, node, kernel, job
):
    kernel.by_path[f"/{PATH}"] = sums(5, processes=1)
    waiting = Waiting()
    sampler = make_sampler(last_readings=waiting)
    for _ in range(5):
        sampler.sample()
    assert waiting.pids == {41}
    assert sampler.is_at_rest
    node.process(42, cgroup=f"0::/{PATH}\n")
    (job / "cgroup.procs").write_text("42\n")
    rmtree(node.proc / "41")
    waiting.readings = {each.unique_name: GroupFigures(MemoryBytes()) for each in waiting.directories}
    sampler.sample()
    assert waiting.pids == {42}
    assert not sampler.is_at_rest, "a process that comes now would not be waited for"
    sampler.sample()
    assert sampler.is_at_rest


def test_an_oom_kill_anywhere_needs_a_sample_as_it_may_be_a_jobs(rested, node):
    assert not rested()
    (node.proc / "vmstat").write_text("nr_free_pages 1\noom_kill 8\n")
    assert rested()


def test_without_jobs_an_oom_kill_needs_no_sample(make_sampler, node):
    sampler = make_sampler()
    sampler.sample()
    (node.proc / "vmstat").write_text("nr_free_pages 1\noom_kill 8\n")
    assert not sampler.read_between()


def test_a_job_that_is_frozen_or_thawed_needs_a_sample(rested, job, monkeypatch):
    (job / "step_0/user").mkdir(parents=True)
    events = job / "step_0/user/cgroup.events"
    events.write_text("populated 1\nfrozen 1\n")
    assert rested()
    assert not rested(), "the sample has shown it"
    events.write_text("populated 1\nfrozen 0\n")
    assert rested()


def test_without_sums_in_the_kernel_jobs_allow_no_rest(node, job):
    sampler = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup)), FakeClock())
    sampler.sample()
    assert not sampler.is_at_rest
    sampler.close()


def test_the_snapshot_says_how_processes_are_read(make_sampler, node):
    assert make_sampler().sample().reader.name == "bpf"
    alone = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup)), FakeClock()).sample()
    assert (alone.reader.name, alone.kernel_checks, alone.lists_all) == ("procfs", None, True)


def test_checks_that_cannot_be_read_are_counted(kernel):
    from jobfeatures_exporter.sampling.descriptors import Unreadable

    unreadable = Unreadable()
    looks = KernelSampler(kernel, unreadable)
    assert looks.checks().threads == 30

    def fail():
        raise OSError(errno.EPERM, "Operation not permitted")

    kernel.checks = fail
    assert looks.checks() is None
    assert unreadable.counts == {"kernel_sums_eperm": 1}


def test_a_job_none_of_whose_threads_ran_is_not_read_again_but_for_its_memory(
    make_sampler, kernel, job, monkeypatch
):
    monkeypatch.setattr(
        "jobfeatures_exporter.sampling.groups.cgroup.STILL_SAMPLES", 2**62
    )  # no look is one of these
    (job / "memory.current").write_text("8192\n")
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(5)._replace(running=0, blocked=0)
    sampler.sample()
    before = sampler.sample().jobs[KEY]
    (job / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 2500000\nsystem_usec 1000000\n")
    assert sampler.sample().jobs[KEY] is before  # a made-up change: without threads there is none
    (job / "memory.current").write_text("12288\n")
    changed = sampler.sample().jobs[KEY]
    assert (changed.memory.charged, changed.user_cpu_secs) == (12288, 2.5)


@pytest.mark.parametrize("more", [{"running": 1}, {"blocked": 1}, {"figures": sums(6).figures}])
def test_a_job_whose_threads_run_or_wait_for_storage_is_read_whole(more, make_sampler, kernel, job):
    (job / "memory.current").write_text("8192\n")
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(5)._replace(running=0, blocked=0)
    for _ in range(3):
        sampler.sample()
    kernel.by_path[f"/{PATH}"] = kernel.by_path[f"/{PATH}"]._replace(**more)
    (job / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 2500000\nsystem_usec 1000000\n")
    assert sampler.sample().jobs[KEY].user_cpu_secs == 2.5


def test_a_job_that_sleeps_is_read_whole_now_and_then(make_sampler, kernel, job):
    (job / "memory.current").write_text("8192\n")
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(5)._replace(running=0, blocked=0)
    for _ in range(3):
        sampler.sample()
    (job / "memory.stat").write_text("anon 2048\nfile 0\nshmem 0\n")
    assert [sampler.sample().jobs[KEY].memory.anon for _ in range(STILL_SAMPLES)][-1] == 2048


@pytest.mark.parametrize(
    ("name", "before", "after", "told"),
    [
        ("memory.max", "max\n", "65536\n", lambda job: job.memory.limit == 65536),
        ("cpuset.cpus.effective", "0-3\n", "0-1\n", lambda job: job.cpus == 2),
        # What it wrote before it fell asleep goes to the disk later.
        ("io.stat", "8:0 wbytes=1\n", "8:0 wbytes=4096\n", lambda job: job.block_io.written_bytes == 4096),
    ],
)
def test_what_others_do_to_a_job_that_sleeps_is_read_within_a_few_looks(
    name, before, after, told, make_sampler, kernel, job, monkeypatch
):
    monkeypatch.setattr("jobfeatures_exporter.sampling.groups.cgroup.STILL_SAMPLES", 2**62)
    (job / "memory.current").write_text("8192\n")
    (job / name).write_text(before)
    sampler = make_sampler()
    kernel.by_path[f"/{PATH}"] = sums(5)._replace(running=0, blocked=0)
    for _ in range(3):
        assert not told(sampler.sample().jobs[KEY])
    (job / name).write_text(after)
    assert [told(sampler.sample().jobs[KEY]) for _ in range(RARELY_SAMPLES)][-1]


def test_descriptors_of_all_processes_are_kept_only_while_looks_at_all_follow_on_each_other(
    make_sampler, job, open_descriptors
):
    sampler = make_sampler()
    sampler.sample(SampleExtras(all_processes=True))
    sampler.sample(SampleExtras(all_processes=True))
    kept = open_descriptors()
    sampler.sample()
    assert open_descriptors() == kept - 2  # there are two processes


@pytest.fixture
def sleeper(node, job, monkeypatch):
    """Return a sampler that reads processes from /proc, of a job whose process sleeps; no look is a whole one."""
    monkeypatch.setattr("jobfeatures_exporter.sampling.groups.cgroup.STILL_SAMPLES", 2**62)
    (job / "memory.current").write_text("8192\n")
    sampler = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup)), FakeClock())
    sampler.sample()
    sampler.sample()
    yield sampler
    sampler.close()


def test_without_the_kernels_sums_a_job_whose_processes_sleep_is_read_by_cpu_time_and_memory(sleeper, job):
    (job / "memory.stat").write_text("anon 2048\nfile 0\nshmem 0\n")
    assert sleeper.sample().jobs[KEY].memory.anon == 4096  # a made-up change: it shows in what is charged
    (job / "memory.current").write_text("6144\n")
    assert sleeper.sample().jobs[KEY].memory.anon == 2048
    (job / "cpu.stat").write_text("usage_usec 4000000\nuser_usec 2500000\nsystem_usec 1500000\n")
    assert sleeper.sample().jobs[KEY].user_cpu_secs == 2.5


@pytest.mark.parametrize("more", [{"state": "D"}, {"state": "R"}, {"threads": 2}, {"user": 9}])
def test_without_them_a_job_whose_processes_run_or_wait_or_may_is_read_whole(sleeper, more, node, job):
    node.process(41, cgroup=f"0::/{PATH}\n", **more)
    sleeper.sample()
    (job / "memory.stat").write_text("anon 2048\nfile 0\nshmem 0\n")
    if "user" in more:
        node.process(41, cgroup=f"0::/{PATH}\n", user=10)
    assert sleeper.sample().jobs[KEY].memory.anon == 2048


@pytest.mark.parametrize("kind", ["cpuset", "freezer"])
@pytest.mark.parametrize("freezer", ["", "/cg/freezer"])
def test_the_processes_of_a_job_that_is_in_no_group_with_cpu_time_are_listed_all_the_same(kind, freezer):
    """Slurm without accounting by groups: with ConstrainCores in cpuset and freezer, else in freezer alone."""
    path = "/slurm/uid_1/job_2"
    job = JobDirectory(
        path=path,
        membership=Membership(batch_system="slurm", job_id="2"),
        groups={kind: f"/cg/{kind}{path}"},
        inodes={kind: 7},
    )
    beside = [f"{freezer}{path}"] if freezer and kind != "freezer" else []
    assert find_lists(job, freezer) == [f"/cg/{kind}{path}", *beside]
