"""A running HTCondor from `tests/labs/htcondor`, asked by its own commands, and our daemon beside it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.running import until as wait_until

SCHEDDS = {"alice": "wn1.lab", "bob": "schedd2@wn1.lab"}  # whose jobs go where, unless told otherwise
UIDS = {"alice": 6001, "bob": 6002}
EXECUTE = "/var/lib/condor/execute"
FEATURES = "/run/jobfeatures"
COMMAND = "/opt/jobfeatures-exporter/bin"
ADDRESS = "127.0.0.1:9750"
PACE = int(os.environ.get("CONDOR_LAB_PACE", "1"))  # how slow the machine is
PATIENCE_SECS = 180.0 * PACE

Series = dict[tuple[str, str], list[tuple[dict[str, str], float]]]


def until(condition: Callable[[], Any]) -> Any:
    """Return the first true result of `condition`."""
    return wait_until(condition, PATIENCE_SECS)


class Pool:
    """The lab. A job is its id here, ``ClusterId.ProcId@schedd``."""

    def __init__(self, lab: Path) -> None:
        self.lab = lab
        self.base = "htcondor"  # BASE_CGROUP
        self.root = f"/proc/{(lab / 'init.pid').read_text().strip()}/root{lab}/root"

    def run(self, *command: str, stdin: str = "", status: int = 0, user: str = "") -> str:
        """Run a command on the node, as root or a user; return what it prints."""
        start = [self.lab / "as", user] if user else [self.lab / "in"]
        done = subprocess.run(
            [*start, *command],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=240 + PATIENCE_SECS,
            check=False,
        )
        assert done.returncode == status, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, lines: str, *, user: str = "alice", schedd: str = "", count: int = 1) -> list[str]:
        """Submit jobs, the rest of whose description is filled in; return their ids."""
        text = (
            "transfer_executable = False\nshould_transfer_files = YES\nwhen_to_transfer_output = ON_EXIT\n"
            "log = $(Cluster).log\noutput = $(Cluster).$(Process).out\nerror = $(Cluster).$(Process).err\n"
            f"request_memory = 64\n{lines}\nqueue {count}\n"
        )
        schedd = schedd or SCHEDDS[user]
        # a queue that has many jobs may be busy when it is asked
        told = until(lambda: self._submit(text, user, schedd))
        cluster = re.match(r"(\d+)\.", told)[1]
        return [f"{cluster}.{proc}@{schedd}" for proc in range(count)]

    def _submit(self, text: str, user: str, schedd: str) -> str:
        start = [self.lab / "as", user, "sh", "-c", f"cat >sub && condor_submit -terse -name {schedd} sub"]
        done = subprocess.run(
            start, input=text, capture_output=True, text=True, timeout=240 + PATIENCE_SECS, check=False
        )
        assert not done.returncode or "ERROR: Can't find address" in done.stderr, done.stdout + done.stderr
        return "" if done.returncode else done.stdout

    def shell(self, script: str, lines: str = "", *, user: str = "alice", schedd: str = "") -> str:
        """Submit a job that runs a script, which may have neither quote; return its id."""
        assert not set("'\"") & set(script)
        return self.submit(
            f"executable = /bin/sh\narguments = \"-c '{script}'\"\n{lines}", user=user, schedd=schedd
        )[0]

    def queued(self, job: str) -> dict[str, Any] | None:
        """Return a job's ad, None if it is not in the queue."""
        number, _, schedd = job.partition("@")
        found = self.run("condor_q", "-name", schedd, "-allusers", "-json", number)
        return json.loads(found)[0] if found.strip() else None

    def startd(self) -> str:
        """Return what the node's startd tells of its slots, nothing where there is none."""
        start = [self.lab / "in", "condor_status", "-direct", "wn1.lab", "-af", "Name"]
        return subprocess.run(start, capture_output=True, text=True, timeout=240, check=False).stdout

    def is_done(self) -> bool:
        """Return whether every schedd tells that it has no job: a busy one cannot be asked, -global leaves it out."""
        start = [self.lab / "in", "condor_q", "-allusers", "-af", "ClusterId", "-name"]
        asked = [
            subprocess.run([*start, schedd], capture_output=True, timeout=240 + PATIENCE_SECS, check=False)
            for schedd in SCHEDDS.values()
        ]
        return all(done.returncode == 0 and not done.stdout.strip() for done in asked)

    def history(self, job: str) -> dict[str, Any] | None:
        """Return an ended job's ad from its schedd's history."""
        number, _, schedd = job.partition("@")
        file = self.run(
            "condor_config_val", *(["-local-name", "schedd2"] if "@" in schedd else []), "HISTORY"
        )
        if self.run("sh", "-c", f"test -e {file.strip()} && echo yes || true") == "":
            return None
        found = json.loads(self.run("condor_history", "-file", file.strip(), "-json", number) or "[]")
        return found[0] if found else None

    def wait(self, job: str, status: int) -> dict[str, Any]:
        """Wait for a JobStatus; return the ad that has it."""

        def there() -> dict[str, Any] | None:
            ad = self.queued(job)
            return ad if ad is not None and ad["JobStatus"] == status else None

        return until(there)

    def wait_for_end(self, job: str) -> dict[str, Any]:
        """Wait until a job is in the history; return its ad there."""
        return until(lambda: None if self.queued(job) else self.history(job))

    def output(self, job: str, ending: str = "out") -> str:
        """Return what an ended job has written."""
        return self.run("cat", f"/home/{self.owner(job)}/{job.partition('@')[0]}.{ending}")

    def owner(self, job: str) -> str:
        """Return a job's user."""
        ad = self.queued(job) or self.history(job)
        return ad["Owner"] if ad else ""

    def act(self, command: str, job: str, *options: str) -> None:
        """Give one of condor_rm, condor_hold … for a job."""
        number, _, schedd = job.partition("@")
        self.run(command, "-name", schedd, *options, number)

    def clear(self) -> None:
        """Remove all jobs; wait until none is on the node."""
        for schedd in SCHEDDS.values():
            subprocess.run(
                [self.lab / "in", "condor_rm", "-name", schedd, "-all"],
                capture_output=True,
                timeout=240 + PATIENCE_SECS,
                check=False,
            )
        until(lambda: not self.scratch())

    def ssh(self, job: str, script: str) -> subprocess.Popen[str]:
        """Start condor_ssh_to_job with a script for the shell, as the job's user."""
        number, _, schedd = job.partition("@")
        command = [self.lab / "as", self.owner(job), "condor_ssh_to_job", "-auto-retry", "-name", schedd]
        return self._talk([*command, number, script])

    def interactive(self, lines: str) -> subprocess.Popen[str]:
        """Start condor_submit -i as alice; what is written to it is given to the shell."""
        self.run("sh", "-c", "cat >interactive", user="alice", stdin=f"{lines}\nqueue\n")
        return self._talk([self.lab / "as", "alice", "condor_submit", "-i", "interactive"])

    def _talk(self, command: list[Any]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    @property
    def has_v2(self) -> bool:
        """Return whether it has control groups v2 alone."""
        return self.run("sh", "-c", "ls /sys/fs/cgroup/cgroup.controllers || true") != ""

    def file_of(self, slot: str, v1: str, v2: str) -> str:
        """Return a file of a slot's control group, by its controller and name on v1, its name on v2."""
        controller, _, name = v1.partition("/")
        old, new = f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup/system.slice"
        script = f"if [ -d {old} ]; then cat {old}/{self.base}/*_{slot}/{name}; else cat {new}/{self.base}/*_{slot}/{v2}; fi"
        return self.run("sh", "-c", script)

    def cpu_secs_of(self, slot: str) -> float:
        """Return the CPU time that the kernel has of a slot's control group."""
        found = self.file_of(slot, "cpuacct/cpuacct.usage", "cpu.stat").split()
        return int(found[0]) / 1e9 if len(found) == 1 else int(found[1]) / 1e6

    def processes_of(self, slot: str) -> int:
        """Return how many processes the kernel has in the control groups of a slot."""
        tops = (f"/sys/fs/cgroup/{each}/{self.base}/*_{slot}" for each in ("memory", "system.slice"))
        groups = f"find {' '.join(tops)} -name cgroup.procs"
        return len(self.run("sh", "-c", f"cat $({groups} 2>/dev/null)").split())

    def scratch(self) -> list[str]:
        """Return the scratch directories."""
        return self.run("ls", EXECUTE).split()

    def scratch_of(self, job: str) -> str:
        """Return a running job's scratch directory."""
        number = job.partition("@")[0]
        schedd = job.partition("@")[2]
        pattern = f'^GlobalJobId = "{schedd}#{number}#'
        script = f"grep -l '{pattern}' {EXECUTE}/dir_*/.job.ad"
        return until(lambda: self.run("sh", "-c", f"{script} || true").strip()).rpartition("/")[0]


class Node:
    """Our daemon on the node of the pool."""

    def __init__(self, pool: Pool, log: Path, address: str) -> None:
        self.pool, self.log, self.address = pool, log, address

    def page(self) -> Series:
        """Return a page: values by name and job, each with its labels."""
        found: Series = {}
        for line in self.pool.run(
            "curl", "-sSf", "--max-time", "60", f"http://{self.address}/metrics"
        ).splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match:
                labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                found.setdefault((match[1], labels.get("job_id", "")), []).append((labels, float(match[3])))
        return found

    def value(self, name: str, job: str = "", **labels: str) -> float | None:
        """Return the value of one series, None without it."""
        found = self.page().get((name, job), [])
        values = [value for have, value in found if labels.items() <= have.items()]
        assert len(values) <= 1, found
        return values[0] if values else None

    def info(self, job: str) -> dict[str, str]:
        """Return the labels of a job; empty where it has none."""
        found = self.page().get(("batch_job_info", job), [])
        assert len(found) <= 1, found
        return found[0][0] if found else {}

    def state(self, job: str) -> str:
        """Return the state of a job; empty where it has none."""
        return next((labels["state"] for labels, _ in self.page().get(("batch_job_state", job), [])), "")

    def shown(self) -> set[str]:
        """Return the ids of all jobs that have any series."""
        return {job for _, job in self.page() if job}

    def features(self, job: str) -> dict[str, str]:
        """Return the published keys of a job."""
        folder = f"{FEATURES}/jobfeatures/{folder_of(job)}"
        script = f"cd {folder} 2>/dev/null && grep -H . * || true"
        return dict(line.split(":", 1) for line in self.pool.run("sh", "-c", script).splitlines())

    def wait_until_published(self, job: str) -> dict[str, str]:
        """Wait for a job's directory."""
        return until(lambda: self.features(job))

    def published(self) -> set[str]:
        """Return the names in all folders by job."""
        folders = " ".join(f"{FEATURES}/{each}" for each in ("jobfeatures", "jobstatus", "exports"))
        return {name for name in self.pool.run("sh", "-c", f"ls -1 {folders}").split() if "-" in name}


def level(pool: Pool) -> None:
    """Let both schedds give the same number next."""

    def last(user: str) -> int:
        return int(
            number_of(pool.submit("executable = /bin/true\nhold = True", user=user)[0]).partition(".")[0]
        )

    numbers = {user: last(user) for user in SCHEDDS}
    for user in SCHEDDS:
        while numbers[user] < max(numbers.values()):
            numbers[user] = last(user)
    pool.clear()


def number_of(job: str) -> str:
    """Return a job's ``ClusterId.ProcId``."""
    return job.partition("@")[0]


def running_on(page: Series) -> set[str]:
    """Return the jobs that a page shows as running."""
    states = ((job, series) for (name, job), series in page.items() if name == "batch_job_state")
    return {job for job, [(labels, _)] in states if labels["state"] == "RUNNING"}


def folder_of(job: str) -> str:
    """Return the name of a job's directory."""
    return "htcondor-" + job.replace("@", "%40")


@contextmanager
def daemon(pool: Pool, log: Path, *flags: str, address: str = ADDRESS) -> Iterator[Node]:
    """Run our daemon on the node, with its unit's rights."""
    command = [pool.lab / "daemon", "--config.file=", "--web.listen-address", address, *flags]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            node = Node(pool, log, address)

            def answers() -> bool:
                assert process.poll() is None, log.read_text()
                done = subprocess.run(
                    [pool.lab / "in", "curl", "-sf", f"http://{address}/-/ready"],
                    capture_output=True,
                    check=False,
                )
                return done.returncode == 0

            until(answers)
            yield node
        finally:
            if process.poll() is None:  # nsenter, which hands no signal on
                pool.run("pkill", "-TERM", "-f", f"listen-address {address}")
            process.wait(60)


def watched(
    node: Node, is_over: Callable[[], bool], at_least: int = 3, timeout_secs: float = PATIENCE_SECS
) -> list[Series]:
    """Return the pages until something is over."""
    pages, deadline = [], time.monotonic() + timeout_secs
    while len(pages) < at_least or not is_over():
        assert time.monotonic() < deadline, f"not within {timeout_secs:g} s"
        pages.append(node.page())
        time.sleep(0.2)
    return pages
