"""Every way of finding out whose a process is, on made-up nodes, and which of them goes first."""

import itertools
import random
import shutil

import pytest

from jobfeatures.batch import BatchSettings
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.snapshot import FigureSource, GroupKey, JobSample, Kind, UnitKey
from jobfeatures_exporter.sampling.processes import attributor
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.state.retention import Retention
from tests.configured import configured

EPOCH = 1795247965 - 1577836800
HEX = "0123456789abcdef" * 4
GID = 65400


def key(text: str) -> JobKey:
    return JobKey(*text.split(":"))


def sum_cpu(sample: JobSample) -> float:
    return sample.user_cpu_secs + sample.system_cpu_secs


@pytest.fixture
def spool(tmp_path):
    """Return Grid Engine's spool directory with one active job, 1, of supervisor 500."""
    path = tmp_path / "spool/active_jobs/1.1"
    path.mkdir(parents=True)
    path.parent.chmod(0o755)
    (path / "addgrpid").write_text(f"{GID}\n")
    (path / "pid").write_text("500\n")
    (path / "config").write_text("ja_task_id=0\n")
    return tmp_path / "spool"


@pytest.fixture
def execute(tmp_path):
    """Return HTCondor's EXECUTE with the scratch directory of starter 600."""
    path = tmp_path / "execute"
    (path / "dir_600").mkdir(parents=True)
    path.chmod(0o755)
    (path / "dir_600/.job.ad").write_text("ClusterId = 12\nProcId = 3\n")
    (path / "dir_600/.machine.ad").write_text('Name = "slot1_1@h"\n')
    return path


@pytest.fixture
def make(node, clock):
    made = []

    def make(jobs=dict, **settings) -> Sampler:
        batch = configured(BatchSettings, **settings)
        made.append(
            Sampler(
                SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), batch=batch), clock, jobs=jobs
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("slurm/uid_6001/job_7", "slurm:7"),
        ("pbs_jobs.service/jobid/7[2].server", "pbs:7[2]"),
        ("torque/7.server", "torque:7"),
        ("lsf/c1/job.7.100.1700000000", "lsf:7"),
    ],
)
def test_control_groups_of_v1_count_for_every_system(node, make, path, expected):
    node.job_v1(path, usage_secs=3, memory=7)
    node.process(10, cgroup=f"4:memory:/{path}\n3:cpu,cpuacct:/{path}\n")
    sample = make().sample().jobs[key(expected)]
    assert (sample.accounting, sample.processes, sample.memory.anon) == (FigureSource.CGROUP, 1, 7)
    assert sum_cpu(sample) == pytest.approx(3)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("system.slice/slurmstepd.scope/job_7", "slurm:7"),
        ("pbs_jobs.service/jobs/7.server", "pbs:7"),
        ("pbs.slice/pbs_jobs.service/jobs/7.server", "pbs:7"),
        ("lsf/c1/job.7.100.1700000000", "lsf:7"),
        ("system.slice/condor.service/htcondor/condor_x_slot1_1@h", "htcondor:slot1_1@h"),
        ("htcondor/condor_x_slot1_1@h", "htcondor:slot1_1@h"),
    ],
)
def test_control_groups_of_v2_count_for_every_system(node, make, path, expected, monkeypatch):
    monkeypatch.setattr(attributor, "NAMING_SECS", 0.0)
    node.job_v2(path, user_usec=1_500_000, memory=7)
    node.process(10, cgroup=f"0::/{path}\n")
    sample = make().sample().jobs[key(expected)]
    assert (sample.accounting, sample.processes, sample.memory.anon) == (FigureSource.CGROUP, 1, 7)
    assert sample.user_cpu_secs == 1.5


def test_the_tasks_of_a_job_of_lsf_are_summed(node, make):
    for pid in (100, 200):
        node.job_v1(f"lsf/c1/job.7.{pid}.1700000000", usage_secs=1)
        node.process(pid, cgroup=f"3:cpuacct:/lsf/c1/job.7.{pid}.1700000000\n")
    sample = make().sample().jobs[key("lsf:7")]
    assert (sample.user_cpu_secs, sample.processes) == (2, 2)


