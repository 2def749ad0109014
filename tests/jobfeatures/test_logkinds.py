"""Which kinds there are, which one a text is, and the way from one to another."""

import json
from collections import Counter
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.folding import EARLIER_RUN, ORPHAN, REPORTED_AGAIN, STEP
from jobfeatures.joblogs.loggedjob import MORE, JobRecord, Notes
from jobfeatures.logkinds import KINDS, WRITABLE, KindError, kind_of_name, read_log, recognise_kind, write_log
from jobfeatures.records.model import UNLIMITED, JobState
from tests.jobfeatures.jobrecords import any_records

ROOT = Path(__file__).parents[2]

ENVELOPE = {"meta": {"producer": "sonar", "version": "0.18.0"}, "data": {"type": "job", "attributes": {}}}
# How texts of each kind begin; constructed.
BEGINNINGS = {
    "swf": [
        "; Version: 2.2\n; Computer: Cray\n",
        "  1 0 5 100 8 60 2048 8 3600 4096 1 7 2 2 3 1 -1 -1\n",
    ],
    "sss": ["<Job>\n<Id>1</Id>\n</Job>\n", '<?xml version="1.0" encoding="UTF-8"?>\n<JobGroup>\n<Job><Id>1</Id></Job>\n'],
    "sacct": ["JobID|User|State|Submit\n12|alice|COMPLETED|2026-01-31T13:00:00\n", "JobIDRaw@@State@@End\n"],
    "slurmjson": [
        '{"meta": {"plugin": {"type": "openapi/dbv0.0.37"}}, "jobs": []}\n',
        '{\n  "jobs": [\n    {\n      "account": "hep",\n      "allocation_nodes": 1,\n',
    ],
    "sonar": [json.dumps(ENVELOPE), json.dumps([ENVELOPE], indent=2)],
    "records": ['{"batch_system": "swf", "job_id": "1"}\n'],
    "htcondor": [
        'MyType = "Job"\nClusterId = 12\nProcId = 0\n*** Offset = 0 ClusterId = 12 ProcId = 0\n',
        '[\n{\n  "ClusterId": 12,\n  "ProcId": 0,\n  "JobStatus": 4\n}\n]\n',
    ],
    "pbs": ["01/31/2026 13:00:00;E;12.head;user=alice group=physics queue=batch ctime=1769864400\n"],
    "gridengine": [
        "# Version: 8.1.9\n#\nbatch.q:c1:users:alice:sleep:12:sge:0:1795246000:1795246010:1795246070:0:0:60:"
        + "0:" * 31 + "0\n",
        '{"job_number":12,"task_number":0,"qname":"all.q","hostname":"c1","failed":0}\n',
    ],
    "qacct": ["=" * 62 + "\nqname        all.q               \nhostname     n1\n"],
    "lsf": ['"JOB_FINISH" "10.1" 1795246070 12 6001 33554435 1 1795246000 0 0 1795246010 "alice" "normal"\n'],
    "oar": ['{\n "12" : {\n "events" : [\n {\n "type" : "X"\n }\n ],\n "cpuset_name" : "alice_12",\n', '{"7":{"assigned_resources":[],'],
}  # fmt: skip
NOTHING_KNOWN = [
    "",
    "\n \n",
    "hello\n",
    "{}",
    "[]",
    "<html>",
    "a|b|c\n",
    "1 2 3\n",
    "\x7fELF\x00\x01",
    "\ufffd" * 99,
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_beginning_of_each_kind_is_recognised_by_it_alone(kind):
    assert BEGINNINGS[kind]
    for head in BEGINNINGS[kind]:
        assert recognise_kind(head) == kind


@pytest.mark.parametrize("head", NOTHING_KNOWN)
def test_what_is_none_of_the_kinds_is_none(head):
    with pytest.raises(KindError):
        recognise_kind(head)


@given(st.text(max_size=300))
def test_no_beginning_breaks_the_recognition(head):
    try:
        assert recognise_kind(head) in KINDS
    except KindError:
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_after_any_line_is_still_not_taken_for_another(kind):
    for head in BEGINNINGS[kind]:
        lines = head.splitlines(keepends=True)
        for count in range(1, len(lines)):
            beginning = "".join(lines[:count])
            claimed = [name for name in KINDS if KINDS[name].reader().recognise(beginning)]
            assert claimed in ([], [kind])


@pytest.mark.parametrize("kind", KINDS)
def test_strict_reading_ends_at_the_first_fault(kind):
    lines = f"{BEGINNINGS[kind][0].rstrip()}\n{{nonsense\n*** Offset\n".splitlines(keepends=True)
    try:
        first = next(each for each in read_log(lines, kind, source="log") if isinstance(each, Rejected))
    except ParseError as error:
        first = error
    with pytest.raises(ParseError) as caught:
        list(read_log(lines, kind, source="log", strict=True))
    assert str(caught.value) == str(first)


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(max_size=200))
def test_no_text_breaks_a_tolerant_reader(kind, text):
    lines = (BEGINNINGS[kind][0] + text).splitlines(keepends=True)
    try:
        for each in read_log(lines, kind, source="log"):
            assert isinstance(each, JobRecord | Rejected)
    except ParseError:
        assert kind not in {"swf", "sonar", "records"}


