import gc
from dataclasses import replace

import pytest

from jobfeatures.records.model import Alias, Job, JobKey, JobState
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import FigureSource, JobGpu, JobSample, ProcessSample, Snapshot
from jobfeatures_exporter.sampling.groups.endings import emptied
from jobfeatures_exporter.state import retention
from jobfeatures_exporter.state.retention import Retention
from tests.held import count_held

RETAIN_SECS = 120.0


def key(number=1):
    return JobKey("slurm", str(number))


class Looks:
    """Looks that are ten seconds apart, and scrapes between them where asked for."""

    def __init__(self):
        self.retention = Retention(RETAIN_SECS)
        self.now = 1000.0
        self.shown = {}
        self.ended = {}

    def __call__(self, *samples, jobs=(), scrape=True, gpus=(), processes=None, final=()):
        self.now += 10
        snapshot = Snapshot(
            taken_at_secs=1e9 + self.now,
            duration_secs=0,
            node=None,
            jobs={sample.key: sample for sample in samples},
            final={sample.key: sample for sample in final},
            job_gpus=tuple(gpus),
            keys={pid: key for pid, (key, _) in (processes or {}).items()},
            processes={pid: process for pid, (_, process) in (processes or {}).items()},
        )
        self.ended = self.retention.update(
            snapshot, {job.key: job for job in jobs}, now_secs=self.now, shown=self.shown
        )
        if scrape:
            self.shown = self.ended
        return self.ended


def sample(number=1, **changes):
    return JobSample(key=key(number), accounting=FigureSource.CGROUP, **{"in_group": True, **changes})


@pytest.fixture
def look():
    return Looks()


def test_what_was_counted_after_the_last_look_is_shown(look, make_job):
    look(sample(user_cpu_secs=5.0, oom_kills=0), jobs=[make_job("1")])
    final = sample(user_cpu_secs=6.0, oom_kills=1)
    assert look(jobs=[make_job("1")], final=[final])[key()].sample == emptied(final)


def test_the_last_values_of_an_ended_job_stay_and_go(look, make_job):
    last = sample(user_cpu_secs=7.5)
    assert look(sample(user_cpu_secs=5.0), jobs=[make_job("1")]) == {}
    assert look(last, jobs=[make_job("1")]) == {}
    kept = look(jobs=[make_job("1")])[key()]
    assert kept.sample == emptied(last)
    assert kept.ended_at_secs == 1e9 + look.now
    for _ in range(11):
        assert key() in look()
    assert look() == {}


def test_of_what_an_ended_job_held_nothing_is_left_but_the_peak(look):
    memory = MemoryBytes(anon=5, charged=7, limit=9, peak=8)
    card = JobGpu(
        key=key(),
        uuid="A",
        allocated=True,
        busy_secs=3.0,
        energy_joules=4.0,
        memory_bytes=6,
        ce_util_percent=7.0,
    )
    look(sample(processes=2, threads=3, memory=memory, cpus=4, user_cpu_secs=1.0), gpus=[card])
    ended = look()[key()]
    assert (ended.sample.processes, ended.sample.threads, ended.sample.cpus) == (0, 0, None)
    assert (ended.sample.memory, ended.sample.user_cpu_secs) == (MemoryBytes(peak=8), 1.0)
    assert ended.gpus == (replace(card, memory_bytes=None, ce_util_percent=None),)


def test_a_job_that_nobody_says_the_end_of_ended_when_the_last_of_it_went(look):
    look(sample(processes=1))
    went_at = 1e9 + look.now + 10
    look(sample(in_group=False))
    look(sample(in_group=False))
    assert look()[key()].ended_at_secs == went_at
    look(sample(processes=1))
    look(sample(in_group=False))
    assert look()[key()].ended_at_secs == 1e9 + look.now - 10


def test_an_ended_job_waits_for_a_scrape(look):
    look(sample())
    for _ in range(30):
        assert key() in look(scrape=False)
    assert key() in look(scrape=True)
    assert look() == {}


def test_that_the_job_was_shown_in_its_former_life_does_not_count(look):
    look(sample())
    look(scrape=True)  # shown as ended
    look(sample(processes=2), scrape=False)  # requeued
    for _ in range(30):
        assert key() in look(scrape=False)


def test_a_job_that_comes_back_is_not_an_ended_one(look):
    look(sample(user_cpu_secs=100.0))
    assert key() in look()
    assert look(sample(user_cpu_secs=0.0)) == {}
    last = sample(user_cpu_secs=1.0)
    look(last)
    assert look()[key()].sample == emptied(last)


