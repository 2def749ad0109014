"""What is not understood: refused, told or ignored, as the policy says."""

from __future__ import annotations

import pytest

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.job import parse_document
from jobfeatures.formats.sss.vocabulary import TABLE, ElementPlace, Type
from tests.jobfeatures.formats.sss.documents import parse_jobs
from tests.together import together

CATEGORIZED = [term for term in TABLE if ElementPlace.JOB in term.places and term.type is not Type.CONTAINER]


def unknown(data: str) -> list[str]:
    return [note.field for note in parse_jobs(data.encode(), source="s")[1] if "unknown" in note.reason]


@together((term,) for term in CATEGORIZED)
def test_a_property_may_stand_in_a_job_and_in_its_categories_only(term):
    assert unknown(f"<Job><Id>1</Id><{term.name}/></Job>") == []
    for category, place in (("Requested", ElementPlace.REQUESTED), ("Delivered", ElementPlace.DELIVERED)):
        data = f"<Job><Id>1</Id><{category}><{term.name}/></{category}></Job>"
        assert unknown(data) == ([] if place in term.places else [term.name])


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("<Telescope/>", "Telescope"),
        ("<sss:User>a</sss:User>", "sss:User"),
        ("<user>a</user>", "user"),
        ('<User colour="red">a</User>', "User@colour"),
        ('<Memory units="MiB">1</Memory>', "Memory@units"),
        ('<Duration units="fortnights">1</Duration>', "Duration@units"),
        ('<Processors units="MB">1</Processors>', "Processors@units"),
        ('<Requested><Memory op="eq">1</Memory></Requested>', "Memory@op"),
        ('<Memory op="EQ">1</Memory>', "Memory@op"),
        ('<Delivered><Memory op="EQ">1</Memory></Delivered>', "Memory@op"),
        ("<Requested><Name>a</Name></Requested>", "Name"),
        ("<TaskCount>1</TaskCount>", "TaskCount"),
        ("<Job/>", "Job"),
        ("<Environment><Path/></Environment>", "Path"),
        ("<Name>a<b/></Name>", "b"),
        ('<Hold xmlns="http://example.org/"/>', "Hold@xmlns"),
    ],
)
def test_what_is_not_understood_is_refused_by_name_or_as_the_policy_says(refuse_one, content, field):
    rejected = refuse_one(content)
    assert (rejected.line, rejected.field) == (2, field)
    assert refuse_one(content, ' awarenessPolicy="Reject"') == rejected

    data = f'<Job awarenessPolicy="Warn"><Id>1</Id>\n{content}</Job>'.encode()
    warned = parse_document(data, source="s")
    assert (len(warned.jobs), warned.rejected) == (1, ())
    assert [(note.source, note.line, note.field) for note in warned.warnings] == [("s", 2, field)]

    data = f'<Job awarenessPolicy="Ignore"><Id>1</Id>\n{content}</Job>'.encode()
    ignored = parse_document(data, source="s")
    assert (ignored.jobs, ignored.rejected, ignored.warnings) == (warned.jobs, (), ())


def test_a_value_with_an_attribute_that_is_not_understood_is_not_used():
    data = b'<Job awarenessPolicy="Ignore"><Id>1</Id><Memory units="MiB">1</Memory><User x="1">a</User></Job>'
    jobs, _ = parse_jobs(data, source="s")
    assert jobs[0].limits.memory_bytes is None
    assert jobs[0].user == "a"


def test_an_element_that_no_job_needs_is_judged_like_any_other(refuse_one):
    assert refuse_one('<TaskDistribution type="Odd">1</TaskDistribution>').field == "TaskDistribution@type"
    assert refuse_one("<DeadlineTime>tomorrow</DeadlineTime>").field == "DeadlineTime"


def test_the_nearest_policy_decides(refuse_one, read_one):
    assert read_one('<Telescope awarenessPolicy="Ignore"><Lens/></Telescope>')
    assert (
        refuse_one('<Telescope awarenessPolicy="Ignore"><Lens awarenessPolicy="Reject"/></Telescope>').field
        == "Lens"
    )
    assert (
        refuse_one('<Telescope awarenessPolicy="Reject"/>', ' awarenessPolicy="Ignore"').field == "Telescope"
    )
    assert (
        refuse_one("<Requested awarenessPolicy='Reject'><X/></Requested>", ' awarenessPolicy="Ignore"').field
        == "X"
    )


def test_a_policy_that_is_none_is_refused_even_where_all_else_is_ignored(refuse_one):
    rejected = refuse_one('<Hold awarenessPolicy="Maybe"/>', ' awarenessPolicy="Ignore"')
    assert (rejected.field, rejected.text) == ("Hold@awarenessPolicy", "Maybe")


def test_the_policy_of_a_group_holds_for_its_jobs():
    data = b"""<JobGroup awarenessPolicy="Ignore"><Moon/><JobDefaults><Sun/><User>a</User></JobDefaults>
    <Job><Id>1</Id><Star/></Job><Job awarenessPolicy="Reject"><Id>2</Id><Star/></Job></JobGroup>"""
    jobs, rejected = parse_jobs(data, source="s")
    assert [(job.key.job_id, job.user) for job in jobs] == [("1", "a")]
    assert [(each.line, each.field) for each in rejected] == [(2, "Star")]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ("<JobGroup><Moon/><Job><Id>1</Id></Job></JobGroup>", "Moon"),
        ('<JobGroup moon="1"><Job><Id>1</Id></Job></JobGroup>', "JobGroup@moon"),
        ("<JobGroup><JobDefaults><Moon/></JobDefaults><Job><Id>1</Id></Job></JobGroup>", "Moon"),
        ("<JobGroup><JobDefaults/><JobDefaults/><Job><Id>1</Id></Job></JobGroup>", "JobDefaults"),
        ("<JobGroup>text<Id>1</Id><Job><Id>1</Id></Job></JobGroup>", "JobGroup"),
        ("<JobGroup><Id>1</Id></JobGroup>", "JobGroup"),
        ("<JobGroup>workflow1</JobGroup>", "JobGroup"),
        ('<JobGroup awarenessPolicy="no"><Job><Id>1</Id></Job></JobGroup>', "JobGroup@awarenessPolicy"),
        ("<JobDefaults><User>a</User></JobDefaults>", "JobDefaults"),
        ("<html><body/></html>", "html"),
    ],
)
def test_a_document_that_is_unusable_as_a_whole_is_an_error(data, field):
    with pytest.raises(ParseError) as caught:
        parse_jobs(data.encode(), source="s")
    assert (caught.value.source, caught.value.line, caught.value.field) == ("s", 1, field)


def test_many_warnings_are_bounded():
    data = b'<Job awarenessPolicy="Warn"><Id>1</Id>' + b"<X/>" * 5000 + b"</Job>"
    assert len(parse_document(data, source="s").warnings) == 100
