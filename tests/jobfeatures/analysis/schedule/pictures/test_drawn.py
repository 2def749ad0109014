import pytest

from jobfeatures.analysis.schedule.pictures.drawn import share_words, short_names, shortened
from jobfeatures.joblogs.loggedjob import JobRecord


@pytest.mark.parametrize("most", [1, 100])
def test_a_view_has_the_marks_of_violated_jobs_and_nothing_of_the_others(make_views, most):
    jobs = [
        JobRecord(batch_system="slurm", job_id=str(number), user=user, submit_secs=submit, start_secs=start,
                  end_secs=end, total_cpus=2)
        for number, (user, submit, start, end) in enumerate(
            [("ann", 0, 0, 4), ("ann", 1, 6, 7), ("bob", 0, 0, 3), ("bob", 3, 13, 20)]
        )
    ]  # fmt: skip
    (view,) = make_views(("log", jobs), most=most)
    assert view.users == ["ann", "bob"]
    marks = [each for block in view.marks for each in zip(*block, strict=True)]
    assert marks == [(0, 5 - 1, 7 - 5), (1, 10 - 7, 20 - 10)]
    assert view.marked_users == {"ann", "bob"}
    assert (view.first_secs, view.last_secs) == (0, 20)


@pytest.mark.parametrize("most", [40, 1000])
def test_what_is_drawn_of_use_and_queue_has_the_means_of_the_document(make_views, make_jobs, most):
    (view,) = make_views(("log", make_jobs(["ann", "bob", "cid"], each=50)), most=most)
    document = view.document
    assert list(view.use) == ["cpu", "memory", "gpu"]
    for resource, use in view.use.items():
        mean = float(use.over_time.mean()) / use.total
        assert mean == pytest.approx(document["utilisation"][resource]["mean"])
    assert float(view.waiting.mean()) == pytest.approx(document["queue_length"]["mean"])


def test_names_are_short_where_they_stay_different():
    assert short_names(["/a/KTH-SP2.swf.gz", "b/x.y.jsonl", "fifo", "-"]) == ["KTH-SP2", "x.y", "fifo", "-"]
    assert short_names(["a/log.swf", "b/log.swf"]) == ["a/log.swf", "b/log.swf"]
    assert short_names(["a.swf", "a.swf"]) == ["a", "a"]
    long = short_names(["x" * 99 + "1" + "y" * 40, "x" * 99 + "2" + "y" * 40])
    assert len(set(long)) == 2
    assert all(len(each) <= 28 for each in long)


@pytest.mark.parametrize("name", ["ann", "x" * 300, "\u202eevil", "new\nline", "\x00", "\udc80", "日" * 40])
def test_a_shortened_name_can_be_shown(name):
    found = shortened(name, 16)
    assert found.isprintable()
    assert 0 < len(found) <= 16


def test_shares_are_told_with_their_units(make_views, make_jobs):
    from jobfeatures.analysis.schedule.shares import ShareRules

    rules = ShareRules(default={"cpu": 2500, "memory": 3 * 2**20}, users={"ann": {"cpu": 9000}})
    (view,) = make_views(("log", make_jobs(["ann", "bob"])), resources=("cpu", "memory"), rules=rules)
    assert share_words(view.document) == "2.5 CPU (others for some), 3 GiB"
