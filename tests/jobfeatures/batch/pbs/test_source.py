"""The sources of PBS and Torque, with stand-ins for qstat and pbsnodes."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.live.facts import from_record, why_not
from jobfeatures.batch.pbs import QstatSettings
from jobfeatures.batch.pbs.commands import parse_complaints
from jobfeatures.batch.pbs.source import QstatSource, is_plain_id, parse_job_file_name, read_mom_jobs
from jobfeatures.batch.pbs.system import Pbs, Torque
from jobfeatures.batch.questions import MAX_QUESTIONS
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import CommandError, SourceError
from jobfeatures.records.model import JobKey, JobState, NodeNotice
from jobfeatures.system import lookups
from tests.configured import settings_for
from tests.running import until

FIXTURES = Path(__file__).parents[3] / "fixtures"

# Writes down how it was called, then prints what the test has put there.
COMMAND = """#!/bin/bash
cd {folder} || exit 1
echo "$TZ $LC_ALL ${{0##*/}} $*" >>calls
name=${{0##*/}}
case " $* " in
*" -Q "*) name=queues ;;
*" -v "* | *" -x n1 "*) name=node ;;
esac
if [ -e old ] && [[ " $* " == *" -F "* ]]; then echo "qstat: invalid option -- 'F'" >&2; exit 2; fi
[ -e text.out ] && [[ " $* " != *" -F "* ]] && name=text
[ -e slow ] && exec sleep 60
[ -e "$name.err" ] && cat "$name.err" >&2
[ -e "$name.out" ] && cat "$name.out"
exit "$(cat "$name.rc" 2>/dev/null || echo 0)"
"""


class Server:
    """Stand-ins for qstat and pbsnodes in one folder, and what they are to say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        (self.home / "mom_priv" / "jobs").mkdir(parents=True)
        for name in ("qstat", "pbsnodes"):
            path = folder / name
            path.write_text(COMMAND.format(folder=folder))
            path.chmod(0o755)

    def say(self, name: str, out: str | bytes = "", err: str = "", status: int = 0) -> None:
        data = out if isinstance(out, bytes) else out.encode()
        (self.folder / f"{name}.out").write_bytes(data)
        (self.folder / f"{name}.err").write_text(err)
        (self.folder / f"{name}.rc").write_text(str(status))

    def say_jobs(self, *jobs: dict[str, str], err: str = "", status: int = 0) -> None:
        found = {f"{each.pop('id')}.head": each for each in map(dict, jobs)}
        self.say("qstat", json.dumps({"timestamp": 1, "Jobs": found}), err, status)

    def run(self, pid: int, job_id: str, environ: bytes | None = None) -> Path:
        """Have a process that has the variables of a job."""
        path = self.folder / "proc" / str(pid)
        path.mkdir(parents=True, exist_ok=True)
        made = f"HOME=/\0PBS_JOBID={job_id}.head\0X=PBS_JOBID=9\0".encode()
        (path / "environ").write_bytes(made if environ is None else environ)
        return path

    def start(self, job_id: str) -> None:
        (self.home / "mom_priv" / "jobs" / f"{job_id}.head.JB").touch()

    def end(self, job_id: str) -> None:
        (self.home / "mom_priv" / "jobs" / f"{job_id}.head.JB").unlink()

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in found if "pbsnodes" not in line]

    def config(self, timeout_secs: float = 60.0, **changes) -> SystemSettings[QstatSettings]:
        values = {"home": str(self.home), "qstat": str(self.folder / "qstat"), **changes}
        return settings_for(
            "pbs",
            batch_timeout_secs=timeout_secs,
            path_procfs=str(self.folder / "proc"),
            **{f"{system}_{key}": value for key, value in values.items() for system in ("pbs", "torque")},
        )


RUNNING = {"id": "123", "job_state": "R", "exec_host": "n1/0*2", "Job_Owner": "root@login1"}


@pytest.fixture
def server(tmp_path: Path) -> Server:
    made = Server(tmp_path)
    made.run(1, "", b"HOME=/\0")
    made.say("node", (FIXTURES / "pbs" / "pbsnodes.json").read_text())
    return made


@pytest.fixture
def source(server: Server, clock) -> QstatSource:
    return Pbs().make_source(server.config(), clock, "n1")


def keys(*job_ids: str, system: str = "pbs") -> set[JobKey]:
    return {JobKey(system, job_id) for job_id in job_ids}


