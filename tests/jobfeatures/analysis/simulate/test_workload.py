import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.choosing import ScheduleError
from jobfeatures.analysis.schedule.jobarrays import from_records
from jobfeatures.analysis.schedule.runs import Store
from jobfeatures.analysis.schedule.shares import CPU, ShareRules
from jobfeatures.analysis.simulate.policies import Fairshare, Policy
from jobfeatures.analysis.simulate.pools import one_pool, parse_nodes
from jobfeatures.analysis.simulate.simulated import make_logs
from jobfeatures.analysis.simulate.workload import choose_pool, make_workload, remarks, run_policy
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.analysis.simulate.oracle import Oracle
from tests.jobfeatures.analysis.simulate.test_engine import POOL, pool_jobs

#        submit wait run  cpus     mem  req  time  mem stat user
LINES = (
    "1 0   7  10    4 -1    -1   4   10   -1  1  1 1 -1 -1 -1 -1 -1",
    "2 1   7  10    5 -1    -1   5   -1   -1  1  1 1 -1 -1 -1 -1 -1",
    "3 2   7   8   -1 -1    -1   1    8 1024  1  2 1 -1 -1 -1 -1 -1",
)  # fmt: skip


def run(log, workload, policy, rules=None):
    return run_policy(log, workload, policy, rules or Fairshare(), progress=lambda count: None)


def simulated(log, pool, policy):
    workload = make_workload(log, pool)
    [made] = make_logs(log, [log], workload, run(log, workload, policy), policy.value)
    return made


def test_rows_are_told_apart_when_the_log_is_out_of_order(read_swf):
    log = simulated(read_swf(*reversed(LINES)), one_pool(5), Policy.FIFO)
    assert log.submit.tolist() == [0, 1, 2]
    assert log.start.tolist() == [0, 10, 20]
    assert [log.user.names[code] for code in log.user.codes] == ["1", "1", "2"]


def test_fractions_of_a_second_are_exact(read_swf):
    log = simulated(
        read_swf(
            "1 0.1 0 0.2 5 -1 -1 5 0.2 -1 1 1 1 -1 -1 -1 -1 -1",
            "2 0.1 0 0.7 5 -1 -1 5 0.7 -1 1 1 1 -1 -1 -1 -1 -1",
            "3 0.2 0 0.1 5 -1 -1 5 0.1 -1 1 1 1 -1 -1 -1 -1 -1",
        ),
        one_pool(5),
        Policy.FIFO,
    )
    assert log.start.tolist() == [0.1, 0.3, 1.0]
    assert log.end.tolist() == [0.3, 1.0, 1.1]  # the next starts when one ends, not a rounding before


def chosen_pool(log):
    return choose_pool(log, [log], Store())


def test_a_pool_is_what_the_log_says_else_the_most_in_use(read_swf):
    assert chosen_pool(read_swf("; MaxProcs: 9", *LINES)).processors == 9
    assert chosen_pool(read_swf(*LINES)).processors == 10  # at 9
    with pytest.raises(ScheduleError, match="use --processors of jobfeatures simulate"):
        chosen_pool(read_swf("1 0 -1 10 4 -1 -1 4 10 -1 1 1 1 -1 -1 -1 -1 -1"))


def test_what_cannot_be_simulated_is_counted_by_reason(read_swf):
    log = read_swf(
        *LINES,
        "4 -1 7 10 4 -1 -1  4 10 -1 1 1 1 -1 -1 -1 -1 -1",
        "5 4 -1 -1 4 -1 -1  4 10 -1 1 1 1 -1 -1 -1 -1 -1",
        "6 4  1 -1 4 -1 -1  4 10 -1 1 1 1 -1 -1 -1 -1 -1",
        "7 4  1  0 4 -1 -1  4 10 -1 5 1 1 -1 -1 -1 -1 -1",
        "8 4  1 10 -1 -1 -1 -1 10 -1 1 1 1 -1 -1 -1 -1 -1",
        "9 4  1 10 6 -1 -1  6 10 -1 1 1 1 -1 -1 -1 -1 -1",
        "10 4 1 9999999999999999999 6 -1 -1 6 10 -1 1 1 1 -1 -1 -1 -1 -1",
        "11 4 1 2305843009213693952 6 -1 -1 6 10 -1 1 1 1 -1 -1 -1 -1 -1",
        "12 4 1  0 0 -1 -1 -1 10 -1 1 1 1 -1 -1 -1 -1 -1",
    )
    workload = make_workload(log, one_pool(5))
    assert workload.skipped == {
        "no_submit_time": 1,
        "never_started": 2,
        "no_runtime": 1,
        "impossible_times": 1,
        "no_cpus": 1,
        "too_many_cpus": 1,
    }
    assert (len(workload.position), log.unreadable) == (4, 1)
    assert "not simulated: 1 × it asks for more processors than there are" in remarks(workload)
    assert "1 jobs have no requested time: their runtime is taken instead" in remarks(workload)


