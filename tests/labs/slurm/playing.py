"""Running commands, waiting and playing in a lab, for the scripts beside this file; the standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PRODUCT = Path("/opt/jobfeatures-exporter")
LAB = Path("/tmp/jobfeatures-lab/slurm")
GATE = Path("/home/gate")  # locked until jobs may end: a job that waits for it uses no CPU
PATIENCE_SECS = float(os.environ.get("KINDS_PATIENCE", "200"))
failures: list[str] = []  # what did not come about: tests say what is missing


def run(*words: object, user: str | None = None, stdin: str | None = None, check: bool = True) -> str:
    """Return what a command prints; as a user in a clean environment."""
    command = [str(word) for word in words]
    environ = {"SLURM_CONF": os.environ["SLURM_CONF"], "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    if user:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *command]
        environ |= {"HOME": f"/home/{user}", "USER": user}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=PATIENCE_SECS, input=stdin, cwd="/"
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def until(condition: Callable[[], Any], what: str, timeout_secs: float = PATIENCE_SECS) -> Any:
    """Return the first true result, or note that there was none."""
    deadline = time.monotonic() + timeout_secs
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError, RuntimeError):
            if result := condition():
                return result
        time.sleep(0.3)
    failures.append(f"not within {timeout_secs:g} s: {what}")
    return None


def fetch(address: str, path: str = "/metrics") -> str:
    """Return a page of one of our daemons."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return answer.read().decode()


def play(
    folder: Path,
    steps: Iterable[Callable[[], object]],
    seen: dict[str, Any],
    processes: Iterable[subprocess.Popen],
) -> None:
    """Do all steps while jobs wait at the gate; FOLDER/seen.json gets what was `seen`, with the processes' logs."""
    took = {}
    GATE.touch(0o644)
    gate = GATE.open()
    fcntl.flock(gate, fcntl.LOCK_EX)
    try:
        for step in steps:
            began = time.monotonic()
            step()
            took[step.__name__] = round(time.monotonic() - began, 1)
    except Exception:  # noqa: BLE001  # whatever it is, the test shows it beside what was seen
        failures.append(traceback.format_exc())
    finally:
        logs = [path for path in folder.glob("*.log") if path.name != "console.log"]
        seen["logs"] = {path.name: path.read_text(errors="replace")[-20_000:] for path in logs}
        for process in processes:
            process.kill()  # nothing, where it has ended
        (folder / "seen.json").write_text(json.dumps({**seen, "took": took}))
    print(json.dumps({"took": took, "failures": failures}, indent=1))
