"""oarstat's and oarnodes' JSON: constructed, and captured from OAR 2.6.1."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.oar.answers import (
    NEEDED,
    arrays_in,
    make_job,
    make_record,
    parse_answer,
    parse_cluster,
    parse_nodes,
)
from jobfeatures.batch.oar.log import read_records, recognise
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.logkinds import read_log, write_log
from jobfeatures.records.model import Job, JobKey, JobState, Limits

FIXTURES = Path(__file__).parents[3] / "fixtures" / "oar"
ACTIVE = json.loads((FIXTURES / "oarstat.json").read_text())
ENDED = json.loads((FIXTURES / "ended.json").read_text())


def captured(name: str) -> dict[str, dict[str, object]]:
    """Return the answer of OAR 2.6.1 by the script that a job ran, in order."""
    answer = json.loads((FIXTURES / f"{name}-2.6.1.json").read_text())
    found = sorted(answer.values(), key=lambda each: each["Job_Id"])
    return {Path(each["command"]).stem or each["name"]: each for each in found}


def test_jobs_of_oar_2_6_are_told() -> None:
    answer = captured("oarstat")
    assert set(NEEDED) <= set.intersection(*(set(each) for each in answer.values()))
    arrays = arrays_in([json.loads((FIXTURES / "oarstat-2.6.1.json").read_text())])
    jobs = {name: make_job(each, arrays)[0] for name, each in answer.items()}
    plain, held = jobs["plain"], jobs["held"]
    assert (plain.name, plain.user, plain.account) == ('weird | "name" ü', "alice", "physics")
    assert (plain.partition, plain.total_cpus, plain.nodes) == ("default", 2, ("oar1",))
    assert plain.limits == Limits(wall_secs=1620, cpu_secs=3240)
    assert (held.state, held.reason, held.start_secs) == (JobState.PENDING, "JobHeld", None)
    assert {name for name, job in jobs.items() if job.reason} == {"held"}
    assert (jobs["array"].array_job_id, jobs["array"].array_task_id) == ("2", "2")
    assert jobs["besteffort"].partition == "besteffort"


def test_the_nodes_of_oar_2_6_are_told() -> None:
    text = (FIXTURES / "oarnodes-2.6.1.json").read_text()
    [node] = parse_cluster(text, source="oarnodes", taken_at_secs=1.0).nodes
    assert (node.name, node.states, node.cpus, node.allocated_cpus) == ("oar1", ("MIXED",), 32, 24)


@pytest.mark.parametrize(
    ("script", "state", "status", "signal"),
    [
        ("plain", JobState.COMPLETED, 0, None),
        ("preempted", JobState.PREEMPTED, None, None),
        ("deleted", JobState.CANCELLED, None, None),
        ("failed", JobState.FAILED, 3, None),
        ("crashed", JobState.FAILED, None, 11),
        ("overtime", JobState.TIMEOUT, None, None),
        ("signalled", JobState.FAILED, 9, None),
        ("prolonged", JobState.COMPLETED, 0, None),
        ("shell", JobState.COMPLETED, None, None),
    ],
)
def test_each_end_in_oar_2_6_is_told(
    script: str, state: JobState, status: int | None, signal: int | None
) -> None:
    notes = Notes()
    record = make_record(captured("ended")[script], notes, ())
    assert (record.state, record.exit_status, record.exit_signal) == (state, status, signal)
    assert record.end_secs is not None
    assert not {"state", "events", "exit_code", "walltime", "reservation"} & notes.not_taken.keys()


def test_a_job_s_wall_limit_is_the_one_that_was_changed() -> None:
    assert make_job(ACTIVE["101"]) == (
        Job(
            key=JobKey("oar", "101"),
            state=JobState.RUNNING,
            name="fit",
            user="alice",
            account="physics",
            partition="default",
            submit_secs=1795246400,
            start_secs=1795246410,
            nodes=("oar1",),
            total_cpus=2,
            total_nodes=1,
            limits=Limits(wall_secs=840, cpu_secs=1680),
        ),
        ("1", "2"),
    )


@pytest.mark.parametrize(
    ("job_id", "state"),
    [
        ("102", JobState.SUSPENDED),
        ("103", JobState.PENDING),
        ("105", JobState.RUNNING),
        ("106", JobState.COMPLETING),
    ],
)
def test_states_are_told_apart(job_id: str, state: JobState) -> None:
    assert make_job(ACTIVE[job_id])[0].state is state


def stood_still(state: str, *events: tuple[str, object]) -> Job:
    """Return a job of 120 s that began at 1000 and had events."""
    given = [{"type": kind, "date": date} for kind, date in events]
    values = {"Job_Id": 1, "state": state, "startTime": 1000, "walltime": 120, "assigned_resources": [1]}
    return make_job({**values, "submissionTime": 900, "stopTime": 0, "events": given})[0]


HOLD, RESUME = "HOLD_RUNNING_JOB", "RESUME_JOB"


@pytest.mark.parametrize(
    ("state", "events", "end_secs"),
    [  # the last is when the limit ends it by what is known at 1100, or would if it went on then
        ("Running", (), 1120),
        ("Running", ((HOLD, 1019),), 1120),  # asked, and not yet done
        ("Suspended", ((HOLD, 1019),), 1100 + 101),
        ("Resuming", ((HOLD, 1019), (RESUME, 1080)), 1100 + 101),
        ("Running", ((HOLD, 1019), (RESUME, 1080)), 1120 + 61),
        ("Running", ((HOLD, 1010), ("WALLTIME", 1011), (HOLD, 1012), (RESUME, 1020), (RESUME, 1030)), 1130),
        ("Suspended", ((HOLD, 1010), (RESUME, 1020), (HOLD, 1040)), 1100 + 90),
        ("Running", ((HOLD, 1010), (RESUME, 1020), (HOLD, 1040), (RESUME, 1060)), 1150),
        ("Running", ((RESUME, 1020), (HOLD, "x"), (RESUME, 1030)), 1120),
        ("Finishing", ((HOLD, 1010), (RESUME, 1020)), 1100),
        ("Running", ((HOLD, 900), (RESUME, 950)), 1120),  # held while it waited, by oarhold -r
        ("Suspended", ((HOLD, 900), (RESUME, 950), (HOLD, 1020)), 1200),
        # held again while it resumed: it is suspended again, also by oarhold without -r
        ("Running", ((HOLD, 1010), (RESUME, 1020), ("HOLD_WAITING_JOB", 1021), (RESUME, 1030)), 1139),
        ("Running", ((RESUME, 1050), (HOLD, 1020)), 1150),  # in no order
        ("Running", ((HOLD, 1020), (RESUME, 2**62)), 1120),
    ],
)
def test_time_for_which_a_job_stands_still_belongs_to_its_limit(
    state: str, events: tuple[tuple[str, object], ...], end_secs: int
) -> None:
    assert stood_still(state, *events).end_limit_at(1100) == end_secs


def test_events_follow_each_other_by_their_number_where_the_clock_was_set_back() -> None:
    """OAR, too, counts no time then."""
    given = [{"type": RESUME, "date": 1050, "event_id": 9}, {"type": HOLD, "date": 1080, "event_id": 8}]
    values = {"Job_Id": 1, "state": "Running", "startTime": 1000, "walltime": 120, "assigned_resources": [1]}
    job, _ = make_job({**values, "submissionTime": 900, "stopTime": 0, "events": given})
    assert job.end_limit_secs == 1120


def test_the_job_that_was_suspended_had_seven_seconds_more() -> None:
    """Captured: it was asked to stop at …162 and to go on at …169."""
    job, _ = make_job({**json.loads((FIXTURES / "ended-2.6.1.json").read_text())["7"], "state": "Running"})
    assert job.end_limit_secs == 1795852081 + 1740 + 7
    assert job.wall_limit_from_start_secs == 1747


def test_a_reservation_to_come_has_not_started() -> None:
    job, resources = make_job(ACTIVE["103"])
    assert (job.start_secs, job.planned_secs, resources) == (None, 1795250000, ())
    assert job.reason == "BeginTime"


def test_a_job_that_was_deleted_before_it_ran_ended_when_that_was_asked() -> None:
    """OAR gives it neither start nor end."""
    record = make_record({
        **ENDED["96"], "startTime": 0, "stopTime": 0, "assigned_resources": [], "assigned_network_address": [],
        "events": [{"type": "FRAG_JOB_REQUEST", "description": "", "date": 1795246500}],
    }, Notes(), ())  # fmt: skip
    assert (record.state, record.start_secs, record.end_secs) == (JobState.CANCELLED, None, 1795246500)


def test_a_job_of_an_array_names_it() -> None:
    job, _ = make_job(ACTIVE["105"])
    assert (job.array_job_id, job.array_task_id, job.user) == ("104", "2", "bob_b")


def test_the_first_job_of_an_array_is_told_by_another_one_of_it() -> None:
    first = {**ENDED["91"], "Job_Id": 104, "array_id": 104, "array_index": 1}
    second = {**first, "Job_Id": 105, "array_index": 2}
    alone = read_records([json.dumps({"104": first})], source="x", notes=Notes())
    assert [each.array_job_id for each in alone] == [None]
    both = read_records([json.dumps({"104": first, "105": second})], source="x", notes=Notes())
    assert [(each.array_job_id, each.array_task_id) for each in both] == [("104", "1"), ("104", "2")]
    again = {**first, "Job_Id": 106, "resubmit_job_id": 104}  # a plain job's second run keeps its array
    plain = read_records([json.dumps({"104": first, "106": again})], source="x", notes=Notes())
    assert [each.array_job_id for each in plain] == [None, None]


def test_a_plain_job_that_was_resubmitted_is_in_no_array() -> None:
    job, _ = make_job({**ACTIVE["105"], "array_index": 1, "resubmit_job_id": 104})
    assert (job.array_job_id, job.array_task_id) == (None, None)


@pytest.mark.parametrize(
    ("job_id", "state", "status", "signal"),
    [
        ("91", JobState.COMPLETED, 0, None),
        ("92", JobState.FAILED, 3, None),
        ("93", JobState.FAILED, None, 11),
        ("94", JobState.TIMEOUT, None, None),
        ("95", JobState.PREEMPTED, None, None),
        ("96", JobState.CANCELLED, None, None),
        ("97", JobState.FAILED, None, None),
        ("98", JobState.COMPLETED, None, None),
        ("99", JobState.FAILED, None, None),
    ],
)
def test_each_end_is_told(job_id: str, state: JobState, status: int | None, signal: int | None) -> None:
    record = make_record(ENDED[job_id], Notes(), ())
    assert (record.state, record.exit_status, record.exit_signal) == (state, status, signal)


def test_without_an_exit_code_nobody_knows_how_a_job_ended_but_an_interactive_one() -> None:
    values = {**ENDED["91"], "exit_code": None}
    job, _ = make_job(values)
    assert (job.state, job.end_secs) == (JobState.UNKNOWN, values["stopTime"])
    unread = make_record({**values, "exit_code": "x"}, Notes(), ())
    assert (unread.state, unread.state_word, unread.exit_status) == (JobState.UNKNOWN, "Terminated", None)
    assert make_job({**values, "jobType": "INTERACTIVE"})[0].state is JobState.COMPLETED


def test_a_reservation_that_was_refused_has_not_run() -> None:
    record = make_record(ENDED["97"], Notes(), ())
    assert (record.start_secs, record.end_secs, record.total_cpus) == (None, None, None)


def test_a_job_that_was_cancelled_before_it_ran_has_its_end() -> None:
    record = make_record({**ENDED["97"], "startTime": 0, "stopTime": 1795246500}, Notes(), ())
    assert (record.start_secs, record.end_secs, record.total_cpus) == (None, 1795246500, None)


@pytest.mark.parametrize(
    ("wanted", "cpus"),
    [
        ("-l \"{type = 'default'}/core=2,walltime=0:4:0\" ", 4),
        ("-l \"{(disktype='SSD') AND type = 'default'}/core=2,walltime=0:4:0\" ", 4),
        ("-l \"{type='disk'}/disk=2+{type = 'default'}/core=2,walltime=0:4:0\" ", None),
        ("-l \"{type = 'kavlan' or type='kavlan-local'}/vlan=1,walltime=0:4:0\" ", None),
        (None, 4),
    ],
)
def test_disks_and_vlans_of_a_job_are_no_cpus(wanted: str | None, cpus: int | None) -> None:
    job = {**ENDED["91"], "wanted_resources": wanted, "assigned_resources": [1, 2, 900, 901]}
    notes = Notes()
    record = make_record(job, notes, ())
    assert (record.total_cpus, record.nodes) == (cpus, ("oar1",))
    assert [name.partition(",")[0] for name in notes.unread] == ([] if cpus else ["assigned_resources"])
    assert make_job(job)[0].limits.cpu_secs == (cpus and cpus * record.wall_limit_secs)


def test_the_cpus_of_a_container_do_not_count_again_for_the_jobs_in_it() -> None:
    notes = Notes()
    container = make_record({**ENDED["91"], "types": ["container"]}, notes, ())
    inner = make_record({**ENDED["91"], "types": ["besteffort", "inner=91"]}, notes, ())
    assert (container.total_cpus, inner.total_cpus, inner.nodes) == (2, None, container.nodes)
    assert notes.not_taken["assigned_resources of an inner job, which its container has"] == 1
    assert not notes.unread


def test_what_is_not_taken_is_told() -> None:
    notes = Notes()
    make_record(ENDED["95"], notes, ())
    assert {"types", "wanted_resources", "message"} <= notes.not_taken.keys()
    assert not {"owner", "queue", "state", "walltime", "events", "exit_code"} & notes.not_taken.keys()


def test_finished_jobs_become_swf() -> None:
    lines = (FIXTURES / "ended.json").read_text().splitlines(keepends=True)
    assert recognise("".join(lines)[:4096])
    records = [each for each in read_log(lines, "oar", source="log") if isinstance(each, JobRecord)]
    assert [each.job_id for each in records] == [str(number) for number in range(91, 100)]
    swf = [line.split() for line in write_log(records, "swf", Notes()) if not line.startswith(";")]
    assert len(swf) == 9
    ended = {line[0]: line for line in swf}
    waits, runs, cpus, wanted, status = 2, 3, 4, 8, 10
    first = next(line for line in swf if line[status] == "1")
    assert (first[waits], first[runs], first[cpus], first[wanted]) == ("10", "60", "2", "45")
    assert len(ended) == 9


def test_answers_one_behind_the_other_tell_of_one_job() -> None:
    job = ENDED["91"]
    waits = {**job, "state": "Waiting", "startTime": 0, "stopTime": 0, "assigned_resources": []}
    runs = {**job, "state": "Running", "stopTime": 0}
    text = "\n".join(json.dumps({"91": each}) for each in (waits, runs, job))
    records = [
        each for each in read_records([text], source="log", notes=Notes()) if isinstance(each, JobRecord)
    ]
    assert len(records) == 3
    assert list(fold_jobs(records, lambda _: None)) == [records[2]]


def test_nodes_have_their_states_and_cpus() -> None:
    cluster = parse_cluster((FIXTURES / "oarnodes.json").read_text(), source="oarnodes", taken_at_secs=1.0)
    told = [(each.name, each.states, each.cpus, each.allocated_cpus) for each in cluster.nodes]
    assert told == [
        ("oar1", ("MIXED",), 4, 3),
        ("oar2", ("ALLOCATED", "DRAIN"), 4, 4),
        ("oar3", ("DOWN",), 1, 0),
    ]
    assert cluster.rejected == ()
    assert parse_nodes((FIXTURES / "oarnodes.json").read_text(), source="oarnodes")["5"] == "oar2"


def test_an_empty_answer_has_no_jobs() -> None:
    assert parse_answer("", source="oarstat") == parse_answer("\n", source="oarstat") == {}


@pytest.mark.parametrize("text", ["[]", "no", '{"1":', "3"])
def test_what_is_no_answer_is_an_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_answer(text, source="oarstat")
    assert [type(each) for each in read_records([text], source="x", notes=Notes())] == [Rejected]


@pytest.mark.parametrize(
    ("name", "value"),
    [("Job_Id", 0), ("Job_Id", "7;"), ("state", 3), ("stopTime", -1), ("assigned_resources", 3), ("startTime", True)],
)  # fmt: skip
def test_a_bad_value_costs_its_job_and_names_the_field(name: str, value: object) -> None:
    text = json.dumps({**ENDED, "91": {**ENDED["91"], name: value}})
    found = list(read_records([text], source="x", notes=Notes()))
    [bad] = [each for each in found if isinstance(each, Rejected)]
    assert len(found) == 9
    assert bad.field == f"91.{name}"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda each: st.lists(each, max_size=3)
)


@given(st.dictionaries(st.sampled_from(sorted(ENDED["94"])), VALUES))
def test_any_values_are_a_job_or_refused(changes: dict[str, object]) -> None:
    with contextlib.suppress(ParseError):
        make_record({**ENDED["94"], **changes}, Notes(), ())
    parse_cluster(json.dumps({"1": changes}), source="x", taken_at_secs=0.0)


def as_texts(value: object) -> object:
    """Return a value with each number as text, as older versions of Perl write those that were used as text."""
    if isinstance(value, dict):
        return {name: as_texts(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_texts(each) for each in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize("name", ["oarstat", "oarstat-2.6.1", "ended", "ended-2.6.1"])
def test_numbers_written_as_text_are_numbers(name: str) -> None:
    path = FIXTURES / f"{name}.json"
    if not path.exists():
        pytest.skip(f"there is no {path.name}")
    answer = json.loads(path.read_text())
    arrays = arrays_in([answer])
    assert answer
    for each in answer.values():
        texts = as_texts(each)
        assert make_job(texts, arrays) == make_job(each, arrays)
        assert make_record(texts, Notes(), arrays) == make_record(each, Notes(), arrays)
    found = list(read_records([json.dumps(as_texts(answer))], source="x", notes=Notes()))
    assert found == list(read_records([json.dumps(answer)], source="x", notes=Notes()))


def test_nodes_are_the_same_where_numbers_are_texts_and_texts_numbers() -> None:
    text = (FIXTURES / "oarnodes-2.6.1.json").read_text()
    answer = json.loads(text)
    cluster = parse_cluster(text, source="oarnodes", taken_at_secs=1.0)
    jobs = {
        name: {**each, "jobs": int(each["jobs"].split(",")[0]) if each.get("jobs") else None}
        for name, each in answer.items()
    }
    for other in (as_texts(answer), jobs):
        assert parse_cluster(json.dumps(other), source="oarnodes", taken_at_secs=1.0) == cluster


def test_the_one_job_that_another_waits_for_precedes_it():
    text = (FIXTURES / "ended-2.6.1.json").read_text()
    for dependencies, wanted in (("[10]", "10"), ("[10, 11]", None)):
        notes = Notes()
        found = list(
            read_records(
                [text.replace('"dependencies" : []', f'"dependencies" : {dependencies}')],
                source="x",
                notes=notes,
            )
        )
        assert {job.preceding_job_id for job in found} == {wanted}
        assert notes.not_taken["dependencies"] == (0 if wanted else len(found))


def test_a_job_of_oar_3_has_no_resources_for_the_controller_role():
    with pytest.raises(ParseError, match="OAR 3"):
        make_job({"id": 1905, "state": "Running", "start_time": 5})
