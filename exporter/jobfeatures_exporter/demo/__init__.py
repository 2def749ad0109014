"""Demonstrates the daemon on any Linux machine: real processes are its jobs, described in a spool folder.

The normal daemon reads that folder. This package plays the batch system: it starts jobs, writes an SSS job
object for each, ends jobs at their wall limits, and cleans up. Everything shown about the jobs comes from the
same code that serves a cluster.
"""

from __future__ import annotations

import errno
import getpass
import itertools
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from jobfeatures.formats.sss.writerecords import format_job
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures.system.command import BackgroundProcess
from jobfeatures.system.logs import configure_logging
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.startup.serve import serve

TICK_SECS = 0.5


@dataclass(frozen=True, slots=True)
class DemoKind:
    """A kind of demonstration job, with what it requests.

    `payload` names a function of `jobfeatures_exporter.demo.payloads`.
    """

    payload: str
    name: str
    cpus: int
    wall_limit_secs: int
    memory_bytes: int


KINDS = (
    DemoKind("burn", "burns one CPU", 1, 3600, 512 * 2**20),
    DemoKind("grow", "grows its memory", 1, 1800, 1024 * 2**20),
    DemoKind("pilot", "pilot with several payloads", 4, 7200, 2048 * 2**20),
    DemoKind("limited", "near its wall limit", 1, 90, 256 * 2**20),
)


class DemoBatchSystem:
    """Plays the batch system: starts and ends the jobs, and describes them in the spool folder."""

    def __init__(self, spool: str, tree: FeatureTree) -> None:
        self._spool = spool
        self._tree = tree
        self._numbers = itertools.count(1)
        self._running: dict[JobKey, tuple[DemoKind, Job, BackgroundProcess]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo", daemon=True)

    def start(self) -> None:
        """Start one job of each kind, and a thread that replaces a job once it ends or reaches its limit."""
        for kind in KINDS:
            self._start_job(kind)
        self._thread.start()

    def stop(self) -> None:
        """End all jobs of the demonstration."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for _kind, _job, process in self._running.values():
            process.end(grace_secs=0.2)

    def _run(self) -> None:
        while not self._stopping.wait(TICK_SECS):
            for key, (kind, job, process) in list(self._running.items()):
                over_time = job.end_limit_secs is not None and time.time() >= job.end_limit_secs
                if over_time or process.has_ended:
                    process.end()
                    state = JobState.TIMEOUT if over_time else JobState.COMPLETED
                    self._write_document(replace(job, state=state, end_secs=int(time.time())))
                    del self._running[key]
                    self._start_job(kind)

    def _start_job(self, kind: DemoKind) -> None:
        key = JobKey("spool", f"demo.{next(self._numbers)}")
        environment = {
            **os.environ,
            "MACHINEFEATURES": self._tree.machine_path,
            "JOBFEATURES": self._tree.job_path(key),
            "JOBSTATUS": self._tree.status_path(key),
        }
        argv = (sys.executable, "-m", "jobfeatures_exporter.demo.payloads", kind.payload, str(os.getpid()))
        process = BackgroundProcess(argv, environment)
        job = Job(
            key=key,
            state=JobState.RUNNING,
            name=kind.name,
            user=getpass.getuser(),
            account="demo",
            partition="demo",
            submit_secs=int(time.time()),
            start_secs=int(time.time()),
            total_cpus=kind.cpus,
            allocated_cpus=kind.cpus,
            limits=Limits(
                wall_secs=kind.wall_limit_secs,
                cpu_secs=kind.wall_limit_secs * kind.cpus,
                memory_bytes=kind.memory_bytes,
            ),
            processes=frozenset({process.pid}),
        )
        self._running[key] = (kind, job, process)
        self._write_document(job)

    def _write_document(self, job: Job) -> None:
        """Write the job's document as any site's script should: to a temporary file, then renamed."""
        temporary = os.path.join(self._spool, f".{job.key.job_id}.new")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(format_job(job))
        os.rename(temporary, os.path.join(self._spool, f"{job.key.job_id}.xml"))


def run_demo(config_for: Callable[[Mapping[str, str]], ExporterConfig]) -> int:
    """Run the demonstration until Ctrl-C, then end its processes and remove its files.

    `config_for` returns the configuration, given other defaults for some settings, by key. Returns the exit
    status.
    """
    folder = tempfile.mkdtemp(prefix="jobfeatures-demo-")
    spool, root = os.path.join(folder, "spool"), os.path.join(folder, "features")
    os.mkdir(spool)
    # The jobs are allocated seven CPUs, more than some machines have: the page's title says so.
    has = os.cpu_count() or 1
    cpus = max(has, sum(kind.cpus for kind in KINDS) + 1)
    changes = {
        "spool.directory": spool,
        "features.root": root,
        "batch.sources": "spool",
        "sample.interval": "2s",
        "sampling.processes": "procfs",
        "machine.total_cpu": str(cpus),
        "log.level": "warning",
    }
    if cpus > has:
        changes["node.name"] = f"{os.uname().nodename}, as if it had {cpus} CPUs for its {has}"
    jobs: DemoBatchSystem | None = None
    try:
        config = config_for(changes)
        free = _free_address(config.web_listen_address)
        if free != config.web_listen_address:
            wanted, config = config, config_for({**changes, "web.listen_address": free})
            if config != wanted:  # no flag asked for that address
                taken = wanted.web_listen_address
                print(f"{taken} is taken: {free} is used; --web.listen-address names another")
        tree = FeatureTree(config.shared.batch.common.root)
        jobs = DemoBatchSystem(spool, tree)
        configure_logging(config.log.level, config.log.format)
        serve(config, on_listening=lambda address: _welcome(jobs, address, tree))
    finally:
        if jobs is not None:
            jobs.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _free_address(address: str) -> str:
    """Return an address for listening, with its host's next free port where its own is taken."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in range(int(port), min(int(port) + 100, 2**16)):
        try:
            socket.create_server((host.strip("[]"), number), family=family).close()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                break  # which the listener will report
        else:
            return f"{host}:{number}"
    return address


def _welcome(jobs: DemoBatchSystem, address: str, tree: FeatureTree) -> None:
    jobs.start()
    print(
        f"""Four jobs are running. See

  http://{address}/                the page, for a browser
  http://{address}/metrics         what each uses, its time left, what ending it would waste
  {tree.machine_path}/    what jobs can read about the machine
  {os.path.dirname(tree.job_path(JobKey("spool", "x")))}/*/     … and about themselves
  {os.path.dirname(tree.status_path(JobKey("spool", "x")))}/*/       what the pilot reports

  curl -s http://{address}/metrics | grep ^batch_job

Ctrl-C ends the demonstration and removes everything.""",
        flush=True,
    )