def test_nothing_is_asked_about_jobs_where_there_are_none(server: Server, source: QstatSource) -> None:
    table = source.poll_jobs(())
    assert (table.jobs, table.complete, table.rejected) == ({}, True, ())
    assert server.calls() == []


def test_a_job_is_asked_about_in_utc_and_without_a_language(server: Server, source: QstatSource) -> None:
    server.say_jobs(RUNNING)
    table = source.poll_jobs(keys("123"))
    job = table.jobs[JobKey("pbs", "123")]
    assert (job.state, job.allocated_cpus, job.user, job.uid) == (JobState.RUNNING, 2, "root", 0)
    assert table.complete
    assert server.calls() == ["UTC0 C qstat -f -F json 123"]


def test_a_job_that_only_pbs_mom_knows_is_asked_about(server: Server, source: QstatSource) -> None:
    server.start("123")
    server.say_jobs(RUNNING)
    assert source.poll_jobs(()).jobs.keys() == keys("123")


def test_known_jobs_are_asked_about_again_after_a_while(server: Server, source: QstatSource, clock) -> None:
    server.say_jobs(RUNNING)
    source.poll_jobs(keys("123"))
    server.calls()
    clock.advance(100)
    assert source.poll_jobs(keys("123")).jobs.keys() == keys("123")
    assert server.calls() == []
    clock.advance(201)
    source.poll_jobs(keys("123"))
    assert len(server.calls()) == 1


@pytest.mark.parametrize(
    "complaint",
    [
        "qstat: Unknown Job Id 123.head",
        "qstat: Unknown Job Id Error 123.head",
        "qstat: 123.head Job has finished, use -x or -H to obtain historical job information",
    ],
)
def test_a_job_that_the_server_forgot_has_ended(complaint: str, server: Server, source: QstatSource) -> None:
    server.say_jobs(RUNNING)
    source.poll_jobs(keys("123"))
    server.say("qstat", '{"timestamp":1}', complaint + "\n", 153)
    table = source.poll_jobs((), keys("123"))
    assert (table.jobs, table.complete, table.rejected) == ({}, True, ())


def test_an_unknown_job_that_pbs_mom_has_lives_while_it_has_processes(
    server: Server, source: QstatSource, clock
) -> None:
    """A server that hides the jobs of others calls them unknown."""
    server.start("123")
    server.start("124[7]")
    server.run(10, "123")
    server.run(11, "124[7]")
    server.say("qstat", "", "qstat: Unknown Job Id 123.head\nqstat: Unknown Job Id 124[7].head\n", 153)
    table = source.poll_jobs(())
    assert {key.job_id: job.state for key, job in table.jobs.items()} == dict.fromkeys(
        ("123", "124[7]"), JobState.UNKNOWN
    )
    shutil.rmtree(server.folder / "proc/11")
    clock.advance(301)
    assert source.poll_jobs(()).jobs.keys() == keys("123")
    server.end("123")
    assert source.poll_jobs(()).jobs == {}


def test_a_file_that_a_pbs_mom_left_behind_keeps_no_job_that_the_server_denies(
    server: Server, source: QstatSource, clock
) -> None:
    server.say_jobs(RUNNING)
    server.start("123")
    assert source.poll_jobs(()).jobs.keys() == keys("123")
    server.say("qstat", "", "qstat: Unknown Job Id 123.head\n", 153)
    clock.advance(301)
    assert set(source.poll_jobs(()).gone) == keys("123")
    for _ in range(2):
        server.calls()
        clock.advance(301)
        assert source.poll_jobs(()).jobs == {}
    assert server.calls() == []  # it is passed over
    server.say_jobs(RUNNING)
    server.end("123")
    server.start("123")  # rerun here: it was written anew
    assert source.poll_jobs(()).jobs.keys() == keys("123")


@pytest.mark.parametrize("hidden", ["the first process", "what a process has"])
def test_where_the_processes_of_others_are_hidden_such_a_file_keeps_its_job(
    server: Server, source: QstatSource, hidden: str, monkeypatch
) -> None:
    server.start("123")
    server.say("qstat", "", "qstat: Unknown Job Id 123.head\n", 153)
    server.run(10, "7")
    if hidden == "the first process":
        shutil.rmtree(server.folder / "proc/1")
    else:
        real = os.open

        def refuse(path, *rest, **more):
            if str(path).endswith("10/environ"):
                raise PermissionError(13, "Permission denied")
            return real(path, *rest, **more)

        monkeypatch.setattr(os, "open", refuse)
    assert source.poll_jobs(()).jobs.keys() == keys("123")


