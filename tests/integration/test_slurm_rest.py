"""A real Slurm told by text and by slurmrestd: the same of the same jobs."""

import json
import re
import time
import urllib.error
import urllib.request
from dataclasses import fields, replace
from datetime import UTC

import pytest

from jobfeatures.batch.slurm.clustersource import make_cluster_source
from jobfeatures.batch.slurm.json import log as jsonlog
from jobfeatures.batch.slurm.sacct import records as sacct
from jobfeatures.batch.slurm.source import make_source
from jobfeatures.errors import Rejected, SourceError
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.logkinds import read_log, write_log
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for

HOSTILE = 'x","job_state":"FAILED","job_id":1\n}]} JobId=1 JobState=FAILED |'
ONLY_BY_JSON = {
    "gres_detail",
    "min_cpus_per_node",
    "total_nodes",
    "total_gpus",
    "tasks",
    "reason",
    "eligible_secs",
    "priority",
    "reservation",
    "planned_secs",
}


@pytest.fixture
def rest(slurm, tmp_path):
    """Return settings by name: of the text, of slurmrestd's socket, of its port with a token."""
    socket = slurm.lab / "run/slurmrestd.sock"
    if not socket.is_socket():
        pytest.skip("slurmrestd does not run: tests/labs/slurm/install.sh, and a lab that started after it")
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(slurm.run("scontrol", "token", "username=alice", "lifespan=600"))
    port = re.search(r"^SlurmctldPort=([0-9]+)$", (slurm.lab / "etc/slurm.conf").read_text(), re.MULTILINE)
    address = f"http://127.0.0.1:{int(port[1]) + 3}"  # BASEPORT + 20
    return {
        "text": settings_for("slurm"),
        "socket": settings_for("slurm", slurm_ask="rest", slurm_rest_url=f"unix:{socket}"),
        "port": settings_for(
            "slurm", slurm_ask="rest", slurm_rest_url=address, slurm_rest_token_file=str(token)
        ),
    }


@pytest.fixture
def jobs(slurm, monkeypatch):
    """Submit one job of each kind, and return the ids of all."""
    monkeypatch.setenv("SLURM_CONF", slurm.environ["SLURM_CONF"])
    failed = slurm.submit("exit 3", "-n1")
    slurm.wait(failed, "FAILED")
    plain = slurm.submit("sleep 120", "-n2", "-t7", "--mem=120", "--tmp=50", "-J", HOSTILE)
    array = slurm.submit("sleep 120", "-n1", "-a", "1-3%1", "--mem-per-cpu=30", "-J", "array")
    endless = slurm.submit("sleep 120", "-n1", "-p", "long", "-t", "UNLIMITED", "--mem=20")
    later = slurm.submit("true", "-n3", "--begin=now+1hour")
    slurm.wait(plain, "RUNNING")
    slurm.wait(array, "RUNNING", "PENDING")
    slurm.wait(endless, "RUNNING")
    ids = {each for job_id in (plain, array, endless, later, failed) for each in slurm.states(job_id)}
    return {"plain": plain, "array": array, "endless": endless, "later": later, "failed": failed, "all": ids}


def ask_both(until, text, other):
    """Return what two ways report about the same moment: asked again where the text has changed meanwhile."""

    def of_the_moment(table):  # without the times at which it was told
        changes = {
            name: None for name in ("reported_secs", "gone", "clock_ahead_secs") if hasattr(table, name)
        }
        return replace(table, taken_at_secs=0.0, **changes)

    def unmoved():
        before, between, after = text(), other(), text()
        return (before, between) if of_the_moment(after) == of_the_moment(before) else None

    return until(unmoved, 60)


def comparable(job: Job, without: set[str]) -> dict[str, object]:
    return {field.name: getattr(job, field.name) for field in fields(Job) if field.name not in without}


