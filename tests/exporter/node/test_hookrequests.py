"""The daemon's process for hooks, as it is: started, told settings, replaced and ended."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.node.hookrequests import COMMAND, HookServer
from jobfeatures_exporter.node.nodeboard import NodeBoard
from tests.configured import changed, configured
from tests.running import until

pytestmark = pytest.mark.program

PROLOG = Path(__file__).parents[3] / "packaging/slurm/prolog.sh"


class Serving:
    """A server that runs; `asked` are the batch systems that it wanted to be asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[str] = []
        self.beats = 0
        tree = FeatureTree(str(root))
        tree.prepare()
        self.config = configured(features_root=str(root), node_name="n1")
        self.board = NodeBoard(self.config, SystemClock())
        self.server = HookServer(self.board, self, self)
        self.tree, self.may_answer = tree, threading.Event()
        self.may_answer.set()
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        until(lambda: self.alive.exists() and self.alive.read_text())  # it is made first, and then written

    def check(self) -> None:
        """Be the settings that are looked at."""
        self.beats += 1

    def refresh_in_haste(self, names: Collection[str]) -> None:
        """Be the daemon that publishes what the batch system answers."""
        self.asked.extend(names)
        self.may_answer.wait(60)
        for path in (self.root / "intake").glob("*.asked"):
            self.tree.release_prolog(JobKey("slurm", path.stem.removeprefix("slurm-")))

    def reconfigure(self, **settings: object) -> None:
        self.board.config = changed(self.config, **settings)
        self.server.reconfigure()

    @property
    def alive(self) -> Path:
        return self.root / "intake/alive"

    @property
    def pid(self) -> int:
        return int(self.alive.read_text().split()[1])

    def prolog(self, job_id: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a prolog that has no command to run: what is published is the server's work."""
        return subprocess.run(
            [PROLOG],
            env={
                "SLURM_JOB_ID": job_id,
                "SLURM_JOB_UID": str(os.getuid()),
                "SLURM_JOB_CPUS_PER_NODE": "2",
                "SLURM_NODELIST": "n1",
                "JOBFEATURES_COMMAND": "/nonexistent",
                "JOBFEATURES_SETTINGS": "/nonexistent",
                "JOBFEATURES_HOOK_TIMEOUT": "30",
                "JOBFEATURES_FEATURES_ROOT": str(self.root),
                **environ,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

    def record(self, job_id: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.root / f"records/slurm-{job_id}.json").read_text())
        return found


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setattr("jobfeatures_exporter.node.hookrequests.COMMAND", COMMAND)
    made = Serving(tmp_path / "root")
    yield made
    made.may_answer.set()
    made.server.stop()
    made.thread.join(60)
    assert not made.thread.is_alive()
    assert not made.alive.exists(), "hooks count on nobody"


def test_a_prolog_and_an_epilog_are_served_and_missing_limits_asked_for(serving):
    assert serving.prolog("7").stderr == ""
    assert (serving.root / "jobfeatures/slurm-7/allocated_cpu").read_text() == "2\n"
    assert "start_secs" not in serving.record("7")
    until(lambda: serving.asked == ["slurm"])
    serving.prolog("8", SLURM_JOB_START_TIME="1795246160", SLURM_JOB_END_TIME="1795246580")
    assert serving.record("8")["limits"]["wall_secs"] == 420
    serving.prolog("7", SLURM_SCRIPT_CONTEXT="epilog_slurmd")
    assert not (serving.root / "jobfeatures/slurm-7").exists()
    until(lambda: serving.asked == ["slurm", "slurm"])
    assert serving.beats > 0


def test_a_prolog_waits_for_what_only_the_batch_system_knows(serving):
    """So that the job finds its memory limit at its first line."""
    serving.may_answer.clear()
    with ThreadPoolExecutor(1) as pool:
        prolog = pool.submit(serving.prolog, "7")
        until(lambda: serving.asked == ["slurm"])
        time.sleep(0.3)
        assert not prolog.done()
        serving.may_answer.set()
        assert prolog.result().stderr == ""


def test_a_prolog_does_not_wait_for_a_batch_system_that_the_daemon_does_not_query(serving):
    serving.reconfigure(batch_sources=("spool",))
    serving.may_answer.clear()
    turns = itertools.count(90)  # new settings come a little later
    until(lambda: not _waits(serving, str(next(turns))))


def _waits(serving: Serving, job_id: str) -> bool:
    """Return whether a prolog has left its question open when its second is over."""
    serving.prolog(job_id, JOBFEATURES_HOOK_TIMEOUT="1")
    return (serving.root / f"intake/slurm-{job_id}.asked").exists()


def test_a_prolog_whose_time_is_over_goes_on_without_that_and_does_not_complain(serving):
    serving.may_answer.clear()
    for job_id, limit in (("7", "0.5"), ("8", "4"), ("9", "30")):  # a busy machine may need longer
        said = serving.prolog(job_id, JOBFEATURES_HOOK_TIMEOUT=limit).stderr
        if "is left to the daemon" not in said:
            break
    assert said == ""
    assert (serving.root / f"jobfeatures/slurm-{job_id}/allocated_cpu").exists()
    serving.may_answer.set()


def test_new_settings_take_effect_in_the_same_process(serving):
    before = serving.pid
    serving.reconfigure(hook_ask="never", features_profile="both")
    until(lambda: serving.prolog("7") and (serving.root / "jobfeatures/slurm-7/allocated_CPU").exists())
    assert serving.pid == before


def test_a_process_that_dies_is_replaced_and_what_was_asked_for_is_done(serving, monkeypatch):
    monkeypatch.setattr("jobfeatures_exporter.node.hookrequests.AGAIN_SECS", 0.1)
    died = serving.pid
    os.kill(died, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{died}").exists())
    request = serving.root.parent / "request"
    request.write_bytes(b"jobfeatures 1\0publish\0slurm\0SLURM_JOB_ID=7\0end\0")
    request.rename(serving.root / "intake/slurm-7.publish")
    until((serving.root / "jobfeatures/slurm-7").exists)
    assert serving.pid != died


def test_signals_that_are_meant_for_the_daemon_do_not_end_it(serving):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(serving.pid, number)
    assert serving.prolog("7").stderr == ""
    assert (serving.root / "jobfeatures/slurm-7").is_dir()


def test_it_ends_with_the_daemon_however_that_ends(tmp_path):
    code = (
        "import sys, time; from pathlib import Path\n"
        "from tests.exporter.node.test_hookrequests import Serving\n"
        "print(Serving(Path(sys.argv[1])).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "root"], stdout=subprocess.PIPE, cwd=PROLOG.parents[2]
    ) as daemon:
        pid = int(daemon.stdout.readline())
        daemon.kill()
    until(lambda: _is_gone(pid))
    assert not (tmp_path / "root/intake/alive").exists()


def _is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
