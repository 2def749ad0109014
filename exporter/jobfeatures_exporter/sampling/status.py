"""Parses /proc/PID/status for what /proc/PID/stat lacks: memory by component, real user, groups."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import read_text
from jobfeatures_exporter.snapshot import MemoryBytes

_LINE = re.compile(r"^(RssAnon|RssFile|RssShmem|VmSwap|Uid):[ \t]+([0-9]{1,16})(?: kB$|\t)", re.MULTILINE)


_GROUPS = re.compile(r"^Groups:[ \t]*([0-9][0-9 ]*)$", re.MULTILINE)
MAX_GROUPS = 65536  # NGROUPS_MAX of the kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """The fields used here. The memory of kernel threads and zombies is unknown, as they have none."""

    real_uid: int
    memory: MemoryBytes


def parse_process_status(text: str) -> ProcessStatus:
    r"""Return real uid and memory of /proc/PID/status.

    Source: proc_pid_status(5), ``RssAnon:     1234 kB`` (since Linux 4.5),
    ``Uid:\t1000\t1000\t1000\t1000`` with the real one first. The name, which
    the process chooses, is the first line, where newlines are escaped. Raises
    ParseError where the uid is missing.
    """
    values = {name: int(number) for name, number in _LINE.findall(text.partition("\n")[2])}
    if "Uid" not in values:
        raise ParseError("line is missing", source="status", field="Uid")
    size = {name: number * 1024 for name, number in values.items() if name != "Uid"}
    return ProcessStatus(
        real_uid=values["Uid"],
        memory=MemoryBytes(
            anon=size.get("RssAnon"),
            file=size.get("RssFile"),
            shmem=size.get("RssShmem"),
            swap=size.get("VmSwap"),
        ),
    )


def read_status(procfs: str, pid: int) -> ProcessStatus:
    """Read the status of one process. Raises OSError, ParseError."""
    return parse_process_status(read_text(f"{procfs}/{pid}/status"))


def parse_process_groups(text: str) -> frozenset[int]:
    r"""Return the supplementary groups of /proc/PID/status (proc_pid_status(5)): ``Groups:\t6001 65400 ``."""
    match = _GROUPS.search(text.partition("\n")[2])
    found = match[1].split() if match else []
    return frozenset(int(each) for each in found[:MAX_GROUPS] if len(each) <= 10)
