"""The sources of the node and of the controller role, with stand-ins for LSF's commands."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.lsf.clustersource import LsfCluster
from jobfeatures.batch.lsf.site import is_here
from jobfeatures.batch.lsf.source import LsfSource
from jobfeatures.config import Config
from jobfeatures.drains.drain import NO_DRAINS, NOT_ANNOUNCED, compute_announced
from jobfeatures.errors import CommandError, SourceError
from jobfeatures.features.job import Terms, job_features
from jobfeatures.features.keys import MjfProfile
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.features.origin import job_origins
from jobfeatures.publish.drainstore import with_announced
from jobfeatures.records.model import JobKey, JobState, JobTable
from tests.configured import settings_for
from tests.running import FakeClock

FIXTURES = Path(__file__).parents[3] / "fixtures" / "lsf"
EMPTY = '{"COMMAND":"bjobs","JOBS":0,"RECORDS":[]}'


class Lsf:
    """A folder of stand-ins: each answers with a file and keeps its arguments, one call a line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.say("bjobs", f"cat {FIXTURES}/bjobs-node.json")
        self.say("bhosts", f"cat {FIXTURES}/bhosts.json")
        self.say("lshosts", f"cat {FIXTURES}/lshosts.json")
        self.say(
            "bqueues",
            f"case $1 in -l) cat {FIXTURES}/bqueues-l.txt ;; *) cat {FIXTURES}/bqueues.json ;; esac",
        )
        self.say("bparams", f"cat {FIXTURES}/bparams-a.txt")

    def say(self, name: str, script: str) -> None:
        path = self.folder / name
        calls = shlex.quote(str(self.folder / f"{name}.calls"))
        path.write_text(f'#!/bin/bash\necho "$*" >>{calls}\n{script}\n')
        path.chmod(0o755)

    def answer(self, name: str, text: str) -> None:
        (self.folder / f"{name}.answer").write_text(text)
        self.say(name, f"cat {self.folder / name}.answer")

    def calls(self, name: str) -> list[str]:
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def config(self, **changes: object) -> Config:
        return settings_for("lsf", lsf_bjobs=str(self.folder / "bjobs"), **changes)  # type: ignore[arg-type]


@pytest.fixture
def lsf(tmp_path: Path) -> Lsf:
    return Lsf(tmp_path)


@pytest.fixture
def now(clock: FakeClock) -> FakeClock:
    clock.now = datetime(2026, 11, 21, 13, 0, tzinfo=UTC).timestamp()
    return clock


def source(lsf: Lsf, clock: FakeClock, **changes: object) -> LsfSource:
    return LsfSource(lsf.config(**changes), clock, "n1")


def states(table: JobTable) -> dict[str, JobState]:
    return {key.job_id: job.state for key, job in table.jobs.items()}


# ---------------------------------------------------------------- the node


def test_the_jobs_of_this_host_are_asked_for_in_one_question(lsf: Lsf, now: FakeClock) -> None:
    table = source(lsf, now).poll_jobs(())
    assert states(table) == {
        "101": JobState.RUNNING,
        "102[7]": JobState.RUNNING,
        "103": JobState.SUSPENDED,
        "104": JobState.UNKNOWN,
    }
    assert table.complete
    assert table.rejected == ()
    assert table.taken_at_secs == now.now
    (call,) = lsf.calls("bjobs")
    assert call.endswith(" -json -u all -X -m n1")
    assert call.startswith("-o jobid jobindex ")


def test_on_another_host_than_the_first_a_job_may_have_no_group_yet(lsf: Lsf, now: FakeClock) -> None:
    first, other = (LsfSource(lsf.config(), now, node).poll_jobs(()) for node in ("n1", "n2"))
    assert first.groupless == frozenset()
    assert other.groupless == {JobKey("lsf", "102[7]")}


def test_limits_come_out_at_this_host_s_speed(lsf: Lsf, now: FakeClock) -> None:
    jobs = source(lsf, now).poll_jobs(()).jobs
    assert jobs[JobKey("lsf", "101")].limits.wall_secs == 34560
    assert jobs[JobKey("lsf", "101")].limits.cpu_secs == 17280
    assert jobs[JobKey("lsf", "102[7]")].limits.wall_secs == 1800