def test_a_slot_of_htcondor_is_shown_as_its_job(node, make, execute):
    group = "system.slice/condor.service/htcondor/condor_x_slot1_1@h"
    node.job_v2(group, user_usec=1_000_000)
    node.process(600, name=b"condor_starter", cgroup="0::/system.slice/condor.service/htcondor/leaf\n")
    node.process(601, ppid=600, cgroup=f"0::/{group}\n")
    jobs = make(htcondor_execute_directory=str(execute)).sample().jobs
    assert jobs.keys() == {key("htcondor:12.3"), UnitKey(Kind.SERVICE, "condor.service")}
    assert (jobs[key("htcondor:12.3")].user_cpu_secs, jobs[key("htcondor:12.3")].processes) == (1.0, 1)
    assert jobs[key("htcondor:12.3")].alias.name == "slot1_1@h"


def test_what_starts_a_job_is_none_of_its_processes_where_these_have_a_group(node, make, execute):
    group = "system.slice/htcondor/condor_x_slot1_1@h"
    node.job_v2(group, user_usec=1_000_000)
    node.process(600, name=b"condor_starter", cgroup="0::/system.slice/condor.service\n")
    node.process(601, ppid=600, cgroup=f"0::/{group}\n")
    node.process(602, ppid=600, cgroup="0::/system.slice/condor.service\n")  # before it was moved
    job = key("htcondor:12.3")
    known = {job: Job(key=job, processes=frozenset({600}))}
    sampler = make(lambda: known, htcondor_execute_directory=str(execute))
    sample = sampler.sample()
    service = UnitKey(Kind.SERVICE, "condor.service")
    assert [sample.key_of(pid) for pid in (600, 601, 602)] == [service, job, job]
    assert sample.jobs[job].processes == 2
    node.end(601)
    assert sampler.sample().key_of(600) == service
    (node.cgroup / group).rename(node.cgroup / "old")
    after = sampler.sample()
    assert [after.key_of(pid) for pid in (600, 602)] == [service, job]


def test_what_a_starter_transfers_is_not_used_by_the_job_whose_group_comes_later(node, make, execute):
    outside, group = "0::/system.slice/condor.service\n", "system.slice/htcondor/condor_x_slot1_1@h"
    node.process(600, name=b"condor_starter", cgroup=outside, user=50, children_user=100)
    node.process(601, ppid=600, name=b"condor_starter", cgroup=outside, user=400)
    node.process(602, ppid=601, name=b"curl_plugin", cgroup=outside, user=70)
    job = key("htcondor:12.3")
    known = {job: Job(key=job, processes=frozenset({600}))}
    sampler = make(lambda: known, htcondor_execute_directory=str(execute))
    assert job not in sampler.sample().jobs, "nothing of it is here yet"
    node.end(602)
    node.end(601)
    node.process(600, name=b"condor_starter", cgroup=outside, user=50, children_user=570)
    node.job_v2(group, user_usec=20_000)
    node.process(603, ppid=600, cgroup=f"0::/{group}\n", user=2)
    began = sampler.sample().jobs[job]
    assert (began.accounting, began.user_cpu_secs, began.processes) == (FigureSource.CGROUP, 0.02, 1)
    node.end(603)
    (node.cgroup / group).rename(node.cgroup / "old")
    node.process(604, ppid=600, name=b"condor_starter", cgroup=outside, user=900)  # the output
    done = sampler.sample().jobs[job]
    assert (done.user_cpu_secs, done.processes, done.memory.used) == (0.02, 0, None)


