from jobfeatures.analysis.simulate.arrivals import FOREVER, Arrivals, Jobs


def arrivals(submits, preceding=(), thinks=()):
    nothing = [0] * len(submits)
    jobs = Jobs(submits, nothing, nothing, nothing, nothing, preceding, thinks)
    return Arrivals(jobs, lambda count: [-1] * count, lambda count: None)


def test_jobs_that_follow_none_come_when_they_were_submitted():
    coming = arrivals([3, 3, 9])
    assert (coming.soonest, coming.take(3), coming.soonest, coming.take(9)) == (3, 2, 9, 3)
    assert (coming.soonest, list(coming.order)) == (FOREVER, [0, 1, 2])


def test_the_others_come_by_the_end_of_the_job_before_them_in_the_order_of_the_log():
    coming = arrivals([-1, 4, 20, 6], [3, -1, 1, -1], [2, -1, -1, -1])
    assert (coming.first, coming.take(4), coming.take(6), coming.soonest) == (4, 1, 2, FOREVER)
    coming.ended(3, 18)
    coming.ended(1, 7)
    assert (coming.soonest, coming.take(20), coming.soonest) == (20, 4, FOREVER)
    assert list(coming.order) == [1, 3, 0, 2]
    assert [coming.order[place] for place in coming.places] == [0, 1, 2, 3]
