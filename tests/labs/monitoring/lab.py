"""Exporters and a Prometheus on a made-up cluster: four nodes with jobs, their batch system, and the controller.

The exporters are real, and so is the Prometheus that scrapes them; what they
look at is played: /proc, /sys, control groups, NVML's library and Slurm's
commands. No rights are needed, and nothing of this machine shows. Graphics
cards need a C compiler.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from jobfeatures.client import StatusWriter
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from tests.labs.monitoring.machine import SimulatedMachine
from tests.labs.monitoring.others import OtherExporters
from tests.labs.monitoring.panels import Prometheus
from tests.labs.monitoring.plan import HOUR, MACHINES, Job, Machine, make_jobs, save
from tests.labs.monitoring.slurm import uid_of

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
CLUSTER = "lab"
CONTROLLER = "controller"
PATIENCE = 4  # times what a quiet machine may take
GRACE = ("--machine.grace-secs", "60s", "--job.grace-secs", "60s")
PILOTS, LIAR = {1001: "c1", 1003: "g1"}, 1005  # jobs that write JOBSTATUS: as they should, and nonsense


class Lab:
    """All of it. `start` returns when the exporters answer and Prometheus has scraped each of them."""

    def __init__(self, directory: Path, *, interval_secs: float = 2.0, rules: Sequence[Path] = ()) -> None:
        """`rules` are files, or patterns of files, that Prometheus loads."""
        self.directory = directory
        self.interval_secs = interval_secs
        self.rules = rules
        self.began = time.time()
        self.jobs = make_jobs(int(self.began))
        self.exporters: dict[str, str] = {}  # addresses by node's name, and the controller's
        self.processes: dict[str, subprocess.Popen] = {}
        self.prometheus = ""
        self._others = OtherExporters()
        self._machines: dict[str, SimulatedMachine] = {}
        self._player = threading.Thread(target=self._play, daemon=True)
        self._stopping = threading.Event()

    # --- life ---------------------------------------------------------------------

    def start(self) -> None:
        """Start everything."""
        for name in ("bin", "log", "nvml"):
            (self.directory / name).mkdir(parents=True)
        self._save()
        for command in ("squeue", "scontrol", "sacct", "sinfo", "sdiag"):
            file = self.directory / "bin" / command
            plan = f"LAB_PLAN={self.directory}/plan.json"
            file.write_text(f'#!/bin/sh\n{plan} exec {sys.executable} -S {HERE}/slurm.py {command} "$@"\n')
            file.chmod(0o755)
        self._build_library()
        for machine in MACHINES:
            top = self.directory / machine.name
            self._machines[machine.name] = SimulatedMachine(top, machine, self.began)
            self._machines[machine.name].step(self.began, self.jobs)
        self._player.start()
        for machine in MACHINES:
            self._start_node(machine)
        self._start_exporter(
            CONTROLLER, "--role", "controller", "--controller.interval", "5s", "--controller.history", "8h",
            "--schedule.share", "4",
            *self._sonar(CONTROLLER),
        )  # fmt: skip
        self._others.start()
        self._start_prometheus()
        self._announce()
        self.wait_for(f"count(up == 1) >= {len(self.exporters)}")

    def stop(self) -> None:
        """Stop everything; files stay."""
        self._stopping.set()
        self._others.stop()
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        if self._player.is_alive():
            self._player.join()

    def __enter__(self) -> Lab:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    # --- questions ----------------------------------------------------------------

    def ask(self, path: str, **parameters: object) -> object:
        """Return the data of an answer of Prometheus' HTTP API; a fault of the query raises ValueError."""
        return Prometheus(self.prometheus).ask(path, **parameters)

    def query(self, expression: str) -> list[dict]:
        """Return the series of an instant query."""
        return self.ask("query", query=expression)["result"]

    def end(self, job_id: int) -> None:
        """Let a job end by itself, now."""
        job = self._job(job_id)
        job.runs_secs = int(time.time()) - job.start
        self._save()

    def wait_for(self, expression: str, timeout_secs: float = 60.0) -> list[dict]:
        """Return what an expression gives as soon as it gives anything."""
        try:
            return wait(lambda: self.query(expression), timeout_secs, expression)
        except TimeoutError as error:
            targets = self.ask("targets")["activeTargets"]
            health = [(each["scrapeUrl"], each["health"], each["lastError"]) for each in targets]
            raise TimeoutError(f"{error}; targets: {health}") from None

    # --- parts --------------------------------------------------------------------

    def _save(self) -> None:
        maintenance = {"node": "c3", "start": int(self.began) + 2400, "end": int(self.began) + 2 * HOUR}
        save(self.directory / "plan.json", self.jobs, maintenance=maintenance)

    def _build_library(self) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise RuntimeError("no C compiler to build the stand-in for NVIDIA's library")
        target = self.directory / "nvml/libnvidia-ml.so.1"
        options = ("-shared", "-fPIC", "-O2", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(target))
        subprocess.run([compiler, *options, str(HERE.parent / "gpu/fake_nvml.c")], check=True)

    def _start_node(self, machine: Machine) -> None:
        name, top = machine.name, self.directory / machine.name
        self._start_exporter(
            name, "--node.name", name, "--path.procfs", f"{top}/proc", "--path.sysfs", f"{top}/sys",
            "--path.cgroup", f"{top}/sys/fs/cgroup", "--features.root", f"{top}/features",
            "--features.listen-address", f"127.0.0.1:{free_port()}", "--batch.interval", "5s", "--sample.interval", "2s",
            "--batch.refresh", "10s", "--jobs.steps", "--collector.processes", "--collector.cores",
            "--collector.gpudetail",
            "--machine.total-cpu", str(machine.cpus), *GRACE,
            "--metrics.profile", "treydock", "--gpu.drivers", "nvidia" if machine.gpus else "none",
            "--power.sources", "hwmon", "--power.interval", "2s",
            *self._sonar(name),
        )  # fmt: skip

    def _sonar(self, name: str) -> list[str]:
        tree = self.directory / "sonar" / name
        tree.mkdir(parents=True)
        return [
            "--sonar.cluster", "lab.example.org", "--sonar.sinks", "tree", "--sonar.tree-directory", str(tree),
            *(f"--sonar.{kind}-interval=5s" for kind in ("sample", "jobs", "cluster")), "--sonar.topology", "",
        ]  # fmt: skip

    def _start_exporter(self, name: str, *flags: str) -> None:
        log = self.directory / f"log/{name}.log"
        environment = {
            **os.environ,
            "PATH": f"{self.directory}/bin:{os.environ['PATH']}",
            "FAKE_NVML": f"{self.directory}/{name}/nvml.txt",
            "LD_LIBRARY_PATH": f"{self.directory}/nvml",
        }
        command = [
            BIN / "jobfeatures-exporter",
            "serve",
            "--batch.sources",
            "slurm",
            "--web.listen-address",
            "127.0.0.1:0",
        ]
        with log.open("wb") as output:
            self.processes[name] = subprocess.Popen([*command, *flags], stderr=output, env=environment)

        def address() -> str | None:
            assert self.processes[name].poll() is None, log.read_text()
            found = re.search(r"msg=listening address=(\S+)", log.read_text())
            return found and found[1]

        self.exporters[name] = wait(address, 120, f"{name} listens")

    def configuration(self) -> dict:
        """Return what Prometheus is told to scrape."""
        targets = [
            {
                "targets": [address],
                "labels": {"cluster": CLUSTER, "instance": f"{name}:9819", "__scheme__": "http"},
            }
            for name, address in self.exporters.items()
        ]
        jobs = {
            "batch_nodes": targets[:-1],
            "batch_controller": targets[-1:],
            "others": self._others.targets(CLUSTER),
        }
        interval = f"{self.interval_secs:g}s"
        return {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": [str(Path(each).absolute()) for each in self.rules],
            "scrape_configs": [{"job_name": name, "static_configs": each} for name, each in jobs.items()],
        }

    def _start_prometheus(self) -> None:
        program = shutil.which("prometheus")
        if program is None:
            raise RuntimeError("Prometheus is not installed (Debian: prometheus)")
        file = self.directory / "prometheus.yml"
        file.write_text(json.dumps(self.configuration()))  # JSON is YAML
        port = free_port()
        command = [
            program, f"--config.file={file}", f"--storage.tsdb.path={self.directory}/prometheus",
            f"--web.listen-address=127.0.0.1:{port}", "--web.enable-lifecycle",
        ]  # fmt: skip
        self.prometheus = f"http://127.0.0.1:{port}"
        with (self.directory / "log/prometheus.log").open("wb") as log:
            self.processes["prometheus"] = subprocess.Popen(command, stdout=log, stderr=log)

        def answers() -> bool:
            assert self.processes["prometheus"].poll() is None, (
                self.directory / "log/prometheus.log"
            ).read_text()
            with contextlib.suppress(OSError, ValueError):  # 503 until it is ready
                return bool(self.query("vector(1)"))
            return False

        wait(answers, 120, "Prometheus answers")

    def _announce(self) -> None:
        """Let the operator announce a shutdown of c1, and ask for features, so that both are there to be seen."""
        environment = {**os.environ, "JOBFEATURES_FEATURES_ROOT": f"{self.directory}/c1/features"}
        features = FeatureTree(f"{self.directory}/c1/features").job_path(JobKey("slurm", "1001"))
        wait(lambda: os.path.isdir(features), 60, "features of job 1001")
        for what in (["--at", "+3h"], ["--at", "+2h", "--job", "1001"]):
            announce = [BIN / "jobfeatures", "drain", "set", "--node.name", "c1", *GRACE, *what]
            subprocess.run(announce, env=environment, check=True, stdout=subprocess.DEVNULL)
        log = (self.directory / "log/c1.log").read_text()
        address = re.search(r'msg="serving features" address=(\S+)', log)[1]
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://{address}/machinefeatures/total_cpu", timeout=5).close()

    # --- the play ------------------------------------------------------------------

    def _play(self) -> None:
        while not self._stopping.wait(1.0):
            now = time.time()
            for machine in self._machines.values():
                machine.step(now, self.jobs)
            with contextlib.suppress(OSError, TimeoutError):  # not there yet, or being read
                for job_id, node in PILOTS.items():
                    self._tell(job_id, node, now)
                self._lie()

    def _tell(self, job_id: int, node: str, now: float) -> None:
        """Write JOBSTATUS as a pilot with 6 payloads on 8 CPUs."""
        path = self._status_path(job_id, node)
        began = int(now) - int(now - self.began) % 600  # payloads change every ten minutes
        with StatusWriter(path) as writer:
            writer.update(
                used_CPU=6, last_job_start=began, first_exp_job_end=began + 1500, last_exp_job_end=began + 2700,
                last_max_job_end=began + 3600, add_uncom_time=1200, add_final_exp_waste=2400,
                can_postpone_last_job=True, priority_factor=10,
            )  # fmt: skip
        self._give(path, self._job(job_id))

    def _lie(self) -> None:
        """Claim more CPUs than the job has."""
        path = self._status_path(LIAR, "c1")
        if not os.path.exists(f"{path}/used_CPU"):
            Path(path, "used_CPU").write_text("99")
            self._give(path, self._job(LIAR))

    def _status_path(self, job_id: int, node: str) -> str:
        return FeatureTree(str(self.directory / node / "features")).status_path(JobKey("slurm", str(job_id)))

    def _job(self, job_id: int) -> Job:
        return next(job for job in self.jobs if job.job_id == job_id)

    def _give(self, path: str, job: Job) -> None:
        for entry in os.scandir(path):
            found = entry.stat(follow_symlinks=False)
            if found.st_uid != uid_of(job.user) and stat.S_ISREG(found.st_mode):
                os.chown(entry.path, uid_of(job.user), found.st_gid)


def wait(condition, timeout_secs: float, what: str):
    """Return the first true result of a condition; TimeoutError after PATIENCE times the timeout."""
    timeout_secs *= PATIENCE
    deadline = time.monotonic() + timeout_secs
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_secs:g} s: {what}")
        time.sleep(0.2)
    return result


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
