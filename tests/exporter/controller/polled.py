"""A controller whose queries are made when a test wants them, in its own thread."""

import pytest

from jobfeatures.batch.source import Keeper


def poll(controller, name=None):
    """Make each of a controller's queries once, or the one of that name, in order, as its start does in threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Keeper, "start", lambda each: each.poll_once() if name in {None, each.status.name} else None
        )
        controller.start()