# "Normalization factor as used by the batch system" (1.1): the draft has no other source for it; "Divide by
# cpufactor_lrms to retrieve the real time seconds" (1.2.1).
def test_the_cpu_factor_is_that_of_the_batch_system_whatever_the_site_states(
    lsf: Lsf, now: FakeClock
) -> None:
    job = source(lsf, now).poll_jobs(()).jobs[JobKey("lsf", "101")]
    assert job.cpu_factor == "2.5"
    terms = Terms(cpu_factor="1.0", origins={"cpufactor_lrms": "machine.cpu_factor"})
    told = job_features(job, Machine(), terms=replace(terms, profile=MjfProfile.OF_2014))
    assert (told["cpufactor_lrms"], told["cpu_limit_secs"], told["cpu_limit_secs_lrms"]) == (
        "2.5",
        "17280",
        "43200",
    )
    origins = job_origins(told, job, terms, SYSTEMS["lsf"].key_sources)
    assert origins["cpufactor_lrms"] == "lsf: CPUF of this host (lshosts)"


def test_without_a_factor_of_lsf_s_the_site_s_counts(lsf: Lsf, now: FakeClock) -> None:
    lsf.say("lshosts", "exit 1")
    job = source(lsf, now).poll_jobs(()).jobs[JobKey("lsf", "101")]
    assert job.cpu_factor is None
    told = job_features(job, Machine(), terms=Terms(profile=MjfProfile.OF_2014, cpu_factor="1.5"))
    assert told["cpufactor_lrms"] == "1.5"


# "Number of job slots for the host"; "dynamic value, can change with batch reconfigurations" (2.3).
def test_job_slots_are_those_of_the_batch_system_as_they_change(lsf: Lsf, now: FakeClock) -> None:
    polled = source(lsf, now)
    site = Machine(total_cpus=16, jobslots=4, origins={"jobslots": "machine.jobslots"})

    def told() -> tuple[str, str]:
        announced = compute_announced(NOT_ANNOUNCED, [polled.poll_jobs(())], now_secs=now.now)
        machine = with_announced(site, NO_DRAINS, announced)
        return machine_features(machine, profile=MjfProfile.OF_2014, now_secs=0)["jobslots"], machine.origins[
            "jobslots"
        ]

    assert told() == ("8", "lsf")
    lsf.answer("bhosts", (FIXTURES / "bhosts.json").read_text().replace('"MAX":"8"', '"MAX":"12"'))
    now.advance(301)
    assert told() == ("12", "lsf")


def test_a_user_s_id_is_that_of_this_node(lsf: Lsf, now: FakeClock) -> None:
    answer = (FIXTURES / "bjobs-node.json").read_text().replace('"USER":"bob"', '"USER":"root"')
    lsf.answer("bjobs", answer.replace('"USER":"alice"', '"USER":"nobody at all"'))
    jobs = source(lsf, now).poll_jobs(()).jobs
    assert jobs[JobKey("lsf", "102[7]")].uid == 0
    assert jobs[JobKey("lsf", "101")].uid is None


@pytest.mark.parametrize("how", ["bparams", "setting"])
def test_absolute_run_limits_are_taken_as_they_stand(lsf: Lsf, now: FakeClock, how: str) -> None:
    changes = {"lsf_abs_runlimit": "yes"} if how == "setting" else {}
    if how == "bparams":
        lsf.say("bparams", "echo 'lsb.params configuration at now'; echo 'ABS_RUNLIMIT = Y'")
    job = source(lsf, now, **changes).poll_jobs(()).jobs[JobKey("lsf", "101")]
    assert job.limits.wall_secs == 86400
    assert job.limits.cpu_secs == 17280
    assert bool(lsf.calls("bparams")) is (how == "bparams")


