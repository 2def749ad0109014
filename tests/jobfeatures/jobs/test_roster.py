from dataclasses import replace

import pytest

from jobfeatures.jobs.evidence import HOLD_SECS, Group, Presence
from jobfeatures.jobs.roster import Roster
from jobfeatures.records.model import JobState


class Merging(Roster):
    def merge(self, tables):
        return self.judge(tables, now_secs=1000).jobs


@pytest.fixture
def roster():
    return Merging()


def test_a_job_is_put_together_from_all_sources(roster, make_job, make_table):
    record = make_table(make_job(account="physics"), source="hooks", complete=False)
    answer = make_table(make_job(name="x", account=None))
    [job] = roster.merge([record, answer]).values()
    assert (job.account, job.name) == ("physics", "x")


def test_a_job_whose_epilog_has_run_has_ended_although_the_last_answer_calls_it_running(
    roster, make_job, make_table
):
    job = make_job()
    answer = make_table(job, taken_at_secs=100)
    assert roster.merge([make_table(job, source="hooks", taken_at_secs=101), answer])
    empty = make_table(source="hooks", taken_at_secs=110)
    [left] = roster.merge([empty, answer]).values()
    assert left.state is JobState.UNKNOWN  # how it ended nobody has told
    [left] = roster.merge([make_table(source="hooks", taken_at_secs=120), answer]).values()
    assert left.state is JobState.UNKNOWN  # how it ended nobody has told
    assert roster.has_left(job.key, 105)
    assert not roster.has_left(job.key, 115)


def test_an_end_that_the_epilog_told_is_not_taken_back_while_other_epilogs_run(make_job, make_table):
    """A controller calls the job completing until the last of them is through."""
    job, roster, none = make_job(), Roster(), make_table(source="hooks", taken_at_secs=110)
    completing = replace(job, state=JobState.COMPLETING, account="physics")
    roster.judge([make_table(job, source="hooks", taken_at_secs=100)], now_secs=100)
    for now_secs in (110, 120, 180):
        found = roster.judge([none, make_table(completing, taken_at_secs=now_secs)], now_secs=now_secs)
        assert found.presences == {job.key: Presence.LEFT}
        assert (found.jobs[job.key].state, found.jobs[job.key].account) == (JobState.UNKNOWN, "physics")
    ended = replace(job, state=JobState.COMPLETED, end_secs=109)
    assert roster.judge([none, make_table(ended, taken_at_secs=190)], now_secs=190).jobs == {job.key: ended}
    again = make_table(replace(job, restarts=1), taken_at_secs=200)
    assert roster.judge([none, again], now_secs=200).presences == {job.key: Presence.HERE}


@pytest.mark.parametrize("gone", [True, False])  # or absent from a list of all jobs
def test_processes_of_a_job_that_nobody_knows_are_what_an_ended_job_left(make_job, make_table, gone):
    """A daemon that has been started anew never knew the job."""
    key, roster = make_job().key, Roster()

    def judge(now_secs, asked_secs):
        answer = replace(make_table(taken_at_secs=asked_secs), gone={key: asked_secs} if gone else None)
        return roster.judge([answer], now_secs=now_secs, groups={key: Group(6001)})

    assert judge(1000, 990).leftovers == {}
    assert judge(1060, 1059).leftovers == {}  # it may have started since
    assert judge(1070, 1061).leftovers == {key: 1061}
    assert judge(9000, 8990).leftovers == {key: 1061}
    assert judge(9001, 8990).presences == {key: Presence.LEFT}
    known = make_table(make_job(), taken_at_secs=9010)
    assert roster.judge([known], now_secs=9011, groups={key: Group(6001)}).leftovers == {}


def test_a_newer_answer_is_believed_again(roster, make_job, make_table):
    job = make_job()
    roster.merge([make_table(job, source="hooks", taken_at_secs=101)])
    empty = make_table(source="hooks", taken_at_secs=110)
    [back] = roster.merge([empty, make_table(job, taken_at_secs=111)]).values()
    assert back.state is JobState.RUNNING


def test_a_requeued_job_is_back_with_its_new_record(roster, make_job, make_table):
    job = make_job()
    answer = make_table(job, taken_at_secs=100)
    roster.merge([make_table(job, source="hooks", taken_at_secs=101), answer])
    roster.merge([make_table(source="hooks", taken_at_secs=110), answer])
    [back] = roster.merge([make_table(job, source="hooks", taken_at_secs=120), answer]).values()
    assert back.state is JobState.RUNNING