@pytest.mark.parametrize("kind", WRITABLE)
@given(data=st.data())
def test_a_field_comes_back_or_is_lost_by_name(kind, data):
    one = any_records(**PLAIN.get(kind, {}))
    records = data.draw(st.lists(one, min_size=1, max_size=4, unique_by=lambda record: record.job_id))
    notes = Notes()
    lines = [f"{line}\n" for line in write_log(records, kind, notes)]
    found = list(read_log(lines, kind, source="log", strict=True))
    whole = [each for name, count in notes.lost.items() if name.startswith("job ") for each in [name] * count]
    assert len(found) + len(whole) == len(records)
    if whole:
        return
    for name in JobRecord.__dataclass_fields__:
        if name in {"batch_system", "source_text", "report", *MOVED.get(kind, ())}:
            continue
        before = Counter(value for each in records if (value := getattr(each, name)) not in (None, ()))
        after = Counter(getattr(each, name) for each in found)
        gone = before - after
        told = notes.lost[name] + (sum(notes.lost[each] for each in MORE) if name == "more" else 0)
        assert gone.total() <= told, (name, gone, notes.lost)


# Told in another field of the same meaning, or rounded: see docs/convert.md.
MOVED = {
    "swf": {"used_cpu_secs", "used_memory_bytes", "requested_memory_bytes"},
    "sonar": {"queue", "requested_memory_bytes", "total_nodes", "used_cpu_secs"},
}
PLAIN = {"swf": {"suspended_secs": None}}  # which the time that it ran is without


FIXTURES = ROOT / "tests/fixtures"
LOGS = {
    "pbs/accounting.txt": "pbs",
    "torque/accounting.txt": "pbs",
    "gridengine/accounting": "gridengine",
    "gridengine/qacct": "qacct",
    "htcondor/history": "htcondor",
    "htcondor/history.json": "htcondor",
    "lsf/lsb.acct": "lsf",
    "oar/ended.json": "oar",
    "slurm/json/accounting.txt": "sacct",
    "slurm/json/accounting-v0.0.38.json": "slurmjson",
    "slurm/json/jobs-v0.0.37.json": "slurmjson",
    "sss/job_group.xml": "sss",
}


