"""Reads which hooks each batch system has configured on this node, for the command `doctor`."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.lsf.asking import LsfCommands
from jobfeatures.batch.oar.site import CONFIGURATION as OAR_CONFIGURATION
from jobfeatures.errors import SourceError
from jobfeatures.records.combining import grouped
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.command import first_line, run_command
from jobfeatures.system.privatefile import read_bounded
from jobfeatures_exporter.config import ExporterConfig

MAX_BYTES = 2**20
LSF_SUDOERS = "/etc/lsf.sudoers"
PROFILE = "/etc/profile.d"  # read by shells: Torque's prologue cannot set environment variables of its job


class NamedHook(NamedTuple):
    """One hook of a batch system as configured, or a setting that hooks depend on.

    `name` is what the batch system calls it; an empty `command` means that none is set. `queue` is the queue
    it is for, empty for all. `is_run` is False if the file is read or sourced, so that it need not be
    executable. `wanted` is the value that a setting must have. `required_prefix` is the prefix that makes the
    command run as root. `consequence` is only set for hooks that are optional: it says what changes for jobs
    if this project's hook is used.
    """

    name: str  # as the batch system calls it
    command: str = ""  # as configured; empty if none is set
    queue: str = ""
    is_run: bool = True  # False: it is read or sourced, and need not be executable
    wanted: str = ""  # for a setting that hooks depend on: its required value
    required_prefix: str = ""  # the prefix that makes a command run as root
    consequence: str = ""  # what it changes for jobs if it is ours: it need not be


def mentions_us(command: str) -> bool:
    """Return whether a hook is this project's: "jobfeatures" is in its command or in a script it runs.

    The script's folder does not count. Raises OSError if the script cannot be read.
    """
    path = program_of(command)
    if not path.startswith("/"):
        return "jobfeatures" in command
    return "jobfeatures" in command.replace(os.path.dirname(path), "", 1) or any(
        map(_holds_us, programs_of(command))
    )


def _holds_us(path: str) -> bool:
    return "jobfeatures" in _read(path)


def program_of(command: str) -> str:
    """Return the program that a hook's command runs, without the user name that may precede it."""
    word = (command.split() or [""])[0].strip("\"'")
    return re.sub(r"\A[\w.-]+@(?=/)", "", word)


def programs_of(command: str) -> list[str]:
    """Return the programs that a hook's command runs: several, or none, if it is a pattern of Slurm's."""
    program = program_of(command)
    return sorted(glob.glob(program)) if any(char in program for char in "*?[") else [program]


def run_query(system: str, *argv: str, config: ExporterConfig, may_fail: str = "") -> str:
    """Run a command of the batch system `system`, and return what it prints.

    Raises SourceError if it fails, unless it prints the text `may_fail`.
    """
    output = run_command(
        argv,
        timeout_secs=config.shared.batch.common.timeout_secs,
        kept=SYSTEMS[system].variables,
        max_bytes=MAX_BYTES,
        environment={"SGE_SINGLE_LINE": "1"},
    )
    printed = (output.stdout + output.stderr).decode("utf-8", "replace")
    if output.status != 0 and not (may_fail and may_fail in printed):
        raise SourceError(f"{argv[0]}: failed with exit status {output.status}: {first_line(output.stderr)}")
    return output.stdout.decode("utf-8", "replace")


def _read(path: str) -> str:
    content, _ = read_bounded(os.path.realpath(path), MAX_BYTES)
    return content.decode("utf-8", "replace")


