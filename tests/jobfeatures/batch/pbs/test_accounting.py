"""Accounting files of PBS and Torque. The fixtures are constructed."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.pbs.accounting import (
    AT_ANOTHER,
    OF_A_CRAY,
    SCALED,
    parse_message,
    read_records,
    recognise,
)
from jobfeatures.errors import Rejected
from jobfeatures.joblogs.folding import fold_jobs
from jobfeatures.joblogs.loggedjob import JobRecord, Notes
from jobfeatures.logkinds import write_log
from jobfeatures.records.localtimes import REPEATED_HOUR
from jobfeatures.records.model import JobState

FIXTURES = Path(__file__).parents[3] / "fixtures"
PBS = (FIXTURES / "pbs" / "accounting.txt").read_text()
TORQUE = (FIXTURES / "torque" / "accounting.txt").read_text()
UTC = ZoneInfo("UTC")


def read(text: str, **arguments) -> list[JobRecord | Rejected]:
    return list(
        read_records(
            text.splitlines(keepends=True), source="log", **{"zone": UTC, "notes": Notes(), **arguments}
        )
    )


def records(text: str, **arguments) -> dict[str, JobRecord]:
    return {each.job_id: each for each in read(text, **arguments) if isinstance(each, JobRecord)}


def line(kind: str, job_id: str, message: str = "", stamp: str = "11/21/2026 10:00:00") -> str:
    return f"{stamp};{kind};{job_id};{message}\n"


def test_the_life_of_a_job_that_was_run_again_is_one_record() -> None:
    assert records(PBS)["123"] == JobRecord(
        batch_system="pbs",
        job_id="123",
        state=JobState.COMPLETED,
        name="train",
        user="alice",
        group="physics",
        account="physics",
        queue="workq",
        submit_secs=1795255200,
        eligible_secs=1795255200,
        start_secs=1795255800,
        end_secs=1795259400,
        restarts=1,
        exit_status=0,
        nodes=("n1", "n2"),
        total_nodes=2,
        total_cpus=6,
        total_gpus=1,
        requested_nodes=2,
        requested_cpus=6,
        requested_gpus=1,
        requested_memory_bytes=12 * 2**30,
        wall_limit_secs=10800,
        cpu_limit_secs=None,
        cluster="head",
        run_secs=3600,
        used_cpu_secs=13680,
        used_memory_bytes=2048000 * 1024,
    )


def test_every_job_of_the_log_is_told_once() -> None:
    found = [each for each in read(PBS) if each.state is not JobState.PREEMPTED]
    states = {each.job_id: each.state for each in found if isinstance(each, JobRecord)}
    assert len(found) == len(states)
    assert states == {
        "123": JobState.COMPLETED,
        "124[7]": JobState.FAILED,
        "125": JobState.CANCELLED,
        "126": JobState.RUNNING,
        "127": JobState.TIMEOUT,
    }


def test_a_signal_is_told_apart_from_an_exit_status() -> None:
    found = records(PBS)
    assert (found["124[7]"].exit_signal, found["124[7]"].exit_status) == (15, None)
    assert (found["124[7]"].array_job_id, found["124[7]"].array_task_id) == ("124", "7")
    assert (found["127"].exit_signal, found["127"].exit_status) == (None, -29)


def test_a_job_that_was_deleted_while_it_waited_has_no_start() -> None:
    job = records(PBS)["125"]
    assert (job.submit_secs, job.start_secs, job.end_secs) == (1795259520, None, 1795259580)


def test_torque() -> None:
    job = records(TORQUE)["45"]
    assert (job.batch_system, job.state, job.exit_signal) == ("torque", JobState.FAILED, 9)
    assert (job.nodes, job.total_cpus) == (("n1.example.org", "n3.example.org"), 4)
    assert (job.requested_cpus, job.requested_nodes, job.used_cpu_secs) == (4, 2, 44)
    assert (job.submit_secs, job.start_secs, job.end_secs) == (1795255200, 1795255500, 1795255606)


def test_a_job_that_was_deleted_while_it_ran_is_cancelled_at_its_end() -> None:
    text = (
        line("S", "1.s", "user=a ctime=1 start=5 exec_host=n1/0")
        + line("D", "1.s", "requestor=a@h")
        + line("E", "1.s", "user=a ctime=1 start=5 end=9 exec_host=n1/0 Exit_status=271")
    )
    assert [(each.state, each.end_secs) for each in read(text)] == [(JobState.CANCELLED, 9)]


def test_a_deletion_whose_end_never_came_is_told_at_the_end() -> None:
    text = line("D", "1.s", "requestor=a@h") + line("S", "2.s", "start=5")
    assert [(each.job_id, each.state, each.end_secs) for each in read(text)] == [
        ("1", JobState.CANCELLED, 1795255200),
        ("2", JobState.RUNNING, None),
    ]


def test_a_job_whose_history_is_deleted_is_not_told_again() -> None:
    text = line("E", "1.s", "start=5 end=9 Exit_status=0") + line("D", "1.s", "requestor=a@h")
    assert [each.state for each in read(text)] == [JobState.COMPLETED]


def test_what_a_run_used_is_not_the_next_ones() -> None:
    text = (
        line("S", "1.s", "start=5 exec_host=n1/0")
        + line("R", "1.s", "start=5 session=7 resources_used.cput=9 Exit_status=-3")
        + line("E", "1.s", "start=15 end=19 Exit_status=0")
    )
    _, job = read(text)
    assert (job.used_cpu_secs, job.nodes, job.start_secs, job.restarts) == (None, (), 15, 1)


def test_a_job_that_waits_again_has_lost_its_start() -> None:
    text = line("S", "1.s", "start=5 exec_host=n1/0") + line("R", "1.s", "start=5 Exit_status=-3")
    _, job = read(text)
    assert (job.state, job.start_secs, job.nodes, job.restarts) == (JobState.PENDING, None, (), 1)


REQUEUED = line(
    "S", "70.s", "ctime=1772441700 start=1772442005 exec_host=n1/0*4", "03/02/2026 09:00:05"
) + line(
    "R",
    "70.s",
    "start=1772442005 end=1772442605 exec_host=n1/0*4 Exit_status=-11 resources_used.cput=00:20:00"
    " resources_used.walltime=00:10:00 run_count=1",
    "03/02/2026 09:10:05",
)


def test_a_run_that_was_requeued_is_a_record_of_its_own() -> None:
    """Source of what R holds: openpbs pull request 148."""
    end = line(
        "E", "70.s", "start=1772443200 end=1772445000 Exit_status=0 run_count=2", "03/02/2026 09:50:00"
    )
    run, job = read(REQUEUED + end)
    assert (run.state, run.start_secs, run.end_secs, run.run_secs) == (
        JobState.PREEMPTED,
        1772442005,
        1772442605,
        600,
    )
    assert (run.used_cpu_secs, run.total_cpus, run.restarts) == (1200, 4, 0)
    assert (job.state, job.start_secs, job.restarts) == (JobState.COMPLETED, 1772443200, 1)
    folded: list[str] = []
    assert list(fold_jobs([run, job], folded.append)) == [job]
    assert folded == ["earlier run"]
    assert list(fold_jobs([run, job], folded.append, all_runs=True)) == [run, job]


def test_a_job_that_was_requeued_and_deleted_has_used_what_its_run_did() -> None:
    run, job = read(REQUEUED + line("D", "70.s", "requestor=a@h", "03/02/2026 10:00:00"))
    assert (run.used_cpu_secs, job.state, job.start_secs) == (1200, JobState.CANCELLED, None)


def test_an_aborted_job_is_told_with_its_time() -> None:
    (job,) = read(line("Q", "1.s", "queue=b") + line("A", "1.s", "", "11/21/2026 10:01:00"))
    assert (job.state, job.end_secs - job.submit_secs) == (JobState.CANCELLED, 60)


def test_suspensions_are_added_up() -> None:
    text = (
        line("S", "1.s", "start=5")
        + line("z", "1.s", "", "11/21/2026 10:01:00")
        + line("r", "1.s", "", "11/21/2026 10:03:00")
        + line("z", "1.s", "", "11/21/2026 10:10:00")
        + line("r", "1.s", "", "11/21/2026 10:10:30")
        + line("z", "1.s", "", "11/21/2026 10:20:00")
        + line("E", "1.s", "start=5 end=9 Exit_status=0", "11/21/2026 10:20:05")
    )
    assert [each.suspended_secs for each in read(text)] == [155]


def test_times_without_a_zone_are_those_of_the_zone_that_is_given() -> None:
    text = line("Q", "1.s", "queue=b")
    there = list(read_records([text], source="log", zone=ZoneInfo("America/New_York"), notes=Notes()))
    here = read(text)
    assert there[0].submit_secs - here[0].submit_secs == 5 * 3600


def test_records_of_reservations_licences_and_arrays_are_no_jobs_and_are_counted() -> None:
    notes = Notes()
    text = line("B", "R12.s", "owner=a@h") + line("L", "license", "floating") + line("U", "R12.s")
    assert read(text + line("Q", "7[].s", "queue=b"), notes=notes) == []
    of_types = {f"line of type {kind}": 1 for kind in "BLU"}
    assert notes.not_taken == {**of_types, "line of type Q, of an array": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello\n", "line must be DATE;TYPE;ID;FIELDS"),
        (line("E", "x.s", "user=a"), "not a job id"),
        (line("@", "1.s"), "line must be DATE;TYPE;ID;FIELDS"),
        (line("V", "1.s"), "unknown type of line"),
        (line("E", "1.s", "user=a user=b"), "field occurs twice"),
        (line("E", "1.s", "", "13/41/2026 10:00:00"), "not a time"),
        ("11/21/2026 10:00:00;E;1.s;" + "x" * 2**20, "line is too long"),
    ],
)
def test_a_bad_line_costs_itself(text: str, reason: str) -> None:
    good = line("E", "2.s", "user=a start=5 end=9 Exit_status=0")
    found = read(good + text)
    assert found[0].job_id == "2"
    assert [(each.reason, each.line) for each in found[1:]] == [(reason, 2)]


def test_a_time_that_cannot_be_read_costs_its_job_and_names_its_line() -> None:
    [told] = read(line("E", "1.s", "user=a start=soon end=9 Exit_status=0"))
    assert (told.field, told.line, told.text) == ("start", 1, "soon")


def test_values_may_be_quoted_and_have_blanks() -> None:
    message = 'account="a b" Resource_List.site=\'say "x"\' jobname=my job queue=b'
    assert parse_message(message) == {
        "account": "a b",
        "Resource_List.site": 'say "x"',
        "jobname": "my job",
        "queue": "b",
    }


def test_accounting_is_recognised_by_its_first_line() -> None:
    assert recognise(PBS[:4096])
    assert recognise(TORQUE[:200])
    assert not recognise("; Version: 2.2\n1 2 3\n")
    assert not recognise("group:host:acct:alice\n")
    assert not recognise("")


@given(st.lists(st.text(max_size=60) | st.sampled_from(PBS.splitlines() + TORQUE.splitlines()), max_size=8))
def test_any_lines_are_read(lines: list[str]) -> None:
    for each in read_records(lines, source="log", zone=UTC, notes=Notes()):
        assert isinstance(each, JobRecord | Rejected)


@given(st.integers(0, 900), st.text(max_size=3))
def test_a_damaged_line_is_read(place: int, put: str) -> None:
    last = TORQUE.splitlines()[-1]
    for each in read_records([last[:place] + put + last[place + 1 :]], source="log", zone=UTC, notes=Notes()):
        assert isinstance(each, JobRecord | Rejected)


NIGHT = 1761436800  # 26 October 2025, 02:00 in Berlin, for the first time


def at_night(*lines: str) -> tuple[dict[str, JobRecord], Notes]:
    notes = Notes()
    return records("".join(lines), zone=ZoneInfo("Europe/Berlin"), notes=notes), notes


def night(clock: str, kind: str, message: str = "", job_id: str = "7") -> str:
    return line(kind, job_id, message, f"10/26/2025 {clock}")


def test_lines_in_order_tell_which_of_two_hours_is_meant() -> None:
    started = night("01:50:00", "S", f"ctime={NIGHT - 900} start={NIGHT - 600}")
    found, notes = at_night(
        started,
        night("02:50:00", "z"),
        night("02:10:00", "r"),
        night("04:00:00", "E", f"start={NIGHT - 600}"),
    )
    assert (found["7"].suspended_secs, found["7"].end_secs) == (1200, NIGHT + 3 * 3600)
    assert notes.doubtful == {REPEATED_HOUR: 1}  # of the first of them nothing tells


def test_what_a_line_tells_in_epoch_seconds_says_which_hour_is_meant() -> None:
    end = NIGHT + 3600 + 600
    found, notes = at_night(
        night("02:10:00", "E", f"ctime=5 start={NIGHT - 600} end={end} Exit_status=0"),
        night("02:20:00", "Q", job_id="8"),
    )
    assert found["8"].submit_secs == end + 600
    assert not notes.doubtful


def test_a_deletion_in_the_repeated_hour_is_doubtful() -> None:
    found, notes = at_night(night("02:30:00", "D", "ctime=5"))
    assert found["7"].end_secs == NIGHT + 1800
    assert notes.doubtful == {REPEATED_HOUR: 1}


TASK = "tasks=1:lprocs=1:usecores:memory=4GB"


def test_a_request_of_torque_6_in_words_with_equals_signs_is_one_value() -> None:
    """Torque writes what ``qsub -L`` asked for unquoted, each group of tasks with its ``-L``."""
    (job,) = read(
        line(
            "E",
            "16057.s",
            f"user=a start=1772443200 Resource_List.walltime=01:00:00 Resource_Request_2.0=-L {TASK} -L {TASK}"
            " session=1 total_execution_slots=2 end=1772445000 Exit_status=0",
        )
    )
    assert (job.state, job.requested_cpus, job.requested_memory_bytes) == (JobState.COMPLETED, 2, 8 * 2**30)


@pytest.mark.parametrize(
    ("asked", "cpus", "memory"),
    [
        ("-L tasks=2:lprocs=80:memory=100GB", 160, 200 * 2**30),
        ("-L tasks=2:lprocs=all", None, None),
        ("-L memory=1GB:tasks=3", 3, 3 * 2**30),
    ],
)
def test_what_tasks_ask_for_is_asked_for_by_each(asked, cpus, memory) -> None:
    (job,) = read(line("E", "7.s", f"user=a Resource_Request_2.0={asked} session=1 Exit_status=0"))
    assert (job.requested_cpus, job.requested_memory_bytes) == (cpus, memory)


@pytest.mark.parametrize(("depth", "requested"), [("", 64), (" Resource_List.mppdepth=6", 384)])
def test_a_job_of_a_cray_has_not_the_one_cpu_of_the_node_on_which_its_script_ran(depth, requested):
    """As published of HECToR, 2008: 64 processing elements for 11 hours and a half, cput 0."""
    message = (
        "user=m jobname=f.pbs queue=par:n32c2_12h ctime=1218451557 start=1218454455 exec_host=nid00007/17 "
        "exec_vnode=(hector02:ncpus=1) Resource_List.mpparch=XT Resource_List.mppnppn=2 "
        f"Resource_List.mppwidth=64{depth} Resource_List.ncpus=1 Resource_List.nodect=1 Resource_List.select=1 "
        "Resource_List.walltime=12:00:00 end=1218495854 Exit_status=0 resources_used.cput=00:00:00 "
        "resources_used.mem=6200kb resources_used.ncpus=1 resources_used.walltime=11:30:00"
    )
    notes = Notes()
    [job] = read(line("E", "102.sdb", message), notes=notes)
    assert (job.total_cpus, job.requested_cpus, job.nodes, job.total_nodes) == (None, requested, (), None)
    assert (job.used_cpu_secs, job.used_memory_bytes, job.run_secs) == (None, None, 41400)
    assert notes.not_taken[OF_A_CRAY] == 1
    whole = message.replace("(hector02:ncpus=1)", f"(nid1:ncpus={requested})")  # of later versions
    [job] = read(line("E", "102.sdb", whole))
    assert (job.total_cpus, job.used_memory_bytes) == (requested, 6200 * 1024)


@pytest.mark.parametrize(
    ("status", "walltime", "deleted", "state"),
    [
        (271, "10:01:06", False, JobState.TIMEOUT),  # as published of 2020
        (265, "10:00:00", False, JobState.TIMEOUT),
        (271, "09:59:59", False, JobState.FAILED),
        (1, "10:01:06", False, JobState.FAILED),
        (267, "10:01:06", False, JobState.FAILED),  # SIGSEGV
        (271, "10:01:06", True, JobState.CANCELLED),
    ],
)
def test_a_job_that_was_killed_at_its_limit_has_run_into_it(status, walltime, deleted, state):
    message = (
        "user=u ctime=1607291960 start=1607291966 exec_host=n1/0 Resource_List.walltime=10:00:00 end=1607328038 "
        f"Exit_status={status} resources_used.walltime={walltime}"
    )
    lines = line("Q", "1.s", "queue=q") + line("S", "1.s", "start=1607291966") + line("D", "1.s") * deleted
    [job] = read(lines + line("E", "1.s", message))
    assert (job.state, job.exit_signal) == (state, None if status < 256 else status - 256)


def test_a_job_that_was_moved_to_another_server_was_not_cancelled() -> None:
    """PBS Professional Administrator's Guide, "Types of Accounting Log Records": M."""
    notes = Notes()
    here = line("Q", "1.s", "queue=q") + line("M", "1.s", "destination=workq@other requestor=root@s")
    assert read(here, notes=notes) == []
    assert notes.folded == {AT_ANOTHER: 1}
    there = line("Q", "1.s", "queue=workq") + line(
        "E", "1.s", "user=a start=5 end=9 exec_host=n1/0 Exit_status=0"
    )
    assert [each.state for each in read(here + there)] == [JobState.COMPLETED]


