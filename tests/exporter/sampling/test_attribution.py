import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.sampling.attribution import (
    Membership,
    ProcessJobs,
    compute_epoch,
    match_path,
    parse_process_cgroup,
)
from exporter.snapshot import ProcessSample
from jobfeatures.model import Job, JobKey

V2 = "/system.slice/slurmstepd.scope"


def slurm(job_id: str | None = None, **more) -> Membership:
    return Membership(batch_system="slurm", job_id=job_id, **more)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/slurm/uid_1000/job_12", slurm("12", uid=1000)),
        ("/slurm/uid_0/job_12/step_batch", slurm("12", uid=0, step="batch")),
        ("/slurm_n1/uid_6001/job_10/step_batch/task_0", slurm("10", uid=6001, step="batch", node="n1")),
        ("/slurm_a_b/uid_6001/job_10/step_0", slurm("10", uid=6001, step="0", node="a_b")),
        (f"{V2}/job_4/step_0/user/task_0", slurm("4", step="0")),
        (f"{V2}/job_4/step_extern/user/task_special", slurm("4", step="extern")),
        (f"{V2}/job_4/step_0/slurm", slurm("4", step="0")),
        (f"{V2}/job_4/step_interactive", slurm("4", step="interactive")),
        (f"{V2}/job_4", slurm("4")),
        (f"{V2}/job_4/step_0+1/user", slurm("4", step="0+1")),
        ("/system.slice/n1_slurmstepd.scope/job_4/step_0", slurm("4", step="0", node="n1")),
        (f"{V2}/s5K1KKYAYG5D00/step_0/user/task_0", slurm(sluid="s5K1KKYAYG5D00", step="0")),
        (f"{V2}/job_4/step_0/user/task_0 (deleted)", slurm("4", step="0")),
        ("/slurm/uid_1/job_2 (deleted)", slurm("2", uid=1)),
    ],
)
def test_a_path_of_slurm_names_its_job(path, expected):
    assert match_path(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "job_4",
        "/user.slice/user-1000.slice/session-1.scope",
        "/user.slice/user-1000.slice/user@1000.service/system.slice/slurmstepd.scope/job_99/step_0",
        "/user.slice/user-1000.slice/user@1000.service/slurm/uid_0/job_99",
        "/user.slice/slurmstepd.scope/job_99",
        "/docker/abc/slurm/uid_1000/job_12",
        f"{V2}/system",
        f"{V2}/job_x",
        f"{V2}/job_0",
        f"{V2}/job_012",
        f"{V2}/job_-1",
        f"{V2}/job_٣",
        f"{V2}/job_12x/step_0",
        f"{V2}/s5K1KKYAYG5DOO",
        f"{V2}/s5K1KKYAYG5D000",
        f"{V2}/S5K1KKYAYG5D00",
        "/slurm/uid_x/job_12",
        "/slurm/job_12",
        "/slurmx/uid_1/job_12",
        "/slurm_/uid_1/job_12",
        "/slurm_a/b/uid_1/job_12",
        "/../system.slice/slurmstepd.scope/job_4",
        "/system.slice/slurmstepd.scope.d/job_4",
    ],
)
def test_any_other_path_is_no_job(path):
    assert match_path(path) is None


def test_a_job_may_make_groups_below_its_own_without_becoming_another():
    path = f"{V2}/job_4/step_0/user/task_0/slurm/uid_0/job_99/step_0"
    assert match_path(path) == slurm("4", step="0")


def test_a_prefix_is_allowed_where_it_is_asked_for_only():
    path = "/docker/abc/slurm/uid_1000/job_12"
    assert (
        match_path(path, root="/docker/abc") == match_path(path, root="/docker/abc/") == slurm("12", uid=1000)
    )
    assert match_path("/docker/abcd/slurm/uid_1000/job_12", root="/docker/abc") is None
    assert match_path("/slurm/uid_1000/job_12", root="/docker/abc") is None


def test_the_line_that_names_a_step_is_best(fixtures):
    task = (fixtures / "proc/6663/cgroup").read_text()
    assert parse_process_cgroup(task) == slurm("10", uid=6001, step="batch", node="n1")
    daemon = (fixtures / "proc/6659/cgroup").read_text()
    assert parse_process_cgroup(daemon) == slurm("10", uid=6001, node="n1")
    assert parse_process_cgroup((fixtures / "proc/1/cgroup").read_text()) is None
    assert parse_process_cgroup("4:memory:/slurm/uid_1/job_2\n1:cpu:/slurm/uid_1/job_2/step_3\n").step == "3"


def test_a_unified_line_and_colons_in_a_path_are_read():
    assert parse_process_cgroup(f"0::{V2}/job_4/step_0/user/task_0/a:b\n") == slurm("4", step="0")


@given(st.text() | st.text(alphabet="0:/slurmuid_job12step.scope\n", max_size=200))
def test_any_text_gives_a_job_or_none(text):
    found = parse_process_cgroup(text)
    assert found is None or found.job_id


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
