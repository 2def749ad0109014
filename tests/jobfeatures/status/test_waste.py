from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import UNLIMITED, Job, JobKey, Limits
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures.status.waste import (
    Basis,
    RemainingBasis,
    Waste,
    compute_draining_waste,
    compute_kill_waste,
    compute_remaining,
)

NOW = 1_700_000_000
CPUS = st.integers(0, 1024)
SECS = st.integers(0, 10**9)
EPOCHS = st.integers(0, 2**40)


def draining(status: JobStatus | None, allocated_cpus: int | None = 8, now: float = NOW) -> Waste | None:
    return compute_draining_waste(status, allocated_cpus=allocated_cpus, now_secs=now)


def kill(status: JobStatus | None, allocated: int | None = 8, start: int | None = None) -> Waste | None:
    return compute_kill_waste(status, allocated_cpus=allocated, start_secs=start, now_secs=NOW)


def test_draining_eight_cpus_of_which_five_are_used_for_another_hour() -> None:
    status = JobStatus(used_cpu=5, first_exp_job_end=NOW + 3600, add_final_exp_waste=1200)
    assert draining(status) == Waste(12000, Basis.REPORTED)


def test_killing_five_cpus_ten_minutes_after_the_last_start() -> None:
    status = JobStatus(used_cpu=5, last_job_start=NOW - 600, add_uncom_time=500)
    assert kill(status) == Waste(3500, Basis.REPORTED)


def test_a_first_end_in_the_past_counts_as_now_and_is_flagged() -> None:
    status = JobStatus(used_cpu=5, first_exp_job_end=NOW - 1, add_final_exp_waste=1200)
    assert draining(status) == Waste(1200, Basis.REPORTED, overdue=True)


def test_a_first_end_right_now_is_not_overdue() -> None:
    status = JobStatus(used_cpu=5, first_exp_job_end=NOW, add_final_exp_waste=1200)
    assert draining(status) == Waste(1200, Basis.REPORTED)


def test_a_last_start_in_the_future_counts_as_now() -> None:
    status = JobStatus(used_cpu=5, last_job_start=NOW + 100, add_uncom_time=500)
    assert kill(status) == Waste(500, Basis.REPORTED)


def test_nothing_is_guessed_where_an_input_is_missing() -> None:
    assert draining(JobStatus(used_cpu=5, add_final_exp_waste=1)) is None
    assert draining(JobStatus(used_cpu=5, first_exp_job_end=NOW)) is None
    assert draining(JobStatus(used_cpu=5, first_exp_job_end=NOW, add_final_exp_waste=1), None) is None
    assert kill(JobStatus(used_cpu=5, add_uncom_time=1), start=NOW - 10) is None
    assert kill(JobStatus(used_cpu=5, last_job_start=NOW), start=NOW - 10) is None


def test_an_allocation_that_has_shrunk_below_use_gives_no_figure() -> None:
    assert draining(JobStatus(used_cpu=5, first_exp_job_end=NOW, add_final_exp_waste=1), 4) is None


def test_killing_a_job_without_status_loses_all_of_it() -> None:
    assert kill(None, 8, NOW - 100) == Waste(800, Basis.ESTIMATED)
    assert kill(None, 8, NOW + 100) == Waste(0, Basis.ESTIMATED)
    assert kill(None, None, NOW - 100) is None
    assert kill(None, 8, None) is None


def test_killing_a_job_that_has_done_nothing_loses_nothing() -> None:
    def found(cpu_secs: float, status: JobStatus | None = None) -> Waste | None:
        return compute_kill_waste(
            status, allocated_cpus=8, start_secs=NOW - 100, now_secs=NOW, cpu_secs=cpu_secs
        )

    assert found(0) == Waste(0, Basis.MEASURED)
    assert found(75.5) == Waste(75.5, Basis.MEASURED)
    told = JobStatus(used_cpu=5, last_job_start=NOW - 10, add_uncom_time=0)
    assert found(75.5, told) == Waste(50, Basis.REPORTED)


def test_draining_a_job_without_status_leaves_no_cpu_idle() -> None:
    assert draining(None) == Waste(0, Basis.ESTIMATED)
    assert draining(None, None) is None


@given(CPUS, CPUS, EPOCHS, SECS, SECS)
def test_draining_waste_is_the_drafts_formula_while_the_end_is_ahead(
    used: int, idle: int, now: int, ahead: int, final: int
) -> None:
    status = JobStatus(used_cpu=used, first_exp_job_end=now + ahead, add_final_exp_waste=final)
    assert draining(status, used + idle, now) == Waste(idle * ahead + final, Basis.REPORTED)


@given(CPUS, CPUS, SECS, EPOCHS, st.integers(0, 2**40))
def test_draining_waste_is_never_below_its_final_part_and_never_grows_with_time(
    used: int, idle: int, final: int, end: int, now: int
) -> None:
    status = JobStatus(used_cpu=used, first_exp_job_end=end, add_final_exp_waste=final)
    earlier, later = draining(status, used + idle, now), draining(status, used + idle, now + 60)
    assert earlier is not None
    assert later is not None
    assert earlier.core_secs >= later.core_secs >= final


@given(CPUS, SECS, SECS)
def test_kill_waste_is_the_drafts_formula(used: int, since: int, uncommitted: int) -> None:
    status = JobStatus(used_cpu=used, last_job_start=NOW - since, add_uncom_time=uncommitted)
    assert kill(status) == Waste(uncommitted + used * since, Basis.REPORTED)


def test_remaining_time_by_each_end_may_be_negative() -> None:
    status = JobStatus(used_cpu=1, last_exp_job_end=NOW - 5, last_max_job_end=NOW + 50)
    assert compute_remaining(
        now_secs=NOW, end_limit_secs=NOW + 3600, shutdown_secs=NOW + 600, status=status
    ) == {
        RemainingBasis.WALL_LIMIT: 3600,
        RemainingBasis.SHUTDOWN: 600,
        RemainingBasis.EXPECTED_END: -5,
        RemainingBasis.MAXIMUM_END: 50,
    }


def test_unknown_and_unlimited_ends_have_no_entry() -> None:
    assert compute_remaining(now_secs=NOW) == {}
    unlimited = Job(key=JobKey("slurm", "1"), start_secs=NOW, limits=Limits(wall_secs=UNLIMITED))
    assert compute_remaining(now_secs=NOW, end_limit_secs=unlimited.end_limit_secs) == {}
    assert compute_remaining(now_secs=NOW, status=JobStatus(used_cpu=1)) == {}
