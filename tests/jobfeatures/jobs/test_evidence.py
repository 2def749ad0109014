import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jobfeatures.jobs.evidence import (
    HOLD_SECS,
    HOOKS,
    REMEMBERED,
    EndEvidence,
    Evidence,
    Group,
    JobObservation,
    Presence,
    RunRelation,
    compare_runs,
    find_difference,
    judge,
)
from jobfeatures.records.model import UNLIMITED, Alias, JobState, Limits

sys.path.insert(0, str(Path(__file__).parent))
from evidencetable import ALICE, BOB, COLUMNS, ROWS, cell, job, read_page, told

from tests.together import together

CELLS = read_page()


def test_the_page_has_every_cell():
    assert CELLS.keys() == {(row, column) for row in ROWS for column in COLUMNS}


@together(CELLS)
def test_the_code_does_what_the_page_says(row, column):
    assert cell(row, column) == CELLS[row, column]


# --- which run ------------------------------------------------------------------


def run_of(one, other, source="slurm", other_source="slurm"):
    return compare_runs(JobObservation(source, 2, job(**one)), JobObservation(other_source, 1, job(**other)))


@pytest.mark.parametrize(
    ("one", "other", "run"),
    [
        ({}, {}, RunRelation.SAME),
        ({"uid": BOB}, {"uid": ALICE}, RunRelation.OTHER),
        ({"uid": None}, {"uid": ALICE}, RunRelation.SAME),
        ({"uid": None, "user": "bob"}, {"uid": None, "user": "alice"}, RunRelation.OTHER),
        ({"sluid": "s2"}, {"sluid": "s1"}, RunRelation.OTHER),
        ({"restarts": 2}, {"restarts": 1}, RunRelation.LATER),
        ({"restarts": 0}, {"restarts": 1}, RunRelation.EARLIER),
        ({"start_secs": 20}, {"start_secs": 10}, RunRelation.LATER),
        ({"start_secs": 10}, {"start_secs": 20}, RunRelation.EARLIER),
        ({"submit_secs": 9, "restarts": 0}, {"submit_secs": 1, "restarts": 4}, RunRelation.LATER),
        # A node that boots for long moves the start of the same run.
        (
            {"submit_secs": 1, "restarts": 0, "start_secs": 20},
            {"submit_secs": 1, "restarts": 0, "start_secs": 10},
            RunRelation.SAME,
        ),
    ],
)
def test_another_run_is_proven_by_user_sluid_submission_count_or_start(one, other, run):
    assert run_of(one, other) is run


def test_a_lower_count_of_a_run_that_began_after_the_other_was_last_reported_is_of_a_later_submission():
    """An id that is used again; the prolog before told no submission time."""
    record = JobObservation(HOOKS, 1000, job(restarts=1))
    for start_secs, run in ((1600, RunRelation.EARLIER), (1601, RunRelation.LATER)):  # clocks differ
        answer = JobObservation("slurm", 2000, job(restarts=0, start_secs=start_secs))
        assert compare_runs(answer, record) is run
    waits = JobObservation("slurm", 900, job(restarts=0, start_secs=9000, state=JobState.PENDING))
    assert compare_runs(waits, record) is RunRelation.EARLIER, "what a controller expects is no start"


def test_starts_and_names_of_two_sources_prove_nothing():
    assert run_of({"start_secs": 320}, {"start_secs": 20}, HOOKS) is RunRelation.SAME
    names = {"uid": None, "user": "alice@site"}, {"uid": None, "user": "alice"}
    assert run_of(*names, HOOKS) is RunRelation.SAME


def test_whose_clock_told_a_start_is_remembered():
    """A restarted daemon knows only what was published, and the controller's start is still the controller's."""
    published = JobObservation(REMEMBERED, 1, job(start_secs=10), start_source="slurm")
    assert compare_runs(JobObservation("slurm", 2, job(start_secs=20)), published) is RunRelation.LATER
    assert compare_runs(JobObservation(HOOKS, 2, job(start_secs=20)), published) is RunRelation.SAME


# --- what is put together -------------------------------------------------------


def judged(*pieces, events=(), group=None, now_secs=1000, **values):
    return judge(Evidence(reported=pieces, events=events, group=group, **values), now_secs=now_secs)


