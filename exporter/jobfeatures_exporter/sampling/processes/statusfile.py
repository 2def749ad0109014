"""Parses /proc/PID/status for what /proc/PID/stat lacks: memory by component, groups."""

from __future__ import annotations

import re

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import read_text
from jobfeatures_exporter.snapshot import MemoryBytes

_LINE = re.compile(r"^(RssAnon|RssFile|RssShmem|VmSwap):[ \t]+([0-9]{1,16}) kB$", re.MULTILINE)
_GROUPS = re.compile(r"^Groups:[ \t]*([0-9][0-9 ]*)$", re.MULTILINE)
MAX_GROUPS = 65536  # NGROUPS_MAX of the kernel


def parse_process_memory(text: str) -> MemoryBytes:
    """Return the memory in /proc/PID/status; of kernel threads and zombies, which have none, it is unknown.

    Source: proc_pid_status(5), ``RssAnon:     1234 kB`` (since Linux 4.5). The name, which the process
    chooses, is the first line, where newlines are escaped. Raises ParseError where every process has a line.
    """
    lines = text.partition("\n")[2]
    if "Uid:\t" not in lines:
        raise ParseError("line is missing", source="status", field="Uid")
    size = {name: int(number) * 1024 for name, number in _LINE.findall(lines)}
    anon, file, shmem, swap = map(size.get, ("RssAnon", "RssFile", "RssShmem", "VmSwap"))
    return MemoryBytes(anon=anon, file=file, shmem=shmem, swap=swap)


def read_memory(procfs: str, pid: int) -> MemoryBytes:
    """Read the memory of one process. Raises OSError, ParseError."""
    return parse_process_memory(read_text(f"{procfs}/{pid}/status"))


def parse_process_groups(text: str) -> frozenset[int]:
    r"""Return the supplementary groups of /proc/PID/status (proc_pid_status(5)): ``Groups:\t6001 65400 ``."""
    match = _GROUPS.search(text.partition("\n")[2])
    found = match[1].split() if match else []
    return frozenset(int(each) for each in found[:MAX_GROUPS] if len(each) <= 10)
