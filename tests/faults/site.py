"""A node on trial: a daemon with its listeners, jobs of two kinds, and a control group that is written by hand.

Jobs of the spool are files; those of Slurm come and go by its prolog and epilog, the shipped scripts, and have
a control group of plain files, whose counters the trial moves.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jobfeatures.records.model import Job, JobKey, JobState, Limits
from tests.jobfeatures.formats.sss.jobwriter import format_job
from tests.running import free_port, until

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "packaging/slurm"
SCOPE = "system.slice/slurmstepd.scope"
COUNTER = re.compile(
    r'^(batch_job_cpu_seconds_total)\{batch_system="(\w+)",job_id="([^"]+)",mode="(\w+)"\} (\S+)$',
    re.MULTILINE,
)
UID = os.getuid()


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears at once, as files of the kernel do."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.rename(path)


class Installed(NamedTuple):
    """A version of the programs: the Python that has it, its hooks, and where that Python looks for modules."""

    python: str
    scripts: Path
    search: str


THIS = Installed(sys.executable, SCRIPTS, os.pathsep.join(sys.path))


class Site:
    """The folders, the daemon as a program, and what it answers."""

    def __init__(self, folder: Path, flags: Mapping[str, object] | None = None) -> None:
        self.folder, self.spool, self.root = folder, folder / "spool", folder / "features"
        self.cgroup, self.log = folder / "cgroup", folder / "log"
        self.scope = self.cgroup / SCOPE
        self.spool.mkdir()
        self.scope.mkdir(parents=True)
        (self.cgroup / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
        self.web, self.features = free_port(), free_port()
        self.environ = {**os.environ, "JOBFEATURES_CONFIG_FILE": os.devnull}
        self.flags = {
            "batch.sources": "spool",
            "spool.directory": self.spool,
            "features.root": self.root,
            "features.listen-address": f"127.0.0.1:{self.features}",
            "features.form": "both",
            "web.listen-address": f"127.0.0.1:{self.web}",
            "path.cgroup": self.cgroup,
            "node.name": "n1",
            "gpu.drivers": "none",
            "sample.interval": "300ms",
            "sampling.processes": "procfs",  # the same for every user
            **(flags or {}),
        }
        self.command = folder / "jobfeatures"  # what a hook runs where no daemon does its work
        self.use(THIS)
        self.process: subprocess.Popen[bytes] | None = None

    def use(self, installed: Installed) -> None:
        """Have what is started from now on be of this version."""
        self.installed = installed
        write_whole(self.command, f'#!/bin/sh\nexec {installed.python} -m jobfeatures "$@"\n')
        self.command.chmod(0o755)

    # --- the daemon -------------------------------------------------------------

    def start(self, **environ: str) -> None:
        words = [f"--{name.replace('_', '-')}={value}" for name, value in self.flags.items()]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [self.installed.python, "-m", "jobfeatures_exporter", "serve", *words], cwd=self.folder,
                stderr=output, env={**self.environ, **environ}, start_new_session=True,
            )  # fmt: skip

    def kill(self, *, whole: bool = True) -> None:
        """End the daemon at once, with the process that serves its hooks as systemd does, or without."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def children(self) -> list[int]:
        assert self.process is not None
        found = []
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{self.process.pid}/task"):
                found += map(int, Path(f"/proc/{self.process.pid}/task/{task}/children").read_text().split())
        return found

    def close(self) -> None:
        if self.process is not None:
            self.kill()

    def wait_until_ready(self) -> None:
        until(lambda: self.get("/-/ready") is not None or self._has_ended())

    def _has_ended(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        return False

    def get(self, path: str, timeout_secs: float = 60.0) -> str | None:
        """Return a page of the metrics' listener, None where there is none now."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web}{path}", timeout=timeout_secs) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def counters(self) -> dict[tuple[str, str], float]:
        """Return the CPU seconds that a page shows, by job's directory and mode."""
        return counters_in(until(lambda: self.get("/metrics")))

    def published(self) -> set[str]:
        try:
            return set(os.listdir(self.root / "jobfeatures"))
        except FileNotFoundError:
            return set()

    # --- jobs -------------------------------------------------------------------

    def spool_job(self, job_id: str, *, wall_secs: int, start_secs: int, process: int | None = None) -> None:
        job = Job(
            key=JobKey("spool", job_id), state=JobState.RUNNING, user=f"u{UID}", uid=UID, start_secs=start_secs,
            allocated_cpus=1, limits=Limits(wall_secs=wall_secs),
            processes=frozenset() if process is None else frozenset({process}),
        )  # fmt: skip
        write_whole(self.spool / f"{job_id}.xml", format_job(job))

    def hook(self, script: str, job_id: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start a hook as slurmd does: nearly nothing in its environment."""
        return subprocess.Popen(
            [self.installed.scripts / script],
            env={
                "SLURM_JOB_ID": job_id, "SLURM_JOB_UID": str(UID), "SLURM_JOB_USER": f"u{UID}",
                "SLURMD_NODENAME": "n1", "SLURM_NODELIST": "n1", "SLURM_JOB_CPUS_PER_NODE": "1",
                "JOBFEATURES_COMMAND": str(self.command), "JOBFEATURES_HOOK_TIMEOUT": "60",
                "JOBFEATURES_SETTINGS": "/nonexistent", "JOBFEATURES_CONFIG_FILE": os.devnull,
                "JOBFEATURES_FEATURES_ROOT": str(self.root), "JOBFEATURES_NODE_NAME": "n1",
                "JOBFEATURES_SLURM_SCONTROL": "/nonexistent/scontrol",
                "PYTHONPATH": self.installed.search, **environ,
            },
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def group(self, job_id: str, *, user_usec: int, system_usec: int = 0) -> None:
        """Set the counters of a job's control group, made where it is not there; the kernel changes files in place."""
        folder = self.scope / f"job_{job_id}"
        folder.mkdir(exist_ok=True)
        figures = {"usage_usec": user_usec + system_usec, "user_usec": user_usec, "system_usec": system_usec}
        text = "".join(f"{name} {value:012}\n" for name, value in figures.items())
        if (folder / "cpu.stat").exists():
            with (folder / "cpu.stat").open("r+b", buffering=0) as file:
                file.write(text.encode())
        else:
            write_whole(folder / "cpu.stat", text)
        for name, content in (
            ("memory.current", "4096\n"),
            ("memory.max", "max\n"),
            ("memory.stat", "anon 4096\n"),
        ):
            if not (folder / name).exists():
                write_whole(folder / name, content)

    def end_group(self, job_id: str) -> None:
        folder = self.scope / f"job_{job_id}"
        for path in list(folder.iterdir()):
            path.unlink()
        folder.rmdir()

    def address(self, name: str) -> str | None:
        """Return the HTTP address of a job's features, as its user reads it."""
        try:
            exports = (self.root / "exports" / name).read_text()
        except FileNotFoundError:
            return None
        assert stat.S_IMODE((self.root / "exports" / name).stat().st_mode) == 0o400
        found = re.search(r"(?m)^export JOBFEATURES_URL=(\S+)$", exports)
        return found[1] if found else None


def counters_in(page: str) -> dict[tuple[str, str], float]:
    return {(f"{system}-{job}", mode): float(value) for _, system, job, mode, value in COUNTER.findall(page)}


def burner() -> subprocess.Popen[bytes]:
    """Start what stands for a job's process: it uses some CPU time, and ends with the trial."""
    code = (
        "import ctypes, time\nctypes.CDLL(None).prctl(1, 9)\n"
        "while True:\n    until = time.process_time() + 0.005\n"
        "    while time.process_time() < until: pass\n    time.sleep(0.2)"
    )
    return subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)


def now() -> int:
    return int(time.time())
