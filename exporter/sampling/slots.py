"""Which job runs in a slot of HTCondor, found on the node itself.

A control group of HTCondor names a slot. The slot's condor_starter keeps the
job's ad in ``dir_PID/.job.ad`` below EXECUTE, PID being its own process id.
Users write environments, and what is in their scratch directory; they write
neither EXECUTE nor the ancestry of their processes. So the way is: a process
of the slot, its ancestor for which there is a ``dir_PID``, that directory's
ad. An ad that the user could have written is a claim: it may not take a number
that another slot has.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Mapping

from exporter.sampling.descriptors import Unreadable, read_file
from exporter.sampling.hierarchies.membership import Membership
from exporter.snapshot import ProcessSample
from jobfeatures.errors import ParseError
from jobfeatures.formats.classad import ClassAd, parse_ad

STARTER_COMMAND = "condor_starter"
MAX_ASKED = 64  # processes of one slot and look
MAX_ANCESTORS = 256
MAX_GAP_LOOKS = 32
_SCRATCH = re.compile(r"dir_([1-9][0-9]{0,9})", re.ASCII)


def parse_job_id(ad: ClassAd) -> str | None:
    """Return ``ClusterId.ProcId`` of a job ad, None where it lacks one of them."""
    cluster, proc = ad.integer("ClusterId"), ad.integer("ProcId")
    if cluster is None or proc is None or cluster <= 0 or proc < 0:
        return None
    return f"{cluster}.{proc}"


def is_ad_of_slot(ad: ClassAd, slot: str) -> bool:
    """Tell whether a machine ad may be that of a slot: its name, with or without the host, is no other."""
    name = ad.text("Name")
    return name is None or name == slot or ("@" not in slot and name.partition("@")[0] == slot)


class _Answer:
    """What is known of one slot, and of which starter."""

    __slots__ = ("gap", "job_id", "next_look", "proven", "starter")

    def __init__(self) -> None:
        self.job_id: str | None = None
        self.proven = False
        self.starter: tuple[int, int] | None = None  # pid, start time
        self.gap = 0
        self.next_look = 0


class SlotResolver:
    """Keeps the jobs of the slots on the node. `execute` is HTCondor's EXECUTE directory."""

    def __init__(self, procfs: str, execute: str, unreadable: Unreadable) -> None:
        self._procfs = procfs
        self._execute = execute
        self._unreadable = unreadable
        self._answers: dict[str, _Answer] = {}
        self._look = 0

    def update(
        self,
        slots: Mapping[str, Collection[int]],
        processes: Mapping[int, ProcessSample],
        batch: Mapping[int, Membership],
    ) -> Mapping[str, str]:
        """Return the job by slot, for those found so far, given the pids of each slot.

        `batch` are the processes in control groups of jobs: none of them is a
        starter. A slot is asked about until its starter is known, at growing
        gaps, and again when that has ended: the next job has one of its own.
        """
        self._look += 1
        for gone in self._answers.keys() - slots.keys():
            del self._answers[gone]
        due = [slot for slot, pids in slots.items() if self._is_due(slot, pids, processes)]
        scratch = self._list_scratch() if due else {}
        owner = self._owner() if scratch else None
        for slot in due if owner is not None else ():
            starter = _find_starter(slots[slot], processes, batch, scratch)
            if starter is not None:
                self._ask(slot, starter, owner or 0)
        taken: dict[str, str] = {}
        numbers: dict[str, str] = {}
        for slot, answer in sorted(self._answers.items(), key=lambda each: not each[1].proven):
            if answer.job_id is not None and taken.setdefault(answer.job_id, slot) == slot:
                numbers[slot] = answer.job_id
        return numbers

    def _is_due(self, slot: str, pids: Collection[int], processes: Mapping[int, ProcessSample]) -> bool:
        answer = self._answers.setdefault(slot, _Answer())
        if answer.starter is not None:
            pid, start_ticks = answer.starter
            starter = processes.get(pid)
            if not pids or (starter is not None and starter.start_ticks == start_ticks):
                return False
            self._answers[slot] = answer = _Answer()
        if not pids or self._look < answer.next_look:
            return False
        answer.gap = min(max(1, answer.gap * 2), MAX_GAP_LOOKS)
        answer.next_look = self._look + answer.gap
        return True

    def _list_scratch(self) -> dict[int, str]:
        try:
            names = os.listdir(self._execute)
        except OSError as error:
            self._unreadable.add("htcondor_execute", error)
            return {}
        return {int(match[1]): name for name in names if (match := _SCRATCH.fullmatch(name))}

    def _owner(self) -> int | None:
        """Return whose EXECUTE is; None where others may write there, and make any ``dir_PID``."""
        try:
            found = os.stat(self._execute)
            if found.st_mode & stat.S_IWOTH:
                raise PermissionError(errno.EPERM, "others may write here", self._execute)
        except OSError as error:
            self._unreadable.add("htcondor_execute", error)
            return None
        return found.st_uid

    def _ask(self, slot: str, starter: ProcessSample, owner: int) -> None:
        """Read the ads that a starter wrote for a slot."""
        path = f"{self._execute}/dir_{starter.pid}"
        trusted = {0, owner}
        try:
            if os.stat(f"{self._procfs}/{starter.pid}").st_uid not in trusted:
                return
            directory = os.lstat(path)
            if not stat.S_ISDIR(directory.st_mode):
                return
            ad, writer = self._read_ad(f"{path}/.job.ad", {*trusted, directory.st_uid})
            machine, _ = self._read_ad(f"{path}/.machine.ad", {*trusted, directory.st_uid})
        except (OSError, ParseError) as error:
            self._unreadable.add("htcondor_ad", error)
            return
        job_id = parse_job_id(ad)
        if job_id is None or not is_ad_of_slot(machine, slot):
            self._unreadable.add("htcondor_ad", ParseError("not the ad of a job in this slot", source=path))
            return
        answer = self._answers[slot]
        answer.job_id = job_id
        answer.starter = (starter.pid, starter.start_ticks)
        answer.proven = {writer, directory.st_uid} <= trusted

    @staticmethod
    def _read_ad(path: str, owners: Collection[int]) -> tuple[ClassAd, int]:
        """Return an ad and who owns it."""
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in owners or found.st_mode & stat.S_IWOTH:
            raise PermissionError(errno.EPERM, "not a file of the starter's or the job's", path)
        return parse_ad(read_file(path).decode("utf-8", "replace"), source=path), found.st_uid


def _find_starter(
    pids: Collection[int],
    processes: Mapping[int, ProcessSample],
    batch: Mapping[int, Membership],
    scratch: Mapping[int, str],
) -> ProcessSample | None:
    """Return the nearest ancestor of a slot's processes that is a starter with a scratch directory."""
    for pid in sorted(pids)[:MAX_ASKED]:
        process = processes.get(pid)
        for _ in range(MAX_ANCESTORS):
            if process is None:
                break
            if process.command == STARTER_COMMAND and process.pid in scratch and process.pid not in batch:
                return process
            process = processes.get(process.ppid)
    return None
