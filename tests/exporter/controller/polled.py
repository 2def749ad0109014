"""A controller whose queries are made when a test wants them, in its own thread."""

import pytest

from jobfeatures.batch.source import Keeper


def poll(controller):
    """Make each of a controller's queries once, in order: as its start does, each in a thread of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keeper, "start", Keeper.poll_once)
        controller.start()
