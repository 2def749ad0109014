"""Readers of control groups with a budget and failures of their own."""

import pytest

from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def budget():
    return DescriptorBudget()


@pytest.fixture(autouse=True)
def groups_are_closed(request, note_made):
    """Close the control groups that a test has read."""
    made = note_made(request.module, "JobCgroup") if hasattr(request.module, "JobCgroup") else []
    yield
    for each in made:
        each.close()