def test_the_unit_of_limits_is_read_from_lsf_conf(
    lsf: Lsf, now: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lsf.conf").write_text("LSF_UNIT_FOR_LIMITS=MB\n")
    monkeypatch.setenv("LSF_ENVDIR", str(tmp_path))
    job = source(lsf, now).poll_jobs(()).jobs[JobKey("lsf", "102[7]")]
    assert job.limits.memory_bytes == 2048 * 2**20


def test_an_administrator_s_closing_is_told_as_draining(lsf: Lsf, now: FakeClock) -> None:
    notice = source(lsf, now).poll_jobs(()).node
    assert notice is not None
    assert notice.draining
    assert lsf.calls("bhosts") == ["-o host_name status max njobs -json -X n1"]


def test_what_changes_seldom_is_asked_for_seldom(lsf: Lsf, now: FakeClock) -> None:
    asked = source(lsf, now)
    for _ in range(5):
        asked.poll_jobs(())
        now.advance(50)
    assert [len(lsf.calls(name)) for name in ("bjobs", "bhosts", "bparams", "bqueues")] == [5, 1, 1, 1]
    assert len(lsf.calls("lshosts")) == 2  # this host, and the one that limits name
    now.advance(100)
    asked.poll_jobs(())
    assert [len(lsf.calls(name)) for name in ("bhosts", "bparams", "bqueues")] == [2, 2, 2]


def test_a_queue_that_is_new_is_asked_about_at_once(lsf: Lsf, now: FakeClock) -> None:
    asked = source(lsf, now)
    asked.poll_jobs(())
    answer = (FIXTURES / "bjobs-node.json").read_text().replace('"QUEUE":"short"', '"QUEUE":"night"')
    lsf.answer("bjobs", answer)
    asked.poll_jobs(())
    asked.poll_jobs(())
    assert lsf.calls("bqueues")[:2] == ["-l normal short", "-l night normal"]


def test_jobs_that_are_seen_and_not_told_are_asked_about_by_id(lsf: Lsf, now: FakeClock) -> None:
    record = '{"JOBID":"%s","JOBINDEX":"0","STAT":"%s","EXIT_REASON":"%s"}'
    ended = ",".join([record % ("201", "DONE", ""), record % ("202", "PEND", ""), record % ("7", "RUN", "")])
    lsf.say(
        "bjobs",
        f"""case "$*" in
*-m*) echo '{EMPTY}' ;;
*) echo '{{"COMMAND":"bjobs","JOBS":3,"RECORDS":[{ended}]}}'; echo 'Job <203> is not found' >&2; exit 255 ;;
esac""",
    )
    seen = {JobKey("lsf", "201"), JobKey("slurm", "9")}
    table = source(lsf, now).poll_jobs(seen, {JobKey("lsf", "202"), JobKey("lsf", "203")})
    assert states(table) == {"201": JobState.COMPLETED, "202": JobState.PENDING}
    assert table.complete  # 203 is forgotten, 7 was not asked about
    assert lsf.calls("bjobs")[1].endswith(" -json -u all -X 201 202 203")


def test_a_job_that_runs_on_other_hosts_by_now_has_left_this_one(lsf: Lsf, now: FakeClock) -> None:
    lsf.say(
        "bjobs",
        f"""case "$*" in
*-m*) echo '{EMPTY}' ;;
*) echo '{{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{{"JOBID":"7","STAT":"RUN","ALLOC_SLOT":"4*n2"}}]}}' ;;
esac""",
    )
    key = JobKey("lsf", "7")
    for seen, claimed in (((), {key}), ({key}, ())):  # what is seen is left of an earlier run
        table = source(lsf, now).poll_jobs(seen, claimed)
        assert table.jobs == {}
        assert table.complete


def test_a_job_that_lives_here_and_that_lsf_does_not_know_makes_the_answer_worth_nothing(
    lsf: Lsf, now: FakeClock
) -> None:
    lsf.say(
        "bjobs",
        f"case \"$*\" in *-m*) echo '{EMPTY}' ;; *) echo 'Job <7> is not found' >&2; exit 255 ;; esac",
    )
    key = JobKey("lsf", "7")
    assert not source(lsf, now).poll_jobs({key}).complete  # it may be hidden from us
    assert source(lsf, now).poll_jobs((), {key}).complete


def test_a_host_that_lsf_calls_otherwise_keeps_its_jobs(lsf: Lsf, now: FakeClock) -> None:
    answer = (FIXTURES / "bjobs-node.json").read_text().replace("n1", "n1-ib")
    lsf.answer("bjobs", answer)
    table = source(lsf, now).poll_jobs(())
    assert len(table.jobs) == 4
    assert table.jobs[JobKey("lsf", "101")].allocated_cpus == 4
    assert table.jobs[JobKey("lsf", "104")].allocated_cpus is None  # on two hosts, and which is this one?


def test_jobs_that_could_not_be_asked_about_prove_nothing(lsf: Lsf, now: FakeClock) -> None:
    lsf.say(
        "bjobs", f"case \"$*\" in *-m*) echo '{EMPTY}' ;; *) echo 'mbatchd is busy' >&2; exit 255 ;; esac"
    )
    table = source(lsf, now).poll_jobs({JobKey("lsf", "7")})
    assert not table.complete
    assert len(table.rejected) == 1


def test_a_key_that_is_no_id_is_never_put_on_a_command_line(lsf: Lsf, now: FakeClock) -> None:
    hostile = JobKey("lsf", "-h; rm -rf /")
    table = source(lsf, now).poll_jobs({hostile})
    assert table.jobs[hostile].state is JobState.UNKNOWN
    assert len(lsf.calls("bjobs")) == 1


@pytest.mark.parametrize(
    "script",
    [
        "echo 'No unfinished job found on host/group <n1>' >&2; exit 255",
        "echo 'No unfinished job found'; exit 255",
        f"echo '{EMPTY}'",
        f"echo 'Cannot connect to LSF. Please wait ...' >&2; echo 'Welcome!'; echo '{EMPTY}'",
    ],
)
def test_a_host_without_jobs_is_an_answer(lsf: Lsf, now: FakeClock, script: str) -> None:
    lsf.say("bjobs", script)
    table = source(lsf, now).poll_jobs(())
    assert table.jobs == {}
    assert table.complete


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 1", "no JSON"),
        ("echo 'n1: Bad host name, host group name or cluster name' >&2; exit 255", "Bad host name"),
        ("echo 'Kein Job gefunden'; exit 255", "no JSON"),
        (
            "echo 'No unfinished job found'; echo 'Failed in an LSF library call' >&2; exit 255",
            "library call",
        ),
        (f"head -c 900 {FIXTURES}/bjobs-node.json", "broken JSON"),
        ("head -c 99 /dev/zero", "no JSON"),
        (f"echo '{EMPTY}'; echo 'LSF daemons are not consistent' >&2", "not consistent"),
        ("echo root is not permitted to execute this >&2; exit 255", "not permitted"),
    ],
)
def test_what_is_no_answer_is_a_failure(lsf: Lsf, now: FakeClock, script: str, reason: str) -> None:
    lsf.say("bjobs", script)
    with pytest.raises(SourceError, match=reason):
        source(lsf, now).poll_jobs(())


