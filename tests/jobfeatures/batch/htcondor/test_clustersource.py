"""The pool's source, with stand-ins for commands."""

from __future__ import annotations

import json

import pytest

from jobfeatures.analysis.schedule.live.facts import from_record, why_not
from jobfeatures.batch.htcondor.clustersource import CondorPool
from jobfeatures.errors import CommandError, SourceError
from jobfeatures.records.model import JobState
from tests.configured import settings_for
from tests.jobfeatures.batch.htcondor.standins import FIXTURES, show


@pytest.fixture
def pool(clock, command):
    def make(queue=None, status=None, history=None, timeout_secs=60.0, **more):
        command("condor_q", queue or show("queue.json"))
        command("condor_history", history or show("history.json"))
        condor_status = command("condor_status", status or show("status.json"))
        config = settings_for("htcondor", htcondor_condor_status=condor_status, **more)
        return CondorPool(config, clock, timeout_secs)

    return make


def test_only_attributes_that_are_read_are_requested(pool, tmp_path):
    made = pool(htcondor_wall_limit_attributes="MaxRuntime, Walltime")
    assert len(made.poll_queue().jobs) == 5
    assert len(made.poll_cluster().nodes) == 4
    asked = (tmp_path / "calls").read_text()
    assert "['-global', '-allusers', '-json', '-attributes', 'ClusterId,ProcId," in asked
    assert "MaxRuntime,Walltime'" in asked
    assert "['-json', '-attributes', 'Name,Machine," in asked


def test_accounting_joins_queue_and_history(pool, tmp_path):
    history = (FIXTURES / "history.json").read_text()
    named = history.replace(
        '"ClusterId": 4711,', '"ClusterId": 4711, "GlobalJobId": "submit.example.org#4711.3#1",'
    )
    accounting = pool(history=f"print({named!r})").poll_accounting(1000.9)
    records = {record.key.job_id: record for record in accounting.records}
    there = ("4711.3", "4712.0", "4713.0", "4714.0", "4715.0")
    assert set(records) == {*(f"{each}@submit.example.org" for each in there), "4716.0", "4717.0"}
    records = {name.partition("@")[0]: record for name, record in records.items()}
    assert (records["4711.3"].state, records["4711.3"].end_secs) == (
        JobState.COMPLETED,
        1795249600,
    )  # by its history
    assert (records["4712.0"].state, records["4715.0"].state) == (
        JobState.PENDING,
        JobState.RUNNING,
    )
    asked = (tmp_path / "calls").read_text()
    assert "'-constraint', 'CompletionDate >= 999 || EnteredCurrentStatus >= 999'" in asked
    ended = [each for each in map(from_record, records.values()) if each.end_secs is not None]
    assert {each.job_id.partition("@")[0]: why_not(each) for each in ended} == {
        **dict.fromkeys(("4711.3", "4714.0", "4717.0")),
        "4716.0": "never_started",
    }


@pytest.mark.parametrize(
    ("queued", "ended", "expected"),
    [
        ("ab", "", {"1.0@a": "a", "1.0@b": "b"}),
        ("b", "a", {"1.0@b": "b", "1.0@a": "a, ended"}),  # the history is the local schedd's
        ("ab", "a", {"1.0@a": "a, ended", "1.0@b": "b"}),
        ("a", "a", {"1.0@a": "a, ended"}),
    ],
)
def test_jobs_of_two_schedds_with_one_number_have_records_of_their_own(pool, queued, ended, expected):
    def ads(schedds, status, suffix=""):
        return [
            {"ClusterId": 1, "ProcId": 0, "JobStatus": status, "Owner": f"{schedd}{suffix}"}
            | {"GlobalJobId": f"{schedd}#1.0#5"}
            for schedd in schedds
        ]

    queue, history = (f"print({json.dumps(each)!r})" for each in (ads(queued, 1), ads(ended, 4, ", ended")))
    records = pool(queue=queue, history=history).poll_accounting(0.0).records
    assert {each.job_id: each.user for each in records} == expected
    assert len(records) == len(expected)


@pytest.mark.parametrize(
    "body",
    [
        "sys.exit('no such collector')", "print('[{'); sys.exit(0)", "print('Error: Collector: Fehler')",
        "import time; time.sleep(60)", "while True: print('x' * 10**6)",
    ],
)  # fmt: skip
def test_a_command_that_fails_or_hangs_or_prints_half_is_an_error(pool, body, monkeypatch):
    monkeypatch.setattr("jobfeatures.batch.programs.MAX_ANSWER_BYTES", 2**21)
    made = pool(body, body, body, timeout_secs=0.3 if "sleep" in body else 60.0)
    for ask in (made.poll_queue, made.poll_cluster, lambda: made.poll_accounting(0.0)):
        with pytest.raises(SourceError):
            ask()