def test_a_second_run_has_nothing_of_the_firsts_group_that_stays_in_another_slot(node, make, execute):
    """HTCondor could not remove it; the job was held and released."""
    groups = [f"system.slice/htcondor/condor_x_slot1_{number}@h" for number in (11, 4)]
    job, known = key("htcondor:12.3"), {}
    sampler = make(lambda: dict(known), htcondor_execute_directory=str(execute))
    for run, group in enumerate(groups):
        starter = 600 + 100 * run
        (execute / f"dir_{starter}").mkdir(exist_ok=True)
        (execute / f"dir_{starter}/.job.ad").write_text("ClusterId = 12\nProcId = 3\n")
        slot = group.removeprefix("system.slice/htcondor/condor_x_")
        (execute / f"dir_{starter}/.machine.ad").write_text(f'Name = "{slot}"\n')
        node.process(starter, name=b"condor_starter", cgroup="0::/system.slice/condor.service\n")
        known[job] = Job(key=job, processes=frozenset({starter}), restarts=run)
        node.job_v2(group, user_usec=460_000 * (1 - run) + 40_000)
        node.process(starter + 1, ppid=starter, cgroup=f"0::/{group}\n")
        for _ in range(3):
            sample = sampler.sample().jobs[job]
        assert (sample.user_cpu_secs, sample.processes) == (0.04 if run else 0.5, 1)
        node.end(starter + 1)
        node.end(starter)
        shutil.rmtree(execute / f"dir_{starter}")
        known.clear()
        sampler.sample()


def test_where_jobs_have_no_groups_a_starter_counts_as_soon_as_the_job_runs(node, make, execute):
    """It is told the time of those that it waits for, between two samples as well."""
    node.process(600, name=b"condor_starter", user=1)
    job = key("htcondor:12.3")
    known = {job: Job(key=job, processes=frozenset({600}))}
    sampler = make(lambda: known, htcondor_execute_directory=str(execute))
    assert job not in sampler.sample().jobs
    node.process(601, ppid=600, user=10)
    assert sampler.sample().jobs[job].user_cpu_secs == 0.11
    node.end(601)
    node.process(600, name=b"condor_starter", user=1, children_user=30)
    assert sampler.sample().jobs[job].user_cpu_secs == 0.31


class Known:
    """What is known of one job by its source."""

    def __init__(self, job):
        self.jobs, self.ending = {job.key: job}, {}

    def is_on_node(self, key):
        return key in self.jobs

    def of_node(self):
        return {**self.ending, **self.jobs}


@pytest.mark.parametrize("seed", range(24))
def test_a_job_whose_slot_stays_has_ended_in_whatever_order_its_parts_go(node, make, execute, clock, seed):
    chance = random.Random(seed)
    group = "system.slice/htcondor/condor_x_slot1_1@h"
    for path in (group, f"{group}/sshd"):
        node.job_v2(path, user_usec=1_000_000)
    node.process(600, name=b"condor_starter", cgroup="0::/system.slice/condor.service\n")
    node.process(601, ppid=600, cgroup=f"0::/{group}\n")
    node.process(602, ppid=601, cgroup=f"0::/{group}/sshd\n")
    job = key("htcondor:12.3")
    known = Known(Job(key=job, processes=frozenset({600}), state=JobState.RUNNING))
    sampler = make(known.of_node, htcondor_execute_directory=str(execute))
    kept = Retention(100.0)

    def look():
        clock.advance(1.0)
        taken, ended = kept.take(
            sampler.sample(), known.jobs, known.ending, now_secs=clock.monotonic_secs(), shown={}
        )
        known.ending = {}
        return job in taken.jobs, ended.get(job)

    def report():
        known.jobs, known.ending = {}, known.jobs

    events = [report, *(lambda pid=pid: node.end(pid) for pid in (600, 601, 602))]
    events += [
        lambda path=path: shutil.rmtree(path) for path in (execute / "dir_600", node.cgroup / group / "sshd")
    ]
    assert look() == look() == (True, None)
    for event in chance.sample(events, len(events)):
        event()
        if chance.random() < 0.5:
            assert look() != (False, None)
    look()
    for _ in range(3):
        assert look()[1].sample.alias.name == "slot1_1@h"


