"""The node's source, on fake scratch directories and starters."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.htcondor import source as source_module
from jobfeatures.batch.htcondor.clustersource import CondorPool
from jobfeatures.batch.htcondor.site import is_here
from jobfeatures.batch.htcondor.source import YOUNG_SECS, CondorSource
from jobfeatures.drains.drain import (
    NO_DRAINS,
    NOT_ANNOUNCED,
    compute_announced,
    format_announced,
    parse_announced,
)
from jobfeatures.errors import SourceError
from jobfeatures.features.job import job_features
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.jobs.evidence import Presence
from jobfeatures.jobs.roster import Roster
from jobfeatures.publish.drainstore import with_announced
from jobfeatures.records.model import JobKey, JobState, NodeNotice
from jobfeatures.system import watch
from tests.configured import settings_for
from tests.jobfeatures.batch.htcondor.standins import show
from tests.running import until

CONDOR, ALICE = 100, 6001


class Node:
    """EXECUTE and /proc below one folder."""

    def __init__(self, top):
        self.execute, self.proc = top / "execute", top / "proc"
        self.proc.mkdir()
        self.execute.mkdir()
        self.execute.chmod(0o755)

    def starter(self, pid, name="condor_starter"):
        (self.proc / str(pid)).mkdir(exist_ok=True)
        uid = os.getuid()
        (self.proc / str(pid) / "status").write_text(f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (self.proc / str(pid) / "stat").write_text(f"{pid} ({name}) S 1 1 1 0 -1 4194304\n")

    def job(self, pid, cluster=12, proc=0, more="", machine='Name = "slot1_1@h"\nCpus = 4\n', folder=""):
        self.starter(pid)
        path = self.execute / f"dir_{pid}" / folder
        path.mkdir(parents=True)
        (path / ".job.ad").write_text(f"ClusterId = {cluster}\nProcId = {proc}\n{more}")
        (path / ".machine.ad").write_text(machine)
        if os.geteuid() == 0:  # as a starter does, once the ads are there
            scratch = self.execute / f"dir_{pid}" / ("scratch" if folder else "")
            scratch.mkdir(exist_ok=True)
            os.chown(scratch, ALICE, ALICE)
        return path

    def other(self, pid, folder, **more):
        """Start a job below another EXECUTE, in which its starter works."""
        main, self.execute = self.execute, self.execute.parent / folder
        self.execute.mkdir(exist_ok=True)
        self.execute.chmod(0o755)
        path = self.job(pid, **more)
        (self.proc / str(pid) / "cwd").symlink_to(path)
        self.execute = main
        return path

    def end(self, pid):
        shutil.rmtree(self.proc / str(pid))
        shutil.rmtree(self.execute / f"dir_{pid}")


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def make(node, clock):
    def make(condor_status="true", timeout_secs=60.0):
        config = settings_for(
            "htcondor",
            htcondor_execute_directory=str(node.execute),
            htcondor_condor_status=condor_status,
            batch_timeout_secs=timeout_secs,
            path_procfs=str(node.proc),
        )
        return CondorSource(config, clock, "wn1")

    return make


def states(table):
    return {key.job_id: job.state for key, job in table.jobs.items()}


def asked_before(source):
    """Return the source once its startd has answered: a first answer while it is watched asks for a poll too."""
    source.poll_jobs(())
    return source


KEY = JobKey("htcondor", "12.0")
DRAINING = NodeNotice(True, (1795952493 + 590,))  # direct-23.9.6.json


def test_a_job_is_found_by_its_scratch_directory(node, make):
    node.job(500, more='CpusProvisioned = 2\nOwner = "alice"\n')
    table = make().poll_jobs(())
    assert (table.complete, table.rejected, table.node) == (True, (), None)
    job = table.jobs[KEY]
    assert (job.state, job.allocated_cpus, job.user, job.nodes) == (JobState.RUNNING, 2, "alice", ("wn1",))
    assert (job.processes, job.uid) == ({500}, os.getuid() or ALICE)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: directories are given away")


@needs_root
@pytest.mark.parametrize("folder", ["", "scratch", "htcondor"])
def test_a_job_is_shown_once_its_directory_is_its_users_or_after_half_a_minute_without(
    node, make, folder, clock
):
    path = node.job(500, folder=folder)
    owned = node.execute / "dir_500" / ("scratch" if folder else "")
    owned.mkdir(exist_ok=True)
    (node.proc / "500/status").write_text(f"Name:\tcondor_starter\nUid:\t0\t{CONDOR}\t0\t{CONDOR}\n")
    for each in (node.execute, node.execute / "dir_500", owned, path / ".job.ad", path / ".machine.ad"):
        os.chown(each, CONDOR, CONDOR)
    source, asked = asked_before(make()), []
    with source.watch(lambda: asked.append(1)):
        table = source.poll_jobs(())
    assert (table.jobs, table.complete, table.rejected) == ({}, False, ())
    assert asked  # it is looked at again at once, and not only at the next poll
    clock.secs = YOUNG_SECS + 5
    assert source.poll_jobs(()).jobs[KEY].uid is None
    os.chown(owned, ALICE, ALICE)
    assert source.poll_jobs(()).jobs[KEY].uid == ALICE
    os.chown(owned, 6002, 6002)
    assert source.poll_jobs(()).jobs[KEY].uid == ALICE  # once known it stays


@needs_root
def test_jobs_of_a_starter_that_cannot_change_its_user_run_as_that_user(node, make):
    path = node.job(500)
    (node.proc / "500/status").write_text("Uid:\t" + "\t".join([str(CONDOR)] * 4) + "\n")
    for each in (node.execute, path, path / ".job.ad", path / ".machine.ad"):
        os.chown(each, CONDOR, CONDOR)
    assert make().poll_jobs(()).jobs[KEY].uid == CONDOR


@pytest.mark.parametrize("folder", ["scratch", "htcondor"])
def test_ads_may_be_a_folder_below(node, make, folder):
    node.job(500, folder=folder)
    (node.execute / "dir_500" / "scratch").mkdir(exist_ok=True)
    assert states(make().poll_jobs(())) == {"12.0": JobState.RUNNING}


def test_a_job_has_ended_when_its_directory_goes(node, make):
    source = make()
    node.job(500)
    source.poll_jobs(())
    node.end(500)
    for asked in (((KEY,),), ((), (KEY,))):
        table = source.poll_jobs(*asked)
        assert (table.jobs, table.complete) == ({}, True)  # how it ended, nobody says here
        assert table.absent_at_secs(KEY) == table.taken_at_secs


@pytest.mark.parametrize("unreadable", [(), (1, 2, 3, 4), (2, 4), (1, 3)])
def test_directories_of_an_ended_job_are_removed_once_and_for_all(node, make, clock, unreadable):
    source, roster, published = make(), Roster(), {}
    node.job(500)
    presences = []
    for secs in range(5):
        clock.secs = float(secs)
        if secs == 1:
            node.end(500)
        if secs in unreadable:
            (node.job(600 + secs, cluster=13) / ".job.ad").write_text("nonsense")
        elif (node.proc / str(599 + secs)).exists():
            node.end(599 + secs)
        table = source.poll_jobs((), tuple(published))
        roll = roster.judge([table], now_secs=clock.now_secs(), published=published, sources=("htcondor",))
        presence = roll.presences.get(KEY)
        published = {KEY: clock.now_secs()} if presence is Presence.HERE else {}
        presences.append(presence)
    assert presences[:2] == [Presence.HERE, Presence.LEFT]
    assert Presence.HERE not in presences[1:]


def test_what_a_starter_left_behind_is_no_job(node, make):
    node.job(500)
    node.job(501, cluster=13)
    node.starter(500, "sleep")
    shutil.rmtree(node.proc / "501")
    table = make().poll_jobs((), (KEY,))
    assert (table.jobs, table.complete) == ({}, True)


def test_ads_are_read_once_as_their_user_may_change_them(node, make):
    source = make()
    path = node.job(500, more="CpusProvisioned = 2\n")
    source.poll_jobs(())
    (path / ".job.ad").write_text("ClusterId = 99\nProcId = 0\nCpusProvisioned = 64\n")
    assert source.poll_jobs(()).jobs[KEY].allocated_cpus == 2


def test_the_same_job_may_start_again(node, make):
    source = make()
    node.job(500)
    source.poll_jobs(())
    node.end(500)
    node.job(600)
    assert states(source.poll_jobs((KEY,))) == {"12.0": JobState.RUNNING}


def test_a_directory_without_ads_is_looked_at_again_at_once_while_it_is_young(node, make, clock, monkeypatch):
    monkeypatch.setattr(watch, "watch_directory", lambda *_, **__: nullcontext())
    monkeypatch.setattr(source_module, "NOTICE_SECS", 300.0)  # an answer of the startd asks for a poll, too
    source, notified = asked_before(make()), []
    source.watch(lambda: notified.append(1))
    path = node.job(500)
    (path / ".machine.ad").rename(path / "x")
    table = source.poll_jobs(())
    assert (table.jobs, table.complete, table.rejected, notified) == ({}, False, (), [1])
    clock.secs = YOUNG_SECS + 5
    assert not source.poll_jobs(()).complete
    assert notified == [1]
    (path / "x").rename(path / ".machine.ad")
    assert states(source.poll_jobs(())) == {"12.0": JobState.RUNNING}


def test_a_watch_notices_a_directory(node, make):
    noticed = threading.Event()
    with make().watch(noticed.set):
        node.job(500)
        assert noticed.wait(60)


def test_an_ended_job_is_reported_although_another_cannot_be_read(node, make):
    source = make()
    node.job(500)
    source.poll_jobs(())
    node.end(500)
    (node.job(600, cluster=13) / ".job.ad").write_text("nonsense")
    table = source.poll_jobs((KEY,))
    assert (states(table), set(table.gone), table.complete) == ({}, {KEY}, False)
    assert [each.reason for each in table.rejected] == ["must be Name = value"]
    assert source.poll_jobs((KEY,)).rejected == table.rejected  # as long as it lasts


@pytest.mark.parametrize("kind", ["link", "pipe", "large", "writable", "binary", "no id"])
def test_an_invalid_ad_is_reported_and_harmless(node, make, kind):
    node.job(500)
    ad = node.job(600, cluster=13) / ".job.ad"
    if kind == "link":
        ad.rename(ad.parent / "real")
        ad.symlink_to("real")
    elif kind == "pipe":
        ad.unlink()
        os.mkfifo(ad)
    elif kind == "large":
        with ad.open("ab") as file:
            file.truncate(2**23)
    elif kind == "writable":
        ad.chmod(0o666)
    else:
        ad.write_bytes(b"\xff\x00\x01" * 100 if kind == "binary" else b"A = 1\n")
    table = make().poll_jobs(())
    assert states(table) == {"12.0": JobState.RUNNING}
    assert (table.complete, len(table.rejected)) == (False, 1)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_failed_read_is_reported(node, make, monkeypatch, number):
    node.job(500)
    real = os.open

    def fail(path, *more, **options):
        if str(path).endswith(".job.ad"):
            raise OSError(number, os.strerror(number), path)
        return real(path, *more, **options)

    monkeypatch.setattr(os, "open", fail)
    table = make().poll_jobs(())
    assert (table.jobs, table.complete) == ({}, False)
    assert [each.reason for each in table.rejected] == [os.strerror(number)]


def test_two_slots_cannot_have_one_job(node, make):
    node.job(500)
    node.job(600)
    table = make().poll_jobs(())
    assert table.jobs[KEY].processes == {500}
    assert [each.reason for each in table.rejected] == ["another slot has this job"]


def test_a_slot_with_an_unknown_job_stays(node, make):
    slot = JobKey("htcondor", "slot1_1@h")
    table = make().poll_jobs((slot, JobKey("slurm", "7")))
    assert set(table.jobs) == {slot}
    assert table.jobs[slot].state is JobState.UNKNOWN


def test_an_execute_where_anybody_may_write_or_that_is_not_there_is_no_source(node, make):
    source = make()
    node.execute.chmod(0o777)
    with pytest.raises(SourceError, match="writable by others"):
        source.poll_jobs(())
    node.execute.rmdir()
    with pytest.raises(SourceError, match="No such file"):
        source.poll_jobs(())


# ---------------------------------------------------------------- draining


def test_the_nodes_own_startd_reports_whether_it_drains(node, make, clock, command, tmp_path):
    source = make(condor_status=command("condor_status", show("direct-23.9.6.json")))
    assert source.poll_jobs(()).node == DRAINING
    source.poll_jobs(())
    clock.secs = 61  # a startd is this node's own
    source.poll_jobs(())
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 2
    assert calls[0].startswith("['-direct', 'wn1', '-json', '-attributes', 'Name,GlobalJobId,State,")
    assert calls[0].endswith("'C']")


RUNNING = 'GlobalJobId = "wn1.lab#1.0#5"\n'
OWN_KEY = JobKey("htcondor", "1.0@wn1.lab")


def test_a_job_s_own_end_is_its_deadline_until_the_drain_is_cancelled(node, make, clock, command):
    source = make(condor_status=command("condor_status", show("direct-23.9.6.json")))
    node.job(500, cluster=1, more=RUNNING, machine='Name = "slot1_1@h"\nMachineMaxVacateTime = 15\n')
    assert source.poll_jobs(()).jobs[OWN_KEY].deadline_secs == 1795952493 + 49
    clock.secs = 61
    command("condor_status", show("direct-vacating-23.9.6.json"))
    assert source.poll_jobs(()).jobs[OWN_KEY].deadline_secs == 1795952274 + 15
    clock.secs = 122
    command("condor_status", "sys.exit('cannot reach the startd')")
    assert source.poll_jobs(()).jobs[OWN_KEY].deadline_secs == 1795952274 + 15  # as it said last
    clock.secs = 183
    command("condor_status", 'print(\'[{"Name": "slot1@h", "State": "Unclaimed"}]\')')
    assert source.poll_jobs(()).jobs[OWN_KEY].deadline_secs is None


def test_an_end_counts_for_the_run_that_was_there_when_the_startd_was_asked(node, make, clock, command):
    source = make(condor_status=command("condor_status", show("direct-23.9.6.json")))
    node.job(500, cluster=1, more=RUNNING)
    assert source.poll_jobs(()).jobs[OWN_KEY].deadline_secs is not None
    node.end(500)
    node.job(501, cluster=1, more=RUNNING)
    assert source.poll_jobs(()).jobs[OWN_KEY].deadline_secs is None


def test_machine_ads_rate_processors_and_jobs_get_their_shares(
    node, make, clock, command, tmp_path, make_job
):
    ads = [
        {"Name": "slot1@wn1", "State": "Unclaimed", "SiteHS06": 10.69, "SiteHS23": -1},
        {"Name": "slot1_1@wn1", "State": "Claimed", "SiteHS06": 99, "SiteHS23": 12},
    ]
    found = CondorSource(
        settings_for(
            "htcondor",
            htcondor_execute_directory=str(node.execute),
            htcondor_condor_status=command("condor_status", f"print({json.dumps(ads)!r})"),
            htcondor_hs06_attribute="SiteHS06",
            htcondor_hs23_attribute="SiteHS23",
        ),
        clock,
        "wn1",
    ).poll_jobs(())
    assert found.node == NodeNotice(features={"hs06_per_core": "10.69", "hs23_per_core": "12"})
    assert "SiteHS06,SiteHS23" in (tmp_path / "calls").read_text()
    announced = parse_announced(format_announced(compute_announced(NOT_ANNOUNCED, [found], now_secs=0.0)))
    machine = with_announced(Machine(total_cpus=64), NO_DRAINS, announced)
    assert machine_features(machine, now_secs=0) == {"total_cpu": "64", "hs06": "684.16", "hs23": "768"}
    assert machine.origins["hs06"] == "the machine's ads * total_cpu"
    told = job_features(make_job(allocated_cpus=4), machine)
    assert (told["hs06_job"], told["hs23_job"]) == ("42.76", "48")
    stated = with_announced(Machine(total_cpus=64, hs06="700"), NO_DRAINS, announced)
    assert stated.hs06 == "700"


@pytest.mark.parametrize(
    "body",
    [
        "sys.exit('cannot reach the startd')",
        "print('[{')",
        "print('Fehler')",
        "import time; time.sleep(60)",
        None,
    ],
)
def test_without_an_answer_the_last_one_stays_and_jobs_are_reported(node, make, clock, command, body):
    good = command("condor_status", show("direct-23.9.6.json"))
    timeout_secs = 0.3 if body and "sleep" in body else 60.0
    source = make(condor_status=good, timeout_secs=timeout_secs)

    def ask():
        clock.secs += 301
        return source.poll_jobs(())

    until(lambda: ask().node is not None)  # on a busy machine the good answer may be late, too
    if body is None:
        Path(good).unlink()
    else:
        command("condor_status", body)
    node.job(500)
    table = ask()
    assert states(table) == {"12.0": JobState.RUNNING}
    assert table.node == DRAINING
    assert ["cannot read the node's drain state" in each.reason for each in table.rejected] == [True]


def test_jobs_that_begin_do_not_wait_for_the_startd(node, make, clock, command, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    asked = command("condor_status", f"open({str(gate)!r}).read()\n{show('direct-23.9.6.json')}")
    source = make(condor_status=asked, timeout_secs=60.0)
    with source.watch(lambda: None):
        assert source.poll_jobs(()).node is None  # and not only once the startd has answered
        node.job(500)
        clock.secs = 301.0
        table = source.poll_jobs(())  # the first question is still open: there is no second one
        assert (states(table), table.node) == ({"12.0": JobState.RUNNING}, None)
        gate.write_text("")
        clock.secs = 0.0
        assert until(lambda: source.poll_jobs(()).node) == DRAINING
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_startd_that_fails_meanwhile_is_reported_once(node, make, command):
    asked = command("condor_status", "sys.exit('cannot reach the startd')")
    source, answered = make(condor_status=asked), threading.Event()
    with source.watch(answered.set):
        told = list(source.poll_jobs(()).rejected)
        assert answered.wait(60)
        told += [each for _ in range(2) for each in source.poll_jobs(()).rejected]
    assert ["cannot reach the startd" in each.reason for each in told] == [True]


# ---------------------------------------------------------------- settings


def test_the_site_s_limits_count_on_a_node_and_in_the_queue(node, clock, command):
    node.job(500, more="Walltime = 600\n")
    ads = [{"ClusterId": 12, "ProcId": 0, "JobStatus": 2, "Walltime": 600}]
    command("condor_q", f"print({json.dumps(ads)!r})")
    config = settings_for(
        "htcondor",
        htcondor_execute_directory=str(node.execute),
        htcondor_condor_status=command("condor_status", ""),
        htcondor_wall_limit_attributes="Walltime, MaxRuntime",
        path_procfs=str(node.proc),
    )
    for table in (
        CondorSource(config, clock, "wn1").poll_jobs(()),
        CondorPool(config, clock, 60.0).poll_queue(),
    ):
        assert [job.limits.wall_secs for job in table.jobs.values()] == [600]


def test_htcondor_is_here_where_its_folder_or_its_command_is(tmp_path, command):
    def here(folder, status):
        return is_here(
            settings_for(
                "htcondor", htcondor_execute_directory=str(folder), htcondor_condor_status=str(status)
            )
        )

    missing = tmp_path / "missing"
    assert here(tmp_path, missing)
    assert here(missing, command("condor_status", ""))
    assert not here(missing, missing)


def test_htcondor_is_a_batch_system():
    assert SYSTEMS["htcondor"].job_variable == "_CONDOR_JOB_AD"


def test_jobs_of_two_schedds_with_one_number_are_two_jobs_on_a_node(node, make):
    for pid, schedd in ((500, "wn1.lab"), (501, "schedd2@wn1.lab")):
        node.job(pid, more=f'GlobalJobId = "{schedd}#12.0#1795721952"\nCpusProvisioned = {pid - 499}\n')
    table = make().poll_jobs(())
    assert (table.complete, table.rejected) == (True, ())
    assert {key.job_id: (job.schedd, job.allocated_cpus) for key, job in table.jobs.items()} == {
        "12.0@wn1.lab": ("wn1.lab", 1),
        "12.0@schedd2@wn1.lab": ("schedd2@wn1.lab", 2),
    }
    features = [job_features(job, Machine())["job_id"] for job in table.jobs.values()]
    assert features == ["12.0", "12.0"]  # the number that condor_q takes


@pytest.mark.parametrize("unique", ["", "a#13.0#5", "a#12.0", "a b#12.0#5", "#12.0#5", "a#12.0#x"])
def test_a_global_id_that_is_not_of_this_job_names_no_schedd(node, make, unique):
    node.job(500, more=f'GlobalJobId = "{unique}"\n')
    assert [job.schedd for job in make().poll_jobs(()).jobs.values()] == [None]


# --- which job it is --------------------------------------------------------------------------

PARALLEL = "JobUniverse = 11\nCpusProvisioned = {}\nMemoryProvisioned = 100\nAllowedJobDuration = 60\n"


def test_slots_of_one_parallel_job_are_one_job_with_what_all_of_them_have(node, make):
    node.job(500, more=PARALLEL.format(2), machine='Name = "slot1_1@h"\nAssignedGPUs = "GPU-a"\nGPUs = 1\n')
    node.job(501, more=PARALLEL.format(3), machine='Name = "slot1_2@h"\nAssignedGPUs = "GPU-b"\nGPUs = 1\n')
    node.job(502, more=PARALLEL.format(1), machine='Name = "slot1_3@h"\nGPUs = 0\n')
    table = make().poll_jobs(())
    assert (table.jobs.keys(), table.rejected, table.complete) == ({KEY}, (), True)
    job = table.jobs[KEY]
    assert (job.allocated_cpus, job.allocated_gpus, job.gpus) == (6, 2, ("GPU-a", "GPU-b"))
    assert (job.limits.memory_bytes, job.limits.wall_secs, job.limits.cpu_secs) == (300 * 2**20, 60, 360)
    assert (job.starters, job.processes, job.total_cpus) == ({500, 501, 502}, {500, 501, 502}, None)


def test_what_a_slot_of_a_parallel_job_does_not_say_is_not_known_of_the_job(node, make):
    node.job(500, more=PARALLEL.format(2))
    node.job(501, more="JobUniverse = 11\n", machine='Name = "slot1_2@h"\nMemory = 5\n')
    job = make().poll_jobs(()).jobs[KEY]
    assert (job.allocated_cpus, job.limits.cpu_secs, job.limits.memory_bytes) == (None, None, 105 * 2**20)


@needs_root
@pytest.mark.parametrize("more", [PARALLEL.format(9), "CpusProvisioned = 9\n"])
def test_another_user_s_ad_adds_no_slot_to_a_parallel_job(node, make, more):
    node.job(500, more=PARALLEL.format(2))
    path = node.job(501, more=more)
    if "Universe" in more:
        os.chown(path, 6002, 6002)
    table = make().poll_jobs(())
    [job] = table.jobs.values()
    assert (job.allocated_cpus, job.starters) == (2, {500})
    assert [each.reason for each in table.rejected] == ["another slot has this job"]


def test_jobs_below_another_execute_are_found_by_where_their_starters_work(node, make, clock):
    node.job(500)
    node.other(501, "execute2", cluster=13)
    node.other(502, "with_under score", cluster=14)
    source = make()
    assert set(states(source.poll_jobs(()))) == {"12.0", "13.0", "14.0"}
    node.other(503, "execute4", cluster=15)
    clock.secs += 1
    assert "15.0" not in states(source.poll_jobs(()))  # one look at all processes in so many seconds
    clock.secs += 60
    table = source.poll_jobs(())
    assert ("15.0" in states(table), table.complete, table.rejected) == (True, True, ())
    shutil.rmtree(node.proc / "501")
    table = source.poll_jobs({JobKey("htcondor", "13.0")})
    assert "13.0" not in states(table)
    assert table.complete
    shutil.rmtree(node.proc.parent / "execute2")
    assert source.poll_jobs(()).complete
    shutil.rmtree(node.execute)  # nothing runs below the configured one
    assert set(states(source.poll_jobs(()))) == {"14.0", "15.0"}


def test_a_folder_found_is_watched_as_the_configured_one(node, make, clock):
    source, asked = asked_before(make()), []
    node.other(501, "execute2", cluster=13)
    clock.secs += 60
    with source.watch(lambda: asked.append(1)):
        source.poll_jobs(())
        asked.clear()
        (node.proc.parent / "execute2/dir_777").mkdir()
        until(lambda: asked)


@needs_root
def test_a_user_s_process_called_condor_starter_leads_nowhere(node, make):
    path = node.other(501, "execute2", cluster=13)
    (node.proc / "501/status").write_text(f"Name:\tcondor_starter\nUid:\t{ALICE}\t0\t0\t0\n")
    table = make().poll_jobs(())
    assert (table.jobs, table.complete) == ({}, True)
    assert path.exists()


def test_a_starter_whose_folder_cannot_be_found_is_named_until_it_has_ended(node, make, clock, monkeypatch):
    node.other(501, "execute2", cluster=13)
    readlink = os.readlink

    def refuse(path, **more):
        if str(path).endswith("/cwd"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return readlink(path, **more)

    monkeypatch.setattr(os, "readlink", refuse)
    source = make()
    table = source.poll_jobs(())
    assert (table.jobs, table.complete) == ({}, False)
    assert str(table.rejected[0]).endswith(
        "/501/cwd: where this condor_starter's job is cannot be read: Permission denied"
    )
    node.job(502)  # in the configured one: nothing has to be found
    shutil.rmtree(node.proc / "501")
    clock.secs += 60
    assert source.poll_jobs(()).complete


def test_an_attribute_that_is_too_long_costs_nothing_but_itself(node, make):
    node.job(500, more=f'CpusProvisioned = 2\nBig = "{"x" * 2**21}"\nJobBatchName = "{"y" * 2**20}"\n')
    source = make()
    table = source.poll_jobs(())
    assert (table.jobs[KEY].allocated_cpus, table.jobs[KEY].name, table.complete) == (2, None, True)
    assert {(each.field, each.reason) for each in table.rejected} == {
        ("Big", "an attribute is too long"),
        ("JobBatchName", "an attribute is too long"),
        ("JobBatchName", "the value is too long"),
    }
    assert not source.poll_jobs(()).rejected
