"""Parsers of a control group's files: pure.

Sources: Documentation/admin-guide/cgroup-v1/{cpuacct,memory}.rst and
cgroup-v2.rst of Linux. Fields have the same meaning for both versions:

    anon    mapped anonymous memory, transparent huge pages included. Kernels before
            5.8 add, on v1, anonymous pages in the swap cache.
    file    page cache of files on disks and networks. Both versions count shmem
            as page cache, so it is subtracted.
    shmem   tmpfs, /dev/shm, System V segments, shared anonymous mappings. Unknown
            on v1 before Linux 4.20, and with it `file`.
    kernel  stacks, page tables, slab, per-CPU memory. Unknown where not counted: with
            cgroup.memory=nokmem, and on v1 before Linux 4.5.
    sock    buffers of sockets. Unknown on v1, which does not charge them.
    hugetlb huge pages of the node's pool (hugetlbfs, MAP_HUGETLB). Charged with
            memory_hugetlb_accounting alone.
    swap    memory in swap. A page in the swap cache counts in both `swap` and `charged`.
    charged, limit, peak    what the kernel charges against the limit: all of the
            above but swap, and whatever else a kernel charges; it runs ahead of the
            components by what each CPU has charged in advance, 64 pages at most.
    reclaimable     page cache on the lists of what may be dropped: not shmem, nor
            what is locked in memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count
from jobfeatures_exporter.model.measured import MemoryBytes

A_GROUP = "a control group"  # what the text is of, where its file is named elsewhere
NO_LIMIT = 2**62  # v1 writes its "no limit" as the largest multiple of the page size: 9223372036854771712
# The lines wanted of memory.stat.
_LISTS = ("active_file", "inactive_file")
_V1 = (
    *(f"total_{name}" for name in ("cache", "rss", "shmem", "swap", "unevictable", *_LISTS)),
    *("hierarchical_memory_limit", "hierarchical_memsw_limit"),
)
_V2 = ("anon", "file", "shmem", "kernel", "sock", "hugetlb", "unevictable", *_LISTS)
# The parts of `kernel` in memory.stat, for kernels before 5.18, which do not report the sum.
_KERNEL_PARTS = ("kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc", "slab")
_KERNEL_NEEDED = {"kernel_stack", "slab"}
_FLAT = re.compile(r"([A-Za-z0-9_.]{1,64}) ([0-9]{1,20})\Z")
_ALL_FLAT = re.compile(r"(?:[A-Za-z0-9_.]{1,64} [0-9]{1,20}\n)+")


class CpuTimes(NamedTuple):
    """CPU time in seconds, as control groups report it."""

    user_secs: float
    system_secs: float

    def or_more(self, other: CpuTimes) -> CpuTimes:
        """Return the greater of both user times, and the greater of both system times."""
        if other.user_secs >= self.user_secs and other.system_secs >= self.system_secs:
            return other
        return CpuTimes(max(self.user_secs, other.user_secs), max(self.system_secs, other.system_secs))


NO_CPU_TIME = CpuTimes(0.0, 0.0)


def parse_flat_keyed(text: str, *, source: str) -> dict[str, int]:
    """Return the numbers in lines ``NAME NUMBER``, as in memory.stat. Raises ParseError if malformed."""
    if _ALL_FLAT.fullmatch(text):  # as kernels write it
        words = text.split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))
    numbers = {}
    for line_number, line in enumerate(text.split("\n"), 1):
        if match := _FLAT.match(line):
            numbers[match[1]] = int(match[2])
        elif line:
            raise ParseError("not a name and a number", source=source, line=line_number, text=line)
    return numbers


def _pick(text: str, names: tuple[str, ...]) -> Mapping[str, int]:
    """Return only some numbers of a memory.stat, which is much faster: it is long."""
    if not text.endswith("\n") or not text.isascii():
        return parse_flat_keyed(text, source="memory.stat")
    found = {}
    lines = f"\n{text}"
    for name in names:
        begin = lines.find(f"\n{name} ") + len(name) + 2
        if begin <= len(name) + 1:
            continue
        number = lines[begin : lines.index("\n", begin)]
        if not number.isdigit() or len(number) > 20:
            raise ParseError("not a name and a number", source="memory.stat", field=name, text=number)
        found[name] = int(number)
    return found


def parse_number(text: str, *, source: str = A_GROUP) -> int:
    """Return the number in a file that has only one. Raises ParseError if malformed."""
    try:
        return parse_count(text.removesuffix("\n"))
    except ParseError as error:
        raise ParseError(error.reason, source=source, text=text) from None


def parse_limit(text: str, *, source: str = A_GROUP) -> int | None:
    """Return a limit in bytes; None if unlimited, which is ``max`` on v2 and 2**62 or more on v1.

    Raises ParseError if malformed.
    """
    if text.removesuffix("\n") == "max":
        return None
    limit = parse_number(text, source=source)
    return None if limit >= NO_LIMIT else limit


def parse_cpu_stat(text: str) -> tuple[CpuTimes, int | None]:
    """Return the CPU time in v2's cpu.stat (``user_usec 49043``), and the throttled time in microseconds.

    The throttled time is None if the group has no CPU quota. Raises ParseError if malformed.
    """
    numbers = parse_flat_keyed(text, source="cpu.stat")
    _need(numbers, ("user_usec", "system_usec"), "cpu.stat")
    return CpuTimes(numbers["user_usec"] / 1e6, numbers["system_usec"] / 1e6), _throttled(numbers)


def parse_throttled(text: str) -> int | None:
    """Return the throttled time in a cpu.stat in microseconds; None without a CPU quota.

    Raises ParseError if malformed.
    """
    return _throttled(parse_flat_keyed(text, source="cpu.stat"))


def _throttled(numbers: Mapping[str, int]) -> int | None:
    if not numbers.get("nr_periods"):
        return None
    if "throttled_usec" in numbers:
        return numbers["throttled_usec"]
    return numbers["throttled_time"] // 1000 if "throttled_time" in numbers else None


def parse_cpuacct_stat(text: str, *, ticks_per_sec: int) -> CpuTimes:
    """Return the CPU time in v1's cpuacct.stat, whose lines ``user 4`` and ``system 7`` are in clock ticks.

    Raises ParseError if malformed.
    """
    numbers = parse_flat_keyed(text, source="cpuacct.stat")
    _need(numbers, ("user", "system"), "cpuacct.stat")
    return CpuTimes(numbers["user"] / ticks_per_sec, numbers["system"] / ticks_per_sec)


def compute_split(total_secs: float, split: CpuTimes, last: CpuTimes) -> CpuTimes:
    """Split a precise CPU time in the ratio of the imprecise user and system times in `split`.

    Neither part falls below its value in `last`. cpuacct.usage is exact to the nanosecond but not split;
    cpuacct.stat is split but counted at clock ticks. (So are usage_user and usage_sys; before Linux 5.8 these
    count all time of user processes as user time.) The kernel does the same for processes (cputime_adjust).
    """
    sampled = split.user_secs + split.system_secs
    total_secs = max(total_secs, last.user_secs + last.system_secs)
    system_secs = max(total_secs * split.system_secs / sampled if sampled else 0.0, last.system_secs)
    user_secs = round(max(total_secs - system_secs, last.user_secs), 9)  # a difference of floats is no time
    return CpuTimes(user_secs, round(max(total_secs - user_secs, last.system_secs), 9))


def parse_memory_stat_v1(text: str) -> MemoryBytes:
    """Return the memory components in v1's memory.stat, from the ``total_`` lines.

    `limit` is the lowest memory limit of this group and the groups above; `swap_limit` is the lowest limit of
    memory and swap together. Raises ParseError if malformed.
    """
    numbers = _pick(text, _V1)
    _need(numbers, ("total_cache", "total_rss"), "memory.stat")
    shmem = numbers.get("total_shmem")
    file = None if shmem is None else max(0, numbers["total_cache"] - shmem)
    limit, with_swap = (numbers.get(f"hierarchical_{name}_limit", NO_LIMIT) for name in ("memory", "memsw"))
    return MemoryBytes(
        anon=numbers["total_rss"],
        file=file,
        shmem=shmem,
        swap=numbers.get("total_swap"),  # absent where swap is not accounted
        reclaimable=_reclaimable(numbers, "total_", file),
        limit=None if limit >= NO_LIMIT else limit,
        swap_limit=None if with_swap >= NO_LIMIT else with_swap,
    )


def parse_memory_stat_v2(text: str) -> MemoryBytes:
    """Return the memory components in v2's memory.stat. Raises ParseError if malformed."""
    numbers = _pick(text, _V2)
    _need(numbers, ("anon", "file", "shmem"), "memory.stat")
    kernel = numbers.get("kernel")
    if kernel is None:
        parts = _pick(text, _KERNEL_PARTS)
        kernel = sum(parts.values()) if parts.keys() >= _KERNEL_NEEDED else None
    file = max(0, numbers["file"] - numbers["shmem"])
    return MemoryBytes(
        anon=numbers["anon"],
        file=file,
        shmem=numbers["shmem"],
        kernel=known_kernel(kernel, numbers["anon"]),
        sock=numbers.get("sock"),
        hugetlb=numbers.get("hugetlb"),  # since Linux 6.13, where they are charged
        reclaimable=_reclaimable(numbers, "", file),
    )


