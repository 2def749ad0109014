"""SSS documents as logs of jobs. Expected values are written by hand from the documents."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.records import read_records, recognise
from jobfeatures.formats.sss.writerecords import write_records
from jobfeatures.joblogs import loggedjob as joblog
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.records.model import UNLIMITED, JobState
from tests.jobfeatures.formats.sss.documents import as_bytes, documents
from tests.jobfeatures.formats.sss.elementwriter import write_job

MIB = 2**20


def read(text: str, **options):
    return list(read_records(io.StringIO(text, newline="\n"), source="f", **{"notes": Notes(), **options}))


def write(*records: JobRecord) -> tuple[str, list[str]]:
    lost: list[str] = []
    return "\n".join(write_records(records, lost.append)) + "\n", lost


def ids(found) -> list[str]:
    return [each.job_id if isinstance(each, JobRecord) else f"{each.line}: {each.reason}" for each in found]


# --- whether it is one ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        ("<Job><Id>1</Id>", True),
        ("\ufeff<?xml version='1.0'?>\n<!-- a\nlog -->\n<JobGroup awarenessPolicy='Warn'>", True),
        ("<JobGroup>", True),
        ("<Jobs>", False),
        ("<classads><c>", False),
        ("; Version: 2.2\n", False),
        ("JobID|State\n", False),
        ("", False),
    ],
)
def test_documents_are_recognised_by_their_first_element(head, is_one):
    assert recognise(head) is is_one


def test_a_text_of_many_comments_is_looked_at_once():
    assert not recognise("<!-- a -->" * 60 + "<a>"), "or it takes years"
    assert recognise("<!-- a -->\n" * 60 + "<Job>")


def test_what_is_written_is_recognised():
    assert recognise(write()[0])


# --- one job ------------------------------------------------------------------------------


def test_the_moderate_example(sss_fixtures):
    assert read((sss_fixtures / "moderate.xml").read_text()) == [
        JobRecord(
            batch_system="sss",
            job_id="demo.18.0",
            state=JobState.COMPLETED,
            name="Light Ice",
            user="grace",
            account="glaciology",
            queue="night",
            qos="low",
            executable="/opt/icesheet/bin/icesheet",
            start_secs=1700000000,
            end_secs=1700000900,
            total_cpus=16,
            requested_cpus=12,
            requested_memory_bytes=2048 * MIB,
            wall_limit_secs=3600,
        )
    ]


def test_a_group_with_defaults(sss_fixtures):
    found = read((sss_fixtures / "job_group.xml").read_text())
    assert ids(found) == ["voyage.0", "voyage.1", "60: column 5: unknown element here"]
    first, second, _ = found
    assert (first.user, first.account, first.submit_secs) == ("keiko", "Exploration", 1690000000)
    assert (first.nodes, first.total_cpus, first.requested_cpus) == (("node1", "node12"), 2, 2)
    assert (first.used_memory_bytes, first.cpu_limit_secs, first.wall_limit_secs) == (
        975 * MIB,
        UNLIMITED,
        3600,
    )
    assert (second.state, second.user, second.wall_limit_secs) == (JobState.PENDING, "sulu", 12 * 3600)
    assert (second.requested_cpus, second.requested_memory_bytes) == (
        12,
        512 * MIB,
    )  # of alternatives the least


def test_everything(sss_fixtures):
    notes = Notes()
    record, reference = read((sss_fixtures / "everything.xml").read_text(), notes=notes)
    assert (record.job_id, record.submit_secs, record.priority) == ("survey.1", 1690000000, -5)
    assert (record.total_cpus, record.requested_cpus, record.cpu_limit_secs) == (12, None, 1000)
    assert (record.used_memory_bytes, record.requested_memory_bytes) == (975 * MIB, None)
    assert record.nodes == ("node1",)
    assert (reference.line, reference.field, reference.text) == (78, "Job", "survey.0")
    assert notes.not_taken["Telescope (awarenessPolicy Warn)"] == 1


@pytest.mark.parametrize(
    ("content", "field", "value"),
    [
        ("<State>Completed</State><ExitCode>1</ExitCode>", "state", JobState.FAILED),
        ("<State>Completed</State><ExitCode>0</ExitCode>", "state", JobState.COMPLETED),
        ("<StartTime>100</StartTime><State>Completed</State><Duration>60</Duration>", "end_secs", 160),
        ("<StartTime>100</StartTime><State>Running</State><Duration>60</Duration>", "end_secs", None),
        ("<State>Running</State><Duration>60</Duration>", "wall_limit_secs", 60),
        ("<State>Completed</State><Duration>60</Duration>", "wall_limit_secs", None),
        ("<State>Idle</State><Processors>4</Processors>", "requested_cpus", 4),
        ("<State>Idle</State><Processors>4</Processors>", "total_cpus", None),
        ("<State>Running</State><Processors>4</Processors>", "total_cpus", 4),
        ('<Requested><Memory preference="1">4</Memory></Requested>', "requested_memory_bytes", None),
        ('<Requested><Memory op="LE">4</Memory><Memory op="GE">2</Memory></Requested>', "requested_memory_bytes", 4 * MIB),
        ('<ResourceLimit name="MaxMemory">8</ResourceLimit>', "requested_memory_bytes", 8 * MIB),
        ('<Delivered><Memory metric="Average">4</Memory></Delivered>', "used_memory_bytes", None),
        ('<Delivered><Memory metric="Max">4</Memory><Memory metric="Average">3</Memory></Delivered>', "used_memory_bytes", 4 * MIB),
        ('<Node aggregation="Range">n[1-3]</Node>', "nodes", ("n1", "n2", "n3")),
        ('<Node aggregation="Pattern">n.*</Node>', "nodes", ()),
        ("<StartCount>3</StartCount>", "restarts", 2),
        ("<ResourceManagerType>pbs</ResourceManagerType>", "batch_system", "pbs"),
        ("<Dependency>0</Dependency>", "preceding_job_id", "0"),
        ("<Dependency>0</Dependency><Dependency>1</Dependency>", "preceding_job_id", None),
    ],
)  # fmt: skip
def test_which_value_counts(content, field, value):
    (record,) = read(f"<Job><Id>1</Id>{content}</Job>")
    assert getattr(record, field) == value


# --- streams --------------------------------------------------------------------------------


def job(job_id: str, more: str = "") -> str:
    return f"<Job><Id>{job_id}</Id>{more}</Job>\n"


def test_documents_may_follow_each_other():
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    group = f"<JobGroup><Id>g</Id>\n{job('3')}{job('4')}</JobGroup>\n"
    text = (
        "\ufeff"
        + declaration
        + job("1")
        + job("2").strip()
        + declaration[:0]
        + "\n"
        + declaration
        + group
        + job("5")
    )
    assert ids(read(text)) == ["1", "2", "3", "4", "5"]
    assert ids(read("".join(job(str(n)) for n in range(3)).replace("\n", ""))) == ["0", "1", "2"]
    assert read("") == read("\n \n") == []


def test_a_whole_log_may_stand_on_one_line():
    text = (
        "<JobGroup>"
        + "".join(job(str(n), f"<Name>{'x' * 1500}</Name>").strip() for n in range(1500))
        + "</JobGroup>"
    )
    assert len(text) > 2 * MIB
    assert ids(read(text)) == [str(n) for n in range(1500)]


def test_what_stands_before_a_fault_on_its_line_is_read():
    assert ids(read(f"{job('1').strip()}{job('2').strip()}<Job><Id></Job>\n{job('3')}")) == [
        "1", "2", "1: column 54: mismatched tag", "3",
    ]  # fmt: skip


def test_defaults_hold_before_and_after_them():
    defaults = "<JobDefaults>\n<User>a</User></JobDefaults>\n"
    text = f"<JobGroup>\n<Id>g</Id>\n{job('1')}{defaults}{job('2')}{job('3', '<User>b</User>')}</JobGroup>\n{job('4')}"
    assert [(each.job_id, each.user) for each in read(text)] == [
        ("1", "a"),
        ("2", "a"),
        ("3", "b"),
        ("4", None),
    ]


def test_defaults_that_come_very_late_are_an_error_and_hold_from_there(monkeypatch):
    monkeypatch.setattr("jobfeatures.formats.sss.stream.MAX_HELD", 100)
    many = "".join(job(str(n)) for n in range(101))
    text = f"<JobGroup>\n{many}<JobDefaults><User>a</User></JobDefaults>\n{job('x')}</JobGroup>\n"
    found = read(text)
    assert ids(found)[-2:] == [
        "103: column 1: comes after many jobs, to which it was not applied",
        "x",
    ]
    assert [each.user for each in (found[0], found[-1])] == [None, "a"]


def test_few_large_jobs_wait_for_defaults(monkeypatch):
    monkeypatch.setattr("jobfeatures.formats.sss.stream.MAX_HELD_SIZE", 2**22)
    large = "".join(job(str(n), f"<Name>{'x' * 900_000}</Name>") for n in range(8))
    text = f"<JobGroup>\n{large}<JobDefaults><User>a</User></JobDefaults>\n{job('x')}</JobGroup>\n"
    found = [
        each
        for each in read_records(text.splitlines(keepends=True), source="f", notes=Notes())
        if isinstance(each, Rejected)
    ]
    assert found[0].reason == "column 16: longer than 131072 characters"  # none is kept, all are told
    assert found[-1].reason == "column 1: comes after many jobs, to which it was not applied"


def test_what_is_broken_costs_its_document_or_its_job_only():
    text = (
        f"{job('1')}<Job><Id>2</Id><User></Job>\n more\n{job('3')}"
        f"<JobGroup>\n<JobDefaults><User>a</User></JobDefaults>\n{job('4')}<Job><Id>5</Id>\n<Name>&bad;</Name>\n</Job>\n"
        f"{job('6')}</JobGroup>\n{job('7')}<Job><Id>8</Id>\n"
    )
    found = read(text)
    assert ids(found) == [
        "1", "2: column 24: mismatched tag", "3", "4", "9: column 7: undefined entity", "6", "7",
        "15: column 1: the document is not complete",
    ]  # fmt: skip
    assert [each.user for each in found if isinstance(each, JobRecord)] == [None, None, "a", "a", None]


def test_the_end_of_a_group_is_seen_while_nothing_else_is_understood():
    text = f"<JobGroup>\n<JobDefaults><User>a</User></JobDefaults>\n<Job><Id></Job>\n</JobGroup>\n{job('1')}"
    assert [each.user for each in read(text) if isinstance(each, JobRecord)] == [None]


def test_refused_defaults_refuse_the_jobs_of_their_group():
    text = f"<JobGroup>\n<JobDefaults><Moon/></JobDefaults>\n{job('1')}</JobGroup>\n{job('2')}"
    assert ids(read(text)) == [
        "2: column 14: unknown element here",
        "3: column 1: skipped, because the JobDefaults of its group were rejected",
        "2",
    ]
    text = f"<JobGroup moon='1'>\n{job('1')}</JobGroup>\n"
    assert ids(read(text)) == [
        "1: column 1: unknown attribute here",
        "2: column 1: skipped, because its JobGroup was rejected",
    ]


def test_the_policy_of_a_group_holds_for_its_jobs():
    text = f"<JobGroup awarenessPolicy='Warn'>\n<Moon/>\n{job('1', '<Star/>')}</JobGroup>\n"
    notes = Notes()
    assert ids(read(text, notes=notes)) == ["1"]
    assert notes.not_taken == {"Moon (awarenessPolicy Warn)": 1, "Star (awarenessPolicy Warn)": 1}


@pytest.mark.parametrize(
    "text",
    ["<html>\n<body/>\n</html>\n", "no markup\n", "\n\nno markup\n", "<Job><Id>1</Id></Job>text\n<!-- -->\n",
     "<JobGroup>\n text\n</JobGroup>\n", "<!DOCTYPE a [<!ENTITY x 'y'>]>\n<Job><Id>1</Id></Job>\n", "<JobGroup><Id>g</Id>"],
)  # fmt: skip
def test_what_is_no_log_is_said(text):
    assert any(isinstance(each, Rejected) for each in read(text))
    with pytest.raises(ParseError, match=r"^f:"):
        read(text, strict=True)


def test_a_strict_reader_stops_at_the_first_fault_with_its_place():
    with pytest.raises(ParseError) as caught:
        read(job("1") + job("2", "<Priority>x</Priority>"), strict=True)
    assert str(caught.value) == "f:2:Priority: column 16: must be of type Integer: 'x'"


def test_a_tolerant_reader_repairs_quotes_and_says_so(sss_fixtures):
    text = (sss_fixtures / "typographic_quotes.xml").read_text()
    notes = Notes()
    [record] = read(text, notes=notes)
    assert (record.job_id, record.requested_cpus) == ("demo.19.0", 12)
    assert notes.repaired == {"lines with typographic quotes": 1}
    with pytest.raises(ParseError, match="4: column 20: not well-formed"):
        read(text, strict=True)


def test_a_part_that_never_ends_is_refused_and_memory_is_bounded():
    lines = ["<Job><Id>1</Id><Name>\n", *["x" * 1000 + "\n"] * 1200, "</Name></Job>\n", job("2")]
    found = list(read_records(lines, source="f", notes=Notes()))
    assert "larger than 1048576 characters" in found[0].reason
    assert ids(found)[-1] == "2"
    found = list(
        read_records(['<Job><Id a="\n', *["x" * 1000 + "\n"] * 1200, job("2")], source="f", notes=Notes())
    )
    assert ids(found)[-1] == "2"


def test_blank_lines_between_many_jobs_are_not_kept():
    import tracemalloc

    def lines():
        yield "<JobGroup>\n<JobDefaults/>\n"
        for number in range(60):
            yield job(str(number))
            yield " " * 500_000 + "\n"
        yield "</JobGroup>\n"

    tracemalloc.start()
    count = sum(isinstance(each, JobRecord) for each in read_records(lines(), source="f", notes=Notes()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 60
    assert peak < 15 * MIB  # the blanks alone are 30 MB


# --- there and back -----------------------------------------------------------------------

TEXT = (
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)
COUNT = st.integers(0, 2**63 - 1)
LIMIT = COUNT | st.just(UNLIMITED) | st.none()
TEXTS = [
    "name", "user", "group", "account", "queue", "partition", "executable", "reservation", "array_job_id",
    "array_task_id", "het_job_id", "workflow_id", "preceding_job_id", "qos", "cluster", "state_word",
]  # fmt: skip
COUNTS = [
    "uid", "gid", "submit_secs", "eligible_secs", "start_secs", "end_secs", "suspended_secs", "total_nodes",
    "total_cpus", "total_gpus", "requested_nodes", "requested_cpus", "requested_gpus", "used_cpu_secs",
    "used_memory_bytes", "het_offset", "think_secs", "run_secs", "user_cpu_secs", "system_cpu_secs",
    "energy_joules",
]  # fmt: skip
RECORDS = st.builds(
    JobRecord,
    batch_system=TEXT,
    job_id=st.text("abz019.-_[]", min_size=1, max_size=12),
    state=st.sampled_from(JobState),
    nodes=st.lists(TEXT.filter(lambda name: "," not in name), unique=True, max_size=3).map(tuple),
    priority=st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
    exit_status=st.none() | st.integers(-300, 300),
    exit_signal=st.none() | st.integers(-64, 64),
    restarts=st.none() | st.integers(0, 2**62),
    is_interactive=st.none() | st.booleans(),
    requested_memory_bytes=LIMIT,
    wall_limit_secs=LIMIT,
    cpu_limit_secs=LIMIT,
    **{name: st.none() | TEXT for name in TEXTS},
    **{name: st.none() | COUNT for name in COUNTS},
)


def test_the_strategy_has_every_field_but_the_step():
    said = {
        *TEXTS,
        *COUNTS,
        "batch_system",
        "job_id",
        "state",
        "nodes",
        "priority",
        "exit_status",
        "exit_signal",
    }
    said |= {"restarts", "requested_memory_bytes", "wall_limit_secs", "cpu_limit_secs", "step", "report"}
    said |= {"is_interactive", "more", "source_text"}
    assert said == {each.name for each in fields(JobRecord)}


@given(st.lists(RECORDS, max_size=3))
def test_what_is_written_is_read_the_same_and_nothing_is_lost(records):
    text, lost = write(*records)
    assert lost == []
    assert read(text, strict=True) == records


ANY_TEXT = st.none() | st.sampled_from(
    ["a", "u-1", "", " a", "a<b>&\"'", "ü", "a\rb", "a\x07", "ab" * 60, "x,y"]
)
ANY_NUMBER = st.none() | st.sampled_from(
    [0, 1, -1, 7.5, 8.0, 2**63 - 1, 2**63, float("inf"), float("nan"), True]
)
ANY_LIMIT = ANY_NUMBER | st.just(UNLIMITED)
ODD = st.builds(
    JobRecord,
    batch_system=ANY_TEXT.filter(bool),
    job_id=st.sampled_from(["1", "7.pbs", "a&b", "a b", "", "ü", "a" * 181]),
    step=st.sampled_from([None, None, None, "0"]),
    state=st.sampled_from(JobState),
    nodes=st.lists(st.sampled_from(["c1", "c-2", "a,b", "", " c", "<"]), max_size=3).map(tuple),
    is_interactive=st.none() | st.booleans(),
    more=st.sampled_from([(), (("distribution", "block"),)]),
    **dict.fromkeys(["requested_memory_bytes", "wall_limit_secs", "cpu_limit_secs"], ANY_LIMIT),
    **dict.fromkeys(TEXTS, ANY_TEXT),
    **dict.fromkeys([*COUNTS, "priority", "exit_status", "exit_signal", "restarts"], ANY_NUMBER),
)


@given(st.lists(ODD, max_size=8), st.integers(1, 4))
def test_text_is_that_of_the_elements_of_each_job(records, at_once):
    lost: list[str] = []
    expected = "".join(f"{job}\n" for each in records if (job := write_job(each, lost.append)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joblog, "AT_ONCE", at_once)
        text, told = write(*records)
    assert (
        text == f'<?xml version="1.0" encoding="UTF-8"?>\n<JobGroup>\n  <Id>log</Id>\n{expected}</JobGroup>\n'
    )
    assert Counter(told) == Counter(lost)


def test_what_is_written_is_a_whole_document():
    text, _ = write(JobRecord(batch_system="pbs", job_id="1"), JobRecord(batch_system="pbs", job_id="2"))
    group = parse_object(text.encode()).root
    assert (group.id, [each.id for each in group.jobs]) == ("log", ["1", "2"])


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"step": "0"}, "step"),
        ({"more": (("distribution", "block"),)}, "distribution"),
        ({"job_id": "a b"}, "job without a usable id"),
        ({"name": "a\x07"}, "name"),
        ({"user": " a"}, "user"),
        ({"nodes": ("a,b",)}, "nodes"),
        ({"nodes": ("a", "a")}, "nodes"),
        ({"submit_secs": 1.5}, "submit_secs: fractions"),
        ({"submit_secs": -1}, "submit_secs"),
        ({"used_cpu_secs": float("inf")}, "used_cpu_secs"),
        ({"used_cpu_secs": float("nan")}, "used_cpu_secs"),
        ({"used_memory_bytes": 2**63}, "used_memory_bytes"),
        ({"restarts": 2**63 - 1}, "restarts"),
    ],
)
def test_what_has_no_place_is_told(changes, lost):
    text, told = write(JobRecord(**{"batch_system": "x", "job_id": "1", **changes}))
    assert told == [lost]
    assert not [each for each in read(text) if isinstance(each, Rejected)]


# --- anything at all ------------------------------------------------------------------------


@given(
    st.lists(st.one_of(documents().map(lambda each: as_bytes(each).decode()), st.text(max_size=20), st.just("</JobGroup>"), st.just("<JobGroup>")), max_size=4),
    st.sampled_from(["", "\n"]),
)  # fmt: skip
def test_any_stream_gives_records_and_rejections(parts, between):
    lines = between.join(parts).splitlines(keepends=True)
    for each in read_records(lines, source="f", notes=Notes()):
        assert isinstance(each, JobRecord) or each.source == "f"
    with contextlib.suppress(ParseError):
        list(read_records(lines, source="f", strict=True, notes=Notes()))


@pytest.mark.parametrize(
    "times", ["", "<EndTime>180</EndTime>", "<SubmitTime>10</SubmitTime><EndTime>180</EndTime>"]
)
def test_a_run_time_without_a_start_is_kept(times):
    delivered = "<Delivered><Processors>4</Processors><Duration>50</Duration></Delivered>"
    [job] = read(f"<Job><Id>1</Id><State>Completed</State>{times}{delivered}</Job>")
    assert (job.run_secs, job.start_secs) == (50, None)


@pytest.mark.parametrize(
    ("op", "size"), [("GE", 2 * 2**30), ("EQ", 2 * 2**30), ("LE", 2 * 2**30), ("NE", None)]
)
def test_memory_that_is_asked_for_at_least_is_asked_for(op, size):
    """Source: the specification's moderate example."""
    text = f'<Job><Id>1</Id><Requested><Memory op="{op}" units="GB">2</Memory></Requested></Job>'
    assert read(text)[0].requested_memory_bytes == size
