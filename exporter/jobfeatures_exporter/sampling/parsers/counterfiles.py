"""Parsers of files that count events and transfers, of control groups, processes and the node. No I/O.

Sources: Documentation/admin-guide/cgroup-v1/{memory,blkio-controller}.rst, cgroup-v2.rst,
Documentation/accounting/psi.rst, proc_pid_io(5), cpuset(7). Every function raises ParseError for malformed
text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import ProcessIo
from jobfeatures_exporter.sampling.parsers.cgroupfiles import A_GROUP, parse_flat_keyed, parse_number

MAX_CPU = 2**16  # no kernel has more CPUs; keeps a broken list from becoming a large set

_COUNTER = re.compile(r"[0-9]{1,20}\Z")
_DEVICE = re.compile(r"[0-9]{1,8}:[0-9]{1,8}\Z")
_PRESSURE = re.compile(r"(some|full) (?:avg[0-9]+=[0-9.]+ )*total=([0-9]{1,20})\Z")
_CPUS = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?\Z")
_BLOCK = {"rbytes": 0, "wbytes": 1, "rios": 2, "wios": 3}
_IO = re.compile(
    r"rchar: ([0-9]{1,20})\nwchar: ([0-9]{1,20})\n(?:sysc[rw]: [0-9]{1,20}\n)*"
    r"read_bytes: ([0-9]{1,20})\nwrite_bytes: ([0-9]{1,20})\ncancelled_write_bytes: ([0-9]{1,20})\n?\Z"
)


def parse_memory_events(text: str) -> Mapping[str, int]:
    """Return the counts in v2's memory.events by name, such as ``max`` and ``oom_kill``."""
    return _flat(text, "memory.events")


def parse_oom_control(text: str) -> Mapping[str, int]:
    """Return the counts in v1's memory.oom_control by name; ``oom_kill`` exists since Linux 4.13."""
    return _flat(text, "memory.oom_control")


def parse_blkio(text: str, *, source: str = A_GROUP) -> dict[str, tuple[int, int]]:
    """Return (reads, writes) by device from a v1 blkio file with lines ``8:0 Read 4096``, ``Total 4096``.

    Whether these are bytes or operations depends on the file. Raises ParseError if malformed.
    """
    found: dict[str, list[int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split(" ")
        if len(words) == 3 and _DEVICE.match(words[0]):
            value = _counter(words[2], source, number)
            row = found.setdefault(words[0], [0, 0])
            if words[1] in {"Read", "Write"}:
                row[words[1] == "Write"] = value
        elif line and words[0] != "Total":
            raise ParseError(
                "line must be DEVICE OPERATION NUMBER, such as 8:0 Read 4096",
                source=source,
                line=number,
                text=line,
            )
    return {device: (row[0], row[1]) for device, row in found.items()}


def parse_io_stat(text: str, *, source: str = "io.stat") -> dict[str, tuple[int, ...]]:
    """Return (bytes read, bytes written, reads, writes) by device from v2's io.stat.

    Lines are like ``8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0``. Some kernels name devices without
    any figures on the line of the next device. Raises ParseError if malformed.
    """
    found: dict[str, list[int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        row = None
        for word in line.split():
            name, equals, value = word.partition("=")
            if not equals:
                if not _DEVICE.match(word):
                    raise ParseError("not a device number MAJOR:MINOR", source=source, line=number, text=line)
                row = found.setdefault(word, [0, 0, 0, 0])
            elif row is None:
                raise ParseError(
                    "figures must follow a device number MAJOR:MINOR", source=source, line=number, text=line
                )
            elif name in _BLOCK:
                row[_BLOCK[name]] = _counter(value, source, number)
    return {device: tuple(row) for device, row in found.items()}


def parse_pressure(text: str) -> dict[str, int]:
    """Return the stalled microseconds in a pressure file by its words ``some`` and ``full`` (all tasks).

    Sample: ``some avg10=0.00 avg60=0.00 avg300=0.00 total=1234``. Raises ParseError if malformed.
    """
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        if match := _PRESSURE.match(line):
            found[match[1]] = _counter(match[2], "pressure", number)
        elif line:
            raise ParseError("not a line of pressure (PSI)", source="pressure", line=number, text=line)
    if not found:
        raise ParseError("no line of pressure", source="pressure", text=text)
    return found


def parse_cpu_list(text: str, *, source: str = A_GROUP) -> frozenset[int]:
    """Return the CPU numbers in a list like ``0-3,8``, which may be empty. Raises ParseError if malformed."""
    cpus: set[int] = set()
    words = text.removesuffix("\n").split(",")
    for word in words if words != [""] else []:
        match = _CPUS.match(word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > MAX_CPU:
            raise ParseError("not a list of CPUs", source=source, text=text)
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def parse_core_usage(text: str) -> tuple[int, ...]:
    """Return the nanoseconds used on each CPU, from CPU 0 on, in cpuacct.usage_percpu: ``170 0 23``."""
    words = text.split()
    return tuple(parse_number(word, source="cpuacct.usage_percpu") for word in words)


def parse_process_io(text: str) -> ProcessIo:
    """Return the counters in /proc/PID/io, lines like ``rchar: 323934931``; ParseError if malformed."""
    match = _IO.match(text)
    if match is None:
        raise ParseError("not the I/O counters of a process", source="io", text=text)
    read, written, data_read, data_written, data_cancelled = map(int, match.groups())
    if max(read, written, data_read, data_written, data_cancelled) >= 2**64:
        raise ParseError("the counter does not fit into 64 bits", source="io", text=text)
    return ProcessIo(read, written, data_read, data_written, data_cancelled)


def _flat(text: str, source: str) -> dict[str, int]:
    numbers = parse_flat_keyed(text, source=source)
    if not numbers:
        raise ParseError("no line with a count", source=source, text=text)
    return numbers


def _counter(word: str, source: str, line: int) -> int:
    """Return a kernel counter: unsigned, 64 bits."""
    if not _COUNTER.match(word) or int(word) >= 2**64:
        raise ParseError("the counter does not fit into 64 bits", source=source, line=line, text=word)
    return int(word)