@pytest.mark.parametrize("way", ["socket", "port"])
def test_the_nodes_source_tells_the_same_as_by_text(slurm, rest, jobs, until, way):
    asked = {JobKey("slurm", each) for each in [*jobs["all"], "999999999"]}
    clock = SystemClock()
    text, other = (make_source(rest[each], clock, slurm.node) for each in ("text", way))
    by_text, by_json = ask_both(until, lambda: text.poll_jobs(asked), lambda: other.poll_jobs(asked))
    assert by_text.complete
    assert by_json.complete
    assert by_json.node == by_text.node
    assert by_json.jobs.keys() == by_text.jobs.keys()
    unsure = {key for key, job in by_text.jobs.items() if job.state is JobState.UNKNOWN}
    assert len(by_text.jobs) - len(unsure) >= 4
    plain = JobKey("slurm", jobs["plain"])  # whose record in text cannot be trusted: squeue tells less
    less = {plain: ONLY_BY_JSON | {"limits", "limit_end_secs"}}
    for key, job in by_text.jobs.items():
        if key not in unsure:
            without = less.get(key, ONLY_BY_JSON)
            assert comparable(by_json.jobs[key], without) == comparable(job, without)
    assert by_text.jobs[plain].limits == replace(by_json.jobs[plain].limits, scratch_bytes=None)
    hostile = by_json.jobs[JobKey("slurm", jobs["plain"])]
    assert (hostile.name, hostile.state, hostile.allocated_cpus) == (HOSTILE, JobState.RUNNING, 2)
    assert hostile.limits == Limits(
        wall_secs=420, cpu_secs=840, memory_bytes=120 * 2**20, scratch_bytes=50 * 2**20
    )
    endless = by_json.jobs[JobKey("slurm", jobs["endless"])]
    assert endless.limits.wall_secs is UNLIMITED


@pytest.mark.parametrize("way", ["socket", "port"])
def test_the_queue_and_the_nodes_are_the_same_as_by_text(slurm, rest, jobs, until, way):
    clock = SystemClock()
    by_text, by_json = (make_cluster_source(rest[each], clock, 30.0) for each in ("text", way))
    told, found = ask_both(until, by_text.poll_queue, by_json.poll_queue)
    assert told.rejected == found.rejected == ()
    assert found.jobs.keys() == told.jobs.keys() >= {JobKey("slurm", each) for each in jobs["all"]}
    beyond = {
        "gres_detail",
        "min_cpus_per_node",
        "allocated_cpus",
        "allocated_gpus",
        "gpus",
        "limits",
        "limit_end_secs",
    }
    for key in (JobKey("slurm", each) for each in jobs["all"]):
        job = told.jobs[key]
        assert comparable(found.jobs[key], beyond) == comparable(job, beyond)
        limits = replace(found.jobs[key].limits, memory_bytes=None, scratch_bytes=None)
        if job.state.is_finished and job.limits.wall_secs is UNLIMITED:
            assert limits.wall_secs is None  # 22.05 tells neither, and the end is no guess any more
        else:
            assert limits == job.limits
    old, new = ask_both(until, by_text.poll_cluster, by_json.poll_cluster)
    assert new.nodes == old.nodes
    assert new.partitions == old.partitions


def told_otherwise(record):
    """Return what JSON tells more exactly, or in another order, than text: CPU seconds, resources."""
    more = {name: sorted(value.split(",")) for name, value in record.more}
    return (record.user_cpu_secs, record.system_cpu_secs), more