def test_a_job_that_was_rerun_on_another_node_has_left_this_one(server: Server, source: QstatSource) -> None:
    server.say_jobs(RUNNING)
    assert source.poll_jobs(keys("123")).jobs.keys() == keys("123")
    server.say_jobs({**RUNNING, "exec_host": "n2/0*2"})
    table = source.poll_jobs((), keys("123"))
    assert (table.jobs, table.complete, set(table.gone)) == ({}, True, keys("123"))


def test_an_unknown_job_with_a_control_group_lives(server: Server, source: QstatSource) -> None:
    server.say("qstat", "", "qstat: Unknown Job Id 123.head\n", 153)
    assert source.poll_jobs(keys("123")).jobs.keys() == keys("123")
    table = source.poll_jobs((), keys("123"))
    assert (table.jobs, table.complete) == ({}, True)


@pytest.mark.parametrize(
    ("out", "err", "status"),
    [
        ("", "Connection refused\nqstat: cannot connect to server head (errno=111)\n", 255),
        ("", "pbs_iff: cannot connect\n", 1),
        ("", "", 1),
        ("Wartungsarbeiten\n", "", 0),
        ("{", "", 0),
    ],
)
def test_a_server_that_does_not_answer_is_an_error_and_takes_no_job_away(
    out: str, err: str, status: int, server: Server, source: QstatSource, clock
) -> None:
    server.say_jobs(RUNNING)
    source.poll_jobs(keys("123"))
    server.say("qstat", out, err, status)
    clock.advance(301)
    with pytest.raises(SourceError):
        source.poll_jobs(keys("123"))
    server.say_jobs(RUNNING)
    assert source.poll_jobs(keys("123")).jobs.keys() == keys("123")


def test_a_command_that_hangs_or_is_missing_is_an_error(server: Server, clock) -> None:
    (server.folder / "slow").touch()
    with pytest.raises(CommandError, match="not finished"):
        Pbs().make_source(server.config(timeout_secs=0.2), clock, "n1").poll_jobs(keys("123"))
    with pytest.raises(CommandError, match="No such file"):
        Pbs().make_source(server.config(qstat="/nonexistent/qstat"), clock, "n1").poll_jobs(keys("123"))


def test_half_an_answer_keeps_the_other_jobs_as_they_were(server: Server, source: QstatSource, clock) -> None:
    other = {**RUNNING, "id": "124"}
    server.say_jobs(RUNNING, other)
    source.poll_jobs(keys("123", "124"))
    whole = json.dumps({"Jobs": {"123.head": {"job_state": "S"}, "124.head": {"job_state": "S"}}}, indent=4)
    server.say("qstat", whole[: whole.index('"124.head"') + 15], "", 1)
    clock.advance(301)
    table = source.poll_jobs(keys("123", "124"))
    states = {key.job_id: job.state for key, job in table.jobs.items()}
    assert states == {"123": JobState.SUSPENDED, "124": JobState.RUNNING}
    assert table.rejected != ()


def test_a_uid_that_comes_late_is_in_the_next_table(server: Server, source: QstatSource, clock, monkeypatch):
    """Known jobs are asked about seldom: their user's uid is not left for that."""
    answers = threading.Event()
    monkeypatch.setattr(lookups, "PATIENCE_SECS", 0.0)
    monkeypatch.setattr(pwd, "getpwnam", lambda _user: answers.wait() and SimpleNamespace(pw_uid=6001))
    server.say_jobs(RUNNING)
    [job] = source.poll_jobs(keys("123")).jobs.values()
    assert (job.state, job.uid) == (JobState.RUNNING, None)
    assert server.calls() != []
    answers.set()
    until(lambda: source.poll_jobs(keys("123")).jobs[job.key].uid == 6001)
    assert server.calls() == []


def test_a_warning_is_told_once_and_a_bad_record_as_long_as_it_lasts(
    server: Server, source: QstatSource, clock
) -> None:
    server.say_jobs({**RUNNING, "stime": "now"}, err="the licence ends soon\n")
    assert len(source.poll_jobs(keys("123")).rejected) == 2
    clock.advance(301)
    assert [each.text for each in source.poll_jobs(keys("123")).rejected] == ["now"]


