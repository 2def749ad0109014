from dataclasses import replace

import pytest

from jobfeatures.jobs.evidence import REMEMBERED, Group, JobObservation
from jobfeatures.jobs.roster import Roster
from jobfeatures.jobs.suspension import SuspensionRules
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limits

RULES = SuspensionRules(silent={"htcondor", "oar"}, waiting={"slurm", "oar"})
START, WALL = 1000, 600


class Node:
    """A node with one job, which is judged several times after each look, as the daemon does."""

    def __init__(self, system="slurm", ahead_secs=None, **changes):
        self.key = JobKey(system, "7")
        self.roster = Roster(RULES)
        self.ahead_secs = ahead_secs
        self.job = Job(
            key=self.key,
            state=JobState.RUNNING,
            uid=6001,
            start_secs=START,
            limits=Limits(wall_secs=WALL),
            limit_end_secs=START + WALL if system == "slurm" else None,
        )
        self.job = replace(self.job, **changes)
        self.answered_secs = START + 1.0

    def answer(self, at_secs, **changes):
        self.answered_secs = at_secs
        self.job = replace(self.job, **changes)

    def look(self, at_secs, *, frozen=False):
        """Return the job's state and its remaining time, by the clock of the batch system."""
        table = JobTable(
            source=self.key.batch_system,
            jobs={self.key: self.job},
            taken_at_secs=self.answered_secs,
            complete=False,
            clock_ahead_secs=self.ahead_secs,
        )
        for later in (0, 0.5, 1):
            roll = self.roster.judge(
                [table], now_secs=at_secs + later, groups={self.key: Group(6001, None, frozen)}
            )
        self.found = roll.jobs[self.key]
        now_secs = at_secs + (self.ahead_secs or 0)
        end_secs = self.found.end_limit_at(now_secs)
        return self.found.state.value, None if end_secs is None else end_secs - now_secs


@pytest.mark.parametrize("ahead_secs", [None, 300, -300])
def test_a_job_whose_groups_are_frozen_is_suspended_and_its_remaining_time_stands_still(ahead_secs):
    node = Node(ahead_secs=ahead_secs, limit_end_secs=START + WALL + (ahead_secs or 0))
    assert node.look(1050) == ("RUNNING", 550)
    assert node.look(1100, frozen=True) == ("SUSPENDED", 500)
    assert node.look(1400, frozen=True) == ("SUSPENDED", 500)
    assert node.look(1500) == ("RUNNING", 500)
    assert node.look(1600) == ("RUNNING", 400)
    assert node.look(1700, frozen=True) == ("SUSPENDED", 300)
    assert node.look(1800) == ("RUNNING", 300)


def test_a_newer_answer_says_exactly_what_the_groups_said_roughly():
    node = Node()
    node.look(1100, frozen=True)
    node.answer(1110.0, state=JobState.SUSPENDED, ran_secs=93, limit_end_secs=None)
    assert node.look(1120, frozen=True) == ("SUSPENDED", 507)
    assert node.look(1200) == ("RUNNING", 507)
    node.answer(1210.0, state=JobState.RUNNING, ran_secs=None, limit_end_secs=1701)
    assert node.look(1220) == ("RUNNING", 481)


def test_what_a_job_ran_between_two_suspensions_is_used_up_though_no_answer_came_in_between():
    node = Node()
    node.look(1100, frozen=True)
    node.answer(1110.0, state=JobState.SUSPENDED, ran_secs=100, limit_end_secs=None)
    assert node.look(1120, frozen=True) == ("SUSPENDED", 500)
    assert node.look(1200) == ("RUNNING", 500)
    assert node.look(1240, frozen=True) == ("SUSPENDED", 460)
    assert node.look(1300) == ("RUNNING", 460)


def test_a_newer_answer_that_a_frozen_job_runs_is_believed_and_its_limit_goes_on():
    """Somebody else has frozen it: its batch system will kill it at its limit."""
    node = Node()
    node.look(1100, frozen=True)
    node.answer(1110.0)
    assert node.look(1120, frozen=True) == ("RUNNING", 480)
    assert node.look(1200) == ("RUNNING", 400)
    assert node.look(1210, frozen=True) == ("SUSPENDED", 390)


def test_a_job_stopped_by_signals_stays_suspended_although_its_groups_are_not_frozen():
    node = Node()
    node.answer(1110.0, state=JobState.SUSPENDED, ran_secs=100, limit_end_secs=None)
    assert node.look(1120) == ("SUSPENDED", 500)


def test_where_answers_never_tell_a_suspension_the_groups_decide():
    """HTCondor's limits go on while a job is suspended."""
    node = Node("htcondor")
    node.look(1100, frozen=True)
    node.answer(1110.0)
    assert node.look(1120, frozen=True) == ("SUSPENDED", 480)
    assert node.look(1200) == ("RUNNING", 400)


def test_where_the_limit_waits_untold_suspensions_add_up_over_a_restart():
    node = Node("oar")
    node.look(1100, frozen=True)
    node.answer(1150.0)
    assert node.look(1200, frozen=True) == ("SUSPENDED", 500)
    node.answer(1250.0)
    assert node.look(1300) == ("RUNNING", 500)
    known, node.roster = node.found, Roster(RULES)
    node.roster.remember([JobObservation(REMEMBERED, node.answered_secs, known)])
    node.answer(1400.0)
    assert node.look(1400) == ("RUNNING", 400)
    assert node.look(1500, frozen=True) == ("SUSPENDED", 300)
    node.answer(1550.0)
    assert node.look(1600) == ("RUNNING", 300)


def test_a_daemon_begun_anew_keeps_a_suspended_job_s_time():
    node = Node()
    node.look(1100, frozen=True)
    known, node.roster = node.found, Roster(RULES)
    node.roster.remember([JobObservation(REMEMBERED, node.answered_secs, known)])
    table = JobTable(source="slurm", jobs={}, taken_at_secs=0.0, complete=False, gone={})
    groups = {node.key: Group(6001, None, is_frozen=True)}
    found = node.roster.judge([table], now_secs=1400, groups=groups, sources={"slurm"}).jobs[node.key]
    assert (found.state, found.ran_secs) == (JobState.SUSPENDED, 100)


def test_an_unlimited_job_and_one_of_unknown_limit_are_suspended_without_a_time():
    for limits in (Limits(), Limits(wall_secs=WALL)):
        node = Node(limits=limits, start_secs=None, limit_end_secs=None)
        assert node.look(1100, frozen=True) == ("SUSPENDED", None)
        assert node.look(1200) == ("RUNNING", None)


def test_a_job_that_was_frozen_or_thawed_since_its_batch_system_told_is_asked_about_again():
    node = Node()
    node.look(1100)
    assert node.key not in node.roster.suspects
    node.look(1200, frozen=True)
    assert node.key in node.roster.suspects
    node.answer(1210.0, state=JobState.SUSPENDED, ran_secs=200)
    node.look(1220, frozen=True)
    assert node.key not in node.roster.suspects
    node.look(1300)
    assert node.key in node.roster.suspects
