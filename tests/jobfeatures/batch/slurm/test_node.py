"""The node's record and the reservations: lines captured from Slurm 22.05, some of them changed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.answers import Scontrol, format_questions, parse_answers
from jobfeatures.batch.slurm.node import (
    Maintenance,
    node_questions,
    parse_maintenance,
    parse_node_answer,
    parse_notice,
)
from jobfeatures.batch.slurm.source import SlurmSource
from jobfeatures.errors import ParseError
from jobfeatures.records.model import NodeNotice

NODE = (
    "NodeName=lab1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=0 CPUEfctv=2 CPUTot=2 OS=Linux 6.18.44 #1 SMP "
    "PREEMPT_DYNAMIC @0  RealMemory=2000 Boards=1 State={} ThreadsPerCore=1 TmpDisk=1000 Weight=1 "
    "ExtSensorsTemp=n/s"
)
RESERVATION = (
    "ReservationName={} StartTime={} EndTime={} Duration=01:00:00 Nodes={} NodeCnt=1 CoreCnt=2 Features=(null) "
    "PartitionName=(null) Flags={} TRES=cpu=2 Users=root Groups=(null) Accounts=(null) Licenses=(null) "
    "State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)"
)


def drains(lines):
    return parse_notice(lines, (), node_name="lab1", now_secs=0).draining


@pytest.mark.parametrize(
    ("state", "draining"),
    [
        ("IDLE", False), ("MIXED", False), ("ALLOCATED", False), ("DOWN*", False), ("IDLE+PLANNED", False),
        ("IDLE+DRAIN", True), ("MIXED+DRAIN", True), ("DOWN*+DRAIN", True), ("ALLOCATED+MAINT", True),
        ("IDLE+DRAIN+NOT_RESPONDING", True), ("UNKNOWN", False), ("IDLE+FAIL", True), ("IDLE+MAINTENANCE", True),
    ],
)  # fmt: skip
def test_a_state_says_whether_the_node_drains(state, draining):
    assert drains([NODE.format(state)]) is draining


@pytest.mark.parametrize(
    ("line", "cpus"),
    [
        (NODE.format("IDLE"), 2),
        (NODE.format("IDLE").replace("CPUEfctv=2 CPUTot=2", "CPUEfctv=6 CPUTot=8"), 6),
        (NODE.format("IDLE").replace("CPUEfctv=2 CPUTot=2", "CPUTot=8"), 8),  # as before 21.08
        (NODE.format("IDLE").replace(" CPUEfctv=2 CPUTot=2", ""), None),
        (NODE.format("IDLE") + " Reason=a CPUEfctv=99 b", 2),
        (NODE.format("IDLE").replace("OS=", "OS=x CPUEfctv=99 "), None),  # twice: which of them?
    ],
)
def test_the_cpus_available_to_jobs_are_reported(line, cpus):
    answer = parse_node_answer([line], [], node_name="lab1", now_secs=0)
    assert answer.notice == NodeNotice(False, (), cpus)


def test_an_unknown_node_name_is_reported_until_it_is_known(tmp_path, clock):
    controller = make_controller(tmp_path, "Node n1 not found")
    source = SlurmSource(clock, Scontrol(controller, node_name="n1").ask, node_name="n1", refresh_secs=1)
    for _ in range(2):
        assert source.poll_jobs(()).node_problem == (
            "scontrol show node:n1: Slurm knows no node of this name: 'Node n1 not found'"
        )
        clock.advance(1)
    (tmp_path / "node").write_text("NodeName=n1 State=IDLE x\n")
    assert source.poll_jobs(()).node_problem == ""


def test_a_reason_or_a_comment_cannot_imitate_the_state():
    line = NODE.format("IDLE+DRAIN") + " Reason=kernel State=IDLE [root@1795253591] Comment=a State=x"
    assert drains([line, "       NodeName=lab1 State=IDLE update"]) is True


@pytest.mark.parametrize(
    "lines",
    [[], ["Node lab1 not found"], [NODE.format("IDLE").replace("lab1", "lab10")],
     [NODE.format("IDLE") + " State=IDLE"], ["NodeName=lab1 Arch=x86_64"]],
)  # fmt: skip
def test_a_record_that_is_not_the_nodes_is_refused(lines):
    with pytest.raises(ParseError, match="scontrol show node"):
        drains(lines)


def test_a_maintenance_reservation_is_read_whatever_its_name():
    line = RESERVATION.format("we ird", 1795257191, 1795260791, "lab[1-2]", "MAINT,SPEC_NODES")
    assert parse_maintenance(line) == Maintenance(1795257191, 1795260791, frozenset({"lab1", "lab2"}))
    assert parse_maintenance(RESERVATION.format("x", 1, 2, "lab1", "SPEC_NODES")) is None


@pytest.mark.parametrize(
    "name", ["a StartTime=1 EndTime=2", "a Flags=MAINT", "a Users=x", "a Nodes=x StartTime=1"]
)
def test_a_name_that_imitates_fields_is_refused(name):
    with pytest.raises(ParseError, match="scontrol show reservation"):
        parse_maintenance(RESERVATION.format(name, 5, 6, "lab1", "MAINT"))


def test_only_maintenance_of_this_node_that_is_not_over_announces_a_shutdown():
    lines = [
        RESERVATION.format("b", 500, 600, "lab[1-3]", "MAINT"),
        RESERVATION.format("a", 300, 400, "lab1", "MAINT,IGNORE_JOBS"),
        RESERVATION.format("over", 10, 20, "lab1", "MAINT"),
        RESERVATION.format("begun", 50, 400, "lab1", "MAINT"),
        RESERVATION.format("other", 200, 400, "lab2", "MAINT"),
        RESERVATION.format("users", 200, 400, "lab1", "SPEC_NODES"),
        RESERVATION.format("all", 200, 400, "(null)", "MAINT"),
        RESERVATION.format("bad Flags=", 200, 400, "lab1", "MAINT"),
        "No reservations in the system",
    ]
    answer = parse_node_answer([NODE.format("MIXED")], lines, node_name="lab1", now_secs=100)
    assert answer.notice == NodeNotice(False, (50, 300, 500), 2)
    assert len(answer.rejected) == 1
    assert "bad Flags=" in str(answer.rejected[0])


@pytest.mark.parametrize(("node", "count"), [("lab1", 1), ("lab2", 0)])
def test_a_maintenance_that_floats_announces_no_shutdown_and_is_said_by_words_that_stay(node, count):
    """Captured from Slurm 22.05.8 but for the names: its start is in five minutes for ever."""
    said = set()
    for now_secs in (1795953974, 1795953980):
        floats = RESERVATION.format(
            "float", now_secs + 300, now_secs + 3900, "lab1", "MAINT,IGNORE_JOBS,TIME_FLOAT"
        )
        lines = [floats, RESERVATION.format("real", 1796000000, 1796003600, "lab[1-2]", "MAINT")]
        record = NODE.format("IDLE").replace("lab1", node)
        answer = parse_node_answer([record], lines, node_name=node, now_secs=now_secs)
        assert answer.notice.shutdowns == (1796000000,)
        said.add(answer.rejected)
    [rejected] = said
    assert len(rejected) == count
    assert all("moves on with the clock" in str(each) for each in rejected)


def test_a_floating_maintenance_is_said_once_and_is_no_problem_of_the_node(tmp_path, clock):
    floats = RESERVATION.format("m", int(clock.now) + 300, 2**31, "n1", "MAINT,TIME_FLOAT")
    program = make_controller(tmp_path, "NodeName=n1 State=IDLE x", floats)
    source = SlurmSource(clock, Scontrol(program, node_name="n1").ask, node_name="n1", refresh_secs=1)
    tables = []
    for _ in range(2):
        tables.append(source.poll_jobs(()))
        clock.advance(1)
    assert [len(each.rejected) for each in tables] == [1, 0]
    assert [(each.node, each.node_problem) for each in tables] == [(NodeNotice(), "")] * 2


@given(st.lists(st.text(max_size=80) | st.from_regex(r"ReservationName=.{0,60}", fullmatch=True), max_size=4))
def test_any_lines_are_an_answer(lines):
    answer = parse_node_answer(lines, lines, node_name="lab1", now_secs=0)
    assert answer.notice is None or not answer.notice.shutdowns


def test_an_invalid_name_is_not_queried():
    assert node_questions("n1") == ("show node n1", "show reservation")
    assert node_questions(None) == node_questions("n1\nshutdown") == node_questions("n[1-2]") == ()


def test_what_goes_wrong_about_the_node_proves_nothing_about_jobs():
    extra = node_questions("n1")
    assert format_questions(["7"], "X", extra).endswith(
        b"show hostnames X\nshow node n1\nshow hostnames X\nshow reservation\nshow hostnames X\n"
    )
    stdout = "X\nX\nscontrol: show node n1\nNodeName=n1 State=IDLE\nX\nX\n"
    stderr = (
        "slurm_load_jobs error: Invalid job id specified\n"
        "slurm_load_reservations error: Access/permission denied\n"
    )
    answers = parse_answers(stdout, stderr, "X", {"7": "7"}, node_name="n1", extra=extra)
    assert answers.gone == {"7"}
    assert answers.complete
    assert answers.complaint == ""
    assert answers.extra == {"show node n1": ["NodeName=n1 State=IDLE"], "show reservation": []}


def make_controller(tmp_path, node, reservations="No reservations in the system"):
    program = tmp_path / "scontrol"
    (tmp_path / "node").write_text(node + "\n")
    (tmp_path / "reservations").write_text(reservations + "\n")
    program.write_text(
        f"#!/bin/bash\ncd {tmp_path}; echo start >>starts\n"
        'while read -r _ what name; do case $what in hostnames) echo "$name";; node) cat node;;\n'
        'reservation) cat reservations;; *) echo "slurm_load_jobs error: Invalid job id specified" >&2;; esac; done\n'
    )
    program.chmod(0o755)
    return str(program)


def test_the_node_is_asked_about_in_its_own_interval_also_without_jobs(tmp_path, clock):
    program = make_controller(
        tmp_path,
        "NodeName=n1 State=MIXED+DRAIN x",
        RESERVATION.format("m", int(clock.now) + 60, 2**31, "n1", "MAINT"),
    )
    source = SlurmSource(clock, Scontrol(program, node_name="n1").ask, node_name="n1")
    assert source.poll_jobs(()).node == NodeNotice(True, (int(clock.now) + 60,))
    (tmp_path / "node").write_text("NodeName=n1 State=MIXED x\n")
    clock.advance(299)
    assert source.poll_jobs(()).node.draining is True
    clock.advance(1)
    assert source.poll_jobs(()).node.draining is False
    assert (tmp_path / "starts").read_text() == "start\nstart\n"


def test_an_untrusted_record_is_reported_once_and_the_last_answer_stays(tmp_path, clock):
    program = make_controller(tmp_path, "NodeName=n1 State=IDLE+DRAIN x")
    source = SlurmSource(clock, Scontrol(program, node_name="n1").ask, node_name="n1", refresh_secs=1)
    assert source.poll_jobs(()).rejected == ()
    (tmp_path / "node").write_text("NodeName=n1 State=IDLE State=x\n")
    clock.advance(1)
    first = source.poll_jobs(())
    clock.advance(1)
    second = source.poll_jobs(())
    assert len(first.rejected) == 1
    assert second.rejected == ()
    assert first.node == second.node == NodeNotice(True)