def test_ids_that_are_none_are_not_asked_about(server: Server, source: QstatSource) -> None:
    hostile = keys("--help", "1 2", "123.head", "x", "123[]")
    table = source.poll_jobs(hostile)
    assert table.jobs.keys() == hostile
    assert server.calls() == []
    assert not any(is_plain_id(key.job_id) for key in hostile)


def test_keys_of_other_systems_are_not_ours(server: Server, source: QstatSource) -> None:
    assert source.poll_jobs(keys("123", system="torque")).jobs == {}
    assert server.calls() == []


def test_more_jobs_than_fit_are_asked_about_in_turns(server: Server, source: QstatSource) -> None:
    ids = [str(number) for number in range(1, MAX_QUESTIONS + 2)]
    server.say_jobs(*({**RUNNING, "id": job_id} for job_id in ids))
    assert not source.poll_jobs(keys(*ids)).complete
    assert source.poll_jobs(keys(*ids)).complete


def test_a_node_that_is_offline_drains(server: Server, clock) -> None:
    node = {"nodes": {"n1": {"state": "free"}}}
    server.say("node", json.dumps(node))
    source = Pbs().make_source(server.config(), clock, "n1")
    assert source.poll_jobs(()).node == NodeNotice(draining=False)
    node["nodes"]["n1"]["state"] = "offline,job-busy"
    server.say("node", json.dumps(node))
    assert source.poll_jobs(()).node == NodeNotice(draining=False)
    clock.advance(301)
    assert source.poll_jobs(()).node == NodeNotice(draining=True)
    server.say("node", "", "pbsnodes: Server has no node list\n", 1)
    clock.advance(301)
    table = source.poll_jobs(())
    assert table.node == NodeNotice(draining=True)
    assert [each.source for each in table.rejected] == ["pbsnodes"]


def test_an_old_pbs_is_asked_for_text(server: Server, source: QstatSource) -> None:
    (server.folder / "old").touch()
    server.say("qstat", (FIXTURES / "pbs" / "qstat-jobs.txt").read_text())
    server.say("node", (FIXTURES / "pbs" / "pbsnodes.txt").read_text())
    table = source.poll_jobs(keys("123", "125"))
    assert table.jobs.keys() == keys("123", "125")
    assert table.node == NodeNotice(draining=False, cpus=8)
    assert server.calls() == ["UTC0 C qstat -f -F json 123 125", "UTC0 C qstat -f 123 125"]


def test_a_folder_that_cannot_be_read_is_told(server: Server, clock) -> None:
    jobs = server.home / "mom_priv" / "jobs"
    jobs.rmdir()
    jobs.touch()  # not a folder: an error for root as well
    table = Pbs().make_source(server.config(), clock, "n1").poll_jobs(())
    assert [each.reason for each in table.rejected] == ["Not a directory"]


def test_torque_is_asked_for_xml(server: Server, clock) -> None:
    server.say("qstat", (FIXTURES / "torque" / "qstat.xml").read_bytes())
    server.say("node", (FIXTURES / "torque" / "pbsnodes.xml").read_bytes())
    source = Torque().make_source(server.config(), clock, "n1")
    table = source.poll_jobs(keys("123", system="torque"))
    assert table.jobs[JobKey("torque", "123")].allocated_cpus == 4
    assert (table.node, table.complete, table.rejected) == (NodeNotice(draining=False, cpus=8), True, ())
    assert server.calls() == ["UTC0 C qstat -x 123"]


def test_torque_that_knows_no_job_says_so_on_standard_error(server: Server, clock) -> None:
    server.say("qstat", "", "qstat: Unknown Job Id Error 123.batch.example.org\n", 153)
    table = Torque().make_source(server.config(), clock, "n1").poll_jobs((), keys("123", system="torque"))
    assert (table.jobs, table.complete) == ({}, True)


# ---------------------------------------------------------------- the controller role


def test_the_queue_of_pbs(server: Server, clock) -> None:
    server.say("qstat", (FIXTURES / "pbs" / "qstat-jobs.json").read_text())
    table = Pbs().make_cluster_source(server.config(), clock, 5.0).poll_queue()
    assert {key.job_id: job.state for key, job in table.jobs.items()} == {
        "123": JobState.RUNNING,
        "124[7]": JobState.RUNNING,
        "125": JobState.PENDING,
    }
    assert table.complete
    assert server.calls() == ["UTC0 C qstat -t -f -F json"]


