"""Readers of control groups with a budget and failures of their own."""

import pytest

from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def budget():
    return DescriptorBudget()
