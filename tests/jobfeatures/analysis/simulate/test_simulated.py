from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.simulate.policies import Policy
from jobfeatures.analysis.simulate.pools import one_pool
from tests.jobfeatures.analysis.simulate.test_workload import LINES, MODEL, simulated
from tests.jobfeatures.evaluated import evaluate, summarise


def test_a_log_becomes_another_one_with_the_starts_of_the_policy(read_swf):
    log = simulated(read_swf("; MaxProcs: 9", *LINES), one_pool(5), Policy.EASY)
    assert log.start.tolist() == [0, 10, 2]
    assert log.end.tolist() == [10, 20, 10]
    assert (log.name, log.totals, log.cpus.tolist()) == ("easy", {"cpu": 5}, [4, 5, 1])
    schedule = evaluate(log, Options())
    assert schedule.chosen.users == ["1", "2"]
    assert schedule.measures.wait_secs.tolist() == [0, 9, 0]


def test_a_simulated_schedule_says_who_stands_where_and_is_taken_in_order_of_submission(read_swf):
    log = read_swf(MODEL[0], MODEL[1], "3 9 -1 5 1 -1 -1 1 -1 -1 -1 2 1 -1 -1 -1 -1 -1")
    found = simulated(log, one_pool(5), Policy.FIFO)
    assert (found.submit.tolist(), found.places.tolist()) == ([0, 610, 9], [0, 1, 2])
    assert (found.links.preceding.tolist(), found.links.thinks.tolist()) == ([-1, 0, -1], [-1, 10, -1])
    whole = summarise("log", [found], Options())
    assert (whole.is_in_order, whole.sums.jobs) == (True, 3)
