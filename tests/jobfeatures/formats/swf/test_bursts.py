"""The example logs are constructed: none of the public ones has such lines."""

from jobfeatures.formats.swf.bursts import JoinedJob, join_bursts
from jobfeatures.formats.swf.fields import SwfJob
from jobfeatures.formats.swf.header import Preemption

NOTHING = SwfJob(*(-1,) * 18)


def job(number, status, *, submit=0, wait=0, run=10, cpu=-1, memory=-1):
    return NOTHING._replace(
        number=number,
        submit_secs=submit,
        wait_secs=wait,
        run_secs=run,
        cpu_secs=cpu,
        memory_kib=memory,
        status=status,
    )


WHOLE = job(1, 1, submit=100, wait=5, run=30)
PARTS = (job(1, 2, submit=100, wait=5), job(1, 2, submit=-1, wait=50), job(1, 3, submit=-1, wait=7))
OTHER = job(2, 0, submit=200)


def test_a_summary_and_its_parts_are_one_job():
    found = list(join_bursts([WHOLE, *PARTS, OTHER], Preemption.DOUBLE))
    assert found == [JoinedJob(WHOLE, PARTS, lines=4), JoinedJob(OTHER)]
    assert (found[0].start_secs, found[0].swapped_secs, found[0].end_secs) == (105, 57, 105 + 30 + 57)


def test_parts_without_a_summary_are_summed_up():
    parts = [part._replace(cpu_secs=cpu, memory_kib=cpu) for part, cpu in zip(PARTS, (4, 9, 1), strict=True)]
    [found] = join_bursts(parts, Preemption.YES)
    assert (found.job.submit_secs, found.job.wait_secs, found.job.run_secs) == (100, 5, 30)
    assert (found.job.cpu_secs, found.job.memory_kib, found.job.status) == (14, 9, 1)


def test_what_is_unknown_of_a_part_is_unknown_of_the_sum():
    [found] = join_bursts([PARTS[0], PARTS[2]._replace(run_secs=-1, status=4)], Preemption.YES)
    assert (found.job.run_secs, found.job.status, found.end_secs) == (-1, 0, None)


def test_a_job_whose_last_part_is_missing_has_an_unknown_status():
    assert [each.job.status for each in join_bursts([*PARTS[:2], OTHER], Preemption.YES)] == [-1, 0]


def test_parts_of_neighbours_are_kept_apart():
    mine, other = job(1, 3), job(2, 3)
    found = list(join_bursts([mine, other], Preemption.YES))
    assert [each.job.number for each in found] == [1, 2]
    again = list(join_bursts([mine, mine], Preemption.YES))
    assert len(again) == 2


def test_without_preemption_a_status_is_an_exit_code():
    for preemption in (None, Preemption.NO, Preemption.TIME_SLICING):
        assert list(join_bursts(PARTS, preemption)) == [JoinedJob(part) for part in PARTS]


def test_jobs_that_ran_in_one_go_stay_as_they_are():
    jobs = [WHOLE, OTHER, job(3, 5, wait=-1, run=-1)]
    found = list(join_bursts(jobs, Preemption.DOUBLE))
    assert [each.job for each in found] == jobs
    assert found[2].end_secs is None