def test_jobs_that_no_node_can_hold_are_left_out(read_records):
    job = '{"batch_system": "slurm", "job_id": "%d", "submit_secs": 5, "start_secs": 6, "end_secs": 9, %s}'
    asked = [
        '"total_cpus": 8',
        '"total_cpus": 9',
        '"total_cpus": 1, "requested_memory_bytes": 9000',
        '"total_cpus": 1, "requested_memory_bytes": 5000',
        '"total_cpus": 3, "requested_memory_bytes": 4096, "total_gpus": 3',
        '"total_cpus": 1, "total_gpus": 2',
        '"total_cpus": 8, "requested_memory_bytes": 8192',
    ]
    log = read_records(*(job % each for each in enumerate(asked, 1))).log
    workload = make_workload(log, parse_nodes("--nodes", "2x4cpu,4KB,1gpu"))
    assert workload.position.tolist() == [0, 6]
    assert workload.skipped == {"too_many_cpus": 1, "too_much_memory": 1, "too_many_gpus": 1, "no_room": 2}
    assert "1 jobs have no requested memory: taken as none" in remarks(workload)
    assert make_workload(log, parse_nodes("--nodes", "2x4cpu")).skipped == {
        "too_many_cpus": 1,
        "too_many_gpus": 2,
    }
    assert make_workload(log, one_pool(8)).skipped == {"too_many_cpus": 1}


def test_memory_decides_where_jobs_run(read_swf):
    log = read_swf(
        "1 0 0 10 2 -1 -1 2 10 2048 1 1 1 -1 -1 -1 -1 -1",  # memory is per processor
        "2 0 0 10 1 -1 -1 1 10 1024 1 1 1 -1 -1 -1 -1 -1",
        "3 0 0 10 1 -1 -1 1 10 4096 1 1 1 -1 -1 -1 -1 -1",
    )
    pool = parse_nodes("--nodes", "1x8cpu,4MB;1x8cpu,4MB")
    assert simulated(log, pool, Policy.FIFO).start.tolist() == [0, 0, 10]
    assert simulated(log, parse_nodes("--nodes", "2x8cpu"), Policy.FIFO).start.tolist() == [0, 0, 0]


def test_jobs_without_a_user_belong_to_the_one_nobody(read_swf):
    log = read_swf(*(line.replace(" 2 1 -1", " -1 1 -1") for line in LINES))
    assert simulated(log, one_pool(5), Policy.FAIRSHARE).start.tolist() == [0, 10, 2]
    log = read_swf(*(re.sub(" [12] 1 -1", " -1 1 -1", line) for line in LINES))
    assert simulated(log, one_pool(5), Policy.FAIRSHARE).start.tolist() == [0, 10, 20]


def waits_of(outcome):
    return outcome.starts - outcome.submits


def test_jobs_may_arrive_when_they_are_eligible(read_records):
    job = '{"batch_system": "slurm", "job_id": "%d", "total_cpus": 1, "submit_secs": 5, %s "start_secs": 96, "end_secs": 99}'
    log = read_records(job % (1, '"eligible_secs": 50,'), job % (2, "")).log
    workload = make_workload(log, one_pool(1), by_eligible=True)
    outcome = run(log, workload, Policy.FIFO)
    assert (workload.position.tolist(), waits_of(outcome).tolist()) == ([1, 0], [0, 45])


def test_times_that_add_up_beyond_any_clock_are_told(read_swf):
    line = f"1 0 0 {2**60} 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1"
    log = read_swf(*[line] * 5)
    with pytest.raises(ScheduleError, match="too large for 64 bits"):
        simulated(log, one_pool(1), Policy.FIFO)


def test_an_empty_log_is_told(read_swf):
    with pytest.raises(ScheduleError, match="it holds no jobs"):
        make_workload(read_swf("; MaxProcs: 9"), one_pool(1))


# "models can include precedences with dependent jobs that don't have independent arrival times"
MODEL = (
    "1  0 -1 600 5 -1 -1 5 -1 -1 -1 1 1 -1 -1 -1 -1 -1",
    "2 -1 -1  50 1 -1 -1 1 -1 -1 -1 1 1 -1 -1 -1  1 10",
    "3 -1 -1   5 1 -1 -1 1 -1 -1 -1 2 1 -1 -1 -1  2  0",
)


def test_a_model_runs_with_jobs_that_have_no_arrival_times_of_their_own(read_swf):
    log = read_swf("; MaxProcs: 5", *MODEL)
    found = simulated(log, chosen_pool(log), Policy.EASY)
    assert (found.submit.tolist(), found.start.tolist()) == ([0, 610, 660], [0, 610, 660])
    assert "2 jobs arrive when the job that they follow has ended" in remarks(make_workload(log, one_pool(5)))