def test_accounting_by_text_and_by_json_are_the_same_log(slurm, rest, jobs, until):
    columns = (
        "JobIDRaw,JobID,User,Account,Partition,JobName,State,Submit,Eligible,Start,End,ElapsedRaw,ExitCode"
    )
    columns += ",AllocCPUS,ReqCPUS,NNodes,ReqNodes,ReqMem,TimelimitRaw,TotalCPU,MaxRSS,AllocTRES,NodeList"
    columns += ",Cluster,QOS,UserCPU,SystemCPU,ReqTRES"

    def ended() -> str | None:
        found = slurm.run("sacct", "-j", jobs["failed"], "-P", "--delimiter=\x1f", "-o", columns)
        # The database may know a job's end before the rest of it, and calls it an allocation till then.
        return found if found.count("FAILED") == 2 and "allocation" not in found else None

    lines = until(ended).splitlines(keepends=True)
    document = slurm.run("sacct", "-j", jobs["failed"], "--json")
    assert sacct.recognise(lines[0])
    assert jsonlog.recognise(document[:4096])
    told = list(sacct.read_records(lines, source="sacct", notes=Notes()))
    assert [str(each) for each in told if isinstance(each, Rejected)] == []
    by_text = [each for each in told if each.step is None]
    by_json = [
        each
        for each in jsonlog.read_records([document], source="sacct --json", notes=Notes())
        if isinstance(each, Rejected) or (each.step is None and each.job_id == jobs["failed"])
    ]
    assert len(by_text) == len(by_json) == 1
    (text, text_more), (document, document_more) = map(told_otherwise, (by_text[0], by_json[0]))
    assert document == pytest.approx(text, abs=0.0015)
    assert document_more == text_more
    wrong = {
        "more": (),
        "user_cpu_secs": None,
        "system_cpu_secs": None,
        "exit_status": None,
        "used_cpu_secs": None,
        "suspended_secs": None,
        "priority": None,
        "group": None,
    }
    assert replace(by_json[0], **wrong) == replace(by_text[0], **wrong)
    assert (by_text[0].exit_status, by_text[0].state) == (3, JobState.FAILED)
    since = sacct.read_records(
        slurm.run(
            "env", "SLURM_TIME_FORMAT=%s", "sacct", "-j", jobs["failed"], "-P", "-o", columns
        ).splitlines(True),
        source="sacct",
        zone=UTC,
        notes=Notes(),
    )
    assert next(iter(since)) == by_text[0]


def test_a_wrong_token_proves_nothing(rest, jobs, tmp_path):
    token = tmp_path / "wrong"
    token.touch(0o600)
    token.write_text("SLURM_JWT=e30.e30.c2ln\n")
    config = replace(rest["port"], own=replace(rest["port"].own, rest_token_file=str(token)))
    source = make_source(config, SystemClock(), None)
    with pytest.raises(SourceError, match=r"HTTP status 401: check slurm.rest_token_file"):
        source.poll_jobs({JobKey("slurm", jobs["plain"])})


def test_the_daemon_shows_and_forgets_a_job_by_slurmrestd(slurm, rest, start_exporter, until):
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--batch.interval", "1s", "--sample.interval", "1s", "--jobs.retain", "0s", "--batch.refresh", "2s",
        "--slurm.ask", "rest", "--slurm.rest-url", rest["socket"].own.rest_url,
        "--slurm.scontrol", "/nowhere/scontrol", environ=slurm.environ,
    )  # fmt: skip
    job_id = slurm.submit("sleep 300", "-n2", "-t", "7", "--mem=120", "-J", HOSTILE)
    slurm.wait(job_id, "RUNNING")
    info = until(lambda: exporter.info(job_id).get("name") and exporter.info(job_id))
    assert info["user"] == "alice"
    assert json.loads(f'"{info["name"]}"') == HOSTILE
    until(lambda: exporter.series("batch_job_start_time_seconds", job_id=job_id))
    folder = slurm.features / "jobfeatures" / f"slurm-{job_id}"
    until((folder / "wall_limit_secs").exists)  # what is sampled may be shown before it is published
    assert (folder / "wall_limit_secs").read_text().strip() == "420"
    slurm.run("scancel", job_id)
    until(lambda: not exporter.info(job_id), 60)
    until(lambda: not folder.exists(), 60)


def test_the_ports_server_wants_a_token(rest):
    with pytest.raises(urllib.error.HTTPError) as found:
        urllib.request.urlopen(f"{rest['port'].own.rest_url}/slurm/v0.0.38/ping", timeout=240)
    found.value.close()
    assert found.value.code == 401


