from __future__ import annotations

import errno
import json
import os
from types import SimpleNamespace

import pytest

from jobfeatures_exporter.sinks.message import Message

NOW = 1_800_000_000.0


@pytest.fixture
def make_message():
    """Return a function that makes the message with a number."""

    def make(number: int = 1, **changes) -> Message:
        values = {"kind": "sample", "cluster": "hpc.example.org", "node": "n1", "made_at_secs": NOW + number}
        return Message(**{**values, "body": json.dumps({"number": number}).encode(), **changes})

    return make


@pytest.fixture
def full_disk(monkeypatch):
    """Return what makes the disk full, and frees it again."""
    disk = SimpleNamespace(is_full=False)
    write = os.write

    def limited(descriptor, data):
        if disk.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", limited)
    return disk