def test_what_the_newer_one_does_not_know_is_filled_from_the_older_one_of_the_same_run():
    answer = told(100, limits=Limits(wall_secs=600, memory_bytes=2**30), name="x")
    record = told(200, HOOKS, limits=Limits(wall_secs=900))
    found = judged(record, answer).job
    assert (found.limits.wall_secs, found.limits.memory_bytes, found.name) == (900, 2**30, "x")


def test_the_order_in_which_pieces_are_listed_does_not_matter():
    pieces = [told(100, limits=Limits(wall_secs=600)), told(200, HOOKS, name="y")]
    assert judged(*pieces) == judged(*reversed(pieces))


def test_a_limit_that_was_lifted_is_no_unknown_one():
    found = judged(told(100, limits=Limits(wall_secs=600)), told(200, limits=Limits(wall_secs=UNLIMITED)))
    assert found.job.limits.wall_secs is UNLIMITED


def test_a_prolog_s_limit_does_not_come_back_over_a_newer_one():
    """The record is older than what was published of the controller's answer."""
    record = told(100, HOOKS, limits=Limits(wall_secs=600))
    published = told(200, REMEMBERED, limits=Limits(wall_secs=1200))
    assert judged(record, published).job.limits.wall_secs == 1200


def test_nothing_of_another_user_s_run_is_taken_over():
    alices = told(100, name="secret", user="alice", account="physics")
    found = judged(alices, told(200, HOOKS, uid=BOB, user="bob")).job
    assert (found.user, found.name, found.account) == ("bob", None, None)


@pytest.mark.parametrize(
    ("record_at", "published_at", "group", "user"),
    [
        (100, 200, None, ALICE),  # bob's job ended without an epilog, and alice's was published after it
        (200, 100, None, BOB),  # bob's began after alice's had been published
        (100, 200, ALICE, ALICE),
        (100, 200, BOB, BOB),  # whose processes live decides
        (200, 100, ALICE, BOB),
    ],
)
def test_after_a_restart_whose_job_was_published_counts_as_it_was_decided_before(
    record_at, published_at, group, user
):
    record, published = told(record_at, HOOKS, uid=BOB), told(published_at, REMEMBERED, uid=ALICE)
    found = judge(
        Evidence(reported=(record, published), group=None if group is None else Group(group)), now_secs=300
    )
    assert (found.presence, found.job.uid) == (Presence.HERE, user)


def test_the_same_user_s_requeued_job_takes_nothing_from_the_run_before():
    before = told(100, restarts=0, start_secs=10, state=JobState.COMPLETED, end_secs=50)
    found = judged(before, told(200, HOOKS, restarts=1))
    assert (found.presence, found.job.start_secs, found.job.end_secs) == (Presence.HERE, None, None)


@pytest.mark.parametrize("source", [HOOKS, "slurm"])
@pytest.mark.parametrize("group", [None, Group(ALICE)])
def test_a_late_answer_about_the_run_before_replaces_nothing_of_the_same_user_s(source, group):
    now = told(100, source, restarts=1, limits=Limits(wall_secs=600))
    found = judged(now, told(200, restarts=0, limits=Limits(wall_secs=60)), group=group)
    assert (found.presence, found.job.restarts, found.job.limits.wall_secs) == (Presence.HERE, 1, 600)
    ended = told(150, restarts=1, state=JobState.FAILED)
    assert judged(now, ended, told(200, restarts=0), group=group).job.state is JobState.FAILED


def test_an_end_long_before_the_prolog_is_that_of_an_earlier_run_of_the_same_user():
    record = told(10_000, HOOKS)
    ended = told(10_005, state=JobState.COMPLETED, end_secs=9_000)
    assert judged(record, ended, now_secs=10_006).presence is Presence.HERE
    just_ended = told(10_005, state=JobState.COMPLETED, end_secs=10_004 - 300)  # clocks differ
    assert judged(record, just_ended, now_secs=10_006).presence is Presence.LEFT


def test_an_answer_that_was_asked_for_before_the_epilog_is_overruled_and_one_after_it_is_believed():
    record, epilog = told(100, HOOKS), (150.0, EndEvidence.EPILOG)
    assert judged(record, told(149), events=[epilog]).presence is Presence.LEFT
    assert judged(record, told(151), events=[epilog]).presence is Presence.HERE


