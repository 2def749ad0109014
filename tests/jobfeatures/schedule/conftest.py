"""Logs as arrays, made of a few words."""

import io

import pytest


@pytest.fixture
def read_swf(tmp_path):
    """Return a function: lines of SWF → ScheduleLog."""
    from jobfeatures.schedule.reading import Pieces

    def read(*lines, name="log"):
        path = tmp_path / f"{name}.swf"
        path.write_text("\n".join(lines) + "\n")
        [log] = Pieces([(name, str(path))], "swf").logs()
        return log

    return read


@pytest.fixture
def read_through_records():
    """Return a function: lines of SWF → ScheduleLog, by the records that all formats share."""
    from jobfeatures.formats.swf.records import read_records
    from jobfeatures.joblog import JobRecord
    from jobfeatures.schedule.jobs import from_records

    def read(*lines):
        found = list(read_records(io.StringIO("\n".join(lines)), source="log"))
        jobs = [each for each in found if isinstance(each, JobRecord)]
        return from_records(jobs, "log", unreadable=len(found) - len(jobs))

    return read
