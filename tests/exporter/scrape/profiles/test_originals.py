"""An original beside ours over one made-up node, and a reader of another's names over ours.

`JOBFEATURES_DATA` may hold ``originals/slurm-job-exporter.py`` of guilbaults/slurm-job-exporter and
``originals/jobstats/`` with the Python files of PrincetonUniversity/jobstats, which are not ours to distribute;
tried with those of 15 April and 13 June 2026. What differs stands in docs/comparison.md.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SampleExtras, SamplerSettings
from jobfeatures_exporter.scrape.profiles import read_profiles
from tests.exporter.sampling.fakenode import FakeNode
from tests.exporter.sampling.jobs import V2, v1

ORIGINALS = Path(os.environ.get("JOBFEATURES_DATA", "/none")) / "originals"
ORIGINAL = ORIGINALS / "slurm-job-exporter.py"
JOBSTATS = ORIGINALS / "jobstats"
MODULES = ("config", "db_handler", "jobstats", "output_formatters")
ALLOCATED = 2**30
NOT_OURS = {
    f"slurm_job_memory_{part}"
    for part in ("rss_huge", "mapped_file", "active_file", "inactive_file", "unevictable")
}
UNLIMITED_V1 = 9223372036854771712


def make_job_v1(node: FakeNode, limit: int | None) -> str:
    path = "slurm/uid_6001/job_2"
    node.job_v1(path, usage_secs=80.0, user=7500, system=500)
    memory = node.cgroup / "memory" / path
    if limit is not None:
        (memory / "memory.limit_in_bytes").write_text(f"{limit}\n")
    with (memory / "memory.stat").open("a") as file:
        for name in ("rss_huge", "mapped_file", "active_file", "inactive_file", "unevictable"):
            file.write(f"total_{name} 0\n")
    (memory / "cgroup.procs").write_text("10\n12\n")
    (node.cgroup / "cpu,cpuacct" / path / "cpuacct.usage_percpu").write_text("50000000000 30000000000 0 0 \n")
    cpuset = node.cgroup / "cpuset" / path
    cpuset.mkdir(parents=True)
    (cpuset / "cpuset.effective_cpus").write_text("0-1\n")
    return v1(f"/{path}")


def make_job_v2(node: FakeNode, limit: int | None) -> str:
    group = node.job_v2("job_2", user_usec=75_000_000, system_usec=5_000_000)
    (group / "cpu.stat").write_text("usage_usec 80000000\nuser_usec 75000000\nsystem_usec 5000000\n")
    with (group / "memory.stat").open("a") as file:
        for name in ("swapcached", "anon_thp", "file_mapped", "active_file", "inactive_file", "unevictable"):
            file.write(f"{name} 0\n")
    (group / "memory.peak").write_text("5000\n")
    if limit is not None:
        (group / "memory.max").write_text(f"{limit}\n")
    (group / "cpuset.cpus.effective").write_text("0-1\n")
    (group / "cgroup.procs").write_text("10\n12\n")
    return f"{V2}/job_2\n"


@pytest.fixture
def both(tmp_path, clock, monkeypatch):
    """Return a function that returns the original's series and ours, of one job."""
    if not ORIGINAL.exists():
        pytest.skip("JOBFEATURES_DATA has no originals/slurm-job-exporter.py")
    node = FakeNode(tmp_path)

    def process(pid: int, cgroup: str, program: str, cmdline: bytes, **stat) -> None:
        folder = node.process(
            pid, cgroup=cgroup, cmdline=cmdline, environ=b"SLURM_JOB_ACCOUNT=phys\0", **stat
        )
        (folder / "exe").symlink_to(program)
        (folder / "comm").write_bytes(stat["name"] + b"\n")
        for tid in (pid, *range(pid + 1000, pid + 999 + stat.get("threads", 1))):
            (folder / f"task/{tid}").mkdir(parents=True)
            state = stat.get("state", "S") if tid == pid else "R"
            (folder / f"task/{tid}/stat").write_bytes(node.stat_line(tid, state=state))

    def see(make_job, limit):
        cgroup = make_job(node, limit)
        process(
            10, cgroup, "/usr/bin/python3.11", b"python3\0x.py\0",
            name=b"python3", user=7000, system=500, threads=3,
        )  # fmt: skip
        script = b"/bin/bash\0/var/spool/slurmd/job00002/slurm_script\0"
        process(12, cgroup, "/usr/bin/bash", script, name=b"slurm_script", user=9000)
        return original(node, tmp_path, monkeypatch), ours(node, clock)

    return see


