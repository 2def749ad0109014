"""What belongs to a run of a job, and when another one begins: on made-up nodes. The rule is in docs/evidence.md."""

import errno
import os
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import BlockIo
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget
from jobfeatures_exporter.sampling.groups import cgroup
from jobfeatures_exporter.sampling.groups.lastreadings import LastReadings
from jobfeatures_exporter.sampling.power.rapl import NodeEnergy
from tests.exporter.sampling.jobs import V2, slurm, v1

JOB = slurm("7")
V1_PATH = "slurm/uid_6001/job_7"


class Known(dict):
    """The jobs that are said to be here: one, or none."""

    def runs(self, key=JOB, **values):
        self[key] = Job(key=key, state=JobState.RUNNING, **values)

    def __call__(self):
        return dict(self)


@pytest.fixture
def known():
    return Known()


def step_v1(node, used, start=100):
    """Have a step that has used so much of everything, with one process."""
    node.job_v1(V1_PATH, usage_secs=used, user=50 * used, system=50 * used, memory=1000 * used)
    memory = node.cgroup / "memory" / V1_PATH
    (memory / "memory.oom_control").write_text(f"oom_kill {used}\n")
    (memory / "memory.failcnt").write_text(f"{used}\n")
    (node.cgroup / "cpu,cpuacct" / V1_PATH / "cpuacct.usage_percpu").write_text(f"{used} 0\n")
    (node.cgroup / "cpu,cpuacct" / V1_PATH / "cpu.stat").write_text(
        f"nr_periods 1\nthrottled_time {used * 10**9}\n"
    )
    blkio = node.cgroup / "blkio" / V1_PATH
    blkio.mkdir(parents=True, exist_ok=True)
    for name in ("io_service_bytes", "io_serviced"):
        (blkio / f"blkio.throttle.{name}_recursive").write_text(f"8:0 Read {used}\n8:0 Write {used}\n")
    process(node, 10, used, start=start, cgroup=v1(f"/{V1_PATH}/step_0"))


def step_v2(node, used, start=100):
    group = node.job_v2("job_7", user_usec=500_000 * used, system_usec=500_000 * used, memory=1000 * used)
    (group / "memory.peak").write_text(f"{1000 * used}\n")
    (group / "memory.events").write_text(f"max {used}\noom_kill {used}\n")
    (group / "io.stat").write_text(f"8:0 rbytes={used} wbytes={used} rios={used} wios={used}\n")
    (group / "cpu.pressure").write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={used}000000\n")
    stat = (group / "cpu.stat").read_text()
    (group / "cpu.stat").write_text(f"{stat}nr_periods 1\nthrottled_usec {used}000000\n")
    process(node, 10, used, start=start, cgroup=f"{V2}/job_7/step_0/user/task_0\n")


def process(node, pid, used, **more):
    path = node.process(pid, user=50 * used, system=50 * used, **more)
    (path / "io").write_text(
        f"rchar: {used}\nwchar: {used}\nsyscr: 1\nsyscw: 1\nread_bytes: {used}\nwrite_bytes: {used}\n"
        "cancelled_write_bytes: 0\n"
    )


@pytest.fixture
def failing(monkeypatch, tmp_path):
    """Return a context in which each of these calls fails on paths with one of these parts."""
    monkeypatch.setattr(DescriptorBudget, "take", lambda *_: False)  # each read opens its file

    @contextmanager
    def failing(calls, parts, number):
        hits = []

        def fake(real):
            def call(path=".", *rest, **more):
                inner = f"{path}/".removeprefix(str(tmp_path))
                if isinstance(path, str | os.PathLike) and any(part in inner for part in parts):
                    hits.append(inner)
                    raise OSError(number, os.strerror(number), path)
                return real(path, *rest, **more)

            return call

        with monkeypatch.context() as patch:
            for each in calls:
                patch.setattr(os, each, fake(getattr(os, each)))
            yield
        assert hits

    return failing


def end(node):
    node.end(10)
    node.end_job(V1_PATH if (node.cgroup / "memory" / V1_PATH).is_dir() else "job_7")
    shutil.rmtree(node.cgroup / "blkio" / V1_PATH, ignore_errors=True)


