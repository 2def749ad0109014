"""Which files are collected, and how: the suite has thousands of tests, and most runs want a few."""

from __future__ import annotations

import contextlib
import gc
import importlib
from pathlib import Path

import pytest

KINDS = {
    Path(__file__).parent / place: kind
    for place, kind in {
        "integration": "integration",
        "faults": "fault",
        "fuzz/test_parsers.py": "fuzz",
        "fuzz/test_scaling.py": "fuzz",
        "soak": "soak",
    }.items()
}


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Spare the garbage collector thousands of tests, which live until the end: it costs more than the collection."""
    gc.disable()
    try:
        _import_in_turn(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 20)  # each module's rest is collected at its end anyway
        gc.enable()


def _import_in_turn(config):
    """Where processes collect the whole suite at once, let each begin with a part of its own, which it compiles.

    Of the other parts it finds what the others have compiled: in a fresh clone that saves a quarter of the collection.
    """
    worker, folder = getattr(config, "workerinput", None), Path(__file__).parent
    if worker is None or folder not in {Path(each).resolve() for each in config.args}:
        return
    ignored = {place for place, kind in KINDS.items() if pytest_ignore_collect(place, config)}
    files = [
        path
        for path in sorted(folder.rglob("test_*.py"))
        if ignored.isdisjoint([path, *path.parents]) and not pytest_ignore_collect(path, config)
    ]
    first = int(worker["workerid"].removeprefix("gw")) * len(files) // worker["workercount"]
    for path in files[first:] + files[:first]:
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection will tell
            importlib.import_module(name)


def pytest_ignore_collect(collection_path, config):
    """Import no tests of a kind that is not asked for."""
    kind, expression = KINDS.get(collection_path), config.option.markexpr
    if kind is not None:
        return True if f"not {kind}" in expression or expression == "program" else None
    if expression == "program" and collection_path.match("test_*.py"):
        return None if "mark.program" in collection_path.read_text(encoding="utf-8") else True
    return None