def test_how_a_job_ended_is_not_invented():
    for event in (EndEvidence.ABSENT, EndEvidence.EPILOG):
        assert judged(told(100), events=[(200.0, event)]).job.state is JobState.UNKNOWN
    assert judged(told(100), told(150, state=JobState.TIMEOUT)).job.state is JobState.TIMEOUT


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING, JobState.FAILED])
@pytest.mark.parametrize("next_run", [{"restarts": 1, "sluid": "s2"}, {"restarts": 1}, {"sluid": "s2"}])
def test_a_run_that_another_follows_ends_as_what_it_was(state, next_run):
    """Slurm gives the next run of a requeued job its count and SLUID while it still waits."""
    ran = told(100, restarts=0, sluid="s1", start_secs=90)
    found = judged(ran, told(200, state=state, **next_run), events=[(150.0, EndEvidence.EPILOG)])
    if state is JobState.RUNNING:
        assert (found.presence, found.job.start_secs) == (Presence.HERE, None)
    else:
        assert found.presence is Presence.LEFT
        assert found.job == replace(ran.job, state=JobState.UNKNOWN)


def test_what_waits_without_ever_having_been_here_is_said_to_wait():
    assert judged(told(100, state=JobState.PENDING)).job.state is JobState.PENDING


# --- the control group -----------------------------------------------------------


def test_the_hold_counts_from_when_the_end_was_first_told():
    gone = [(200.0, EndEvidence.ABSENT)]
    held = judged(told(100), events=gone, group=Group(), now_secs=300)
    assert (held.presence, held.end_reported_secs, held.has_processes) == (Presence.REMAINS, 200, True)
    again = [(3900.0, EndEvidence.ABSENT)]  # told anew at every poll
    since = {"end_reported_secs": held.end_reported_secs}
    assert judged(told(100), events=again, group=Group(), now_secs=3799, **since).presence is Presence.REMAINS
    late = judged(told(100), events=again, group=Group(), now_secs=3800, **since)
    assert (late.presence, late.has_processes) == (Presence.LEFT, True)


def test_a_job_that_another_has_replaced_is_not_said_to_run_after_the_hold():
    alices, bobs = told(100, HOOKS), told(200, uid=BOB)
    late = judged(alices, bobs, group=Group(uid=ALICE), now_secs=200 + HOLD_SECS)
    assert (late.presence, late.has_processes) == (Presence.LEFT, True)
    assert (late.job.uid, late.job.state) == (ALICE, JobState.UNKNOWN)


def test_processes_that_are_gone_end_the_hold():
    assert judged(told(100), events=[(200.0, EndEvidence.ABSENT)], now_secs=201).presence is Presence.LEFT


def test_the_control_group_decides_which_user_s_job_is_here():
    alices, bobs = told(100, HOOKS), told(200, uid=BOB)
    assert judged(alices, bobs, group=Group(uid=BOB)).job.uid == BOB
    assert judged(alices, bobs, group=Group(uid=ALICE)).job.uid == ALICE
    by_sluid = [
        replace(each, job=replace(each.job, sluid=name)) for each, name in ((alices, "a"), (bobs, "b"))
    ]
    assert judged(*by_sluid, group=Group(alias=Alias("sluid", "b"))).job.uid == BOB
    assert judged(alices, bobs, group=Group(uid=0)).job.uid == ALICE, "root's processes are in anybody's job"


# --- two records -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "proof"),
    [
        ({"uid": ALICE}, {"uid": BOB}, f"uid is {ALICE}, not {BOB}"),
        ({"restarts": 0}, {"restarts": 1}, "restarts is 0, not 1"),
        ({"sluid": "a"}, {"sluid": "b"}, "sluid is a, not b"),
        ({"uid": None}, {"uid": BOB}, None),
        ({"restarts": None}, {"restarts": 1}, None),
        ({"start_secs": 1}, {"start_secs": 2}, None),
        ({"state": JobState.COMPLETED}, {}, None),
    ],
)
def test_what_proves_two_records_to_be_about_two_runs(one, other, proof):
    assert find_difference(job(**one), job(**other)) == proof