def test_the_next_job_in_a_slot_does_not_inherit(node, make, execute):
    group = "htcondor/condor_x_slot1_1@h"
    node.job_v1(group, usage_secs=100)
    node.process(600, name=b"condor_starter")
    node.process(601, ppid=600, cgroup=f"3:cpuacct:/{group}\n")
    sampler = make(htcondor_execute_directory=str(execute))
    assert sum_cpu(sampler.sample().jobs[key("htcondor:12.3")]) == pytest.approx(100)
    node.end(600)
    node.end(601)
    (node.cgroup / "cpu,cpuacct/htcondor").rename(node.cgroup / "old")
    (execute / "dir_600").rename(execute / "dir_700")
    (execute / "dir_700/.job.ad").write_text("ClusterId = 13\nProcId = 0\n")
    node.job_v1(group, usage_secs=1)
    node.process(700, name=b"condor_starter")
    node.process(701, ppid=700, cgroup=f"3:cpuacct:/{group}\n")
    jobs = sampler.sample().jobs
    assert key("htcondor:12.3") not in jobs
    assert sum_cpu(jobs[key("htcondor:13.0")]) == pytest.approx(1)


def test_a_job_of_pbs_that_runs_again_goes_on_from_what_it_had(node, make):
    """It keeps its id and its path; whether we saw it end in between must make no difference."""
    node.job_v2("pbs_jobs.service/jobs/7.server", user_usec=100_000_000)
    sampler = make()
    assert sum_cpu(sampler.sample().jobs[key("pbs:7")]) == 100
    (node.cgroup / "pbs_jobs.service").rename(node.cgroup / "old")
    node.job_v2("pbs_jobs.service/jobs/7.server", user_usec=1_000_000)
    assert sum_cpu(sampler.sample().jobs[key("pbs:7")]) == 101
    node.job_v2("pbs_jobs.service/jobs/7.server", user_usec=3_000_000)
    assert sum_cpu(sampler.sample().jobs[key("pbs:7")]) == 103


def test_a_job_of_grid_engine_is_found_by_group_and_by_shepherd(node, make, spool):
    node.process(400, name=b"sge_execd", cgroup="0::/system.slice/execd.service\n")
    node.process(500, ppid=400, name=b"sge_shepherd", cgroup="0::/system.slice/execd.service\n", user=1)
    node.process(501, ppid=500, user=10, groups=f"6001 {GID}")
    node.process(502, ppid=1, user=100, groups=f"6001 {GID}")  # a daemon that the job left behind
    node.process(503, ppid=500, user=1000)  # not given its group yet
    node.process(504, groups="6001")
    jobs = make(gridengine_spool_directory=str(spool)).sample().jobs
    assert jobs.keys() == {
        key("gridengine:1"),
        UnitKey(Kind.SERVICE, "execd.service"),
        GroupKey(504, EPOCH),
    }
    sample = jobs[key("gridengine:1")]
    assert (sample.accounting, sample.processes) == (FigureSource.PROCESSES, 4)
    assert sample.user_cpu_secs == pytest.approx(11.11)


def test_a_group_that_ended_jobs_of_grid_engine_had_too_is_that_of_the_job_whose_shepherd_lives(
    node, make, spool
):
    """Directories of ended jobs may be kept (KEEP_ACTIVE), and groups are given away again."""
    for number in range(2, 40):  # in whatever order they are listed
        kept = shutil.copytree(spool / "active_jobs/1.1", spool / f"active_jobs/{number}.1")
        (kept / "pid").write_text("300\n")
    node.process(500, name=b"sge_shepherd")
    node.process(501, ppid=500, groups=str(GID))
    assert make(gridengine_spool_directory=str(spool)).sample().jobs.keys() == {key("gridengine:1")}


def test_a_job_of_grid_engine_ends_with_its_directory(node, make, spool):
    node.process(501, groups=str(GID))
    sampler = make(gridengine_spool_directory=str(spool))
    assert key("gridengine:1") in sampler.sample().jobs
    (spool / "active_jobs/1.1").rename(spool / "gone")
    assert sampler.sample().jobs.keys() == {GroupKey(501, EPOCH)}


def test_a_group_that_comes_with_exec_is_seen_then(node, make, spool):
    node.process(501, name=b"sge_shepherd")
    sampler = make(gridengine_spool_directory=str(spool))
    for _ in range(8):
        assert sampler.sample().jobs.keys() == {GroupKey(501, EPOCH)}
    node.process(501, name=b"bash", groups=str(GID))
    assert sampler.sample().jobs.keys() == {key("gridengine:1")}