@pytest.mark.parametrize("step", [step_v1, step_v2])
def test_a_job_that_has_no_group_between_two_steps_goes_on_with_all_it_has_used(node, make, known, step):
    """Slurm without an extern step; the next group may have the inode of the last one."""
    known.runs()
    sampler = make(known, process_io=True)
    for number, used in enumerate((3, 4, 2)):
        step(node, used, start=number)
        for _ in range(4):  # not all files are read at each
            there = sampler.sample().jobs[JOB]
        end(node)
        for _ in range(2):
            gone = sampler.sample().jobs[JOB]
        total = (3, 7, 9)[number]
        for each in (there, gone):
            assert each.user_cpu_secs + each.system_cpu_secs == total
            assert (each.oom_kills, each.memory_limit_hits) == (total, total)
            assert each.block_io == BlockIo(total, total, total, total)
            assert each.process_io.read_bytes == each.process_io.data_written_bytes == total
            assert each.throttled_secs == total
            assert each.pressure_secs in ({}, {("cpu", "some"): total})
        assert (there.processes, there.memory.anon) == (1, 1000 * used)
        assert (gone.processes, gone.threads, gone.in_group) == (0, 0, False)
        assert gone.memory == MemoryBytes(peak=4000 if number else 3000)
    del known[JOB]
    assert JOB not in sampler.sample().jobs


def test_time_on_each_core_goes_on_too(node, make, known):
    from jobfeatures_exporter.sampling.samplersettings import SampleExtras

    known.runs()
    sampler, wishes = make(known), SampleExtras(cores=True)
    for used, total in ((3, 3), (4, 7)):
        step_v1(node, used)
        assert sampler.sample(wishes).jobs[JOB].core_nanosecs == {0: total, 1: 0}
        end(node)
        assert sampler.sample(wishes).jobs[JOB].core_nanosecs == {0: total, 1: 0}


def test_a_job_without_groups_goes_on_with_all_it_has_used_when_none_of_its_processes_is_left(node, make):
    key = JobKey("spool", "a")
    jobs = {key: Job(key=key, processes=frozenset({10}))}
    sampler = make(lambda: jobs, process_io=True)
    process(node, 10, 5)
    sampler.sample()
    node.end(10)
    for _ in range(3):
        gone = sampler.sample().jobs[key]
    assert (gone.processes, gone.memory) == (0, MemoryBytes())
    process(node, 20, 10, start=200)  # more than the first, so that no fall would show it
    jobs[key] = replace(jobs[key], processes=frozenset({20}))
    there = sampler.sample().jobs[key]
    assert (there.user_cpu_secs, there.process_io.read_bytes, there.processes) == (7.5, 15, 1)


def test_a_job_of_which_nothing_was_ever_here_has_no_figures(node, make, known):
    known.runs()
    sampler = make(known)
    for _ in range(2):
        assert JOB not in sampler.sample().jobs


def test_without_anybody_who_says_that_it_runs_a_job_ends_with_its_group(node, make):
    sampler = make()
    step_v2(node, 3)
    sampler.sample()
    end(node)
    assert JOB not in sampler.sample().jobs
    step_v2(node, 2)
    assert sampler.sample().jobs[JOB].user_cpu_secs == 1


@pytest.mark.parametrize("between", ["not told of", "not noticed"])
@pytest.mark.parametrize("same_group", [True, False])
def test_another_run_has_nothing_of_an_earlier_ones_group_that_stays_empty(
    node, make, known, monkeypatch, between, same_group
):
    monkeypatch.setattr(cgroup, "STILL_SAMPLES", 2**62)  # at one of these all files are due, a few at a time
    known.runs(restarts=0)
    sampler = make(known, process_io=True)
    step_v2(node, 3)
    sampler.sample()
    node.end(10)
    if between == "not told of":
        del known[JOB]
    for _ in range(2):
        sampler.sample()
    if same_group:
        step_v2(node, 5)
    else:
        (node.cgroup / "system.slice/slurmstepd.scope/job_7").rename(node.cgroup / "old")
        step_v2(node, 2)
    node.end(10)
    process(node, 20, 2, start=200, cgroup=f"{V2}/job_7/step_0/user/task_0\n")
    before = sampler.sample().jobs[JOB]
    assert before.user_cpu_secs == 2.5, "nobody has told yet that it is another"
    known.runs(restarts=1)
    job = sampler.sample().jobs[JOB]
    assert (job.user_cpu_secs, job.oom_kills, job.memory_limit_hits) == (1, 2, 2)
    assert (job.block_io, job.throttled_secs) == (BlockIo(2, 2, 2, 2), 2)
    assert job.process_io.read_bytes == 2
    assert job.memory.peak == (5000 if same_group else 2000)
    known.runs(restarts=1, name="x")
    for _ in range(4):
        again = sampler.sample().jobs[JOB]
    assert again == replace(job, pressure_secs={("cpu", "some"): 2})


