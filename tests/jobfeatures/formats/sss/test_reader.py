"""Whole documents to records and back. Expected values are written by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import (
    Environment,
    Property,
    Reference,
    SssJob,
    SssJobGroup,
    SssTask,
    SssTaskGroup,
    format_object,
)
from jobfeatures.formats.sss.reader import parse_object
from tests.jobfeatures.formats.sss.documents import as_bytes, documents, variables_of

EVERYTHING = SssJobGroup(
    policy="Warn",
    properties=(
        Property("CreationTime", 1700000000),
        Property("Description", "two steps of a survey"),
        Property("Id", "survey"),
        Property("Name", "Survey"),
        Property("State", "Active"),
    ),
    job_defaults=SssJob(properties=(Property("SubmitTime", 1690000000),)),
    jobs=(
        SssJob(
            properties=(
                Property("Id", "survey.1"),
                Property("Name", "measure"),
                Property("State", "Running"),
                Property("Hold", "User"),
                Property("Hold", "System"),
                Property("Priority", -5),
                Property("Charge", Decimal("12.75"), {"units": "EUR"}),
                Property("Checkpointable", True),
                Property("Interactive", False),
                Property("Executable", "#Script"),
                Property("Arguments", "-v  two  blanks"),
                Property("InputFile", "", {"redirectList": ("Close",)}),
                Property("OutputFile", "~/survey.out", {"redirectList": ("Append", "Keep")}),
                Property("ErrorFile", "", {"redirectList": ("Merge",)}),
                Property("NotificationList", ("JobStart", "JobEnd"), {"uri": "ada@example.org"}),
                Property("ResourceLimit", "900", {"name": "CPUTime", "type": "Soft"}),
                Property("ResourceLimit", "1000", {"name": "CPUTime", "type": "Hard"}),
                Property("Dependency", "survey.0"),
                Property("Dependency", "calibrate", {"condition": "OnExit", "code": -1, "designator": "JobName"}),
                Property("Extension", "true", {"type": "Scheduler", "name": "Backfill"}),
            ),
            environment=Environment(
                (
                    Property("Variable", "/usr/bin:~/bin:", {"name": "PATH"}),
                    Property("Variable", "$ ", {"name": "PS1"}),
                ),
                export=True,
            ),
            requested=(
                Property("User", "ada", {"group": 1}),
                Property("Account", "survey", {"group": -1}),
                Property("User", "grace", {"conj": "Or", "group": 1}),
                Property("Account", "night", {"group": -1}),
                Property("Processors", 8, {"op": "GE", "dynamic": True, "performanceFactor": Decimal("1.5")}),
                Property("Processors", 16, {"op": "LE", "dynamic": True}),
                Property("Memory", Decimal(2), {"preference": 2, "units": "GB"}),
                Property("Memory", Decimal(1), {"preference": 1, "units": "GB"}),
                Property("Resource", Decimal(1), {"name": "License", "type": "MATLAB"}),
                Property("Feature", "ib;gpu", {"aggregation": "List", "delimiter": ";"}),
                Property("Node", "node[1-3,07]", {"aggregation": "Range", "count": 2}),
            ),
            delivered=(
                Property("Processors", 12, {"group": 1, "duration": 1234, "consumptionRate": Decimal("0.63")}),
                Property("Memory", Decimal(975), {"group": -1, "metric": "Max", "units": "MB", "context": "Used"}),
                Property("Network", Decimal("3.5"), {"units": "MB"}),
            ),
            task_group_defaults=SssTaskGroup(
                properties=(Property("Shell", "/bin/sh"),),
                task_defaults=SssTask(properties=(Property("Session", 700),)),
            ),
            task_groups=(
                SssTaskGroup(
                    properties=(
                        Property("Id", "tg1"),
                        Property("Name", "Master"),
                        Property("TaskCount", 5),
                        Property("TaskDistribution", ((1, 4), (2,), (3, 5)), {"type": "Geometry"}),
                        Property("Memory", Decimal(512)),
                    ),
                    tasks=(
                        SssTask(
                            properties=(
                                Property("Id", "1"),
                                Property("Node", "node1"),
                                Property("Process", 7001),
                            )
                        ),
                        Reference("Task", "2"),
                    ),
                ),
                SssTaskGroup(
                    properties=(
                        Property("Name", "Slave"),
                        Property("TaskDistribution", 2, {"type": "TasksPerNode"}),
                        Property("Shell", "/bin/zsh"),
                    )
                ),
                Reference("TaskGroup", "tg9"),
            ),
        ),
        Reference("Job", "survey.0"),
    ),
)  # fmt: skip


def read(content: str, attributes: str = ""):
    return parse_object(f"<Job{attributes}><Id>1</Id>{content}</Job>".encode()).root


def test_every_construct_is_read(sss_fixtures):
    parsed = parse_object((sss_fixtures / "everything.xml").read_bytes(), source="f.xml")
    assert parsed.root == EVERYTHING
    assert [str(each) for each in parsed.warnings] == [
        "f.xml:81:Telescope: column 5: unknown element here; ignored"
    ]


def test_every_construct_is_written_and_read_back():
    text = format_object(EVERYTHING)
    assert parse_object(text.encode()).root == EVERYTHING
    assert '<TaskDistribution type="Geometry">{1,4}{2}{3,5}</TaskDistribution>' in text
    assert '<Processors op="GE" dynamic="true" performanceFactor="1.5">8</Processors>' in text


def test_properties_know_their_places(sss_fixtures):
    group = parse_object((sss_fixtures / "everything.xml").read_bytes()).root
    hold = list(group.jobs[0].all("Hold"))[1]
    assert (hold.line, hold.column) == (14, 5)
    assert (group.jobs[0].line, group.jobs[0].column) == (9, 3)


def test_scopes_give_their_values():
    job = read("<Hold>a</Hold><Hold>b</Hold><Requested><Processors>3</Processors></Requested>")
    assert job.id == "1"
    assert job.one("Hold") is None
    assert job.value("Processors", int) is None
    assert [each.value for each in job.all("Processors", "Requested")] == [3]
    assert variables_of(EVERYTHING.jobs[0].environment) == {"PATH": "/usr/bin:~/bin:", "PS1": "$ "}


@pytest.mark.parametrize("root", [Reference("JobGroup", "workflow1"), Reference("Job", "job123")])
def test_a_document_may_be_a_reference(root):
    assert parse_object(f"<{root.name}> {root.id}</{root.name}>".encode()).root == root
    assert parse_object(format_object(root).encode()).root == root


def test_variables_keep_their_blanks_and_lines():
    job = read('<Environment><Variable name="A"> a\tb&#13;\n</Variable></Environment>')
    assert variables_of(job.environment) == {"A": " a\tb\r\n"}
    assert parse_object(format_object(job).encode()).root == job


@pytest.mark.parametrize(
    ("content", "field", "reason"),
    [
        ("<Priority>high</Priority>", "Priority", "column 1: must be of type Integer"),
        ("<NodeCount>-1</NodeCount>", "NodeCount", "column 1: must be of type Integer, not negative"),
        ("<Memory>INF</Memory>", "Memory", "column 1: must be of type Float, not negative"),
        ("<Memory>1e100</Memory>", "Memory", "column 1: must be of type Float, not negative"),
        (f"<Memory>1{'0' * 31}e99</Memory>", "Memory", "column 1: the number is too large, too small or too long"),
        ("<StartTime>9223372036854775808</StartTime>", "StartTime", "column 1: number too large"),
        ("<Checkpointable>yes</Checkpointable>", "Checkpointable", "column 1: must be of type Boolean"),
        ("<User>a</User><User>b</User>", "User", "column 15: occurs twice in one element"),
        ("<Environment/><Environment/>", "Environment", "column 15: occurs twice in one element"),
        ("<TaskGroupDefaults/><TaskGroupDefaults/>", "TaskGroupDefaults", "column 21: occurs twice in one element"),
        ("<ResourceLimit>1</ResourceLimit>", "ResourceLimit", "column 1: attribute name is missing"),
        ('<Extension name=" ">1</Extension>', "Extension", "column 1: attribute name is missing"),
        ("<Environment><Variable>1</Variable></Environment>", "Variable", "column 14: attribute name is missing"),
        ("<Environment>A=1</Environment>", "Environment", "column 1: there is text between elements"),
        ("<Requested>much</Requested>", "Requested", "column 1: there is text between elements"),
        ('<TaskDistribution type="Geometry">{1,}</TaskDistribution>', "TaskDistribution", "column 1: must be of type String, sets of numbers in braces"),
        ('<TaskDistribution type="TasksPerNode">two</TaskDistribution>', "TaskDistribution", "column 1: must be of type Integer, not negative"),
        ('<TaskDistribution type="Odd">2</TaskDistribution>', "TaskDistribution@type", "column 1: unknown value of the attribute"),
        ('<OutputFile redirectList="Append,Erase"/>', "OutputFile@redirectList", "column 1: unknown value of the attribute"),
        ('<InputFile redirectList="Append"/>', "InputFile@redirectList", "column 1: unknown value of the attribute"),
        ('<Dependency condition="OnFire">1</Dependency>', "Dependency@condition", "column 1: unknown value of the attribute"),
        ('<Processors consumptionRate="much">1</Processors>', "Processors@consumptionRate", "column 1: unknown value of the attribute"),
        ('<Feature aggregation="Range">a</Feature>', "Feature@aggregation", "column 1: unknown value of the attribute"),
        ("<TaskGroup><Id/></TaskGroup>", "Id", "column 12: is empty"),
        ("<TaskGroupDefaults>tg1</TaskGroupDefaults>", "TaskGroupDefaults", "column 1: defaults cannot be a reference"),
        ("<Telescope/>", "Telescope", "column 1: unknown element here"),
    ],
)  # fmt: skip
def test_faults_are_told_with_line_column_and_element(content, field, reason):
    with pytest.raises(ParseError) as caught:
        parse_object(f"<Job><Id>1</Id>\n{content}</Job>".encode(), source="f")
    error = caught.value
    assert (error.source, error.line, error.field, error.reason) == ("f", 2, field, reason)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("<Job><Name>a</Name></Job>", "1:Job: column 1: has no Id"),
        ("<JobGroup><Id>1</Id></JobGroup>", "1:JobGroup: column 1: has no Job"),
        ("<JobGroup><Job>1</Job></JobGroup>", "1:JobGroup: column 1: has no Id"),
        ("<Job/>", "1:Job: column 1: has no Id, and does not refer to another"),
        ("<Task><Id>1</Id></Task>", "1:Task: column 1: the root must be a Job or a JobGroup"),
        ('<Job units="x">1</Job>', "1:Job@units: column 1: unknown attribute here: 'x'"),
    ],
)
def test_documents_that_are_none(document, reason):
    with pytest.raises(ParseError) as caught:
        parse_object(document.encode())
    assert str(caught.value) == reason


# --- awareness policies, at every level -----------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "<Odd{}/>",
        "<TaskGroup{}><Odd/></TaskGroup>",
        "<TaskGroup><Task{}><Odd/></Task></TaskGroup>",
        "<TaskGroup><Task><Odd{}/></Task></TaskGroup>",
        "<Environment{}><Odd/></Environment>",
        '<Requested><Memory units="MiB"{}>1</Memory></Requested>',
        '<Requested{}><Memory units="MiB">1</Memory></Requested>',
        '<TaskDistribution type="Odd"{}>1</TaskDistribution>',
        '<User colour="red"{}>a</User>',
    ],
)
def test_the_nearest_policy_around_or_on_an_element_decides(content):
    policies = {"": "", **{each: f' awarenessPolicy="{each}"' for each in ("Reject", "Warn", "Ignore")}}
    for outer, around in policies.items():
        for inner, on in policies.items():
            data = f"<Job{around}><Id>1</Id>{content.format(on)}</Job>".encode()
            decides = inner or outer or "Reject"
            if decides == "Reject":
                with pytest.raises(ParseError, match="unknown"):
                    parse_object(data)
                continue
            parsed = parse_object(data)
            assert len(parsed.warnings) == (decides == "Warn")
            again = parse_object(format_object(parsed.root).encode())
            assert (again.root, again.warnings) == (parsed.root, ())


def test_the_policy_of_a_category_goes_to_its_properties():
    job = read(
        '<Requested awarenessPolicy="Ignore"><Memory>1</Memory><User awarenessPolicy="Warn">a</User></Requested>'
    )
    assert [each.text("awarenessPolicy") for each in job.requested] == ["Ignore", "Warn"]


def test_warnings_are_bounded():
    parsed = parse_object(b'<Job awarenessPolicy="Warn"><Id>1</Id>' + b"<Odd/>" * 1000 + b"</Job>")
    assert len(parsed.warnings) == 100


# --- typographic quotes ---------------------------------------------------------------


def test_typographic_quotes_are_repaired_only_on_request(sss_fixtures):
    data = (sss_fixtures / "typographic_quotes.xml").read_bytes()
    with pytest.raises(ParseError):
        parse_object(data)
    job = parse_object(data, lenient=True).root
    assert job.requested == (Property("Processors", 12, {"op": "GE"}),)
    assert (job.requested[0].line, job.requested[0].column) == (4, 5)


@pytest.mark.parametrize(
    ("written", "repaired"),
    [
        ("<A x=”1” y=“2” z=‘3’/>", '<A x="1" y="2" z="3"/>'),
        ("<A x=”a &lt; b”>”text”</A>", '<A x="a &lt; b">”text”</A>'),
        ('<A x="say ”hi”" y=’it’/>', '<A x="say ”hi”" y="it"/>'),
        ('<A x=”a"b”/>', '<A x="a&quot;b"/>'),
        ("<!-- <A x=”1”> --><A/>", "<!-- <A x=”1”> --><A/>"),
        ("<A><![CDATA[<B x=”1”>]]></A>", "<A><![CDATA[<B x=”1”>]]></A>"),
        ("<A x=”1", "<A x=”1"),
        ("<!-- <A x=”1”>", "<!-- <A x=”1”>"),
    ],
)
def test_only_quotes_around_attribute_values_are_repaired(written, repaired):
    from jobfeatures.formats.sss.xml import repair_quotes

    assert repair_quotes(written) == repaired


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<a ", '<a x="', "<a x=”", " x =", "<a" + " " * 50])
def test_repairing_takes_no_longer_than_a_document_is_long(piece):
    from jobfeatures.formats.sss.xml import repair_quotes

    text = "<a " + piece * (2**20 // len(piece))
    assert repair_quotes(text) == text  # quadratic work would run into the timeout


# --- anything at all ----------------------------------------------------------------------


@given(documents(), st.booleans())
def test_what_is_read_is_written_and_read_the_same(document, lenient):
    try:
        root = parse_object(as_bytes(document), lenient=lenient).root
    except ParseError:
        return
    assert parse_object(format_object(root).encode()).root == root


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")),
    st.booleans(),
)
def test_any_bytes_give_a_record_or_a_parse_error(data, lenient):
    try:
        parse_object(data, lenient=lenient)
    except ParseError:
        pass