def test_groups_are_not_read_where_there_is_no_grid_engine(node, make, monkeypatch):
    node.process(10, groups=str(GID), virtual=0)
    read = []
    monkeypatch.setattr(
        "jobfeatures_exporter.sampling.processes.members.read_text",
        lambda path, **_: read.append(path) or "0::/\n",
    )
    make().sample()
    assert [path for path in read if path.endswith("/10/status")] == []


def test_groups_are_read_of_new_processes_and_of_those_that_called_exec(node, make, spool, monkeypatch):
    from jobfeatures_exporter.sampling.processes import members

    read = []
    real = members.read_text
    monkeypatch.setattr(members, "read_text", lambda path, **more: read.append(path) or real(path, **more))
    node.process(10, groups=str(GID), virtual=0)
    sampler = make(gridengine_spool_directory=str(spool))
    for _ in range(64):
        sampler.sample()
    assert 1 <= sum(path.endswith("/status") for path in read) <= 9


def test_the_first_way_that_knows_a_process_decides(node, make, spool):
    listed = JobKey("pbs", "9")
    slurm = "0::/system.slice/slurmstepd.scope/job_4/step_0/user\n"
    docker = f"0::/system.slice/docker-{HEX}.scope\n"
    ways = [
        ({"cgroup": slurm}, key("slurm:4")),
        ({"groups": str(GID)}, key("gridengine:1")),
        ({"session": 77}, listed),
        ({"cgroup": docker}, UnitKey(Kind.CONTAINER, "docker-0123456789ab")),
        ({"pgid": 10}, GroupKey(10, EPOCH)),
    ]
    sampler = make(
        lambda: {listed: Job(key=listed, sessions=frozenset({77}))}, gridengine_spool_directory=str(spool)
    )
    pids = itertools.count(10)
    for number in range(len(ways)):
        node.process(
            pid := next(pids),
            **{name: value for way, _ in reversed(ways[number:]) for name, value in way.items()},
        )
        assert sampler.sample().key_of(pid) == ways[number][1]


def test_containers_services_and_sessions_are_kinds_of_their_own(node, make):
    node.process(10, cgroup=f"0::/system.slice/docker-{HEX}.scope\n", user=100)
    node.process(11, cgroup=f"0::/system.slice/docker-{HEX}.scope\n", user=50)
    node.process(12, cgroup="0::/system.slice/sshd.service\n")
    node.process(13, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    node.process(14, cgroup="0::/user.slice/user-1000.slice/user@1000.service/init.scope\n")
    node.process(15, cgroup="0::/\n")
    snapshot = make().sample()
    assert {each: (sample.processes, sample.accounting) for each, sample in snapshot.jobs.items()} == {
        UnitKey(Kind.CONTAINER, "docker-0123456789ab"): (2, FigureSource.PROCESSES),
        UnitKey(Kind.SERVICE, "sshd.service"): (1, FigureSource.PROCESSES),
        UnitKey(Kind.SESSION, "user-1000"): (2, FigureSource.PROCESSES),
        GroupKey(15, EPOCH): (1, FigureSource.PROCESSES),
    }
    assert snapshot.jobs[UnitKey(Kind.CONTAINER, "docker-0123456789ab")].user_cpu_secs == 1.5
    assert snapshot.key_of(13) == UnitKey(Kind.SESSION, "user-1000")


def test_a_container_that_a_job_starts_by_itself_is_the_jobs(node, make):
    node.job_v2("job_4")
    node.process(10, cgroup=f"0::/system.slice/slurmstepd.scope/job_4/step_0/user/libpod-{HEX}.scope\n")
    assert make().sample().jobs.keys() == {key("slurm:4")}


def test_a_process_that_moves_to_another_unit_is_followed(node, make):
    node.process(10, cgroup="0::/system.slice/sshd.service\n")
    sampler = make()
    assert sampler.sample().jobs.keys() == {UnitKey(Kind.SERVICE, "sshd.service")}
    node.process(10, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    assert sampler.sample().jobs.keys() == {UnitKey(Kind.SESSION, "user-1000")}
