"""A job or a user over a whole cluster, and no name that is hidden."""

from dataclasses import replace

from jobfeatures.records.model import JobState
from jobfeatures_exporter.cluster.overview import find_jobs


def ids(found):
    return [job.key.job_id for job in found.jobs]


def shown(job):
    return job


def test_a_number_finds_its_job_and_the_tasks_of_its_array(make_job, make_table):
    table = make_table(*(make_job(number) for number in ("12", "12_3", "12_4", "123", "4_12", "5.0@a.b")))
    assert ids(find_jobs([table], "12", shown)) == ["12", "12_3", "12_4"]
    assert ids(find_jobs([table], "12_4", shown)) == ["12_4"]
    assert ids(find_jobs([table], "5.0", shown)) == ids(find_jobs([table], "5", shown)) == ["5.0@a.b"]
    assert find_jobs([table], "", shown).count == find_jobs([table], "6", shown).count == 0


def test_a_user_finds_all_jobs_running_ones_first(make_job, make_table):
    table = make_table(
        make_job("1", user="ann", state=JobState.PENDING),
        make_job("2", user="ann"),
        make_job("3", user="anna"),
        make_job("4", user=None, uid=77),
    )
    assert ids(find_jobs([table], "Ann", shown)) == ["2", "1"]
    assert ids(find_jobs([table], "nna", shown)) == ["3"]
    assert ids(find_jobs([table], "uid 77", shown)) == ["4"]


def test_names_that_are_hidden_find_nothing(make_job, make_table):
    table = make_table(make_job("1", user="ann", uid=None))
    found = find_jobs([table], "ann", lambda job: replace(job, user="user-0123"))
    assert found.count == 0
    found = find_jobs([table], "user-0123", lambda job: replace(job, user="user-0123"))
    assert [job.user for job in found.jobs] == ["user-0123"]


def test_more_than_a_page_holds_are_counted(make_job, make_table):
    table = make_table(*(make_job(str(number)) for number in range(500)))
    found = find_jobs([table], "alice", shown)
    assert (len(found.jobs), found.count) == (200, 500)