def original(node, tmp_path, monkeypatch):
    shutil.copytree(node.proc, tmp_path / "proc-of-all", symlinks=True)
    for thread in sorted((tmp_path / "proc-of-all").glob("*/task/*")):  # which /proc has, but does not list
        if not (tmp_path / "proc-of-all" / thread.name).exists():
            shutil.copytree(thread, tmp_path / "proc-of-all" / thread.name)
    for stat in (tmp_path / "proc-of-all").glob("*/stat"):  # the fields that we do not read
        stat.write_text(stat.read_text().rstrip("\n") + " 0" * 28 + "\n")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc-of-all"))
    text = ORIGINAL.read_text().replace("/sys/fs/cgroup", str(node.cgroup))
    module = {"__name__": "original"}
    exec(compile(text, str(ORIGINAL), "exec"), module)
    module["get_username"] = lambda _uid: "alice"
    collector = module["SlurmJobCollector"](monitor=None)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def ours(node, clock):
    key = JobKey("slurm", "2")
    limits = Limits(memory_bytes=ALLOCATED)
    job = Job(key=key, state=JobState.RUNNING, user="alice", account="phys", limits=limits)
    settings = SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), top_commands=10)
    sampler = Sampler(settings, clock, jobs=lambda: {key: job})
    wishes = SampleExtras(all_processes=True, cores=True, thread_states={Kind.BATCH}, programs=True)
    context = Context(now_secs=clock.now_secs(), snapshot=sampler.sample(wishes), jobs={key: job})
    sampler.close()
    readings, _ = read_profiles(context, ["slurm-job-exporter"])
    return {(metric.name, *values): value for made in readings.values() for metric, values, value in made}


def differing(theirs, mine):
    """Return what differs, by name and labels behind the job's, but for names that we do not have."""
    assert {name for name, *_ in theirs.keys() - mine.keys()} >= NOT_OURS
    keys = {each for each in theirs.keys() | mine.keys() if each[0] not in NOT_OURS}
    pairs = {(key[0], *key[4:]): (theirs.get(key), mine.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("make_job", [make_job_v1, make_job_v2])
def test_a_limited_job_has_the_series_of_the_original(both, make_job):
    theirs, mine = both(make_job, 2**31)
    assert differing(theirs, mine) == {}
    assert mine["slurm_job_process_usage_total", "alice", "phys", "2", "/usr/bin/python3.11"] == 75


def test_a_job_without_a_limit_differs_by_its_allocated_memory_on_v1(both):
    assert differing(*both(make_job_v1, None)) == {("slurm_job_memory_limit",): (UNLIMITED_V1, ALLOCATED)}


def test_a_job_without_a_limit_breaks_the_original_on_v2(both):
    with pytest.raises(ValueError, match=re.escape("invalid literal for int() with base 10: 'max\\n'")):
        both(make_job_v2, None)


@pytest.fixture
def report(context, monkeypatch):
    """Return a function that returns what jobstats prints of job 1234, by a stand-in for Prometheus and sacct."""
    if not JOBSTATS.exists():
        pytest.skip("JOBFEATURES_DATA has no originals/jobstats")
    series = {}
    answers = {
        "-V": "slurm 25.05.1\n",
        "-P": "JobIDRaw|Start|End|Cluster|AllocTRES|AdminComment|User|Account|State|NNodes|NCPUS|ReqMem|QOS|"
        "Partition|TimelimitRaw|JobName\n1234|1790000000|1790000100|c|cpu=8,mem=4G||alice|phys|COMPLETED|1|8|4G|q|p|60|x\n",
    }

    def get(_url, params):
        first = params["query"].partition(" or ")[0]
        labels = {"jobid": "1234", "step": "", "task": ""}
        values = [series.get((name, *labels.values())) for name in re.findall(r"(cgroup_\w+)\{", first)]
        found = (
            [] if None in values else [{"metric": {"instance": "node1:9306"}, "value": [0, f"{sum(values)}"]}]
        )
        return SimpleNamespace(json=lambda: {"status": "success", "data": {"result": found}})

    monkeypatch.setitem(sys.modules, "requests", SimpleNamespace(get=get))
    monkeypatch.setattr(subprocess, "check_output", lambda command, **_: answers[command[1]].encode())
    monkeypatch.syspath_prepend(str(JOBSTATS))
    monkeypatch.setenv("SLURM_TIME_FORMAT", "%s")  # as it does itself

    def make(limit: int | None, allocated: int | None) -> str:
        key = JobKey("slurm", "1234")
        one, job = context.snapshot.jobs[key], context.jobs[key]
        one = replace(one, memory=one.memory._replace(limit=limit))
        job = replace(job, limits=Limits(memory_bytes=allocated))
        seen = replace(context, jobs={key: job}, snapshot=replace(context.snapshot, jobs={key: one}))
        readings, _ = read_profiles(seen, ["jobstats"])
        series.update(
            {(metric.name, *values): value for made in readings.values() for metric, values, value in made}
        )
        stats = importlib.import_module("jobstats").Jobstats(jobid="1234", prom_server="")
        return importlib.import_module("output_formatters").ClassicOutput(stats).output(no_color=True)

    yield make
    sys.modules["jobstats"].DEVNULL.close()
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("limit", "allocated", "said"),
    [(2**20, None, "1.0KB/1.0MB"), (None, 2**22, "1.0KB/4.0MB"), (None, None, ">100%")],
)
def test_jobstats_prints_a_report_of_jobs_with_and_without_a_limit(report, limit, allocated, said):
    assert said in report(limit, allocated)