def test_who_follows_a_job_that_is_not_simulated_comes_when_submitted_if_that_is_known(read_swf):
    wide = MODEL[0].replace("600 5 -1 -1 5", "600 9 -1 -1 9")
    log = read_swf(wide, *MODEL[1:], "4 7 -1 5 1 -1 -1 1 -1 -1 -1 1 1 -1 -1 -1 1 10")
    workload = make_workload(log, one_pool(5))
    assert (workload.position.tolist(), workload.skipped) == ([3], {"no_submit_time": 2, "too_many_cpus": 1})
    assert any(
        "3 jobs follow a job that is not simulated: they arrive when they were submitted" in each
        for each in remarks(workload)
    )
    assert waits_of(run(log, workload, Policy.FIFO)).tolist() == [0]


def test_a_dependency_without_think_time_holds_a_job_that_was_submitted_before(read_records):
    job = '{"batch_system": "sss", "job_id": "%d", "total_cpus": 1, "submit_secs": %d, "start_secs": 96, "end_secs": %d%s}'
    log = read_records(job % (1, 5, 99, ""), job % (2, 6, 98, ', "preceding_job_id": "1"')).log
    found = simulated(log, one_pool(9), Policy.FIFO)
    assert (found.submit.tolist(), found.start.tolist()) == ([0, 1], [0, 3])
    assert (found.could_start.tolist(), found.links.preceding.tolist()) == ([-1, 3], [-1, 0])


SHARES = st.dictionaries(st.integers(0, 2), st.integers(1, 5000), min_size=1)  # thousandths


@given(pool_jobs(), SHARES, SHARES, st.sampled_from([Policy.FAIRSHARE, Policy.FAIRSHARE_EASY]))
def test_usage_converges_toward_the_designated_fraction_of_users_and_groups(jobs, users, groups, policy):
    """ "Usage(u) = AvailableResources · time · DesignatedFraction(u)", of users and of each user of a group"""
    if not jobs:
        return
    records = [
        JobRecord(
            batch_system="x", job_id=str(place), submit_secs=job.submit, start_secs=job.submit, total_cpus=job.parts,
            end_secs=job.submit + job.runtime, user=f"u{job.user}", group=f"g{job.user % 2}",
            wall_limit_secs=job.estimate,
        )
        for place, job in enumerate(jobs)
    ]  # fmt: skip
    log = from_records([*records, record_at_zero()], "log")
    rules = ShareRules(
        {CPU: 1000},
        {f"u{user}": {CPU: share} for user, share in users.items()},
        {f"g{group}": {CPU: share} for group, share in groups.items()},
    )
    workload = make_workload(log, one_pool(POOL))
    found = run(log, workload, policy, Fairshare(3, 0, rules))
    exact = [job._replace(estimate=job.estimate or job.runtime) for job in jobs]
    first = exact[0]._replace(submit=0, runtime=0, estimate=0, user=9, parts=0)
    shares = {user: Fraction(users.get(user, groups.get(user % 2, 1000)), 1000) for user in range(3)}
    expected = Oracle([first, *exact], [(POOL, 0, 0)], policy.value, 3, 0, shares).run()
    waits = dict(zip(workload.position.tolist(), waits_of(found).tolist(), strict=True))
    assert [waits[place] + job.submit for place, job in enumerate(jobs)] == expected.starts[1:]


def record_at_zero():
    times = dict.fromkeys(("submit_secs", "start_secs", "end_secs", "total_cpus"), 0)
    return JobRecord(batch_system="x", job_id="zero", user="nobody", **times)


def test_who_has_twice_the_share_may_have_used_twice_as_much(read_swf):
    log = read_swf(
        "1 0 0 10 5 -1 -1 5 10 -1 1 1 7 -1 -1 -1 -1 -1",  # user 1 has used 50
        "2 1 0  6 5 -1 -1 5 10 -1 1 2 8 -1 -1 -1 -1 -1",  # user 2: 30
        "3 2 0  1 5 -1 -1 5 10 -1 1 1 7 -1 -1 -1 -1 -1",
        "4 3 0  1 5 -1 -1 5 10 -1 1 2 8 -1 -1 -1 -1 -1",
    )

    def starts(**rules):
        workload = make_workload(log, one_pool(5))
        shares = Fairshare(10**6, 0, ShareRules({CPU: 1000}, **rules))
        return (log.submit + waits_of(run(log, workload, Policy.FAIRSHARE, shares))).tolist()

    assert starts() == [0, 10, 17, 16]
    assert starts(users={"1": {CPU: 2000}}) == [0, 10, 16, 17]
    assert starts(groups={"7": {CPU: 2000}}) == [0, 10, 16, 17]
    assert starts(groups={"7": {CPU: 2000}}, users={"1": {CPU: 1000}}) == [0, 10, 17, 16]
