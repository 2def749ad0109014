from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.processes.attribution import MISSED_SAMPLES, ProcessJobs, compute_epoch


def test_the_epoch_counts_from_2020():
    assert compute_epoch(1577836800 + 5) == 5


def process(pid: int, ppid: int = 1, *, pgid: int = 0, session: int = 0, start: int = 100) -> ProcessSample:
    return ProcessSample(
        pid=pid, ppid=ppid, pgid=pgid or pid, session=session or pgid or pid, start_ticks=start, command="x",
        state="S", user_ticks=0, system_ticks=0, children_user_ticks=0, children_system_ticks=0, threads=1,
        resident_bytes=0, virtual_bytes=0,
    )  # fmt: skip


def table(*processes: ProcessSample) -> dict[int, ProcessSample]:
    return {each.pid: each for each in processes}


A, B = JobKey("gridengine", "1"), JobKey("gridengine", "2")


def job(
    key: JobKey = A, processes: tuple[int, ...] = (), sessions: tuple[int, ...] = ()
) -> dict[JobKey, Job]:
    return {key: Job(key=key, processes=frozenset(processes), sessions=frozenset(sessions))}


def test_a_process_belongs_by_number_group_session_or_parent():
    processes = table(
        process(10), process(11, pgid=10), process(20, session=20), process(21, session=20),
        process(30, 11), process(31, 30), process(40),
    )  # fmt: skip
    found = ProcessJobs().update(processes, job(processes=(10,)) | job(B, sessions=(20,)))
    assert found == {10: A, 11: A, 30: A, 31: A, 20: B, 21: B}


def test_a_child_listed_before_its_parent_belongs_too():
    assert ProcessJobs().update(table(process(5, 6), process(6, 7), process(7)), job(processes=(7,))) == {
        5: A,
        6: A,
        7: A,
    }


def test_who_belongs_once_stays_when_its_parent_ends():
    jobs = ProcessJobs()
    jobs.update(table(process(10), process(11, 10)), job(processes=(10,)))
    orphan = process(11, 1)
    assert jobs.update(table(process(1), orphan), job(processes=(10,))) == {11: A}
    assert jobs.update(table(process(1), orphan, process(12, 11)), job(processes=(10,))) == {11: A, 12: A}


def test_what_a_job_leaves_behind_is_not_its_own():
    jobs = ProcessJobs()
    assert jobs.update(table(process(10)), job(processes=(10,))) == {10: A}
    assert jobs.update(table(process(10)), {}) == {}


def test_an_orphans_reused_number_belongs_to_nobody():
    jobs = ProcessJobs()
    jobs.update(table(process(10), process(11, 10)), job(processes=(10,)))
    assert jobs.update(table(process(11, 1, start=500)), job(processes=(10,))) == {}


def test_a_listed_number_that_is_reused_no_longer_counts():
    jobs = ProcessJobs()
    jobs.update(table(process(10, start=100)), job(processes=(10,)))
    stranger = process(10, start=900)
    for _ in range(2):
        assert jobs.update(table(stranger, process(11, 10), process(12, pgid=10)), job(processes=(10,))) == {}


def test_a_listed_number_counts_no_more_once_group_and_process_were_gone():
    jobs = ProcessJobs()
    jobs.update(table(process(11, pgid=10)), job(processes=(10,)))
    assert jobs.update(table(process(11, pgid=10)), job(processes=(10,))) == {11: A}
    jobs.update(table(process(1)), job(processes=(10,)))
    assert jobs.update(table(process(10), process(12, pgid=10)), job(processes=(10,))) == {}


def test_a_group_outlives_its_leader():
    jobs = ProcessJobs()
    jobs.update(table(process(10), process(11, pgid=10)), job(processes=(10,)))
    assert jobs.update(table(process(11, pgid=10), process(12, pgid=10)), job(processes=(10,))) == {
        11: A,
        12: A,
    }


def test_a_number_may_be_listed_before_its_process_is_seen():
    jobs = ProcessJobs()
    assert jobs.update(table(process(1)), job(processes=(10,))) == {}
    assert jobs.update(table(process(10)), job(processes=(10,))) == {10: A}


def test_a_job_that_is_listed_later_gets_its_processes_then():
    jobs = ProcessJobs()
    assert jobs.update(table(process(10), process(11, 10)), {}) == {}
    assert jobs.update(table(process(10), process(11, 10)), job(processes=(10,))) == {10: A, 11: A}


def test_kernel_threads_and_circles_belong_to_nobody():
    processes = table(process(2, 0), process(5, 6), process(6, 5), process(7, 7))
    assert ProcessJobs().update(processes, job(processes=(0, -1), sessions=(0,))) == {}


def test_a_blind_look_is_no_end():
    jobs = ProcessJobs()
    there = table(process(10), process(11, 10), process(12, 1, pgid=12))
    named = job(processes=(10,)) | job(B, sessions=(20,))
    theirs = table(process(21, session=20))
    jobs.update(there | theirs | table(process(12, 11, pgid=12)), named)
    for _ in range(3):
        assert jobs.update({}, named) == {}
    assert jobs.update(there | theirs, named) == {10: A, 11: A, 12: A, 21: B}


def test_a_leader_that_was_missed_at_first_belongs_too():
    jobs = ProcessJobs()
    assert jobs.update(table(process(11, pgid=10)), job(processes=(10,))) == {11: A}
    both = table(process(10), process(11, pgid=10))
    assert jobs.update(both, job(processes=(10,))) == {10: A, 11: A}
    assert jobs.update(table(process(10)), job(processes=(10,))) == {10: A}


def test_a_number_that_is_a_strangers_after_a_blind_look_counts_no_more():
    jobs = ProcessJobs()
    jobs.update(table(process(10)), job(processes=(10,)))
    jobs.update({}, job(processes=(10,)))
    for _ in range(2):
        assert jobs.update(table(process(10, start=900), process(12, pgid=10)), job(processes=(10,))) == {}
    assert jobs.update(table(process(12, pgid=10)), job(processes=(10,))) == {}


def test_processes_that_were_missed_for_long_are_forgotten():
    jobs = ProcessJobs()
    again = table(process(10), process(11))  # whose parent has ended
    jobs.update(table(process(10), process(11, 10)), job(processes=(10,)))
    for missed, expected in ((MISSED_SAMPLES - 1, {10: A, 11: A}), (MISSED_SAMPLES + 1, {10: A})):
        for _ in range(missed):
            jobs.update(table(process(10)), job(processes=(10,)))
        assert jobs.update(again, job(processes=(10,))) == expected


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(1, 6), st.integers(0, 2)), max_size=6
        ),
        max_size=6,
    ),
    st.sets(st.integers(0, 6), max_size=3),
)
def test_any_trees_are_attributed_and_only_living_processes_are(scans, numbers):
    jobs = ProcessJobs()
    for scan in scans:
        processes = table(*(process(pid, ppid, pgid=pgid, start=start) for pid, ppid, pgid, start in scan))
        found = jobs.update(processes, job(processes=tuple(numbers)))
        assert found.keys() <= processes.keys()


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=6),
    st.lists(st.sets(st.integers(1, 6)), max_size=5),
    st.integers(1, 6),
)
def test_whatever_looks_miss_the_same_processes_are_the_jobs_again(links, misses, number):
    processes = table(*(process(pid, pgid=pgid) for pid, pgid in links))
    jobs = ProcessJobs()
    whole = jobs.update(processes, job(processes=(number,)))
    for missed in misses:
        jobs.update({p: each for p, each in processes.items() if p not in missed}, job(processes=(number,)))
    assert jobs.update(processes, job(processes=(number,))) == whole
