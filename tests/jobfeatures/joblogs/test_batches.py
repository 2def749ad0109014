"""Jobs in batches fold as the same jobs one by one, in any order of the log, with memory for any number or not."""

import pickle
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.joblogs import batches, folding
from jobfeatures.joblogs.batches import HashedIds, in_batches
from jobfeatures.joblogs.disksort import DiskSorter
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord, Notes, StepUse
from jobfeatures.logkinds import read_log, write_log
from tests.jobfeatures.joblogs.test_folding import ENTRIES, STEPS

NAMES = ("batch_system", "job_id", "cluster", "user", "submit_secs", "start_secs", "end_secs", "restarts")


def batched(entries, sizes):
    """Return the same entries, jobs that follow one another in batches of these sizes: of columns, or of records."""
    some, turn = [], iter(sizes * len(entries))
    for each in [*entries, None]:
        if some and (each is None or each.step is not None or len(some) >= abs(next(turn))):
            columns = {name: [getattr(job, name) for job in some] for name in (*NAMES, "used_memory_bytes")}
            yield JobBatch(len(some), columns) if len(some) % 2 else JobBatch.of(some)
            some = []
        if each is not None and each.step is None:
            some.append(each)
        elif each is not None:
            yield each


def folded(entries, **options):
    lost = Counter()
    return list(fold_jobs(entries, lambda name: lost.update([name]), **options)), lost


@given(
    st.lists(ENTRIES | STEPS, max_size=14),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 14),
    st.booleans(),
)
def test_jobs_in_batches_fold_as_they_do_one_by_one(entries, sizes, most, all_runs):
    expected = folded(entries, all_runs=all_runs)
    with pytest.MonkeyPatch.context() as patch, DiskSorter() as sort:
        patch.setattr(folding, "MOST", most)
        patch.setattr("jobfeatures.joblogs.disksort.MOST", max(1, most))
        patch.setattr(batches, "AT_A_TIME", 2)
        assert folded(batched(entries, sizes), all_runs=all_runs, sort=sort) == expected


def test_steps_far_from_their_job_are_not_those_of_others_that_went_to_disk_with_it():
    jobs = [JobRecord(batch_system="slurm", job_id=number) for number in "123"]
    with pytest.MonkeyPatch.context() as patch, DiskSorter() as sort:
        patch.setattr(folding, "MOST", 0)
        patch.setattr("jobfeatures.joblogs.disksort.MOST", 3)
        found, _ = folded([*jobs, StepUse("slurm", "1", None, "0", 900)], sort=sort)
    assert [each.used_memory_bytes for each in found] == [900, None, None]


DAYS = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["RUNNING", "COMPLETED", "REQUEUED"]), st.integers(0, 2)),
    max_size=12,
    unique_by=lambda told: (told[0], told[2]),
)


@given(DAYS.flatmap(lambda told: st.tuples(st.just(told), st.permutations(told))), st.integers(1, 5))
def test_a_log_gives_the_same_jobs_whatever_the_order_of_its_lines(orders, at_once):
    def written(told):
        lines = ["JobID|State|Submit|Start|End|ElapsedRaw|User|AllocCPUS\n"]
        for job, state, run in told:
            start = 1000 * job + 100 * run
            end, ran = ("Unknown", 5) if state == "RUNNING" else (start + 50, 50)
            submit = 1000 * job + (100 * run - 50) * (run > 0)
            lines.append(f"{job}|{state}|{submit}|{start}|{end}|{ran}|u{job}|1\n")
        notes = Notes()
        found = read_log(lines, "sacct", source="log", notes=notes, folds_steps=True)
        return list(write_log(notes.accepted_with_passages(found), "swf", notes)), notes.folded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jobfeatures.batch.slurm.sacct.lines.BATCH", at_once)
        one, other = map(written, orders)
    assert one == other


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=6), st.sets(st.integers(0, 9)))
def test_ids_that_come_again_are_found(ids, others):
    hashed = HashedIds()
    for some in ids:
        hashed.add(JobBatch.of([JobRecord(batch_system="x", job_id=str(each)) for each in some]))
    counts = Counter(hash(str(each)) for some in ids for each in some)
    more = {hash(str(each)) for each in others}
    expected = {each for each, count in counts.items() if count > 1 or each in more}
    with pytest.MonkeyPatch.context() as patch:
        for at_a_time in (2, 100):
            patch.setattr(batches, "AT_A_TIME", at_a_time)
            assert hashed.again(more) == expected


def test_a_batch_that_is_packed_and_stored_has_the_same_jobs():
    columns = {
        "batch_system": ["x"] * 2,
        "job_id": ["1", "2"],
        "submit_secs": [1, 2],
        "start_secs": [1, None],
        "end_secs": [3, 4.5],
        "used_memory_bytes": [2**63, 1],
        "is_interactive": [True, False],
    }
    batch = JobBatch(2, columns)
    before = list(batch)
    assert list(pickle.loads(pickle.dumps(batch.pack()))) == before
    assert before[1].end_secs == 4.5
    assert before[0].is_interactive is True


def test_a_batch_that_is_packed_stays_so_and_tells_what_it_did():
    batch = JobBatch(2, {"batch_system": ["x"] * 2, "job_id": ["1", "2"], "end_secs": [3, 3.0]}).pack()
    for again in (batch, batch.unpack(), batch.unpack().unpack(), batch.pack()):
        assert list(map(repr, again.column("end_secs"))) == ["3", "3.0"]
        assert [each.job_id for each in again] == again.column("job_id") == ["1", "2"]
        assert again.column("user") == [None, None]


def test_records_go_into_batches_in_their_order():
    jobs = [JobRecord(batch_system="x", job_id=str(number)) for number in range(5)]
    entries = [*jobs[:2], JobBatch.of(jobs[2:4]), jobs[4]]
    assert [list(batch) for batch in in_batches(entries)] == [jobs[:2], jobs[2:4], jobs[4:]]