@pytest.mark.parametrize("published", [True, False])
def test_a_run_whose_prolog_began_before_its_predecessor_s_epilog_was_noticed_is_here(
    make_job, make_table, published
):
    """As where the daemon serves prologs late: the record says when the prolog asked, and appears afterwards."""
    job, roster = make_job(restarts=None), Roster()

    def judge(hooks, now_secs):
        there = {job.key: 101.0} if published else {}
        return roster.judge([hooks], now_secs=now_secs, published=there).presences.get(job.key)

    assert judge(make_table(job, source="hooks", taken_at_secs=101), 102) is Presence.HERE
    assert judge(make_table(source="hooks", taken_at_secs=110), 111) in {Presence.LEFT, None}
    late = make_table(job, source="hooks", taken_at_secs=109)
    for now_secs in (112, 113, 200):
        assert judge(late, now_secs) is Presence.HERE


def test_a_job_without_a_record_is_not_doubted(roster, make_job, make_table):
    roster.merge([make_table(source="hooks", taken_at_secs=101)])
    tables = [make_table(source="hooks", taken_at_secs=110), make_table(make_job(), taken_at_secs=1)]
    assert roster.merge(tables)[make_job().key].state is JobState.RUNNING


def test_a_job_that_came_back_after_its_epilog_has_left_until_its_directories_are_gone(make_job, make_table):
    """A controller that is late: the epilog has run, then an answer says RUNNING, then COMPLETED."""
    job, roster = make_job(), Roster()
    key, hooks = job.key, make_table(source="hooks", taken_at_secs=110)
    done = make_table(make_job(state=JobState.COMPLETED, end_secs=109), taken_at_secs=120)

    def judge(now_secs, *tables, published=112.0):
        roll = roster.judge(
            tables, now_secs=now_secs, published={key: published} if published else {}, sources={"slurm"}
        )
        return roll.presences.get(key)

    roster.judge([make_table(job, source="hooks", taken_at_secs=101)], now_secs=102)
    assert judge(111, hooks, make_table(job, taken_at_secs=111)) is Presence.HERE
    for now_secs in (121, 122, 9000):  # removing them may fail for a while
        assert judge(now_secs, hooks, done) is Presence.LEFT
    assert judge(9001, hooks, done, published=None) is Presence.LEFT
    assert judge(9002, hooks, published=None) is None
    record = make_table(make_job(uid=6002, user="bob"), source="hooks", taken_at_secs=9010)
    assert judge(9011, record, done, published=9010.0) is Presence.HERE


@pytest.mark.parametrize("end", ["gone", "done"])
def test_a_job_that_has_left_does_not_come_back_because_its_end_is_not_told_again(make_job, make_table, end):
    """An answer about a job stands in one table; it may be missing in the next, or that of a new daemon."""
    job, roster = make_job(), Roster()
    done = make_table(make_job(state=JobState.COMPLETED, end_secs=109), taken_at_secs=120)
    told = {
        "gone": replace(make_table(taken_at_secs=120, complete=False), gone={job.key: 120.0}),
        "done": done,
    }
    silent = make_table(taken_at_secs=130, complete=False)

    def judge(now_secs, table, published=105.0):
        published_at = {job.key: published} if published else {}
        roll = roster.judge([table], now_secs=now_secs, published=published_at, sources={"slurm"})
        return roll.presences.get(job.key)

    assert judge(104, make_table(job, taken_at_secs=104)) is Presence.HERE
    assert judge(121, told[end]) is Presence.LEFT
    assert judge(131, silent) is Presence.LEFT
    assert judge(132, silent, published=None) is Presence.LEFT
    assert judge(133, silent) is Presence.LEFT
    assert judge(134, make_table(make_job(restarts=1), taken_at_secs=134)) is Presence.HERE
    assert judge(135, silent) is Presence.HERE


def test_the_end_of_a_job_that_took_anothers_place_is_believed(make_job, make_table):
    """Alice's job ended without an epilog; Bob's got its id, and his prolog left no record."""
    alices, bobs, roster = make_job(uid=6001, user="alice"), make_job(uid=6002, user="bob"), Roster()
    record = make_table(alices, source="hooks", taken_at_secs=100)
    ended = replace(bobs, state=JobState.FAILED, end_secs=205)

    def judge(now_secs, answer, **more):
        [found] = roster.judge(
            [record, answer], now_secs=now_secs, sources={"slurm"}, **more
        ).findings.values()
        return found.presence, found.job.uid

    runs = make_table(bobs, taken_at_secs=200)
    assert judge(201, runs, groups={bobs.key: Group(6002)}) == (Presence.HERE, 6002)
    assert judge(202, runs) == (Presence.HERE, 6002)
    assert judge(211, make_table(ended, taken_at_secs=210)) == (Presence.LEFT, 6002)


