"""Reads control group, user and memory of processes, which /proc/PID/stat lacks, as rarely as possible."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping

from jobfeatures.batch.groups import Membership
from jobfeatures.errors import ParseError
from jobfeatures.records.combining import sum_known
from jobfeatures.records.quantities import parse_count
from jobfeatures_exporter.model.measured import DYING, MemoryBytes
from jobfeatures_exporter.model.snapshot import ProcessSample, UnitKey
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_text
from jobfeatures_exporter.sampling.layout.hierarchies import (
    ORDINARY,
    Places,
    is_removed,
    parse_process_cgroup,
)
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from jobfeatures_exporter.sampling.processes.attribution import Owners
from jobfeatures_exporter.sampling.processes.namespace import hides_processes

MAX_GAP_SAMPLES = 32
_LINE = re.compile(r"^(RssAnon|RssFile|RssShmem|VmSwap|HugetlbPages):[ \t]+([0-9]{1,16}) kB$", re.MULTILINE)
_GROUPS = re.compile(r"^Groups:[ \t]*([0-9][0-9 ]*)$", re.MULTILINE)
MAX_GROUPS = 65536  # NGROUPS_MAX of the kernel
_NO_MEMORY = MemoryBytes()
_NO_GROUPS: frozenset[int] = frozenset()


class _Known:
    """One process. `memory` was read when its stat line was `memory_of`."""

    __slots__ = ("command", "gap", "groups", "memory", "memory_of", "next_check", "start_ticks")

    def __init__(self, process: ProcessSample) -> None:
        self.start_ticks = process.start_ticks
        self.command = process.command
        self.gap = 0
        self.groups = _NO_GROUPS
        self.next_check = 0
        self.memory = _NO_MEMORY
        self.memory_of: ProcessSample | None = None


class Members:
    """Keeps the user of each process, and the job or other unit that its control group names.

    A process may be moved: a batch system's daemon first forks and then moves the child. So groups are read
    at a process's 1st and 2nd sample, then at growing gaps up to every 32nd, and when its command changes, as
    by exec.

    A zombie belongs to its job until it is waited for or its group is removed, which v2 allows before: in a
    container, process 1 may wait for nobody. On v1 /proc shows no group of a zombie: it keeps its last known
    group, else gets that of its parent, process group or session. A process whose main thread alone has ended
    has the groups and memory of its other threads.
    """

    def __init__(
        self,
        procfs: str,
        unreadable: Unreadable,
        *,
        absolute: Callable[[str], str] = lambda text: text,
        places: Callable[[], Places] = lambda: ORDINARY,
    ) -> None:
        """Start empty. `absolute` turns the paths in a /proc/PID/cgroup into paths from the hierarchy's root.

        `places` returns the unusual places of jobs' groups; when they change, all processes are read again.
        """
        self._find_places = places
        self._places = places()
        self._procfs = procfs
        self._unmapped = find_unmapped(procfs)
        self._absolute = absolute
        self._unreadable = unreadable
        self._known: dict[int, _Known] = {}
        self._number = 0
        self._memberships: dict[int, Membership] = {}
        self._units: dict[int, UnitKey] = {}
        self._uids: dict[int, int] = {}
        self._by_group: dict[int, set[int]] = {}
        self.owners = Owners(self._memberships, self._units, self._uids, self._by_group)
        self.memory_failed = False  # whether the latest call of `memory` could not read a process

    def update(
        self, processes: Mapping[int, ProcessSample], *, are_all: bool = True, groups: bool = False
    ) -> Owners:
        """Read control group and user of the processes that are due; return what is known of all processes.

        `are_all` forgets processes that are not in `processes`; `groups` reads supplementary group ids, too.
        The returned object changes at the next call.
        """
        known = self._known
        self._number += 1
        number = self._number
        if self._places is not (places := self._find_places()):
            self._places = places
            for before in known.values():
                before.next_check = number
        for pid, process in processes.items():
            each = known.get(pid)
            if each is None or each.start_ticks != process.start_ticks:
                if each is not None:
                    self._forget(pid)
                known[pid] = each = _Known(process)
            elif (
                number < each.next_check
                and each.command == process.command
                and (process.state not in DYING or pid not in self._memberships)
            ):
                continue
            each.command = process.command
            if number >= each.next_check:
                each.next_check = number + _next_gap(each, pid)
            self._check(process, each, groups=groups)
        if are_all and len(known) != len(processes):
            for pid in known.keys() - processes.keys():
                self._forget(pid)
        return self.owners

    def memory(self, processes: Iterable[ProcessSample]) -> MemoryBytes:
        """Return the summed memory, in bytes, of some processes of the latest update.

        Shared pages count once per process. A field is None if no process reports it. A process's memory is
        read again only when its stat line has changed: without a page fault it is the same.
        """
        self.memory_failed = False
        memories = [self._memory(process) for process in processes]
        return MemoryBytes(
            anon=sum_known([each.anon for each in memories]),
            file=sum_known([each.file for each in memories]),
            shmem=sum_known([each.shmem for each in memories]),
            hugetlb=sum_known([each.hugetlb for each in memories]),
            swap=sum_known([each.swap for each in memories]),
        )

    def are_hidden(self, directories: Iterable[JobDirectory], *, have_run: bool) -> bool:
        """Return whether a group in which no process was found has some, see `hides_processes`; count it."""
        found = any(hides_processes(each, self._procfs, has_run=have_run) for each in directories)
        if found:
            self._unreadable.count("job_processes_hidden")
        return found

    def _forget(self, pid: int) -> None:
        self._regroup(pid, self._known.pop(pid), _NO_GROUPS)
        for those in (self._memberships, self._units, self._uids):
            those.pop(pid, None)

    def _regroup(self, pid: int, known: _Known, groups: frozenset[int]) -> None:
        for gid in known.groups - groups:
            pids = self._by_group[gid]
            pids.discard(pid)
            if not pids:
                del self._by_group[gid]
        for gid in groups - known.groups:
            self._by_group.setdefault(gid, set()).add(pid)
        known.groups = groups

    def _check(self, process: ProcessSample, known: _Known, *, groups: bool) -> None:
        pid = process.pid
        tried, folder = self._unreadable.tried, f"{self._procfs}/{pid}"
        thread = find_thread(self._procfs, process, self._unreadable)
        text = tried("process_cgroup", read_text, f"{thread or folder}/cgroup")
        if text is not None:
            has_ended, is_v2 = thread is None and process.state in DYING, text.startswith("0::")
            found = None
            if not (has_ended and is_v2 and is_removed(text)):
                found = parse_process_cgroup(self._absolute(text), self._places)
                if has_ended and not is_v2 and not isinstance(found, Membership):
                    found = self._remembered(process) or found
            if isinstance(found, Membership):
                self._memberships[pid] = found
            else:
                self._memberships.pop(pid, None)
            if isinstance(found, UnitKey):
                self._units[pid] = found
            else:
                self._units.pop(pid, None)
        if groups:
            text = tried("process_status", read_text, f"{folder}/status")
            if text is not None:
                self._regroup(pid, known, parse_process_groups(text))
        uid = tried("process_owner", read_owner, folder)
        if uid is not None and uid == self._unmapped:
            self._unreadable.count("process_owner_unmapped")
        elif uid is not None:
            self._uids[pid] = uid

    def _remembered(self, process: ProcessSample) -> Membership | UnitKey | None:
        """Return what a process that has ended belonged to, else what its relatives do."""
        for pid in (process.pid, process.ppid, process.pgid, process.session):
            if (found := self._memberships.get(pid) or self._units.get(pid)) is not None:
                return found
        return None

    def _memory(self, process: ProcessSample) -> MemoryBytes:
        known = self._known[process.pid]
        if known.memory_of is not process:
            memory, folder = None, find_memory(self._procfs, process, self._unreadable)
            if folder is not None:
                memory = self._unreadable.tried("process_status", read_memory, folder)
            known.memory = memory or _NO_MEMORY
            has_failed = memory is None and folder is not None
            # A failed read is retried at the next sample, even if the process sleeps.
            known.memory_of = None if has_failed else process
            self.memory_failed = self.memory_failed or has_failed
        return known.memory


def _next_gap(known: _Known, pid: int) -> int:
    known.gap = min(max(1, known.gap * 2), MAX_GAP_SAMPLES)
    # Processes that existed at the start should not all be due in the same sample.
    return known.gap + pid % known.gap if known.gap < MAX_GAP_SAMPLES else known.gap


def find_unmapped(procfs: str) -> int | None:
    """Return the uid that stands for users whom our user namespace does not map; None if it maps all.

    Source: user_namespaces(7), ``/proc/sys/kernel/overflowuid``.
    """
    try:
        if read_text(f"{procfs}/self/uid_map").split() == ["0", "0", "4294967295"]:
            return None
        return parse_count(read_text(f"{procfs}/sys/kernel/overflowuid").strip())
    except (OSError, ParseError):
        return None


def read_owner(folder: str) -> int:
    """Return a process's effective uid, the owner of ``/proc/PID``. Raises OSError if it has ended."""
    return os.stat(folder).st_uid


