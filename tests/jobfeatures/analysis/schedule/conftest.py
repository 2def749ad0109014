"""Logs as arrays, made of a few words."""

import io

import pytest


@pytest.fixture
def read_swf(tmp_path):
    """Return a function: lines of SWF → ScheduleLog."""
    from jobfeatures.analysis.schedule.logreading import Pieces

    def read(*lines, name="log", meaning=None):
        path = tmp_path / f"{name}.swf"
        path.write_text("\n".join(lines) + "\n")
        [log] = Pieces([(name, str(path))], "swf", meaning=meaning).logs()
        return log

    return read


@pytest.fixture
def read_through_records():
    """Return a function: lines of SWF → ScheduleLog, by the records that all formats share."""
    from jobfeatures.analysis.schedule.jobarrays import from_records
    from jobfeatures.formats.swf.records import read_records
    from jobfeatures.joblogs.loggedjob import JobRecord, Notes

    def read(*lines):
        found = list(read_records(io.StringIO("\n".join(lines)), source="log", notes=Notes()))
        jobs = [each for each in found if isinstance(each, JobRecord)]
        return from_records(jobs, "log", notes=Notes(rejected=len(found) - len(jobs)))

    return read