def record_of(job, make_table, at_secs):
    table = make_table(job, source="hooks", taken_at_secs=at_secs, complete=False)
    return replace(table, versions={job.key: (int(at_secs),)})


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.COMPLETED, JobState.PENDING, None])
def test_what_was_decided_before_a_prolog_s_record_was_read_neither_ends_nor_replaces_its_job(
    make_job, make_table, state
):
    """A controller that is wrong is heard after the prolog ran, and before the daemon looks at its record."""
    job, roster = make_job(uid=6001, user="alice"), Roster()
    others = make_job(uid=6666, user="eve", state=state or JobState.RUNNING)
    wrong = make_table(*[others] * (state is not None), taken_at_secs=105)
    roster.judge([wrong], now_secs=106, published={job.key: 101.0})
    for now_secs in (107, 108):
        [found] = roster.judge([record_of(job, make_table, 100), wrong], now_secs=now_secs).findings.values()
        assert (found.presence, found.job.uid) == (Presence.HERE, 6001)


def test_what_was_known_of_a_run_before_its_prolog_s_record_was_read_stays_known(make_job, make_table):
    job, roster = make_job(start_secs=990, name="x"), Roster()
    roster.judge([make_table(job, taken_at_secs=105)], now_secs=106)
    record = record_of(replace(job, start_secs=None, name=None), make_table, 100)
    for now_secs in (107, 108):
        assert roster.judge([record], now_secs=now_secs).jobs == {job.key: job}


def test_contradictions_about_a_run_do_not_shorten_the_hold_of_the_next(make_job, make_table):
    job, eves, roster = make_job(restarts=0), make_job(uid=6666, user="eve"), Roster()

    def judge(now_secs, run, recorded_secs, asked_secs):
        tables = [record_of(run, make_table, recorded_secs), make_table(eves, taken_at_secs=asked_secs)]
        return roster.judge(tables, now_secs=now_secs).presences[job.key]

    assert judge(201, job, 100, 200) is Presence.HERE
    requeued = replace(job, restarts=1)
    assert judge(3011, requeued, 3000, 3010) is Presence.HERE
    assert judge(3010 + HOLD_SECS - 1, requeued, 3000, 6600) is Presence.HERE
    assert judge(3010 + HOLD_SECS, requeued, 3000, 6600) is Presence.LEFT


def test_an_answer_that_a_job_waits_is_late_within_ten_seconds_of_its_prolog(make_job, make_table):
    """A requeue: the controller's answer is from before the job was started again."""
    roster, job = Roster(), make_job(restarts=2)
    record = make_table(replace(job, restarts=None, start_secs=None), source="hooks", taken_at_secs=1000)
    waits = make_table(replace(job, state=JobState.PENDING, start_secs=None), taken_at_secs=1002)
    assert roster.judge([record, waits], now_secs=1003).presences == {job.key: Presence.HERE}
    waits = replace(waits, taken_at_secs=1011)
    assert roster.judge([record, waits], now_secs=1012).presences == {job.key: Presence.LEFT}


def test_an_answer_that_a_job_waits_is_not_late_once_an_answer_has_called_it_running(make_job, make_table):
    """A node that reboots a few seconds after a prolog: the controller puts the job back, and then fails."""
    roster, job = Roster(), make_job(restarts=0)
    record = make_table(job, source="hooks", taken_at_secs=1000)
    runs = make_table(job, taken_at_secs=1001)
    assert roster.judge([record, runs], now_secs=1002).presences == {job.key: Presence.HERE}
    waits = make_table(replace(job, state=JobState.PENDING, start_secs=None), taken_at_secs=1004)
    assert roster.judge([record, waits], now_secs=1005).presences == {job.key: Presence.LEFT}


@pytest.mark.parametrize("keeps", [False, True])  # the last answer, as while the controller tells garbage
def test_a_prolog_that_does_not_tell_which_run_it_begins_takes_no_count_or_start_from_before(
    make_job, make_table, keeps
):
    """Its epilog was never run, the controller does not answer, and Slurm 22.05 names neither in a prolog."""
    roster, before = Roster(), make_job(restarts=0, start_secs=1000)
    roster.judge([make_table(before, taken_at_secs=1001)], now_secs=1002)
    record = make_table(replace(before, restarts=None, start_secs=None), source="hooks", taken_at_secs=1700)
    silent = make_table(before, taken_at_secs=1001) if keeps else make_table(taken_at_secs=1701)
    for now_secs in (1702, 1703):
        [known] = roster.judge([record, silent], now_secs=now_secs).jobs.values()
        assert (known.restarts, known.start_secs) == (None, None)
    told = make_table(replace(before, restarts=1, start_secs=1699), taken_at_secs=1710)
    roll = roster.judge([record, told], now_secs=1711)
    assert roll.presences == {before.key: Presence.HERE}
    assert [(each.restarts, each.start_secs) for each in roll.jobs.values()] == [(1, 1699)]


def test_a_prolog_keeps_what_was_told_of_its_run_before_it_ran(roster, make_job, make_table):
    job = make_job(restarts=1, start_secs=990)
    roster.merge([make_table(job, taken_at_secs=995)])
    record = make_table(replace(job, restarts=None, start_secs=None), source="hooks", taken_at_secs=999)
    [known] = roster.merge([make_table(job, taken_at_secs=995), record]).values()
    assert known.start_secs == 990
