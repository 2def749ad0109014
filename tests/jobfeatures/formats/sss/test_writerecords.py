"""Jobs that are shown in a spool folder: their documents say what is known, or are not written."""

from dataclasses import replace

import pytest

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.writerecords import format_job
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits
from tests.jobfeatures.formats.sss.documents import parse_jobs

JOB = Job(
    key=JobKey("spool", "7"), state=JobState.TIMEOUT, name="a < b", user="ann", account="physics", partition="long",
    submit_secs=1, start_secs=2, end_secs=3, nodes=("n1",), total_cpus=2, allocated_cpus=2, processes=frozenset({20, 10}),
    limits=Limits(wall_secs=UNLIMITED, cpu_secs=60, memory_bytes=2**30 + 1),
)  # fmt: skip


@pytest.mark.parametrize(
    "job", [JOB, replace(JOB, state=JobState.RUNNING, end_secs=None, processes=frozenset(), nodes=())]
)
def test_what_is_written_is_read_back(job):
    assert parse_jobs(format_job(job).encode(), source="s") == ([job], [])


def test_blanks_around_a_text_do_not_count():
    [job], _ = parse_jobs(format_job(replace(JOB, name=" a b\t")).encode(), source="s")
    assert job.name == "a b"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"key": JobKey("spool", "a b")}, "job without a usable id"),
        ({"key": JobKey("spool", "x" * 181)}, "job without a usable id"),
        ({"name": "a\x07b"}, "name"),
        ({"user": "a\nb"}, "user"),
        ({"account": "x" * 1025}, "account"),
        ({"nodes": ("a,b",)}, "nodes"),
    ],
)
def test_what_no_reader_takes_is_not_written(changes, field):
    with pytest.raises(ParseError) as caught:
        format_job(replace(JOB, **changes))
    assert caught.value.field == field