def test_an_array_as_such_is_no_job_of_the_queue(server: Server, clock) -> None:
    server.say_jobs({"id": "124[]", "job_state": "B"}, {"id": "124[1]", "job_state": "Q"})
    assert Pbs().make_cluster_source(server.config(), clock, 5.0).poll_queue().jobs.keys() == keys("124[1]")


def test_a_job_without_a_state_makes_the_queue_incomplete(server: Server, clock) -> None:
    server.say_jobs(RUNNING, {"id": "124", "queue": "workq"})
    table = Pbs().make_cluster_source(server.config(), clock, 5.0).poll_queue()
    assert (table.jobs.keys(), table.complete, len(table.rejected)) == (keys("123"), False, 1)


def test_the_cluster_of_pbs_and_torque(server: Server, clock) -> None:
    server.say("pbsnodes", (FIXTURES / "pbs" / "pbsnodes.json").read_text())
    server.say("queues", (FIXTURES / "pbs" / "qstat-queues.json").read_text())
    cluster = Pbs().make_cluster_source(server.config(), clock, 5.0).poll_cluster()
    assert [node.name for node in cluster.nodes] == ["n1", "n2", "n3"]
    assert [each.name for each in cluster.partitions] == ["workq", "special"]
    server.say("pbsnodes", (FIXTURES / "torque" / "pbsnodes.xml").read_bytes())
    server.say("queues", (FIXTURES / "torque" / "qstat-queues.txt").read_text())
    source = Torque().make_cluster_source(server.config(), clock, 5.0)
    assert [node.name for node in source.poll_cluster().nodes] == ["n1.example.org", "n2.example.org"]
    server.say("pbsnodes", b"<Data></Data>")
    with pytest.raises(SourceError, match="no nodes"):
        source.poll_cluster()


def test_accounting_is_read_from_the_days_since_then(server: Server, clock) -> None:
    source = Pbs().make_cluster_source(server.config(), clock, 5.0)
    with pytest.raises(SourceError, match="No such file"):
        source.poll_accounting(0.0)
    folder = server.home / "server_priv" / "accounting"
    folder.mkdir(parents=True)
    (folder / "20261121").write_text((FIXTURES / "pbs" / "accounting.txt").read_text())
    (folder / "20200101").write_text("never read\n")
    clock.now = 1795262400.0
    accounting = source.poll_accounting(1795259000.0)
    found = {each.key.job_id: each for each in accounting.records}
    assert accounting.rejected == ()
    assert "124[7]" not in found  # ended before
    assert (found["123"].state, found["123"].batch_system) == (JobState.COMPLETED, "pbs")
    assert found["123"].requested_memory_bytes == 12 * 2**30
    assert found["126"].state is JobState.RUNNING
    facts = {each.job_id: each for each in map(from_record, accounting.records)}
    assert (why_not(facts["123"]), facts["126"].end_secs) == (None, None)


# ---------------------------------------------------------------- small parts


def test_a_system_is_here_where_its_daemons_have_a_folder(server: Server, tmp_path: Path) -> None:
    assert Pbs().is_here(server.config())
    assert Torque().is_here(server.config())
    elsewhere = server.config(home=str(tmp_path / "absent"))
    assert not Pbs().is_here(elsewhere)
    assert not Torque().is_here(elsewhere)


def test_complaints_name_the_jobs_that_are_gone() -> None:
    stderr = (
        "qstat: Unknown Job Id 1.head\n\n/opt/pbs/bin/qstat: Unknown Job Id Error 2[3].head\nslow network\n"
    )
    assert parse_complaints(stderr) == ({"1", "2[3]"}, "'slow network'")
    assert parse_complaints("qstat: Unknown Job Id ../../x\n") == (
        frozenset(),
        "'qstat: Unknown Job Id ../../x'",
    )


# ---------------------------------------------------------------- pbs_mom's files


@given(st.text(alphabet="12-[].headJB \n\x00x٣"))
def test_any_name_is_of_a_job_file_or_not(name: str) -> None:
    for text in (name, f"{name}.JB"):
        assert parse_job_file_name(text) is None or text.endswith(".JB")


