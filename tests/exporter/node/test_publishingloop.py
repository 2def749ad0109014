"""One round of publishing, its failures and the time to the next; the parts are stand-ins."""

from types import SimpleNamespace

import pytest

from jobfeatures.jobs.roster import EMPTY
from jobfeatures.publish.drainbook import DrainBook
from jobfeatures.records.model import JobKey
from jobfeatures.system.rounds import Rounds
from jobfeatures_exporter.node.publishingloop import (
    PUBLISH_INTERVAL_SECS,
    PUBLISH_RETRY_SECS,
    PublishingLoop,
)
from tests.running import PATIENCE_SECS, until

KEY = JobKey("slurm", "7")


class Parts:
    """Notes what is called, in order; `failing` is the call that fails."""

    def __init__(self):
        self.calls, self.failing, self.withdrawn, self.is_complete, self.folder = (
            [],
            None,
            {},
            True,
            "/nonexistent",
        )

    def call(self, name, answer=None):
        def called(*_arguments):
            self.calls.append(name)
            if name == self.failing:
                raise OSError("no space")
            return answer

        return called

    def loop(self, clock):
        publisher = SimpleNamespace(
            update=self.call("update"),
            take_withdrawn=lambda: self.withdrawn,
            status=SimpleNamespace(is_complete=self.is_complete),
        )
        drains = SimpleNamespace(
            refresh=self.call("refresh"),
            forget_ended=self.call("forget"),
            view=DrainBook(None, clock).view,
        )
        tree = SimpleNamespace(published=self.call("published", {KEY: 1.0}), drains_path=self.folder)
        knowledge = SimpleNamespace(roll=EMPTY, jobs={}, note_epilogs=bool)
        return PublishingLoop(
            publisher, drains, tree, clock, knowledge,
            tables=list, sources=frozenset, snapshot=lambda: None, judge=self.call("judge"),
            on_withdrawn=self.call("withdrawn"), on_published=self.call("done"),
        )  # fmt: skip


WHOLE = ["refresh", "published", "judge", "update", "published", "forget", "done"]


@pytest.mark.parametrize("failing", [None, "refresh", "judge", "update", "forget"])
def test_a_failure_of_one_part_keeps_no_other_from_its_work(clock, failing):
    parts = Parts()
    parts.failing = failing
    parts.loop(clock).publish()
    assert parts.calls == WHOLE


def test_an_epilog_that_was_noticed_is_passed_on(clock):
    parts = Parts()
    parts.withdrawn = {KEY: None}
    parts.loop(clock).publish()
    assert "withdrawn" in parts.calls


@pytest.mark.parametrize(
    ("is_complete", "secs"), [(True, PUBLISH_INTERVAL_SECS), (False, PUBLISH_RETRY_SECS)]
)
def test_what_could_not_be_published_is_tried_again_soon(clock, is_complete, secs):
    parts = Parts()
    parts.is_complete = is_complete
    assert parts.loop(clock).wait_secs() == secs


def test_an_announcement_is_published_at_once(clock, tmp_path):
    parts = Parts()
    parts.folder = str(tmp_path)
    loop, rounds = parts.loop(clock), Rounds("rounds")
    rounds.add(loop.round)
    rounds.start()
    until(lambda: parts.calls == WHOLE)
    (tmp_path / "drain").touch()
    until(lambda: parts.calls[len(WHOLE) :][: len(WHOLE)] == WHOLE)
    rounds.stop(PATIENCE_SECS)
