"""The daemons of the Slurm lab, to be stopped, held and robbed of what they know."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.integration.conftest import SYSTEM_PATH, Slurm, until

CONTROLLER, DATABASE = "slurmctld", "slurmdbd"
KEPT = {"jwt.key"}  # of the controller's state: the lab's own


class Daemons:
    """What a test did to them is undone by `restore`."""

    def __init__(self, slurm: Slurm) -> None:
        self.slurm = slurm
        self.node_daemon = f"slurmd.{slurm.node}"
        self.conf = slurm.lab / "etc/slurm.conf"
        self._conf_before = self.conf.read_text()

    def _pid(self, name: str) -> int | None:
        """Return the process of a daemon if it runs; it is known by its file and its program."""
        file = self.slurm.lab / f"run/{name}.pid"
        try:
            pid = int(file.read_text())
            program = Path(f"/proc/{pid}/comm").read_text().strip()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return None
        return pid if program == name.partition(".")[0] and state != "Z" else None

    def hold(self, name: str) -> None:
        """Have the daemon hang: its port is open, and nobody answers there."""
        os.kill(self._pid(name), signal.SIGSTOP)

    def let_go(self, name: str) -> None:
        """End that."""
        if pid := self._pid(name):
            os.kill(pid, signal.SIGCONT)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon."""
        os.kill(self._pid(name), how)
        until(lambda: self._pid(name) is None, 60)

    def start(self, name: str) -> None:
        """Start it, if it does not run, and wait until it can be asked."""
        if self._pid(name) is None:
            program, _, node = name.partition(".")
            command = [shutil.which(program, path=SYSTEM_PATH), *(["-N", node] if node else [])]
            subprocess.run(command, env={**os.environ, **self.slurm.environ}, check=True, timeout=240)
        until(lambda: self._pid(name) is not None, 60)
        if name == CONTROLLER:
            until(lambda: " is UP" in self.try_run("scontrol", "ping"), 60)

    def try_run(self, *command: str) -> str:
        """Return what a command printed, whatever becomes of it."""
        done = subprocess.run(
            command, env={**os.environ, **self.slurm.environ}, capture_output=True, text=True, timeout=240
        )
        return done.stdout

    def set(self, **settings: str) -> None:
        """Write settings into slurm.conf; daemons read them at their start."""
        text = self.conf.read_text()
        for name, value in settings.items():
            text = re.sub(rf"(?m)^{name}=.*\n", "", text)
            text = f"{name}={value}\n{text}"
        self.conf.write_text(text)

    def lose_state(self) -> None:
        """Empty StateSaveLocation, as a disk that was lost; the controller must not run."""
        assert self._pid(CONTROLLER) is None
        for path in (self.slurm.lab / "state").iterdir():
            if path.name not in KEPT:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def resume_nodes(self) -> None:
        """Have both nodes take jobs again."""
        for node in (self.slurm.node, f"{self.slurm.node[:-1]}2"):
            self.try_run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def restore(self) -> None:
        """Have everything run again, as it was set before."""
        changed = self.conf.read_text() != self._conf_before
        self.conf.write_text(self._conf_before)
        for name in (DATABASE, CONTROLLER, self.node_daemon):
            self.let_go(name)
        if changed and self._pid(CONTROLLER) is not None:
            self.stop(CONTROLLER)
        for name in (DATABASE, CONTROLLER, self.node_daemon):
            self.start(name)
        self.resume()

    def forget_kills(self) -> None:
        """Have slurmd launch a job of a number that it has just been told to end, which it remembers for minutes."""
        self.stop(self.node_daemon)
        for path in (self.slurm.lab / "spool" / self.slurm.node).glob("cred_state*"):
            path.unlink()
        self.start(self.node_daemon)
        self.resume()

    def resume(self) -> None:
        """Have both nodes take jobs again, and wait until they can."""

        def idle() -> bool:
            self.resume_nodes()
            states = self.slurm.run("sinfo", "-h", "-N", "-p", "batch", "-o", "%T").split()
            return bool(states) and not any(
                "*" in each or each in ("down", "drained", "unknown") for each in states
            )

        until(idle, 90, 0.5)


def part_of_answers(folder: Path, other: Path | None = None) -> Callable[[str], None]:
    """Put commands into `folder` that hand on Slurm's answers, and return what sets how: whole, half, none or other.

    Of halves each is cut off elsewhere. `other` is another cluster's slurm.conf.
    """
    script = folder / "scontrol"
    script.write_text(
        "#!/bin/bash\n"
        f"real=/usr/bin/$(basename $0)\n"
        f"case $(cat {folder}/how) in\n"
        "none) exit 1;;\n"
        f'other) export SLURM_CONF={other}; exec $real "$@";;\n'
        f'half) out=$(mktemp -p {folder}); $real "$@" >$out 2>&2; rc=$?; size=$(stat -c %s $out)\n'
        f"  echo >>{folder}/cuts; n=$(wc -l <{folder}/cuts); head -c $((size * (n * 37 % 100) / 100)) $out; exit $rc;;\n"
        "esac\n"
        'exec $real "$@"\n'
    )
    script.chmod(0o755)
    (folder / "squeue").symlink_to(script)

    def set_how(how: str) -> None:
        new = folder / "how.new"
        new.write_text(how)
        new.rename(folder / "how")

    set_how("whole")
    return set_how