def parse_settings(text: str, names: tuple[str, ...], between: str) -> dict[str, list[str]]:
    """Return the values that a configuration text sets for each of `names`, in lines NAME BETWEEN VALUE.

    `between` is a regular expression. NAME may have an index, as in ``NAME[0]``. The values none and (null)
    are returned as empty texts.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for line in text.replace("\\\n", "").splitlines():
        matched = re.match(rf"\s*(\w+)(?:\[\d+\])?\s*{between}\s*(.*)", line)
        if matched and matched[1] in found:
            value = matched[2].strip()
            found[matched[1]].append("" if value.lower() in {"none", "(null)"} else value)
    return found


def _slurm(config: ExporterConfig, _node: str) -> Iterator[NamedHook]:
    text = run_query("slurm", config.shared.batch.slurm.scontrol, "show", "config", config=config)
    for name, commands in parse_settings(text, ("Prolog", "TaskProlog", "Epilog"), "=").items():
        yield from (NamedHook(name, command) for command in commands or [""])
    name = "ProctrackType"  # without control groups nothing tells whose a process is
    for value in parse_settings(text, (name,), "=")[name]:
        yield NamedHook(name, value, wanted="proctrack/cgroup")


def _torque(config: ExporterConfig, _node: str) -> Iterator[NamedHook]:
    places = {name: f"{config.shared.batch.torque.home}/mom_priv/{name}" for name in ("prologue", "epilogue")}
    for name, path in (places | {PROFILE: f"{PROFILE}/jobfeatures.sh"}).items():
        is_there = os.path.basename(path) in os.listdir(os.path.dirname(path))
        yield NamedHook(name, path if is_there else "", is_run=name != PROFILE)


def _pbs(config: ExporterConfig, _node: str) -> Iterator[NamedHook]:
    """Read pbs_mom's copies of the server's hooks: only managers may use qmgr."""
    folder = f"{config.shared.batch.pbs.home}/mom_priv/hooks"
    paths = (f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(".PY"))
    ours = next(filter(_holds_us, paths), "")
    yield NamedHook(f"hook in {folder}", ours, is_run=False)


def _gridengine(config: ExporterConfig, node: str) -> Iterator[NamedHook]:
    names = ("prolog", "epilog")

    def ask(*argv: str, may_fail: str = "") -> str:
        qconf = config.shared.batch.gridengine.qstat.removesuffix("qstat") + "qconf"
        return run_query("gridengine", qconf, *argv, config=config, may_fail=may_fail)

    every = ask("-sconf") + ask("-sconf", node, may_fail=node)  # host settings follow the global ones
    for name, commands in parse_settings(every, names, " ").items():
        everywhere = next((each for each in reversed(commands) if each), "")
        text = ask("-sq", f"*@{node},*@{node}.*", may_fail="No cluster queue or queue instance matches")
        queues = re.split(r"(?m)^qname\s+", text)[1:]
        if not queues:
            yield NamedHook(name, everywhere, required_prefix="root@")
        for queue in queues:
            own = next(filter(None, parse_settings(queue, names, " ")[name]), everywhere)
            yield NamedHook(name, own, queue=queue.split(maxsplit=1)[0], required_prefix="root@")


def _htcondor(config: ExporterConfig, _node: str) -> Iterator[NamedHook]:
    command = config.shared.batch.htcondor.condor_status.removesuffix("condor_status") + "condor_config_val"

    def ask(name: str) -> str:
        text = run_query("htcondor", command, name, config=config, may_fail="Not defined")
        return "" if "Not defined" in text else text.strip().partition("\n")[0]

    yield NamedHook("STARTER_JOB_ENVIRONMENT", ask("STARTER_JOB_ENVIRONMENT"), is_run=False)
    if wrapper := ask("USER_JOB_WRAPPER"):
        yield NamedHook(
            "USER_JOB_WRAPPER", wrapper, consequence="a job that cannot be started ends, and is not held"
        )
    yield NamedHook("EXECUTE", ask("EXECUTE"), wanted=config.shared.batch.htcondor.execute_directory)


def _lsf(config: ExporterConfig, _node: str) -> Iterator[NamedHook]:
    text = LsfCommands(config.of_system("lsf"), SystemClock(), config.shared.batch.common.timeout_secs).text(
        "bqueues", "-l"
    )
    names = ("HOST_PRE_EXEC", "HOST_POST_EXEC", "JOB_STARTER")
    for queue in re.split(r"(?m)^QUEUE:[ \t]*", text)[1:]:
        for name, commands in parse_settings(queue, names, ":").items():
            hook = NamedHook(name, "".join(commands[:1]), queue=queue.split(maxsplit=1)[0])
            if name != "JOB_STARTER":
                yield hook
            elif hook.command:
                yield hook._replace(consequence="a command that begins with a shell's word, as cd, fails")
    if not re.search(r"(?m)^HOST_PRE_EXEC:[ \t]*\S", text):
        return
    name, sudoers = "LSB_PRE_POST_EXEC_USER", ""
    with contextlib.suppress(FileNotFoundError):
        sudoers = _read(LSF_SUDOERS)
    users = parse_settings(sudoers, (name,), "=")[name]
    yield NamedHook(name, "".join(users[-1:]), wanted="root")


def _oar(_config: ExporterConfig, _node: str) -> Iterator[NamedHook]:
    names = ("PROLOGUE_EXEC_FILE", "EPILOGUE_EXEC_FILE")
    for name, commands in parse_settings(_read(OAR_CONFIGURATION), names, "=").items():
        yield NamedHook(name, "".join(commands[-1:]).strip("\"'"))


HOOK_SITES: dict[str, Callable[[ExporterConfig, str], Iterator[NamedHook]]] = {
    "slurm": _slurm,
    "torque": _torque,
    "pbs": _pbs,
    "gridengine": _gridengine,
    "htcondor": _htcondor,
    "lsf": _lsf,
    "oar": _oar,
}


def named_hooks(system: str, config: ExporterConfig, node: str) -> Iterator[NamedHook]:
    """Yield a batch system's hooks, one for all queues that share it.

    Raises SourceError or OSError if its configuration cannot be read.
    """
    found = HOOK_SITES[system](config, node)
    for hook, queues in grouped((each._replace(queue=""), each.queue) for each in found).items():
        yield hook._replace(queue=", ".join(sorted(filter(None, queues))))
