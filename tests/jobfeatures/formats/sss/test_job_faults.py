"""Values that are wrong, and documents of anything at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.vocabulary import TABLE
from tests.jobfeatures.formats.sss.documents import parse_jobs, tasks


def without_column(reason: str) -> str:
    column, found, rest = reason.removeprefix("column ").partition(": ")
    assert found
    assert int(column) >= 1
    return rest


@pytest.mark.parametrize(
    ("content", "field", "reason"),
    [
        ("<Processors>four</Processors>", "Processors", "must be of type Integer, not negative"),
        ("<Processors>-1</Processors>", "Processors", "must be of type Integer, not negative"),
        ("<Processors>1.5</Processors>", "Processors", "must be of type Integer, not negative"),
        ("<Processors>٣</Processors>", "Processors", "must be of type Integer, not negative"),
        ("<Processors/>", "Processors", "must be of type Integer, not negative"),
        ("<StartTime>9223372036854775808</StartTime>", "StartTime", "number too large"),
        ("<StartTime>2023-11-14T22:13:20</StartTime>", "StartTime", "must be of type DateTime"),
        ("<Duration>unlimited</Duration>", "Duration", "must be of type Duration"),
        ('<Duration units="days">106751991167301</Duration>', "Duration", "number too large"),
        ("<Memory>NaN</Memory>", "Memory", "must be of type Float, not negative"),
        ("<Memory>INF</Memory>", "Memory", "must be of type Float, not negative"),
        ("<Memory>-1</Memory>", "Memory", "must be of type Float, not negative"),
        ("<Memory>.</Memory>", "Memory", "must be of type Float, not negative"),
        ("<Memory>1e999999999</Memory>", "Memory", "must be of type Float, not negative"),
        ("<Memory>1e99</Memory>", "Memory", "number too large"),
        ('<Memory units="NB">1</Memory>', "Memory", "number too large"),
        ('<Memory units="DB">1</Memory>', "Memory", "number too large"),
        ('<ResourceLimit name="CPUTime">some</ResourceLimit>', "ResourceLimit", "must be of type Integer, not negative"),
        ("<User>a</User><User>b</User>", "User", "occurs twice in one element"),
        ("<Id>2</Id>", "Id", "occurs twice in one element"),
        ("<User>a\tb</User>", "User", "has an unprintable character"),
        ("<User>a\u202eb</User>", "User", "has an unprintable character"),
        ("<Name>" + "n" * 1025 + "</Name>", "Name", "longer than 1024 characters"),
        ("<Session>1</Session>", "Session", "must be the id of one of the job's processes"),
        (tasks("<Process>0</Process>"), "Process", "must be the id of one of the job's processes"),
        (tasks("<Process>4194305</Process>"), "Process", "must be the id of one of the job's processes"),
        ("<Requested>words<Duration>1</Duration></Requested>", "Requested", "there is text between elements"),
        ("words", "Job", "there is text between elements"),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_name(refuse_one, content, field, reason):
    rejected = refuse_one(content)
    assert (rejected.field, without_column(rejected.reason)) == (field, reason)
    assert rejected.line in (1, 2)


@pytest.mark.parametrize(
    ("job", "field", "reason"),
    [
        ("<Job/>", "Job", "has no Id, and does not refer to another"),
        ("<Job> job123</Job>", "Job", "a reference to a job, not a job"),
        ("<Job><Name>n</Name></Job>", "Job", "has no Id"),
        ("<Job><Id> </Id></Job>", "Id", "is empty"),
        ("<Job><Id>a b</Id></Job>", "Id", "blank or unprintable character in a job id"),
        ("<Job><Id>a\nb</Id></Job>", "Id", "blank or unprintable character in a job id"),
        ("<Job><Id>a\u200bb</Id></Job>", "Id", "blank or unprintable character in a job id"),
        ("<Job><Id>" + "9" * 256 + "</Id></Job>", "Id", "longer than 180 characters"),
    ],
)
def test_a_bad_job_costs_its_group_nothing_else(job, field, reason):
    data = f"<JobGroup><Job><Id>1</Id></Job>\n{job}<Job><Id>3</Id></Job></JobGroup>"
    jobs, rejected = parse_jobs(data.encode(), source="s")
    assert [each.key.job_id for each in jobs] == ["1", "3"]
    assert [(each.source, each.line, each.field, without_column(each.reason)) for each in rejected] == [
        ("s", 2, field, reason)
    ]


@pytest.mark.parametrize(("job_id", "accepted"), [("9" * 180, True), ("9" * 181, False), ("é" * 40, False)])
def test_an_id_is_as_long_as_a_folder_can_be_named(job_id, accepted):
    jobs, rejected = parse_jobs(f"<Job><Id>{job_id}</Id></Job>".encode(), source="s")
    assert bool(jobs) is accepted
    assert all("180" in each.reason for each in rejected)
    assert all(len(each.key.directory_name) < 200 for each in jobs)


# --- anything at all ----------------------------------------------------------------------


NAMES = st.sampled_from(
    sorted({"Odd", *(term.name for term in TABLE)})
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["", "1", "12", "unlimited", "Running", "1e5", "a,b", "-1", "99999999999999999999"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(
        lambda text: text.replace("&", "").replace("<", "").replace('"', "").replace("\ufffe", "").replace("\uffff", "")
    ),
)  # fmt: skip
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["op", "conj", "units", "name", "type", "aggregation", "delimiter", "count", "metric", "awarenessPolicy"]),
    st.one_of(st.sampled_from(["GE", "Or", "MB", "CPUTime", "List", "Range", "Warn", "Ignore", ""]), VALUES),
    max_size=2,
)  # fmt: skip


def written(name: str, attributes: dict[str, str], content: str) -> str:
    return f"<{name}{''.join(f' {key}={chr(34)}{value}{chr(34)}' for key, value in attributes.items())}>{content}</{name}>"


LEAVES = st.builds(written, NAMES, ATTRIBUTES, VALUES)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.builds(written, NAMES, ATTRIBUTES, st.lists(inner, max_size=4).map("".join)),
    max_leaves=12,
)


@given(st.lists(TREES, max_size=5), ATTRIBUTES, st.sampled_from(["Job", "JobGroup"]))
def test_any_tree_gives_jobs_and_rejections_or_a_parse_error(parts, attributes, root):
    data = written(root, attributes, "<Id>1</Id>" + "".join(parts)).encode()
    try:
        jobs, rejected = parse_jobs(data, source="s")
    except ParseError:
        return
    assert jobs or rejected
    assert all(each.source == "s" for each in rejected)


@given(st.binary(max_size=300))
def test_any_bytes_give_jobs_or_a_parse_error(data):
    try:
        jobs, rejected = parse_jobs(data, source="s")
    except ParseError:
        return
    assert jobs or rejected
