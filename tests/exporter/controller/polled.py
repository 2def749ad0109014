"""A controller whose queries are made when a test wants them, in its own thread; a keeper that does without."""

import pytest

from jobfeatures.batch.source import Keeper


def poll(controller, name=None):
    """Make each of a controller's queries once, or the one of that name, in order, as its start does in threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Keeper, "start", lambda each: each.poll_once() if name in {None, each.status.name} else None
        )
        controller.start()


class Kept:
    """Stands in for a keeper: its status is what `ask` returns now."""

    def __init__(self, ask):
        self._ask = ask

    @property
    def status(self):
        return self._ask()
