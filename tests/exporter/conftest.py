"""The context in which every metric has a sample, and parts that a test keeps at hand."""

from __future__ import annotations

import signal

import pytest

from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.node import hookrequests, samplingloop
from tests.exporter.madecontext import make_context


@pytest.fixture
def note_made(monkeypatch):
    """Return a function that keeps what a module makes of a class: (module, name) → the list of what it has made."""

    def note(module, name):
        made, real = [], getattr(module, name)

        def make(*parts, **more):
            made.append(real(*parts, **more))
            return made[-1]

        monkeypatch.setattr(module, name, make)
        return made

    return note


@pytest.fixture(autouse=True)
def samplers_are_closed(note_made):
    """Close what daemons that were never started, or could not be made, have kept open: hundreds of files in all."""
    made = note_made(samplingloop, "Sampler")
    yield
    for each in made:
        each.close()


@pytest.fixture(autouse=True, scope="session")
def hooks_are_served_by_nobody():
    """Give daemons a process for hooks that only waits for their end: the real one costs more than most tests."""
    hookrequests.COMMAND = ("/bin/sh", "-c", "exec cat >/dev/null")


@pytest.fixture
def context() -> Context:
    return make_context()


@pytest.fixture
def handlers():
    """Leave signals as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
