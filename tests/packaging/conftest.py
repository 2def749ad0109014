"""Fixtures of the tests of hook scripts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.hooks import MakeCommand, processes_with


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """A word in the environment of everything a hook starts; what is left of it is ended afterwards."""
    word = f"JOBFEATURES_TEST_MARK={tmp_path}"
    yield word
    for pid in processes_with(word):
        with contextlib.suppress(ProcessLookupError):  # it ends by itself just now
            os.kill(pid, 9)


@pytest.fixture
def command(tmp_path: Path) -> MakeCommand:
    def make(body: str) -> Path:
        path = tmp_path / "jobfeatures"
        path.write_text(f"#!/bin/bash -p\n{body}\n")
        path.chmod(0o755)
        return path

    return make