def test_the_end_that_the_batch_system_tells_is_taken_over(look, make_job):
    look(sample(), jobs=[make_job("1")])
    look(jobs=[make_job("1")])
    kept = look(jobs=[make_job("1", state=JobState.FAILED, end_secs=1234)])[key()]
    assert (kept.ended_at_secs, kept.job.state) == (1234.0, JobState.FAILED)
    kept = look()[key()]  # what was told stays known
    assert (kept.ended_at_secs, kept.job.state) == (1234.0, JobState.FAILED)


def test_an_end_told_before_the_control_group_is_gone_counts_too(look, make_job):
    done = make_job("1", state=JobState.COMPLETED, end_secs=1234)
    look(sample(), jobs=[done])
    assert look(jobs=[done])[key()].ended_at_secs == 1234.0


def test_a_job_that_nobody_calls_running_any_more_is_not_said_to_run(look, make_job):
    look(sample(), jobs=[make_job("1", user="alice")])
    kept = look()[key()]
    assert (kept.job.state, kept.job.user) == (JobState.UNKNOWN, "alice")


def test_how_a_job_ended_stays_when_only_memory_tells_of_it_any_more(look, make_job):
    look(sample(), jobs=[make_job("1")])
    look(jobs=[make_job("1", state=JobState.FAILED, end_secs=1_000_001_021)])
    kept = look(jobs=[make_job("1", state=JobState.UNKNOWN)])[key()]
    assert (kept.job.state, kept.ended_at_secs) == (JobState.FAILED, 1_000_001_021)


@pytest.mark.parametrize(
    "after",
    [
        {"state": JobState.PENDING, "restarts": 1, "sluid": "s2"},
        {"state": JobState.PENDING, "restarts": None, "sluid": None},  # of a system that tells no runs apart
        {"state": JobState.RUNNING, "restarts": 1, "sluid": "s2"},
        {"state": JobState.COMPLETED, "uid": 6002, "end_secs": 77},  # the id is another user's
    ],
)
def test_an_ended_run_keeps_its_labels_when_another_run_of_its_id_is_told(look, make_job, after):
    """Slurm 26.05: a requeued job waits under its next SLUID while its ended run is still shown."""
    ran = make_job("1", state=JobState.RUNNING, restarts=0, sluid="s1", uid=6001)
    look(sample(), jobs=[ran])
    ended = look(jobs=[replace(ran, **after)])[key()]
    assert ended.job == replace(ran, state=JobState.UNKNOWN)
    assert ended.ended_at_secs != 77


def test_a_job_that_no_source_knew_is_kept_with_its_identity(look):
    look(sample())
    assert look()[key()].job == Job(key=key())


def process(start_ticks=100):
    numbers = dict.fromkeys((each for each in ProcessSample._fields if each not in {"command", "state"}), 0)
    return ProcessSample(**{**numbers, "pid": 100, "start_ticks": start_ticks}, command="x", state="S")


def test_a_job_whose_number_is_found_has_not_ended(look):
    early = JobKey("slurm", "s5K1KKYAYG5D00")
    look(replace(sample(), key=early), processes={100: (early, process())})
    assert look(sample(12), processes={100: (key(12), process())}) == {}


def test_a_job_of_which_another_one_has_the_process_number_has_ended(look):
    look(sample(1), processes={100: (key(1), process())})
    assert key(1) in look(sample(2), processes={100: (key(2), process(start_ticks=999))})


def test_what_a_job_did_on_cards_is_kept_with_it(look):
    gpu = JobGpu(key=key(), uuid="GPU-1", energy_joules=5.0)
    look(sample(), gpus=[gpu])
    assert look()[key()].gpus == (gpu,)


def test_of_too_many_ended_jobs_the_oldest_go(look, monkeypatch):
    monkeypatch.setattr(retention, "MAX_ENDED", 3)
    for number in range(6):
        look(sample(number), scrape=False)
    assert list(look(scrape=False)) == [key(3), key(4), key(5)]


def test_thousands_of_ends_leave_nothing_behind(look):
    look()
    before = count_held(look.retention)
    for start in range(0, 3_000, 100):
        look(*(sample(number) for number in range(start, start + 100)))
    for _ in range(14):
        look()
    assert look.ended == {}
    assert count_held(look.retention) == before
    look.shown = {}
    gc.collect()
    assert sum(isinstance(each, JobSample) for each in gc.get_objects()) < 100


def test_never_are_more_kept_than_allowed():
    look = Looks()
    for start in range(0, 12_000, 500):
        look(*(sample(number) for number in range(start, start + 500)), scrape=False)
    assert len(look(scrape=False)) == 10_000