@pytest.mark.parametrize(
    ("name", "job_id"),
    [
        ("123.head.JB", "123"),
        ("123[4].head.JB", "123[4]"),
        ("123-4.head.JB", "123[4]"),
        ("123.head.SC", None),
        ("123.head.TK", None),
        ("x.JB", None),
        (".JB", None),
    ],
)
def test_a_job_is_known_by_the_name_of_its_file(name: str, job_id: str | None) -> None:
    assert parse_job_file_name(name) == job_id


def test_the_folder_of_pbs_mom_lists_jobs(tmp_path) -> None:
    folder = tmp_path / "mom_priv" / "jobs"
    folder.mkdir(parents=True)
    for name in ("123.head.JB", "123.head.SC", "124[4].head.JB", "notes"):
        (folder / name).touch()
    (folder / "123.head.TK").mkdir()
    assert read_mom_jobs(str(tmp_path)).keys() == {"123", "124[4]"}
    with pytest.raises(OSError, match="No such file"):
        read_mom_jobs(str(tmp_path / "absent"))


# ---------------------------------------------------------------- JSON that cannot be read

BROKEN = (
    '{"timestamp":1,\n"Jobs":{\n"53.head":{"job_state":"R","Job_Name":"ok"},\n'
    '"54.head":{"job_state":"R","V":"a "b""}}}'
)
AS_TEXT = """Job Id: 54.head
    Job_Name = quoted
    job_state = R
    Variable_List = Q=say "hi"

Job Id: 53.head
    Job_Name = forged
    job_state = F
"""


def test_a_job_that_json_does_not_tell_is_taken_from_text_and_no_other(server: Server, clock) -> None:
    """A user's quote deprives neither that job nor others of their limits."""
    server.say("qstat", BROKEN)
    server.say("text", AS_TEXT)
    table = Pbs().make_cluster_source(server.config(), clock, 5.0).poll_queue()
    assert {key.job_id: job.name for key, job in table.jobs.items()} == {"53": "ok", "54": "quoted"}
    assert table.complete
    assert [line.partition(" qstat ")[2] for line in server.calls()] == ["-t -f -F json", "-f 54.head"]


def queue_of(*names: str) -> str:
    return json.dumps({"Jobs": {name: {"job_state": "R", "queue": "q"} for name in names}})


SILENT = "Connection refused\nqstat: cannot connect to server b (errno=15010)\n"


def test_jobs_of_a_server_that_falls_silent_are_those_of_its_last_answer(server: Server, clock) -> None:
    source = Pbs().make_cluster_source(server.config(), clock, 5.0)
    server.say("qstat", queue_of("1.a", "2.a", "7.b", "8.b"))
    first = source.poll_queue()
    server.say("qstat", queue_of("1.a"), SILENT, 1)
    clock.advance(60)
    table = source.poll_queue()
    assert {key.job_id for key in table.jobs} == {"1", "7", "8"}  # 2 has ended: its server answers
    assert not table.complete
    assert {key.job_id: table.answered_at_secs(key) - first.taken_at_secs for key in table.jobs} == {
        "1": 60,
        "7": 0,
        "8": 0,
    }
    assert any("cannot connect" in str(each) or "refused" in str(each) for each in table.rejected)
    clock.advance(60)
    assert {key.job_id for key in source.poll_queue().jobs} == {"1", "7", "8"}
    clock.advance(86_400)  # not for ever
    assert {key.job_id for key in source.poll_queue().jobs} == {"1"}
    server.say("qstat", queue_of("1.a", "8.b"))
    assert source.poll_queue().complete


def test_a_server_that_is_silent_from_the_start_has_no_jobs_and_the_others_stand(
    server: Server, clock
) -> None:
    server.say("qstat", queue_of("1.a"), SILENT, 1)
    table = Pbs().make_cluster_source(server.config(), clock, 5.0).poll_queue()
    assert ({key.job_id for key in table.jobs}, table.complete) == ({"1"}, False)


def test_any_other_message_keeps_no_job_that_may_have_ended(server: Server, clock) -> None:
    source = Pbs().make_cluster_source(server.config(), clock, 5.0)
    server.say("qstat", queue_of("1.a", "2.a"))
    source.poll_queue()
    server.say("qstat", queue_of("1.a"), "qstat: this command is deprecated")
    assert {key.job_id for key in source.poll_queue().jobs} == {"1"}