@pytest.mark.parametrize(
    ("script", "kind"), [("sleep 60", "timeout"), ("yes yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", None)]
)  # fmt: skip
def test_a_command_that_hangs_or_never_ends_is_ended(
    lsf: Lsf, now: FakeClock, script: str, kind: str | None
) -> None:
    lsf.say("bjobs", script)
    with pytest.raises(CommandError) as caught:
        source(lsf, now, batch_timeout_secs=0.3).poll_jobs(())
    assert caught.value.kind in ({kind} if kind else {"timeout", "too large"})


def test_lsf_that_is_not_installed_is_a_failure_and_not_here(tmp_path: Path, now: FakeClock) -> None:
    config = settings_for("lsf", lsf_bjobs=str(tmp_path / "bjobs"))
    assert not is_here(config)
    with pytest.raises(CommandError, match="bjobs"):
        LsfSource(config, now, "n1").poll_jobs(())


def test_a_configuration_without_its_command_is_here_too_and_its_failure_told(tmp_path, monkeypatch) -> None:
    config = settings_for("lsf", lsf_bjobs=str(tmp_path / "bjobs"))
    monkeypatch.delenv("LSF_ENVDIR", raising=False)
    monkeypatch.setattr("jobfeatures.batch.lsf.site.CONFIGURATION", str(tmp_path / "lsf.conf"))
    assert not is_here(config)
    (tmp_path / "lsf.conf").touch()
    assert is_here(config)


def test_lsf_that_is_installed_is_here(lsf: Lsf) -> None:
    assert is_here(lsf.config())


def test_a_text_of_users_that_breaks_the_answer_costs_names_only(lsf: Lsf, now: FakeClock) -> None:
    plain = (FIXTURES / "bjobs-node.json").read_text()
    (lsf.folder / "broken").write_text(plain.replace('"JOB_NAME":"old"', '"JOB_NAME":"x","STAT":"DONE"'))
    lsf.say(
        "bjobs",
        f'case "$*" in *job_name*) cat {lsf.folder}/broken ;; *) cat {FIXTURES}/bjobs-node.json ;; esac',
    )
    asked = source(lsf, now)
    assert len(asked.poll_jobs(()).jobs) == 4
    asked.poll_jobs(())
    assert ["job_name" in call for call in lsf.calls("bjobs")] == [True, False, False]
    now.advance(301)
    asked.poll_jobs(())
    assert "job_name" in lsf.calls("bjobs")[3]