def _reclaimable(numbers: Mapping[str, int], prefix: str, file: int | None) -> int:
    """Return the page cache on the lists of what may be dropped, which new pages reach a little later."""
    listed = sum([numbers.get(prefix + name, 0) for name in _LISTS])
    return listed if file is None else max(listed, file - numbers.get(f"{prefix}unevictable", 0))


def known_kernel(kernel: int | None, anon: int | None) -> int | None:
    """Return a group's kernel memory in bytes; None if it is not counted.

    If it were counted, it could not be 0 with anonymous memory (`anon`), which needs page tables.
    """
    return None if anon and not kernel else kernel


def compute_memory_sum(parts: list[MemoryBytes]) -> MemoryBytes:
    """Return the sum of several groups' memory; a field is None if it is None in any of them.

    The sum of peaks is an upper bound. The limit of a group above all of them is not added up: it counts
    once.
    """
    if len(parts) == 1:
        return parts[0]
    columns = zip(*parts, strict=True)
    total = MemoryBytes(*[None if None in values else sum(values) for values in columns])
    above = {part.limit_above for part in parts}
    return total._replace(limit_above=above.pop()) if len(above) == 1 else total


def _need(numbers: Mapping[str, int], names: tuple[str, ...], source: str) -> None:
    for name in names:
        if name not in numbers:
            raise ParseError("line is missing", source=source, field=name)