@pytest.mark.parametrize("to_kind", WRITABLE)
@pytest.mark.parametrize("name", LOGS)
def test_logs_of_every_kind_become_logs_of_every_other(name, to_kind):
    """What was captured or constructed for the readers; see the README beside each."""
    text = (FIXTURES / name).read_text(encoding="utf-8", errors="replace")
    assert recognise_kind(text[:4096]) == LOGS[name]
    notes = Notes()
    records = notes.accepted(read_log(text.splitlines(keepends=True), LOGS[name], source=name, zone=UTC))
    lines = [f"{line}\n" for line in write_log(records, to_kind, notes)]
    assert notes.read > 0
    if KINDS[to_kind].jobs_only:
        gone = sum(notes.folded[each] for each in (STEP, EARLIER_RUN, ORPHAN, REPORTED_AGAIN))
    else:
        gone = 0
    gone += sum(count for each, count in notes.lost.items() if each.startswith("job "))
    if notes.read > gone:
        assert recognise_kind("".join(lines)[:4096]) == to_kind
    found = list(read_log(lines, to_kind, source="again", strict=True, zone=UTC))
    assert len(found) == notes.read - gone


def test_no_file_of_the_other_tests_is_taken_for_two_kinds():
    modules = [kind.reader() for kind in KINDS.values()]
    for path in FIXTURES.rglob("*"):
        if path.is_file():
            head = path.read_bytes()[:4096].decode("utf-8", "replace")
            assert sum(module.recognise(head) for module in modules) <= 1, path


def test_what_an_output_is_called_says_its_kind():
    endings = (".gz", ".zst")
    assert kind_of_name("log.swf", endings) == "swf"
    assert kind_of_name("/a.b/log.jsonl.zst", endings) == "records"
    for name in ("log", "log.txt", "-", "swf", "log.swf.rar"):
        with pytest.raises(KindError, match="--to"):
            kind_of_name(name, endings)


def test_no_two_kinds_claim_an_ending():
    endings = [ending for kind in KINDS.values() for ending in kind.endings]
    assert len(endings) == len(set(endings))
    assert [name for name, kind in KINDS.items() if kind.endings] == list(WRITABLE)


def test_of_many_rejected_records_the_first_are_kept_and_all_are_counted():
    notes = Notes()
    assert list(notes.accepted(Rejected("log", "no", line) for line in range(1, 31))) == []
    assert (notes.rejected, [each.line for each in notes.shown]) == (30, list(range(1, 21)))
    assert not notes.is_whole


def test_a_job_that_has_no_place_is_more_than_a_field():
    notes = Notes()
    notes.count_lost("account")
    assert notes.is_whole
    notes.count_lost("job of unknown state")
    assert not notes.is_whole


MEMORY = ["used_memory_bytes", "requested_memory_bytes"]


@pytest.mark.parametrize("kind", WRITABLE)
@pytest.mark.parametrize("field", MEMORY)
@pytest.mark.parametrize("size", [5, 400, 1001, 3 * 1024 + 1, 16384, UNLIMITED])
def test_memory_comes_back_as_it_was_or_is_named_and_never_becomes_unknown_or_nothing_unsaid(
    kind, field, size
):
    if size is UNLIMITED and field == "used_memory_bytes":
        return
    ran = {"submit_secs": 100, "start_secs": 110, "end_secs": 170, "state": JobState.COMPLETED}
    job = JobRecord(
        batch_system="slurm", job_id="5", total_cpus=4, total_nodes=1, nodes=("n1",), **ran, **{field: size}
    )
    notes = Notes()
    lines = [f"{line}\n" for line in write_log([job], kind, notes)]
    [back] = read_log(lines, kind, source="log")
    same = getattr(back, field) == size
    assert bool([name for name in notes.lost if name.startswith(field)]) is not same
    assert same or size is UNLIMITED or getattr(back, field) >= size / 2


@pytest.mark.parametrize("kind", ["gridengine", "pbs", "lsf", "records", "swf"])
@pytest.mark.parametrize("first", ["cut in mid-line 5 0\n", "x:y:z\n"])
def test_a_log_that_begins_with_a_damaged_line_is_known_by_the_others(kind, first):
    line = (
        next(head for head in BEGINNINGS[kind] if head.strip()[:1] not in {";", "#"}).strip().split("\n")[-1]
    )
    assert recognise_kind(first + f"{line}\n" * 3) == kind
    with pytest.raises(KindError, match=rf"closest to {kind} \(1 of 4 lines\)"):
        recognise_kind(first * 3 + f"{line}\n")