def test_a_field_that_this_version_has_not_is_left_out(lsf: Lsf, now: FakeClock) -> None:
    lsf.say(
        "bjobs",
        f'case "$*" in *gpu_alloc*) echo "gpu_alloc: unknown field" >&2; exit 255 ;; *) cat {FIXTURES}/bjobs-node.json ;; esac',
    )
    assert len(source(lsf, now).poll_jobs(()).jobs) == 4


def test_other_commands_that_fail_cost_what_they_tell_and_are_told_once(lsf: Lsf, now: FakeClock) -> None:
    for name in ("bhosts", "bparams", "bqueues", "lshosts"):
        lsf.say(name, "echo 'ls_connect(): daemon is down' >&2; exit 255")
    asked = source(lsf, now)
    table = asked.poll_jobs(())
    assert {each.source for each in table.rejected} == {"bhosts", "bparams", "bqueues", "lshosts"}
    assert table.complete
    assert table.node is None
    job = table.jobs[JobKey("lsf", "101")]
    assert (job.allocated_cpus, job.limits.wall_secs, job.limits.cpu_secs) == (4, None, None)
    now.advance(301)
    assert asked.poll_jobs(()).rejected == ()


def test_what_was_known_stays_while_a_command_fails(lsf: Lsf, now: FakeClock) -> None:
    asked = source(lsf, now)
    asked.poll_jobs(())
    for name in ("bhosts", "bparams", "bqueues", "lshosts"):
        lsf.say(name, "exit 1")
    now.advance(301)
    table = asked.poll_jobs(())
    assert table.node is not None
    assert table.jobs[JobKey("lsf", "101")].limits.wall_secs == 34560