def test_the_peak_of_a_group_that_two_runs_have_had_is_not_known_of_the_second_while_it_is_no_higher(
    node, make, known
):
    known.runs(restarts=0)
    sampler = make(known)
    step_v2(node, 3)
    sampler.sample()
    node.end(10)
    sampler.sample()
    known.runs(restarts=1)
    process(node, 20, 0, cgroup=f"{V2}/job_7/step_0/user/task_0\n")
    assert sampler.sample().jobs[JOB].memory.peak is None


def test_that_nobody_tells_the_count_for_a_while_makes_no_run_and_hides_none(node, make, known):
    sampler = make(known)
    step_v2(node, 4)
    for values in ({}, {"restarts": 0}, {}, {"restarts": 0}, {}):
        known.runs(**values)
        assert sampler.sample().jobs[JOB].user_cpu_secs == 2
    known.runs(restarts=1)
    assert sampler.sample().jobs[JOB].user_cpu_secs == 0, "what nobody can tell apart is the earlier one's"


@pytest.mark.parametrize(
    ("before", "now", "is_another"),
    [
        ({"restarts": 0}, {"restarts": 0}, False),
        ({"restarts": 0}, {"restarts": 1}, True),
        ({"restarts": 0, "start_secs": 10}, {"restarts": 0, "start_secs": 90}, False),
        ({"start_secs": 10}, {"start_secs": 10}, False),  # it was missing from one answer
        ({"start_secs": 10}, {"start_secs": 90}, True),
        ({}, {}, True),
    ],
)
def test_a_job_that_is_here_again_after_its_end_is_another_run_unless_count_or_start_are_the_same(
    node, make, known, before, now, is_another
):
    known.runs(**before)
    sampler = make(known)
    step_v2(node, 4)
    sampler.sample()
    node.end(10)
    known.clear()
    sampler.sample()
    known.runs(**now)
    step_v2(node, 6)
    assert sampler.sample().jobs[JOB].user_cpu_secs == (1 if is_another else 3)


def test_kills_and_hits_count_once_whichever_hierarchy_of_v1_has_the_job_first_and_last(node, make, known):
    known.runs()
    sampler, words = make(known), LastReadings()
    step_v1(node, 1)
    shutil.rmtree(node.cgroup / "cpu,cpuacct" / V1_PATH)
    sampler.sample()
    step_v1(node, 3)
    for _ in range(2):
        job = sampler.sample().jobs[JOB]
    shutil.rmtree(node.cgroup / "cpu,cpuacct" / V1_PATH)
    (node.cgroup / "memory" / V1_PATH / "memory.failcnt").write_text("4\n")
    last = sampler.sample().jobs[JOB]
    for each, hits in ((job, 3), (last, 4)):
        assert (each.oom_kills, each.memory_limit_hits, each.block_io) == (3, hits, BlockIo(3, 3, 3, 3))
        assert each.user_cpu_secs + each.system_cpu_secs == 3
    words.close()


@pytest.mark.parametrize("path", [v1("/slurm/uid_6001/job_X/step_0"), f"{V2}/job_X/step_0\n"])
def test_what_a_process_has_read_counts_in_one_job_only_when_it_is_moved_to_another(node, make, path):
    """Also its CPU time, of jobs whose groups do not count it; the sum of both is what it has used."""
    one, two = slurm("1"), slurm("2")
    sampler = make(process_io=True)
    process(node, 10, 10, cgroup=path.replace("X", "1"))
    process(node, 11, 1, cgroup=path.replace("X", "1"))
    process(node, 20, 0, cgroup=path.replace("X", "2"))
    sampler.sample()
    process(node, 10, 17, cgroup=path.replace("X", "2"))
    jobs = sampler.sample().jobs
    assert (jobs[one].process_io.read_bytes, jobs[two].process_io.read_bytes) == (11, 7)
    assert (jobs[one].user_cpu_secs, jobs[two].user_cpu_secs) == (5.5, 3.5)


@pytest.mark.parametrize("step", [step_v1, step_v2])
def test_commands_and_joules_of_another_run_have_nothing_of_an_earlier_one_s(
    node, make, known, monkeypatch, step
):
    """Also where it has used more by then than the earlier one, so that no counter falls."""
    joules = iter(range(0, 10_000, 100))
    monkeypatch.setattr(NodeEnergy, "read", lambda _: {"package-0": float(next(joules))})
    known.runs(restarts=0)
    sampler = make(known, top_commands=2, sysfs=str(node.proc))

    def sample(busy):
        (node.proc / "stat").write_text(f"cpu  {100 * busy} 0 0 0 0 0 0 0 0 0\nbtime 1795247965\n")
        snapshot = sampler.sample()
        job = snapshot.jobs[JOB]
        return job, {each.command: each.cpu_secs for each in snapshot.commands[JOB]}

    step(node, 3)
    sample(3)
    step(node, 4)
    first, commands = sample(4)
    assert (first.energy_joules, list(commands.values())) == (100, [4])
    node.end(10)
    sample(4)
    known.runs(restarts=1)
    step(node, 9, start=200)
    second, commands = sample(9)
    assert second.run > first.run
    assert (second.energy_joules, list(commands.values())) == (100, [9])


