"""Made-up nodes: a /proc and control groups as plain files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.layout.hierarchies import ORDINARY
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from tests.exporter.sampling.fakenode import FakeNode

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path)


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def budget():
    return DescriptorBudget()


@pytest.fixture
def fixtures() -> Path:
    return FIXTURES


@pytest.fixture
def open_descriptors():
    """Return a function that counts our open descriptors."""
    return lambda: len(os.listdir("/proc/self/fd"))


@pytest.fixture
def fail_opening(monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes opening paths with an ending fail, until it is called with None."""
    real = os.open
    failures: dict[str, int] = {}

    def fake(path, *rest, **more):
        for ending, number in failures.items():
            if str(path).endswith(ending):
                raise OSError(number, os.strerror(number), path)
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", fake)

    def fail(ending: str, number: int | None) -> None:
        if number is None:
            del failures[ending]
        else:
            failures[ending] = number

    return fail


@pytest.fixture
def make(node, clock):
    """Return a function that makes a sampler of the made-up node."""
    made = []

    def make(jobs=dict, last_readings=None, places=lambda: ORDINARY, **settings) -> Sampler:
        settings = SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), **settings)
        made.append(Sampler(settings, clock, jobs=jobs, last_readings=last_readings, places=places))
        return made[-1]

    yield make
    for each in made:
        each.close()