def test_commands_are_run_as_another_user_where_that_is_set(
    lsf: Lsf, now: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lsf.say("runuser", 'shift 3; exec "$@"')
    monkeypatch.setenv("PATH", f"{lsf.folder}:/usr/bin:/bin")
    assert source(lsf, now, lsf_user="lsfadmin").poll_jobs(()).complete
    assert lsf.calls("runuser")[0].startswith(f"-u lsfadmin -- {lsf.folder}/bjobs -o ")


def test_a_name_that_is_no_host_s_is_not_asked_about(lsf: Lsf, now: FakeClock) -> None:
    with pytest.raises(SourceError, match="not a host"):
        LsfSource(lsf.config(), now, "-a").poll_jobs(())
    assert lsf.calls("bjobs") == []


# ---------------------------------------------------------------- the cluster


def cluster(lsf: Lsf, clock: FakeClock) -> LsfCluster:
    return LsfCluster(lsf.config(), clock, 5.0)


def test_the_queue_holds_jobs_of_all_states(lsf: Lsf, now: FakeClock) -> None:
    table = cluster(lsf, now).poll_queue()
    assert states(table)["105"] is JobState.PENDING
    assert len(table.jobs) == 5
    assert table.complete
    assert table.jobs[JobKey("lsf", "101")].limits.wall_secs is None  # another host's speed is not ours
    (call,) = lsf.calls("bjobs")
    assert call.endswith(" -json -u all -a -X")


def test_nodes_and_queues_come_with_memory_where_it_is_told(lsf: Lsf, now: FakeClock) -> None:
    found = cluster(lsf, now).poll_cluster()
    assert [node.name for node in found.nodes] == ["n1", "n2", "n3", "n4", "n5"]
    assert [queue.name for queue in found.partitions] == ["normal", "short", "night"]
    lsf.say("lshosts", "exit 1")
    assert cluster(lsf, now).poll_cluster().nodes[0].memory_bytes is None


@pytest.mark.parametrize("name", ["bhosts", "bqueues"])
@pytest.mark.parametrize(
    "script", ["exit 1", "echo nonsense", "head -c 300 " + str(FIXTURES / "bhosts.json")]
)
def test_a_cluster_that_is_told_by_half_is_no_answer(
    lsf: Lsf, now: FakeClock, name: str, script: str
) -> None:
    lsf.say(name, script)
    with pytest.raises(SourceError):
        cluster(lsf, now).poll_cluster()


def test_an_empty_queue_is_an_answer_and_a_failure_is_none(lsf: Lsf, now: FakeClock) -> None:
    lsf.say("bjobs", "echo 'No job found' >&2; exit 255")
    assert cluster(lsf, now).poll_queue().jobs == {}
    lsf.say("bjobs", "echo 'LSF is down' >&2; exit 255")
    with pytest.raises(SourceError, match="LSF is down"):
        cluster(lsf, now).poll_queue()


def test_what_is_said_beside_an_answer_is_said_and_the_queue_is_incomplete(lsf: Lsf, now: FakeClock) -> None:
    """Of a cluster that forwards jobs to others, say, one of which is away."""
    text = "Cluster <c2> is not available"
    for name in ("bjobs-node", "bhosts", "bqueues"):
        lsf.say(name.partition("-")[0], f"echo '{text}' >&2; cat {FIXTURES}/{name}.json")
    table = cluster(lsf, now).poll_queue()
    assert (len(table.jobs), table.complete) == (5, False)
    found = cluster(lsf, now).poll_cluster()
    for rejected, names in ((table.rejected, ["bjobs"]), (found.rejected, ["bhosts", "bqueues"])):
        assert [each.source for each in rejected if text in each.reason] == names


def test_jobs_of_a_cluster_that_falls_silent_are_those_of_its_last_answer(lsf: Lsf, now: FakeClock) -> None:
    lsf.say("bjobs", f"cat {FIXTURES}/bjobs-node.json")
    source = cluster(lsf, now)
    whole = source.poll_queue()
    record = {"JOBID": "101", "STAT": "PEND", "USER": "alice"}
    rest = json.dumps({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [record]})
    lsf.say("bjobs", f"echo 'Cannot connect to cluster <c2>' >&2; echo '{rest}'")
    now.advance(60)
    table = source.poll_queue()
    assert table.jobs.keys() == whole.jobs.keys()
    assert not table.complete
    [pending] = [job for job in table.jobs.values() if job.key.job_id == "101"]
    assert pending.state is JobState.PENDING
    assert {table.answered_at_secs(key) for key in whole.jobs.keys() - {pending.key}} == {whole.taken_at_secs}
    lsf.say("bjobs", f"echo 'a notice of the site' >&2; echo '{rest}'")
    assert len(source.poll_queue().jobs) == 1
    lsf.say("bjobs", f"echo '{rest}'")
    assert source.poll_queue().complete


def test_notices_of_waiting_are_not_said(lsf: Lsf, now: FakeClock) -> None:
    lsf.say(
        "bjobs", f"echo 'LSF is processing your request. Please wait ...' >&2; cat {FIXTURES}/bjobs-node.json"
    )
    assert cluster(lsf, now).poll_queue().complete


def test_names_that_break_the_queue_s_answer_are_left_out(lsf: Lsf, now: FakeClock) -> None:
    lsf.say("bjobs", f'case "$*" in *job_name*) echo broken ;; *) cat {FIXTURES}/bjobs-node.json ;; esac')
    assert len(cluster(lsf, now).poll_queue().jobs) == 5


def test_accounting_cannot_be_asked_for(lsf: Lsf, now: FakeClock) -> None:
    with pytest.raises(SourceError, match=r"lsb\.acct"):
        cluster(lsf, now).poll_accounting(0.0)


@pytest.mark.parametrize("offset_secs", [600, 600 + 3600])
def test_a_start_in_the_hour_that_clocks_repeat_is_told_apart(
    lsf: Lsf, now: FakeClock, offset_secs: int
) -> None:
    """LSF prints no offset, so bjobs is asked in UTC."""
    start = int(datetime(2026, 10, 25, tzinfo=UTC).timestamp()) + offset_secs
    shown = f'$(TZ="${{TZ:-Europe/Berlin}}" date -d @{start} "+%b %d %H:%M")'
    record = {"JOBID": "101", "STAT": "RUN", "USER": "alice", "EXEC_HOST": "n1", "START_TIME": "SHOWN"}
    answer = json.dumps({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [record]}).replace('"', '\\"')
    lsf.say("bjobs", f'echo "{answer.replace("SHOWN", shown)}"')
    table = source(lsf, now).poll_jobs(())
    assert [job.start_secs for job in table.jobs.values()] == [start]