@pytest.mark.parametrize("name", ["sluid", "slot"])
def test_what_ended_before_its_job_id_was_known_is_not_kept_under_a_stand_in(look, name):
    stand_in = JobKey("slurm", "sA79M8D1923R00")
    nameless = JobSample(key=stand_in, accounting=FigureSource.CGROUP, alias=Alias(name, stand_in.job_id))
    look(nameless)
    assert look() == {}


class Known:
    """What is known of jobs, as far as `Retention.take` asks."""

    def __init__(self, *jobs, ending=()):
        self.jobs = {job.key: job for job in jobs}
        self.ending = dict.fromkeys(ending)


@pytest.mark.parametrize("reported", [JobState.UNKNOWN, JobState.COMPLETED, None])
def test_an_ended_job_is_kept_as_such_while_its_control_group_stays_without_processes(make_job, reported):
    kept, now = Retention(RETAIN_SECS), 0.0

    def look(known, **changes):
        nonlocal now
        now += 10
        jobs = {key(): sample(in_group=True, **changes)}
        taken = Snapshot(taken_at_secs=1e9 + now, duration_secs=0, node=None, jobs=jobs)
        found = kept.take(taken, known.jobs, known.ending, now_secs=now, shown=look.shown)[1]
        look.shown = found
        return found

    look.shown = {}
    running = make_job("1", user="alice")
    ended = [] if reported is None else [replace(running, state=reported)]
    assert look(Known(running), processes=2, user_cpu_secs=5.0) == {}
    first = look(Known(*ended, ending=[key()]), user_cpu_secs=6.0)
    assert (first[key()].job.user, first[key()].sample.user_cpu_secs) == ("alice", 6.0)
    for _ in range(11):
        assert look(Known(), user_cpu_secs=6.0)[key()].job.user == "alice"
    assert look(Known(), user_cpu_secs=6.0) == {}
    assert look(Known(), user_cpu_secs=6.0) == {}  # its group alone does not bring it back
    assert look(Known(running), processes=1, user_cpu_secs=7.0) == {}  # it has been started again
    assert look(Known(ending=[key()]), user_cpu_secs=8.0)[key()].sample.user_cpu_secs == 8.0


@pytest.mark.parametrize("later", [1, 2, 5])
def test_a_job_whose_processes_outlive_its_reported_end_has_ended_when_its_group_is_empty(make_job, later):
    kept, running = Retention(RETAIN_SECS), make_job("1")

    def look(known, at_secs, **changes):
        jobs = {key(): sample(in_group=True, **changes)}
        taken = Snapshot(taken_at_secs=1e9 + at_secs, duration_secs=0, node=None, jobs=jobs)
        return kept.take(taken, known.jobs, known.ending, now_secs=at_secs, shown={})[1]

    assert look(Known(running), 1, processes=2) == {}
    assert look(Known(ending=[key()]), 2, processes=1) == {}
    for at_secs in range(3, 2 + later):
        assert look(Known(), at_secs, processes=1) == {}
    assert look(Known(), 8, user_cpu_secs=7.0)[key()].sample.user_cpu_secs == 7.0
    assert look(Known(), 9)[key()].sample.user_cpu_secs == 7.0


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.PENDING, JobState.UNKNOWN])
def test_a_job_whose_end_is_reported_while_its_empty_group_is_read_has_ended_in_that_look(make_job, state):
    """Pages hide an empty group of a job that is reported to have ended: in between it would be nowhere."""
    kept, running = Retention(0.0), make_job("1")
    reported = Known(replace(running, state=state))
    shown = {}

    def look(known, at_secs, **changes):
        jobs = {key(): sample(in_group=True, **changes)}
        taken = Snapshot(taken_at_secs=1e9 + at_secs, duration_secs=0, node=None, jobs=jobs)
        return kept.take(taken, known.jobs, known.ending, now_secs=at_secs, shown=shown)[1]

    assert look(Known(running), 1, processes=2) == {}
    shown = look(reported, 2, user_cpu_secs=7.0)
    assert shown.keys() == ({key()} if state is JobState.COMPLETED else set())
    if shown:
        assert shown[key()].sample.user_cpu_secs == 7.0
        reported.ending = {key(): None}
        assert look(reported, 3) == look(reported, 4) == {}  # and only once


def test_another_run_ends_when_it_has_ended_and_as_what_is_known_of_it(look, make_job):
    """Nothing of it was ever here, as of the run before it, which was another user's."""
    bare = sample(in_group=False)
    look(bare, jobs=[make_job("1", uid=1001)])
    for _ in range(3):
        look(replace(bare, run=1))
    at_secs = 1e9 + look.now
    ended = look()[key()]
    assert (ended.job, ended.ended_at_secs) == (Job(key=key()), at_secs - 20)