def find_thread(procfs: str, process: ProcessSample, unreadable: Unreadable) -> str | None:
    """Return the /proc directory of a live thread of a process whose main thread has ended.

    None if the main thread lives, or if there is no other thread.
    """
    if process.state not in DYING or process.threads < 2:
        return None
    folder = f"{procfs}/{process.pid}/task"
    threads = unreadable.tried("process_threads", os.listdir, folder) or ()
    return next((f"{folder}/{each}" for each in threads if each != str(process.pid)), None)


def find_memory(procfs: str, process: ProcessSample, unreadable: Unreadable) -> str | None:
    """Return the /proc directory whose ``status`` has a process's memory; None: kernel thread or zombie."""
    if process.virtual_bytes:
        return f"{procfs}/{process.pid}"
    return find_thread(procfs, process, unreadable)


def parse_process_memory(text: str) -> MemoryBytes:
    """Return the memory in /proc/PID/status in bytes; all None for kernel threads and zombies.

    Source: proc_pid_status(5), ``RssAnon:     1234 kB`` (since Linux 4.5). The name, which the process
    chooses, is the first line, where newlines are escaped. Raises ParseError if there is no line ``Uid``.
    """
    lines = text.partition("\n")[2]
    if "Uid:\t" not in lines:
        raise ParseError("line is missing", source="status", field="Uid")
    size = {name: int(number) * 1024 for name, number in _LINE.findall(lines)}
    anon, file, shmem, swap = map(size.get, ("RssAnon", "RssFile", "RssShmem", "VmSwap"))
    hugetlb = size.get("HugetlbPages") or None  # since Linux 4.4, which says 0 where there are none at all
    return MemoryBytes(anon=anon, file=file, shmem=shmem, swap=swap, hugetlb=hugetlb)


def read_memory(folder: str) -> MemoryBytes:
    """Return the memory in bytes of a process or thread, given its /proc directory.

    Raises OSError if unreadable, ParseError if malformed.
    """
    return parse_process_memory(read_text(f"{folder}/status"))


def parse_process_groups(text: str) -> frozenset[int]:
    r"""Return the supplementary group ids in /proc/PID/status, ``Groups:\t6001 65400 ``."""
    match = _GROUPS.search(text.partition("\n")[2])
    found = match[1].split() if match else []
    return frozenset(int(each) for each in found[:MAX_GROUPS] if len(each) <= 10)
