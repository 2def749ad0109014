"""What the tests of SSS documents share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobfeatures.formats.sss.documents import parse_jobs


@pytest.fixture
def sss_fixtures() -> Path:
    return Path(__file__).parents[3] / "fixtures" / "sss"


@pytest.fixture
def read_one():
    """Return a function that reads the only job of a document which holds nothing to object to."""

    def read(content: str):
        jobs, notes = parse_jobs(f"<Job><Id>1</Id>{content}</Job>".encode(), source="s")
        assert notes == []
        return jobs[0]

    return read


@pytest.fixture
def refuse_one():
    """Return a function that reads a document of one job and returns why that was refused."""

    def read(content: str, attributes: str = ""):
        jobs, notes = parse_jobs(f"<Job{attributes}><Id>1</Id>\n{content}</Job>".encode(), source="s")
        assert jobs == []
        assert len(notes) == 1
        assert notes[0].source == "s"
        return notes[0]

    return read