READING = ("open", "stat", "scandir", "listdir")
UNREADABLE = {
    "no group can be listed": (("scandir",), ("/cgroup/",)),
    "nor looked at": (("stat", "scandir"), ("/cgroup/",)),
    "nor read": (READING, ("/cgroup/",)),
    "files of the job": (("open",), ("/job_7/",)),
    "all of the job": (READING, ("/job_7/",)),
    "cpu.stat": (("open",), ("/cpu.stat/",)),
    "processes": (READING, ("/proc/10/",)),
    "list of processes": (READING, ("/proc/",)),
    "everything": (READING, ("/",)),
}
OF_V1 = {
    "time's hierarchy": (READING, ("/cpu,cpuacct/",)),
    "memory's hierarchy": (READING, ("/memory/",)),
    "listing of both": (("scandir",), ("/cpu,cpuacct/", "/memory/")),
    "all but block I/O's": (READING, ("/cpu,cpuacct/", "/memory/", "/cpuset/")),
    "one directory": (("scandir",), ("/memory/slurm/uid_6001/",)),
    "one group's time": (("open",), ("/cpuacct.stat/",)),
}
OF_V2 = {
    "version and scope": (READING, ("/cgroup.controllers/", "/slurmstepd.scope/")),
    "scope": (READING, ("/slurmstepd.scope/",)),
    "listing of the scope": (("scandir",), ("/slurmstepd.scope/",)),
}


@pytest.mark.parametrize(
    ("step", "case"),
    [(step_v1, each) for each in UNREADABLE | OF_V1] + [(step_v2, each) for each in UNREADABLE | OF_V2],
)
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_what_cannot_be_read_for_a_while_has_not_gone(node, make, known, failing, step, case, number):
    """It is the same when it is read again: nothing counts twice, and nothing is left to an earlier run."""
    known.runs(restarts=0)
    sampler = make(known, process_io=True)
    (node.cgroup / "cpuset" / V1_PATH).mkdir(parents=True)

    def look(total):
        for _ in range(5):  # not all files are read at each
            job = sampler.sample().jobs[JOB]
        assert job.user_cpu_secs + job.system_cpu_secs == total
        assert (job.oom_kills, job.memory_limit_hits, job.throttled_secs) == (total, total, total)
        assert job.block_io == BlockIo(total, total, total, total)
        assert job.process_io.read_bytes == total
        assert job.pressure_secs in ({}, {("cpu", "some"): total})
        return job

    step(node, 3)
    look(3)
    end(node)
    sampler.sample()
    step(node, 4, start=200)
    before = look(7)
    for used in (5, 6):
        step(node, used, start=200)
        with failing(*(UNREADABLE | OF_V1 | OF_V2)[case], number):
            job = sampler.sample().jobs[JOB]
        for each in (job.oom_kills, job.memory_limit_hits, job.throttled_secs):
            assert each in {None, 7, 8, 3 + used}
        times = job.user_cpu_secs, job.system_cpu_secs
        assert times == (None, None) or sum(times) in {7, 8, 3 + used}
        assert job.memory.peak in {None, 4000, 5000, 1000 * used}
    step(node, 7, start=200)
    job = look(10)
    assert (job.run, job.memory.peak) == (before.run, 7000)
    known.runs(restarts=1)
    assert look(7).run > job.run, "it has what came since the job was last without process"


@pytest.mark.parametrize("case", ["processes", "list of processes", "everything"])
def test_a_process_that_cannot_be_read_for_a_while_has_not_ended(node, make, failing, case):
    key = JobKey("spool", "a")
    sampler = make(lambda: {key: Job(key=key, processes=frozenset({10}))}, process_io=True)
    process(node, 10, 5)
    sampler.sample()
    process(node, 10, 6)
    with failing(*UNREADABLE[case], errno.EIO):
        job = sampler.sample().jobs[key]
        assert (job.user_cpu_secs, job.processes) == (2.5, 1)
    process(node, 10, 7)
    job = sampler.sample().jobs[key]
    assert (job.user_cpu_secs, job.process_io.read_bytes) == (3.5, 7)