def test_times_that_a_site_has_scaled_are_unknown_and_it_is_said():
    """As published of a Torque job of 2011: walltime is 2.9 times that from start to end ($wallmult)."""
    message = (
        "user=a ctime=1317509574 start=1317509945 exec_host=lcg1277/5 Resource_List.walltime=96:00:00 "
        "end=1317534104 Exit_status=0 resources_used.cput={} resources_used.walltime={}"
    )
    notes = Notes()
    [job] = read(line("E", "1.s", message.format("18:15:24", "19:23:4")), notes=notes)
    assert (job.run_secs, job.used_cpu_secs, job.end_secs - job.start_secs) == (None, None, 24159)
    assert notes.not_taken[SCALED] == 1
    [job] = read(line("E", "1.s", message.format("06:15:24", "06:43:04")))  # a rounding
    assert (job.run_secs, job.used_cpu_secs) == (24184, 22524)


@pytest.mark.parametrize(
    ("walltime", "cput", "run_secs", "used_cpu_secs"),
    [
        ("00:00:00", "00:00:00", None, None),
        ("0", "0", None, None),
        ("00:02:36", "00:00:00", 156, 0),
        ("00:00:00", "00:00:07", None, 7),
    ],
)
def test_a_job_that_pbs_mom_never_looked_at_did_not_run_for_0_seconds(
    walltime, cput, run_secs, used_cpu_secs
):
    """As published of a job of PBS Professional in 2016: 156 s from start to end, walltime and cput 0."""
    message = (
        "user=a ctime=1453756297 start=1453766281 exec_host=c1/0*13 exec_vnode=(c1:ncpus=13) end=1453766437 "
        f"Exit_status=0 resources_used.cput={cput} resources_used.mem=664kb resources_used.walltime={walltime}"
    )
    [job] = read(line("E", "1.s", message))
    assert (job.run_secs, job.used_cpu_secs) == (run_secs, used_cpu_secs)
    [written] = [each for each in write_log([job], "swf", Notes()) if not each.startswith(";")]
    assert written.split()[3:6] == [
        "156",
        "13",
        "-1" if used_cpu_secs is None else f"{used_cpu_secs / 13:.6g}",
    ]


@pytest.mark.parametrize("size", ["0b", "0kb"])
def test_memory_that_was_never_measured_is_unknown_and_not_0(size):
    """pbs_mom looks now and then: of a short job it writes 0 (servers write either unit)."""
    message = f"user=a start=1795251000 end=1795251001 exec_host=n1/0 Exit_status=0 resources_used.mem={size}"
    [job] = read(line("E", "1.s", message))
    assert job.used_memory_bytes is None