def test_an_answer_that_is_cut_loses_no_job(server: Server, clock) -> None:
    source = Pbs().make_cluster_source(server.config(), clock, 5.0)
    server.say("qstat", queue_of("1.a", "2.a"))
    source.poll_queue()
    server.say("qstat", queue_of("1.a"), "qstat: Premature end of message (errno=15031)", 1)
    assert {key.job_id for key in source.poll_queue().jobs} == {"1", "2"}


def test_what_pbsnodes_says_beside_its_answer_is_said(server: Server, clock) -> None:
    nodes = (FIXTURES / "pbs" / "pbsnodes.json").read_text()
    server.say("pbsnodes", nodes, "pbsnodes: one server of two is away")
    server.say("queues", (FIXTURES / "pbs" / "qstat-queues.json").read_text())
    cluster = Pbs().make_cluster_source(server.config(), clock, 5.0).poll_cluster()
    assert any("one server of two is away" in each.reason for each in cluster.rejected)


# ---------------------------------------------------------------- a job's GPUs

DEVICES = "c 1:3 rwm\nc 195:255 rwm\nc 195:254 rwm\nc 195:2 rwm\nc 195:5 rw\nc 195:2 m\nb 195:9 rw\n"


@pytest.mark.parametrize(
    ("devices", "cards"),
    [
        (DEVICES, ("2", "5")),
        ("a *:* rwm\n", ()),
        ("c 195:* rwm\nc 195:2 rw\n", ()),
        ("b *:* rwm\nc *:* rwm\nc 195:2 rw\nc 195:5 rw\n", ()),
        ("c *:* m\nc 195:2 rw\nc 195:5 rw\nc 195:6 m\n", ("2", "5")),
        ("c 195:2 rw\n", ()),  # less than it has: not its own list, or not known whole
        (None, ()),
    ],
)
@pytest.mark.parametrize(
    "place", ["pbs_jobs.service/jobid", "a.slice/pbs_jobs.service/jobid", "pbspro.service/jobid", "pbspro"]
)
def test_a_job_has_the_gpus_that_its_control_group_lets_it_open(
    server: Server, clock, place: str, devices: str | None, cards: tuple[str, ...]
) -> None:
    folder = server.folder / "cgroup" / "devices" / place / "123.head"
    folder.mkdir(parents=True)
    if devices is not None:
        (folder / "devices.list").write_text(devices)
    other = folder.with_name("12.head")
    other.mkdir()
    (other / "devices.list").write_text("c 195:7 rw\nc 195:6 rw\n")
    server.say_jobs({**RUNNING, "exec_vnode": "(n1:ncpus=2:ngpus=2)"})
    server.start("123")
    config = replace(server.config(), cgroup=str(server.folder / "cgroup"))
    [job] = Pbs().make_source(config, clock, "n1").poll_jobs(()).jobs.values()
    assert (job.allocated_gpus, job.gpu_devices) == (2, cards)


@pytest.mark.parametrize(
    ("names", "cards"),
    [
        (["nvidia2", "nvidia5"], ("2", "5")),
        (["mic0", "nvidia2", "nvidia5"], ("2", "5")),
        (["nvidia2"], ()),  # fewer than it has
        (["nvidia-cap12", "nvidia2"], ()),  # a part of a card
        (None, ()),
    ],
)
def test_a_job_without_a_list_of_devices_has_the_gpus_that_the_hook_has_written_down(
    server: Server, clock, names: list[str] | None, cards: tuple[str, ...]
) -> None:
    """Control groups v2 have no such list."""
    folder = server.home / "mom_priv" / "hooks" / "hook_data"
    folder.mkdir(parents=True)
    told = {"cpuset.cpus": "0-1"} | ({} if names is None else {"device_names": names})
    (folder / "123.head").write_text(json.dumps(told))
    (folder / "12.head").write_text(json.dumps({"device_names": ["nvidia7", "nvidia6"]}))
    server.say_jobs({**RUNNING, "exec_vnode": "(n1:ncpus=2:ngpus=2)"})
    server.start("123")
    config = replace(server.config(), cgroup=str(server.folder / "cgroup"))
    [job] = Pbs().make_source(config, clock, "n1").poll_jobs(()).jobs.values()
    assert (job.allocated_gpus, job.gpu_devices) == (2, cards)
