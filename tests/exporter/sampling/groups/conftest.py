"""Readers of control groups are closed behind tests."""

import pytest


@pytest.fixture(autouse=True)
def groups_are_closed(request, note_made):
    """Close the control groups that a test has read."""
    made = note_made(request.module, "JobCgroup") if hasattr(request.module, "JobCgroup") else []
    yield
    for each in made:
        each.close()
