"""Finds the job that runs in a slot of HTCondor, on the node itself.

A control group of HTCondor names a slot. The slot's condor_starter keeps the job's ad in ``dir_PID/.job.ad``
below EXECUTE, where PID is the starter's process id. Users can forge environments and the content of their
scratch directory, but neither EXECUTE nor the ancestry of their processes. So the starter is searched among
the ancestors of a process in the slot, and the ad is read from the starter's ``dir_PID``; see
`jobfeatures.batch.htcondor.scratch`. An ad that the user could have written is not trusted: it cannot claim a
job id that another slot has. The exception is two ads of one user in the parallel universe, whose jobs have a
slot for each of their nodes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jobfeatures.batch.htcondor import HTCondorSettings
from jobfeatures.batch.htcondor.fields import is_ad_of_slot, parse_job_id
from jobfeatures.batch.htcondor.jobad import PARALLEL_UNIVERSE
from jobfeatures.batch.htcondor.scratch import (
    STARTER_COMMAND,
    find_execute,
    find_job_uid,
    find_owner,
    list_scratch,
    read_ads,
)
from jobfeatures.batch.processes import MAX_ASKED, Failures, FoundJobId, Process, UnnumberedGroups
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import ParseError

MAX_ANCESTORS = 256


@dataclass(slots=True)
class _Answer(FoundJobId):
    """The job of one slot, and the starter that it comes from."""

    starter: tuple[int, int] | None = None  # pid, start time
    shared_by: int | None = None  # the user of a parallel job, which may have several slots here


class SlotResolver:
    """Finds the ids of the jobs that run in the slots of this node; called once per sample."""

    def __init__(self, config: SystemSettings[HTCondorSettings], failures: Failures) -> None:
        self._procfs = config.procfs
        self._execute = config.own.execute_directory
        self._failures = failures
        self._answers: dict[str, _Answer] = {}
        self._sample = 0

    def update(self, groups: UnnumberedGroups) -> Mapping[str, str]:
        """Return the known job ids by slot; `groups` are the slots' control groups in this sample.

        A slot's condor_starter is searched ever less often until it is found, and again after it has ended,
        since each job has its own. A process that is itself in a job's control group does not count as a
        starter.
        """
        self._sample += 1
        slots, processes = groups.members, groups.processes
        for gone in self._answers.keys() - slots.keys():
            del self._answers[gone]
        due = [slot for slot, members in slots.items() if self._is_due(slot, members, processes)]
        tried = self._failures.tried
        scratch = (tried("htcondor_execute", list_scratch, self._execute) if due else None) or {}
        for slot in due:
            for starter in _find_starters(slots[slot], processes, groups.in_groups):
                execute: str | None = self._execute
                if starter.pid not in scratch:
                    execute = tried("htcondor_execute", find_execute, self._procfs, starter.pid)
                # None: other users may write to EXECUTE, and create any ``dir_PID``.
                owner = tried("htcondor_execute", find_owner, execute) if execute else None
                if execute and owner is not None:
                    self._ask(slot, starter, execute, owner)
                    break
        taken: dict[str, _Answer] = {}
        numbers: dict[str, str] = {}
        # An empty group may outlive its job, which may run in another slot now.
        order = sorted(self._answers.items(), key=lambda each: (not slots[each[0]], not each[1].proven))
        for slot, answer in order:
            if answer.job_id is None:
                continue
            first = taken.setdefault(answer.job_id, answer)
            if first is answer or first.shared_by == answer.shared_by is not None:
                numbers[slot] = answer.job_id
        return numbers

    def _is_due(self, slot: str, members: Sequence[Process], processes: Mapping[int, Process]) -> bool:
        answer = self._answers.setdefault(slot, _Answer())
        if answer.starter is not None:
            pid, start_ticks = answer.starter
            starter = processes.get(pid)
            if not members or (starter is not None and starter.start_ticks == start_ticks):
                return False
            self._answers[slot] = answer = _Answer()
        return bool(members) and answer.is_due(self._sample)

    def _ask(self, slot: str, starter: Process, execute: str, owner: int) -> None:
        path = f"{execute}/dir_{starter.pid}"
        trusted = {0, owner}
        try:
            if os.stat(f"{self._procfs}/{starter.pid}").st_uid not in trusted:
                return
            ads = read_ads(path, trusted)
            uid = find_job_uid(path, self._procfs, starter.pid, trusted)
        except (OSError, ParseError) as error:
            self._failures.add("htcondor_ad", error)
            return
        job_id = parse_job_id(ads.job)
        if job_id is None or not is_ad_of_slot(ads.machine, slot):
            self._failures.add("htcondor_ad", ParseError("not the ad of a job in this slot", source=path))
            return
        answer = self._answers[slot]
        answer.job_id = job_id
        answer.starter = (starter.pid, starter.start_ticks)
        answer.proven = ads.is_proven
        answer.shared_by = uid if ads.job.integer("JobUniverse") == PARALLEL_UNIVERSE else None


def _find_starters(
    members: Sequence[Process], processes: Mapping[int, Process], in_groups: Collection[int]
) -> Iterator[Process]:
    """Yield the ancestors of a slot's processes, the nearest first, that seem to be starters."""
    found: set[int] = set()
    for member in sorted(members, key=lambda each: each.pid)[:MAX_ASKED]:
        process: Process | None = member
        for _ in range(MAX_ANCESTORS):
            if process is None:
                break
            is_outside = process.pid not in in_groups and process.pid not in found
            if process.command == STARTER_COMMAND and is_outside:
                found.add(process.pid)
                yield process
            process = processes.get(process.ppid)