CPU_SECS = 5  # column of SWF; the JSON of 22.05 tells those of steps only


def as_swf(lines, kind):
    """Return the rows of SWF that a log becomes, by job."""
    notes = Notes()
    found = read_log(lines, kind, source=kind, notes=notes, zone=UTC)
    rows = list(write_log(notes.accepted_with_passages(found), "swf", notes, all_runs=False))
    assert [str(each) for each in notes.shown] == []
    return {line.split()[0]: line.split() for line in rows if not line.startswith(";")}


def test_logs_by_text_and_by_json_are_the_same_jobs_of_every_kind(slurm, without_hooks, until):
    """Each kind of job: ended in each way, requeued, resized, arrays, heterogeneous, and those that still live."""
    running = slurm.submit("sleep 300", "-n1", "--mem=10")
    found = {
        "alone": slurm.submit("sleep 2", "-n1", "--mem=10"),
        "failed": slurm.submit("srun true; exit 3", "-n1", "--mem=10"),
        "array": slurm.submit("true", "-n1", "-a", "1-2", "--mem=10"),
        "het": slurm.submit("sleep 1", "-n1", "--mem=10", ":", "-n1", "--mem=10"),
        "resized": slurm.submit("sleep 300", "-N2", "-n2", "--mem=10"),
        "killed": slurm.submit("sleep 300", "-n1", "--mem=10"),
        "removed": slurm.submit("true", "-n1", "--begin=now+1hour"),
        "requeued": slurm.submit("sleep 300", "-n1", "--mem=10", "--requeue"),
        "waiting": slurm.submit("true", "-n1", "--hold"),
        "running": running,
    }
    for kind in ("resized", "killed", "requeued", "running"):
        slurm.wait(found[kind], "RUNNING")
    time.sleep(2)  # each part and run takes seconds that can be told apart
    slurm.run("scontrol", "update", f"JobId={found['resized']}", "NumNodes=1")
    slurm.run("scontrol", "requeue", found["requeued"])
    slurm.run("scancel", found["removed"])
    time.sleep(2)
    slurm.run("scancel", found["killed"], found["resized"])
    for kind in ("alone", "failed", "array", "het", "killed", "resized"):
        until(lambda kind=kind: not {"RUNNING", "PENDING"} & set(slurm.states(found[kind]).values()), 60)
    slurm.wait(found["requeued"], "RUNNING", timeout_secs=150)
    slurm.run("scancel", found["requeued"])
    ids = ",".join(found.values())
    columns = "JobIDRaw,JobID,User,Group,Account,Partition,JobName,State,Submit,Eligible,Start,End,ElapsedRaw,Elapsed"
    columns += ",ExitCode,AllocCPUS,ReqCPUS,NNodes,ReqNodes,ReqMem,TimelimitRaw,TotalCPU,AllocTRES,ReqTRES,MaxRSS,NodeList"

    def told():
        text = slurm.run("env", "TZ=UTC", "sacct", "-D", "-j", ids, "-P", "-o", columns)
        rows = as_swf(text.splitlines(keepends=True), "sacct")
        lives = [each for each, row in rows.items() if row[3] == "-1" and row[10] != "5"]
        return rows if sorted(lives) == sorted((running, found["waiting"])) else None

    by_text = until(told, 60)
    by_json = as_swf([slurm.run("sacct", "-D", "-j", ids, "--json")], "slurmjson")
    for rows in (by_text, by_json):
        assert len(rows) == len(found) + 2  # the array has two tasks, the heterogeneous job two parts
    for row in (*by_text.values(), *by_json.values()):
        del row[CPU_SECS]
    assert by_json == by_text
    assert by_text[found["removed"]][3] == "-1"
    wait, run = map(int, by_text[found["resized"]][2:4])
    assert (wait >= 0, run >= 4) == (True, True), "from its first start"
