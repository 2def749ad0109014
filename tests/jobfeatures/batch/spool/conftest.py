"""A spool folder, and a source that reads it."""

from __future__ import annotations

import os

import pytest

from jobfeatures.batch.spool import source as spool
from jobfeatures.batch.spool.source import SpoolSource
from jobfeatures.records.model import JobKey
from tests.configured import settings_for


def skip_if_readable(path) -> None:
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything; the next test has a variant for it")


def document(job_id: str, state: str = "Running", more: str = "") -> str:
    return f"<Job><Id>{job_id}</Id><State>{state}</State>{more}</Job>\n"


def key(job_id: str) -> JobKey:
    return JobKey("spool", job_id)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "spool"
    path.mkdir()
    return path


@pytest.fixture
def put(folder):
    """Return a function that writes a file aside and renames it into the folder."""

    def write(name: str, content: str | bytes) -> None:
        data = content.encode() if isinstance(content, str) else content
        (folder / ".aside").write_bytes(data)
        os.rename(folder / ".aside", folder / name)

    return write


@pytest.fixture
def source(folder, clock, monkeypatch):
    monkeypatch.setattr(spool, "find_uid", {"ada": 6001}.get)
    return SpoolSource(settings_for("spool", spool_directory=str(folder)), clock, None)


@pytest.fixture
def count_parses(monkeypatch):
    """Return a list that gets the name of each file that is parsed."""
    from jobfeatures.formats.sss import job

    parsed: list[str] = []
    original = job.parse_document

    def counting(data, *, source, **options):
        parsed.append(os.path.basename(source))
        return original(data, source=source, **options)

    monkeypatch.setattr(job, "parse_document", counting)
    return parsed


def poll(source):
    return source.poll_jobs(frozenset())


def reasons(table) -> list[str]:
    return [rejected.reason for rejected in table.rejected]