def test_a_missing_command_is_an_error(clock):
    source = CondorPool(
        settings_for("htcondor", htcondor_condor_status="/nonexistent/condor_status"), clock, 60.0
    )
    with pytest.raises(CommandError) as caught:
        source.poll_queue()
    assert caught.value.kind == "missing"


def test_a_banner_in_front_does_no_harm(pool):
    banner = "print('WARNING: the {collector} is old')\n"
    assert len(pool(queue=banner + show("queue.json")).poll_queue().jobs) == 5


def test_an_empty_pool_is_no_answer(pool):
    with pytest.raises(SourceError, match="no machines"):
        pool(status="print('[]')").poll_cluster()


# --- schedds that do not answer ----------------------------------------------------------------

SCHEDDS = {name: f"<10.9.9.1:9618?addrs=10.9.9.1-9618&noUDP&sock={name}>" for name in ("a", "b", "c")}
SAID = "SECMAN:2007:Read failure during security negotiation."


def collector(*names):
    """Return the line of a condor_status that knows these schedds; it has no startd."""
    ads = [{"Name": name, "MyAddress": SCHEDDS[name]} for name in names]
    return f"print({json.dumps(ads)!r} if '-schedd' in sys.argv else '[]')"


def queue_of(*names, failed=(), status=0):
    """Return the line of a condor_q: a running and a waiting job of each schedd; of the others, 23.9.6's words."""
    ads = [
        {"ClusterId": number, "ProcId": 0, "JobStatus": 3 - number, "GlobalJobId": f"{name}#{number}.0#5"}
        | {"Owner": "ann", "RequestCpus": 1, "QDate": 5}
        for name in names
        for number in (1, 2)
    ]
    said = "".join(f"\n-- Failed to fetch ads from: {SCHEDDS[name]} : wn1.lab\n{SAID}\n" for name in failed)
    shown = json.dumps(ads) if ads else ""
    return f"print({shown!r}); sys.stderr.write({said!r}); sys.exit({status})"


@pytest.fixture
def polls(pool, command, clock):
    """Return a function that polls with the given answers of condor_q and condor_status."""
    made = pool()

    def poll(queue, status, later_secs=60.0):
        clock.secs += later_secs
        command("condor_q", queue)
        command("condor_status", status)
        return made.poll_queue()

    return poll


def ids(table):
    return {key.job_id for key in table.jobs}


@pytest.mark.parametrize("status", [0, 1])
def test_the_jobs_of_a_schedd_that_does_not_answer_are_those_of_its_last_answer(polls, status):
    """Whatever condor_q's status, which is that of the schedd asked last."""
    all_of = {"1.0@a", "2.0@a", "1.0@b", "2.0@b"}
    first = polls(queue_of("a", "b"), collector("a", "b"))
    assert (ids(first), first.complete, first.rejected) == (all_of, True, ())
    for _ in range(3):
        silent = polls(queue_of("a", failed=("b",), status=status), collector("a", "b"))
        assert (ids(silent), silent.complete) == (all_of, False)
        assert [str(each) for each in silent.rejected] == [
            f"condor_q: schedd 'b' does not answer, its jobs are those of its last answer: {SAID}"
        ]
        reported = {key.job_id: silent.answered_at_secs(key) for key in silent.jobs}
        assert reported["1.0@b"] == first.taken_at_secs
        assert reported["1.0@a"] == silent.taken_at_secs
    again = polls(queue_of("a"), collector("a", "b"))
    assert (ids(again), again.complete) == ({"1.0@a", "2.0@a"}, True), "its queue is empty now"


def test_a_schedd_that_never_answered_is_named(polls):
    table = polls(queue_of("a", failed=("b", "c")), collector("a", "b", "c"))
    assert (ids(table), table.complete) == ({"1.0@a", "2.0@a"}, False)
    assert [each.reason.partition(",")[0] for each in table.rejected] == [
        "schedd 'b' does not answer",
        "schedd 'c' does not answer",
    ]
    assert all("its jobs are not known" in each.reason for each in table.rejected)


def test_a_schedd_that_the_collector_has_forgotten_is_silent_for_a_day(polls):
    polls(queue_of("a", "b"), collector("a", "b"))
    for _ in range(23):
        table = polls(queue_of("a"), collector("a"), later_secs=3600)
        assert (ids(table), table.complete) == ({"1.0@a", "2.0@a", "1.0@b", "2.0@b"}, False)
        assert "may have left the collector" in table.rejected[0].reason
    table = polls(queue_of("a"), collector("a"), later_secs=3600)
    assert ids(table) == {"1.0@a", "2.0@a"}
    table = polls(queue_of("a"), collector("a"), later_secs=3600)
    assert (ids(table), table.complete) == ({"1.0@a", "2.0@a"}, True)


def test_where_the_silent_schedd_cannot_be_told_all_that_may_be_it_keep_their_jobs(polls):
    polls(queue_of("a", "b", "c"), collector("a", "b", "c"))
    table = polls(queue_of("a", failed=("b",)), "sys.exit(1)")
    assert len(table.jobs) == 6
    assert not table.complete


