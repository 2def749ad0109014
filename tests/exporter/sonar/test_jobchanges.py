"""Stateful sending of jobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sonar import jobchanges
from jobfeatures_exporter.sonar.jobchanges import JobChanges

HEAD = {"job_id": 7, "job_step": "", "job_name": "ok", "job_state": "PENDING"}


def send(changes, *jobs):
    sent = [changes.changes(job) for job in jobs]
    changes.end_round()
    return sent


def test_what_was_sent_is_not_sent_again():
    changes = JobChanges()
    job = {**HEAD, "partition": "batch", "nodes": ["n1"], "sacct": {"UserCPU": 1}}
    assert send(changes, job) == [job]
    assert send(changes, dict(job)) == [None]


def test_what_got_a_value_or_changed_is_sent_with_what_names_the_job():
    changes = JobChanges()
    send(changes, {**HEAD, "priority": 5, "partition": "batch"})
    [sent] = send(
        changes, {**HEAD, "job_state": "RUNNING", "priority": 6, "partition": "batch", "start_time": "t"}
    )
    assert sent == {**HEAD, "job_state": "RUNNING", "priority": 6, "start_time": "t"}


def test_steps_are_records_of_their_own():
    changes = JobChanges()
    step = {**HEAD, "job_step": "batch"}
    assert send(changes, HEAD, step) == [HEAD, step]
    assert send(changes, HEAD, step) == [None, None]


def test_a_value_that_went_away_is_not_news_and_its_return_neither():
    changes = JobChanges()
    send(changes, {**HEAD, "reservation": "course"})
    assert send(changes, HEAD) == [None]
    assert send(changes, {**HEAD, "reservation": "course"}) == [None]
    assert send(changes, {**HEAD, "reservation": "other"}) == [{**HEAD, "reservation": "other"}]


def test_the_growing_age_of_a_job_is_no_news_until_it_has_ended():
    changes = JobChanges()

    def job(elapsed, **more):
        return {**HEAD, "sacct": {"ElapsedRaw": elapsed, "UserCPU": 0}, **more}

    send(changes, job(1))
    assert send(changes, job(2)) == [None]
    [sent] = send(changes, job(3, end_time="t"))
    assert (sent["sacct"]["ElapsedRaw"], sent["end_time"]) == (3, "t")


def test_zero_is_a_value():
    changes = JobChanges()
    send(changes, HEAD)
    assert send(changes, {**HEAD, "exit_code": 0}) == [{**HEAD, "exit_code": 0}]


def test_jobs_that_left_the_answers_are_forgotten():
    changes = JobChanges()
    send(changes, HEAD, {**HEAD, "job_id": 8})
    assert len(changes) == 2
    for _ in range(3):
        send(changes, HEAD)
    assert len(changes) == 1
    assert send(changes, {**HEAD, "job_id": 8}) == [{**HEAD, "job_id": 8}]


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(jobchanges, "MAX_RECORDS", 10)
    changes = JobChanges()
    send(changes, *({**HEAD, "job_id": number} for number in range(1, 101)))
    assert len(changes) == 10
    assert send(changes, {**HEAD, "job_id": 100}, {**HEAD, "job_id": 1}) == [None, {**HEAD, "job_id": 1}]


fields = st.fixed_dictionaries(
    {},
    optional={
        "job_state": st.sampled_from(["PENDING", "RUNNING"]),
        "priority": st.integers(0, 3),
        "nodes": st.lists(st.sampled_from(["n1", "n2"]), max_size=2),
        "sacct": st.fixed_dictionaries({"UserCPU": st.integers(0, 2)}),
    },
)


@given(st.lists(fields, max_size=8))
def test_a_reader_that_keeps_the_latest_values_knows_what_was_last_told(rounds):
    changes, known, told = JobChanges(), {}, {}
    for values in rounds:
        job = {**HEAD, **values}
        told.update(job)
        [sent] = send(changes, job)
        known.update(sent or {})
        assert known == told


def test_what_a_further_run_has_is_sent_although_the_run_before_had_the_same():
    changes = JobChanges()
    run = {"job_state": "RUNNING", "nodes": ["n1"], "partition": "batch"}
    waits, first = HEAD | {"partition": "batch"}, HEAD | run | {"start_time": "a"}
    second, third = HEAD | run | {"start_time": "b"}, HEAD | run | {"start_time": "c"}
    send(changes, waits)
    send(changes, first)
    assert send(changes, waits) == [waits]
    assert send(changes, second) == [{each: second[each] for each in second if each != "partition"}]
    assert send(changes, third) == [third]
    assert send(changes, third) == [None]
