"""One round of publishing, its failures and the time to the next; the parts are stand-ins."""

from types import SimpleNamespace

import pytest

from jobfeatures.publish.drainbook import NO_VIEW
from jobfeatures.records.model import JobKey
from jobfeatures.system.rounds import Rounds
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.node.publishingloop import PUBLISH_INTERVAL_SECS, PUBLISH_RETRY_SECS, PublishingLoop
from tests.configured import configured
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
        board = NodeBoard(configured(features_publish=False), clock)
        board.drains = SimpleNamespace(
            refresh=self.call("refresh"), forget_ended=self.call("forget"), view=NO_VIEW
        )
        board.tree = SimpleNamespace(published=self.call("published", {KEY: 1.0}), drains_path=self.folder)
        knowledge = SimpleNamespace(
            note_epilogs=bool, judge=self.call("judge"), request_sample_if_unseen=self.call("end")
        )
        return PublishingLoop(board, publisher, knowledge, SimpleNamespace(refresh=self.call("statuses")))


WHOLE = ["refresh", "published", "judge", "update", "published", "forget", "statuses"]


@pytest.mark.parametrize("failing", [None, "refresh", "judge", "update", "forget"])
def test_a_failure_of_one_part_keeps_no_other_from_its_work(clock, failing):
    parts = Parts()
    parts.failing = failing
    parts.loop(clock).publish()
    assert parts.calls == WHOLE


def test_an_epilog_that_was_noticed_is_judged_at_once(clock):
    parts = Parts()
    parts.withdrawn = {KEY: None}
    parts.loop(clock).publish()
    assert parts.calls == [*WHOLE[:4], "judge", "end", *WHOLE[4:]]


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
