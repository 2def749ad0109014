"""Reads /proc/stat, meminfo, loadavg and pressure of the node; see proc_stat(5) and related pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count
from jobfeatures_exporter.model.snapshot import CpuSecs, DiskSample, NodeSample
from jobfeatures_exporter.sampling.descriptors import NOT_OFFERED, Unreadable, read_text
from jobfeatures_exporter.sampling.host.units import RESOURCES, TICKS_PER_SEC
from jobfeatures_exporter.sampling.parsers.counterfiles import parse_pressure

MODES = 8  # user nice system idle iowait irq softirq steal; guest times are part of user and nice

_CPU = re.compile(r"cpu([0-9]{0,6})\Z")
_TICKS = re.compile(r"[0-9]{1,18}(?: [0-9]{1,18}){7}\Z")
_LOAD = re.compile(r"[0-9]{1,12}\.[0-9]{1,6}\Z")
_ENTITIES = re.compile(r"([0-9]{1,10})/([0-9]{1,10})\Z")
_MEMORY = re.compile(r"^([A-Za-z0-9_()]{1,64}): +(?:([0-9]{1,16}) kB|[0-9]{1,19})$", re.MULTILINE)
_OOM_KILLS = re.compile(r"\noom_kill ([0-9]{1,19})\n")  # a literal prefix, for speed: there are 190 lines


def parse_stat(text: str, *, source: str = "stat", ticks_per_sec: int = TICKS_PER_SEC) -> NodeSample:
    """Return a sample with the CPU seconds and the boot time in /proc/stat.

    Lines are like ``cpu0 10132153 290696 3084719 46828483 16683 0 25195 0 175628 0`` (clock ticks) and
    ``btime 1753000000`` (Unix time); others are skipped. Raises ParseError if such a line is malformed, or if
    there is none.
    """
    boot_time_secs = None
    cpu = None
    cores: dict[int, CpuSecs] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith(("cpu", "btime")):  # other lines may be long, with a number per interrupt
            continue
        words = line.split()
        if words[0] == "btime":
            if len(words) != 2:
                raise ParseError("not a boot time", source=source, line=number, text=line)
            boot_time_secs = _count(words[1], source, number, "btime")
        elif match := _CPU.match(words[0]):
            ticks = words[1 : MODES + 1]
            if len(ticks) < MODES:
                raise ParseError("fewer than 8 CPU times", source=source, line=number, text=line)
            if not _TICKS.match(" ".join(ticks)):
                ticks = [str(_count(word, source, number, words[0])) for word in ticks]
            times = CpuSecs._make([int(each) / ticks_per_sec for each in ticks])
            if match[1]:
                cores[int(match[1])] = times
            else:
                cpu = times
    if boot_time_secs is None and cpu is None and not cores:
        raise ParseError("has neither CPU times (cpu) nor the boot time (btime)", source=source, text=text)
    return NodeSample(boot_time_secs=boot_time_secs, cpu=cpu, cores=cores)


def parse_meminfo(text: str) -> dict[str, int]:
    """Return the bytes in /proc/meminfo by name, from lines like ``MemTotal:       32774796 kB``.

    Lines without a unit count huge pages, not bytes, and are left out. Raises ParseError if a line is
    malformed, or if there is none.
    """
    found = _MEMORY.findall(text)
    if len(found) != text.count("\n") or not text.endswith("\n"):
        for number, line in enumerate(text.split("\n"), 1):
            if line and not _MEMORY.match(line):
                raise ParseError("not a line of meminfo", source="meminfo", line=number, text=line)
    sizes = {name: int(size) * 1024 for name, size in found if size}
    if not sizes:
        raise ParseError("no line with a size", source="meminfo", text=text)
    return sizes


def parse_loadavg(text: str) -> tuple[float, float, float]:
    """Return the load averages over 1, 5 and 15 minutes in /proc/loadavg: ``0.20 0.18 0.12 1/80 11206``.

    Raises ParseError if malformed.
    """
    words = text.split()[:3]
    if len(words) != 3 or not all(_LOAD.match(word) for word in words):
        raise ParseError("not three load averages", source="loadavg", line=1, text=text)
    return float(words[0]), float(words[1]), float(words[2])


def parse_entities(text: str) -> tuple[int, int]:
    """Return how many threads are runnable and how many exist, which /proc/loadavg has as ``1/80``.

    Raises ParseError if malformed.
    """
    words = text.split()
    match = _ENTITIES.match(words[3]) if len(words) > 3 else None
    if match is None:
        raise ParseError(
            "field 4 must be RUNNABLE/EXISTING threads, such as 1/80", source="loadavg", line=1, text=text
        )
    return int(match[1]), int(match[2])


def parse_oom_kills(text: str) -> int | None:
    """Return the count of OOM kills since boot in /proc/vmstat, ``oom_kill 7``; None if not reported."""
    match = _OOM_KILLS.search(f"\n{text}\n")
    return None if match is None else int(match[1])


def read_stat(procfs: str) -> NodeSample:
    """Return a sample with the CPU seconds and boot time from the file ``stat`` in the directory `procfs`.

    Raises OSError if unreadable, ParseError if malformed.
    """
    return parse_stat(read_text(f"{procfs}/stat"), source=f"{procfs}/stat")


def read_meminfo(procfs: str) -> dict[str, int]:
    """Return the bytes by name from the file ``meminfo`` in the directory `procfs`.

    Raises OSError if unreadable, ParseError if malformed.
    """
    return parse_meminfo(read_text(f"{procfs}/meminfo"))


def read_pressure(procfs: str, unreadable: Unreadable) -> dict[tuple[str, str], float]:
    """Return the seconds for which tasks stalled, by (resource, share of tasks), such as (io, full).

    The share of tasks is ``some`` (at least one stalled) or ``full`` (all did). What the kernel does not
    report is left out, and so is ``full`` of ``cpu``, which is always 0 for a node.
    """
    found: dict[tuple[str, str], float] = {}
    for resource in RESOURCES:
        try:
            shares = parse_pressure(read_text(f"{procfs}/pressure/{resource}"))
        except (OSError, ParseError) as error:
            if not (isinstance(error, OSError) and error.errno in NOT_OFFERED):
                unreadable.add(f"node_pressure_{resource}", error)
            continue
        found.update(((resource, share), usecs / 1e6) for share, usecs in shares.items())
    found.pop(("cpu", "full"), None)
    return found


def read_node(
    procfs: str, unreadable: Unreadable, disks: Mapping[str, DiskSample] = MappingProxyType({})
) -> NodeSample:
    """Return a sample of the node's CPU time, memory, load and pressures, with `disks` put in.

    Figures that cannot be read are None or left out, and counted in `unreadable`.
    """
    stat = unreadable.tried("node_stat", read_stat, procfs) or NodeSample()
    text = unreadable.tried("node_loadavg", read_text, f"{procfs}/loadavg")
    loads = entities = None
    if text is not None and (loads := unreadable.tried("node_loadavg", parse_loadavg, text)):
        entities = unreadable.tried("node_loadavg", parse_entities, text)
    load1, load5, load15 = loads or (None, None, None)
    runnable, existing = entities or (None, None)
    return replace(
        stat,
        memory_bytes=unreadable.tried("node_meminfo", read_meminfo, procfs) or {},
        load1=load1,
        load5=load5,
        load15=load15,
        runnable_entities=runnable,
        existing_entities=existing,
        pressure_secs=read_pressure(procfs, unreadable),
        oom_kills=read_oom_kills(procfs, unreadable),
        disks=disks,
    )


def read_oom_kills(procfs: str, unreadable: Unreadable) -> int | None:
    """Return how many processes the OOM killer has killed on the node since boot; None if unknown."""
    text = unreadable.tried("node_vmstat", read_text, f"{procfs}/vmstat")
    return None if text is None else parse_oom_kills(text)


def _count(word: str, source: str, line: int, name: str) -> int:
    try:
        return parse_count(word)
    except ParseError as error:
        raise ParseError(error.reason, source=source, line=line, field=name, text=word) from None
