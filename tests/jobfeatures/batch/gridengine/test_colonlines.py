"""Lines of Grid Engine's accounting file in which names and requests hold colons."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobfeatures.batch.gridengine.accounting import read_records
from jobfeatures.batch.gridengine.colonlines import FIELDS, parse_line
from jobfeatures.errors import ParseError
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import JobState

LINE = (Path(__file__).parents[3] / "fixtures/gridengine/accounting").read_text().splitlines()[-1]
FIELDS_OF = dict(zip(FIELDS, LINE.split(":"), strict=True))


def line(more: str = "", **values: str) -> str:
    return ":".join({**FIELDS_OF, **values}.values()) + more


@pytest.mark.parametrize("more", ["", ":class:NONE:4096:cwd:/bin/sh -c a:b"])
def test_colons_in_a_request_do_not_make_a_step_of_a_job(more):
    text = line(more, category="-l cpu=24:00:00", failed="0", exit_status="0")
    [record] = read_records([text], source="log", notes=Notes())
    assert isinstance(record, JobRecord)
    assert (record.job_id, record.step, record.state) == ("10", None, JobState.COMPLETED)


def test_colons_in_a_name_belong_to_it():
    found = parse_line(line(job_name="vgl0:model:00005882:solver-post", category="-l h_rt=0:10:0"))
    assert found["job_name"] == "vgl0:model:00005882:solver-post"
    assert (found["job_number"], found["category"]) == ("10", "-l h_rt=0:10:0")


def test_a_name_that_imitates_the_fields_behind_it_is_refused():
    forged = ":".join(["x", "7", *LINE.split(":")[6:]])
    with pytest.raises(ParseError, match="a name has colons"):
        parse_line(line(job_name=forged[: forged.index("-l")] + "-l a:0.0:NONE:0.0:0:0:x"))


def test_one_number_that_is_none_costs_itself_alone():
    assert parse_line(line(ru_utime="much"))["ru_utime"] == "much"


def test_a_line_with_a_colon_too_many_is_refused_with_the_field_that_shows_it():
    with pytest.raises(ParseError) as caught:
        parse_line(line(account="s:ge"))
    assert caught.value.field == "priority"
