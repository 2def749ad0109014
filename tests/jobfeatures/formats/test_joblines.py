import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import Rejected
from jobfeatures.formats.joblines import format_line, read_records, recognise, write_records
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED, JobState
from tests.jobfeatures.jobrecords import any_records

FULL = JobRecord(
    batch_system="slurm", job_id="7", state=JobState.TIMEOUT, nodes=("c1", "c2"), submit_secs=10.5,
    wall_limit_secs=UNLIMITED, exit_status=0, uid=0,
)  # fmt: skip


def read(*lines):
    return list(read_records(lines, source="jobs.jsonl", notes=Notes()))


def test_what_is_unknown_is_left_out_and_zero_is_not():
    assert json.loads(format_line(FULL)) == {
        "batch_system": "slurm", "job_id": "7", "state": "TIMEOUT", "nodes": ["c1", "c2"], "submit_secs": 10.5,
        "wall_limit_secs": "unlimited", "exit_status": 0, "uid": 0,
    }  # fmt: skip


@given(st.lists(any_records(), max_size=4))
def test_any_records_come_back_and_nothing_is_lost(records):
    lost = []
    assert read(*write_records(records, lost.append)) == records
    assert lost == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"batch_system": "slurm"}', "job_id: is missing"),
        ('{"batch_system": "slurm", "job_id": "1", "colour": 1}', "colour: is not a field of job records"),
        ('{"batch_system": "slurm", "job_id": "1", "uid": "root"}', "uid: must be a whole number"),
        ('{"batch_system": "slurm", "job_id": "1", "uid": true}', "uid: must be a whole number"),
        ('{"batch_system": "slurm", "job_id": "1", "uid": 1e3}', "uid: must be a whole number"),
        ('{"batch_system": "slurm", "job_id": "1", "submit_secs": NaN}', "NaN is no number"),
        ('{"batch_system": "slurm", "job_id": "1", "state": "DONE"}', "state: must be a state of a job"),
        ('{"batch_system": "slurm", "job_id": "1", "nodes": [1]}', r"nodes: must be a list of texts"),
        ('{"batch_system": "slurm", "job_id": 1}', "job_id: must be a text"),
        (
            '{"batch_system": "slurm", "job_id": "1", "uid": 99999999999999999999}',
            "uid: must be a whole number",
        ),
    ],
)
def test_a_line_that_is_wrong_costs_itself(line, said):
    found = read(line, format_line(FULL))
    assert isinstance(found[0], Rejected)
    assert said in str(found[0])
    assert (found[0].line, found[1]) == (1, FULL)


@given(st.text())
def test_no_text_breaks_the_reader(text):
    for each in read(text, format_line(FULL))[:-1]:
        assert isinstance(each, Rejected)


def test_lines_are_recognised_by_their_beginning():
    assert recognise(format_line(FULL))
    assert not recognise('{"job_id": "1"}')