def test_a_schedd_that_answers_with_no_job_beside_a_silent_one_is_an_answer(polls):
    polls(queue_of("a", "b"), collector("a", "b"))
    table = polls(queue_of(failed=("b",), status=1), collector("a", "b"))
    assert (ids(table), table.complete) == ({"1.0@b", "2.0@b"}, False)


def test_no_schedd_that_answers_is_no_answer(polls):
    polls(queue_of("a", "b"), collector("a", "b"))
    for status in (0, 1):
        with pytest.raises(SourceError, match=f"no schedd answers; the first error: '{SAID}'"):
            polls(queue_of(failed=("a", "b"), status=status), collector("a", "b"))
    assert len(polls(queue_of("a", failed=("b",)), collector("a", "b")).jobs) == 4


def test_accounting_names_the_schedds_that_do_not_answer(pool):
    accounting = pool(queue=queue_of("a", failed=("b",))).poll_accounting(0.0)
    assert {"1.0@a", "2.0@a"} <= {each.job_id for each in accounting.records}
    assert [each.reason for each in accounting.rejected] == [f"no answer of {SCHEDDS['b']}"]


@pytest.mark.parametrize("name", ["condor_status", "condor_history"])
def test_what_a_command_says_beside_its_answer_is_said(pool, command, name):
    body = show({"condor_status": "status.json", "condor_history": "history.json"}[name])
    made = pool()
    command(name, f"sys.stderr.write('Error: one of two collectors is away\\n'); {body}")
    answer = made.poll_cluster() if name == "condor_status" else made.poll_accounting(0.0)
    assert "standard error says 'Error: one of two collectors is away'" in answer.rejected[-1].reason


# --- the history -------------------------------------------------------------------------------

HISTORY = """
import json, re
ads, asked = json.loads({ads!r}), sys.argv[1:]
value = lambda name: asked[asked.index(name) + 1] if name in asked else None
shown = []
for ad in ads:  # the one that left the queue last stands first
    if value("-completedsince") and ad["CompletionDate"] < int(value("-completedsince")):
        break
    if value("-since") == "%d.%d" % (ad["ClusterId"], ad["ProcId"]):
        break
    least = re.search(r"CompletionDate >= (\\d+)", value("-constraint") or "")
    if not least or ad["CompletionDate"] >= int(least[1]):
        shown.append(ad)
print(json.dumps(shown[: int(value("-limit"))]))
"""


def history_of(*jobs):
    """Return a condor_history of these jobs, by number and end, the one that left the queue last first."""
    ads = [
        {"ClusterId": number, "ProcId": 0, "JobStatus": 4, "ExitCode": 0, "CompletionDate": end}
        | {"GlobalJobId": f"a#{number}.0#5"}
        for number, end in jobs
    ]
    return HISTORY.format(ads=json.dumps(ads))


def test_ended_jobs_below_one_that_stayed_in_the_queue_are_seen(pool, command):
    """80 ended first, and left the queue last, as each job does whose output is fetched."""
    made = pool(queue="print()", history=history_of((80, 1000), (84, 2000), (83, 2001), (81, 1990)))

    def ended(since_secs):
        return {each.job_id.partition(".")[0] for each in made.poll_accounting(since_secs).records}

    assert ended(1900.0) == {"81", "83", "84"}
    later = ((79, 900), (86, 2500), (85, 2400), (80, 1000), (84, 2000), (83, 2001), (81, 1990))
    command("condor_history", history_of(*later))
    assert ended(2000.0) == {"79", "83", "84", "85", "86"}, "and what was told before, if it ended since then"
    assert ended(2300.0) == {"85", "86"}
    assert ended(1900.0) == {"81", "83", "84", "85", "86"}, "earlier times are read anew"


def test_the_history_is_read_down_to_the_job_that_left_the_queue_last_before(pool, command, tmp_path):
    made = pool(queue="print()", history=history_of())
    made.poll_accounting(100.0)
    command("condor_history", history_of((7, 200)))
    made.poll_accounting(150.0)
    command("condor_q", "sys.exit(1)")
    command("condor_history", history_of((8, 300), (7, 200)))
    with pytest.raises(SourceError):
        made.poll_accounting(250.0)
    command("condor_q", "print()")
    assert {each.job_id for each in made.poll_accounting(250.0).records} == {"8.0@a"}, (
        "a failed poll loses none"
    )
    assert "'-since', '7.0'" in (tmp_path / "calls").read_text().splitlines()[-2]


def test_more_ended_jobs_than_are_read_are_said(pool, monkeypatch):
    monkeypatch.setattr("jobfeatures.batch.htcondor.clustersource.MAX_HISTORY", 2)
    accounting = pool(queue="print()", history=history_of((1, 9), (2, 8), (3, 7))).poll_accounting(5.0)
    assert len(accounting.records) == 2
    assert [each.reason for each in accounting.rejected] == ["more than 2 jobs: others are not read"]
