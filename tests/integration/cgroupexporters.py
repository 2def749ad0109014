"""Run as root on control groups of v1 or v2: two jobs of Slurm's shape, and what exporters and ours say of them.

    python cgroupexporters.py FOLDER       FOLDER/NAME/PROGRAM for each of `ORIGINALS` that is there

Prints JSON: by exporter the series that differ, as [name, labels, theirs, ours]. The first job has a limit.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SampleExtras, SamplerSettings
from jobfeatures_exporter.scrape.profiles import read_profiles

ROOT = Path("/sys/fs/cgroup")
IS_V2 = (ROOT / "cgroup.controllers").exists()
JOBS = {"987301": 96 * 2**20, "987302": None}
ALLOCATED = 2**30
ENVIRON = {"SLURM_JOB_ACCOUNT": "physics"}
WISHES = SampleExtras(cores=True, thread_states={Kind.BATCH})
PAYLOAD = """
import mmap, os, signal
held = bytearray(20 * 2**20)
shared = mmap.mmap(-1, 5 * 2**20)
shared.write(b"x" * len(shared))
open(__import__("sys").executable, "rb").read()
sum(range(2_000_000))
os.kill(os.getpid(), signal.SIGSTOP)
"""
SERIES = re.compile(r"^((?:cgroup|slurm_job)_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
ORIGINALS = {  # by name: the program, its arguments, and our profile
    "treydock": (
        ["cgroup_exporter", "--web.listen-address=127.0.0.1:19306", "--config.paths=/slurm"],
        "treydock",
    ),
    "plazonic": (
        ["cgroup_exporter", "--web.listen-address=127.0.0.1:19307", "--collect.fullslurm"],
        "jobstats",
    ),
    "guilbaults": (["slurm-job-exporter.py", "--port=19308", "--monitor=none"], "slurm-job-exporter"),
}


def until(check, secs=240):
    deadline = time.monotonic() + secs
    while not (found := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(check)
        time.sleep(0.1)
    return found


def make_groups(stack: ExitStack, job_id: str, limit: int | None) -> list[Path]:
    """Return the groups of a task of the job, one in each hierarchy."""
    tops = [ROOT] if IS_V2 else [ROOT / name for name in ("cpu", "cpuacct", "cpuset", "memory")]
    above = "system.slice/slurmstepd.scope" if IS_V2 else "slurm/uid_1"
    below = "step_0/user/task_0" if IS_V2 else "step_0/task_0"
    made = []
    for top in tops:
        group = top
        parts = f"{above}/job_{job_id}/{below}".split("/")
        for part in parts:
            group /= part
            if not group.exists():
                group.mkdir()
                stack.callback(lambda group=group: until(lambda: is_removed(group)))
            if top.name == "cpuset":
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (group / name).write_text((group.parent / name).read_text())
            if part.startswith("job_") and limit is not None and (IS_V2 or top.name == "memory"):
                (group / ("memory.max" if IS_V2 else "memory.limit_in_bytes")).write_text(f"{limit}\n")
            if IS_V2 and part != parts[-1]:
                for each in (group / "cgroup.controllers").read_text().split():
                    (group / "cgroup.subtree_control").write_text(f"+{each}")
        made.append(group)
    return made


def is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return any(group.glob("*/"))  # another's
    return True


def start(stack: ExitStack, groups: list[Path]) -> None:
    """Start the payload as user 1 in these groups, and wait until it has stopped itself."""

    def enter() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
        os.setuid(1)

    command = ["/usr/bin/python3", "-S", "-c", PAYLOAD]
    process = subprocess.Popen(command, preexec_fn=enter, env=ENVIRON)  # noqa: PLW1509  # no threads yet
    stack.callback(process.wait)
    stack.callback(process.send_signal, signal.SIGKILL)
    until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].startswith("T"))


def theirs(stack: ExitStack, folder: Path, name: str) -> dict[tuple[str, str], float]:
    program, *more = ORIGINALS[name][0]
    command = [folder / name / program, *more]
    if program.endswith(".py"):
        command.insert(0, sys.executable)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    port = re.search("[0-9]{5}", " ".join(more))[0]

    def page() -> str | None:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=240) as answer:
                return answer.read().decode()
        except OSError:
            return None

    return {
        (found[1], ",".join(sorted(re.findall(r'\w+="[^"]*"', found[2] or "")))): float(found[3])
        for found in SERIES.finditer(until(page))
    }


def ours(profile: str) -> dict[tuple[str, str], float]:
    jobs = {
        key: Job(
            key=key,
            state=JobState.RUNNING,
            user="daemon",
            uid=1,
            account="physics",
            limits=Limits(memory_bytes=ALLOCATED),
        )
        for key in (JobKey("slurm", job_id) for job_id in JOBS)
    }
    clock = SystemClock()
    sampler = Sampler(SamplerSettings(steps=True), clock, jobs=lambda: jobs)
    context = Context(now_secs=clock.now_secs(), snapshot=sampler.sample(WISHES), jobs=jobs)
    sampler.close()
    readings, _ = read_profiles(context, [profile])
    return {
        (metric.sample_name, ",".join(sorted(f'{name}="{value}"' for name, value in zip(metric.label_names, values, strict=True)))): float(number)
        for made in readings.values()
        for metric, values, number in made
    }  # fmt: skip


def is_of_a_job(labels: str) -> bool:
    return any(job_id in labels for job_id in JOBS)


def main() -> None:
    with ExitStack() as stack:
        both = ROOT / "cpu,cpuacct"  # as distributions have it, and slurm-job-exporter wants it
        if not IS_V2 and not both.exists():
            both.symlink_to("cpuacct")
            stack.callback(both.unlink)
        for job_id, limit in JOBS.items():
            start(stack, make_groups(stack, job_id, limit))
        told = {}
        for name, ([program, *_], profile) in ORIGINALS.items():
            if not Path(sys.argv[1], name, program).exists() or (IS_V2 and name == "guilbaults"):
                continue  # which fails on v2 for a job without a limit, or without cpusets
            given = theirs(stack, Path(sys.argv[1]), name)
            mine = ours(profile)
            keys = {key for key in given.keys() | mine.keys() if is_of_a_job(key[1])}
            told[name] = {
                "same": sum(given.get(key) == mine.get(key) for key in keys),
                "differ": [
                    [*key, given.get(key), mine.get(key)]
                    for key in sorted(keys)
                    if given.get(key) != mine.get(key)
                ],
            }
        print(json.dumps(told))


if __name__ == "__main__":
    main()
