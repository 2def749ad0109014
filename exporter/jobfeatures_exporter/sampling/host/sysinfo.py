"""Reads the hardware of the node: sockets, cores, threads, memory, NUMA nodes, and hwloc's picture of it.

Only online processors count. Source: Linux, Documentation/ABI/stable/sysfs-devices-system-cpu and -node.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from jobfeatures.errors import CommandError, ParseError
from jobfeatures.publish.site import read_cpu_model
from jobfeatures.records.quantities import parse_count
from jobfeatures.system.command import run_command
from jobfeatures_exporter.model.hardware import Software, SysinfoSample
from jobfeatures_exporter.model.snapshot import GpuCard
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text
from jobfeatures_exporter.sampling.host.procfs import read_meminfo

LSTOPO = ("lstopo-no-graphics", "lstopo")
LSTOPO_TIMEOUT_SECS = 10.0
MAX_TOPOLOGY_BYTES = 2**19  # a message broker accepts 1 MiB, and base64 turns 3 bytes into 4
SVG, TEXT = "svg", "text"
_FORMATS = {SVG: "svg", TEXT: "console"}
_ERRNOS = {"timeout": errno.ETIMEDOUT, "too large": errno.EFBIG}
_CPU = re.compile(r"cpu[0-9]{1,6}\Z")
_NODE = re.compile(r"node([0-9]{1,6})\Z")
_INFO = re.compile(r"^(processor|physical id|core id)[ \t]*:[ \t]*([0-9]{1,9})[ \t]*$", re.MULTILINE)


class Processor(NamedTuple):
    """The socket (`package`) and core of one logical processor.

    Core numbers are unique within a socket and may have gaps.
    """

    package: int
    core: int | str


class CpuLayout(NamedTuple):
    """Sockets, cores per socket and threads per core of a node, all of whose cores are taken to be alike.

    `physical_cores` is the real number of cores of all sockets together.
    """

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    physical_cores: int


def compute_layout(processors: Iterable[Processor]) -> CpuLayout | None:
    """Return the node's layout, as if each socket and core were like the largest; None without processors."""
    threads = Counter((each.package, each.core) for each in processors)
    if not threads:
        return None
    cores = Counter(package for package, _ in threads)
    return CpuLayout(len(cores), max(cores.values()), max(threads.values()), len(threads))


def parse_cpuinfo_layout(text: str) -> CpuLayout:
    """Return the node's layout from /proc/cpuinfo: ``physical id : 0`` and ``core id : 1`` of each processor.

    Raises ParseError if there are no such lines, as on ARM.
    """
    found: list[Processor] = []
    place: dict[str, int] = {}
    for name, number in [*_INFO.findall(text), ("processor", "0")]:
        if name == "processor":
            if "physical id" in place and "core id" in place:
                found.append(Processor(place["physical id"], place["core id"]))
            place = {}
        else:
            place[name] = int(number)
    layout = compute_layout(found)
    if layout is None:
        raise ParseError(
            "no processor has a socket (physical id) and a core (core id)", source="cpuinfo", text=text
        )
    return layout


def parse_distances(rows: Collection[str]) -> tuple[tuple[int, ...], ...]:
    """Return the distances between NUMA nodes, of which each has a row ``10 21``.

    Raises ParseError if malformed.
    """
    matrix = []
    for number, row in enumerate(rows, 1):
        values = tuple(parse_count(word, field="distance") for word in row.split())
        if len(values) != len(rows):
            raise ParseError(
                "the number of distances differs from the number of NUMA nodes",
                source="distance",
                line=number,
                text=row,
            )
        matrix.append(values)
    return tuple(matrix)


def read_processors(sysfs: str) -> list[Processor]:
    """Return all online processors, from ``cpuN/topology`` below /sys.

    Raises OSError if that is unreadable, ParseError if malformed.
    """
    folder = f"{sysfs}/devices/system/cpu"
    found = []
    for name in os.listdir(folder):
        if _CPU.match(name):
            try:
                package = read_text(f"{folder}/{name}/topology/physical_package_id").strip()
                core = read_text(f"{folder}/{name}/topology/thread_siblings_list").strip()
            except FileNotFoundError:  # offline
                continue
            # Some machines do not report their package: -1.
            found.append(Processor(0 if package == "-1" else parse_count(package, field=name), core))
    return found


def read_layout(procfs: str, sysfs: str, unreadable: Unreadable) -> CpuLayout | None:
    """Return the node's layout from sysfs, else from /proc/cpuinfo; None if neither has it."""
    processors, path = unreadable.tried("cpu_topology", read_processors, sysfs), f"{procfs}/cpuinfo"
    return compute_layout(processors or ()) or unreadable.tried(
        "cpuinfo", lambda: parse_cpuinfo_layout(read_text(path))
    )


def read_numa_distances(sysfs: str, unreadable: Unreadable) -> tuple[tuple[int, ...], ...]:
    """Return the distances between online NUMA nodes, in order of their numbers; empty if not reported."""
    return unreadable.tried("numa_distances", _read_distances, f"{sysfs}/devices/system/node") or ()


def _read_distances(folder: str) -> tuple[tuple[int, ...], ...]:
    numbers = sorted(int(match[1]) for name in os.listdir(folder) if (match := _NODE.match(name)))
    return parse_distances([read_text(f"{folder}/node{number}/distance") for number in numbers])


def read_topology(form: str) -> str:
    """Return hwloc's picture of this machine, in the form `SVG` or `TEXT`; "" if hwloc is not installed.

    Raises CommandError if its program fails or takes too long.
    """
    for program in LSTOPO:
        try:
            output = run_command(
                [program, "--of", _FORMATS[form], "-"],
                timeout_secs=LSTOPO_TIMEOUT_SECS,
                max_bytes=MAX_TOPOLOGY_BYTES,
            )
        except CommandError as error:
            if error.kind == "missing":
                continue
            raise
        if output.status != 0:
            raise CommandError("failed", f"{program}: exited with status {output.status}")
        return output.stdout.decode("utf-8", "replace")
    return ""


def read_sysinfo(
    *,
    procfs: str,
    sysfs: str,
    now_secs: float,
    unreadable: Unreadable,
    topology: Collection[str] = (),
    cards: tuple[GpuCard, ...] = (),
    software: tuple[Software, ...] = (),
) -> SysinfoSample:
    """Read the hardware of the node at the Unix time `now_secs`.

    What is unavailable is None or empty; failed reads are counted. `topology` names the pictures to get from
    hwloc, `SVG` or `TEXT`. `cards` and `software` are put into the result unchanged.
    """
    layout = read_layout(procfs, sysfs, unreadable)
    pictures = dict.fromkeys(_FORMATS, "")
    for form in topology:
        try:
            pictures[form] = read_topology(form)
        except CommandError as error:
            unreadable.add("topology", OSError(_ERRNOS.get(error.kind, errno.EIO), str(error)))
    system = os.uname()
    return SysinfoSample(
        taken_at_secs=now_secs,
        os_name=system.sysname,
        os_release=system.release,
        architecture=system.machine,
        **({} if layout is None else layout._asdict()),
        cpu_model=read_cpu_model(f"{procfs}/cpuinfo") or "",
        memory_bytes=(unreadable.tried("node_meminfo", read_meminfo, procfs) or {}).get("MemTotal"),
        numa_distances=read_numa_distances(sysfs, unreadable),
        topology_svg=pictures[SVG],
        topology_text=pictures[TEXT],
        cards=cards,
        software=software,
    )
