from __future__ import annotations

import json

import pytest

from exporter.sinks.message import Message

NOW = 1_800_000_000.0


@pytest.fixture
def make_message():
    """Return a function that makes the message with a number."""

    def make(number: int = 1, **changes) -> Message:
        values = {"kind": "sample", "cluster": "hpc.example.org", "node": "n1", "made_at_secs": NOW}
        return Message(**{**values, "body": json.dumps({"number": number}).encode(), **changes})

    return make
