"""Finds the job that runs in a slot of HTCondor, on the node itself.

A control group of HTCondor names a slot. The slot's condor_starter keeps the job's ad in ``dir_PID/.job.ad``
below EXECUTE, PID being its own process id. Users can forge environments and the content of their scratch
directory, but neither EXECUTE nor the ancestry of their processes. So the ad is found from a process of the
slot by its ancestor that has a ``dir_PID``, see `jobfeatures.batch.htcondor.scratch`. An ad that the user
could have written is not trusted: it cannot claim a job id that another slot has.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobfeatures.batch.htcondor.fields import is_ad_of_slot, parse_job_id
from jobfeatures.batch.htcondor.scratch import STARTER_COMMAND, find_owner, list_scratch, read_ads
from jobfeatures.batch.processes import MAX_ASKED, Answer, Failures, Process, UnnumberedGroups
from jobfeatures.errors import ParseError

MAX_ANCESTORS = 256


@dataclass(slots=True)
class _Answer(Answer):
    """The job of one slot, and the starter that it comes from."""

    starter: tuple[int, int] | None = None  # pid, start time


class SlotResolver:
    """Follows the jobs of the slots on the node."""

    def __init__(self, config: Any, procfs: str, failures: Failures) -> None:
        self._procfs = procfs
        self._execute: str = config.htcondor_execute_directory
        self._failures = failures
        self._answers: dict[str, _Answer] = {}
        self._look = 0

    def update(self, groups: UnnumberedGroups) -> Mapping[str, str]:
        """Return the job id by slot, for those found so far.

        No process in a control group of a job is a starter. A slot is searched at growing gaps until its
        starter is known, and again after that has ended, since each job has its own.
        """
        self._look += 1
        slots, processes = groups.members, groups.processes
        for gone in self._answers.keys() - slots.keys():
            del self._answers[gone]
        due = [slot for slot, members in slots.items() if self._is_due(slot, members, processes)]
        tried = self._failures.tried
        scratch = (tried("htcondor_execute", list_scratch, self._execute) if due else None) or {}
        # None: other users may write to EXECUTE, and create any ``dir_PID``.
        owner = tried("htcondor_execute", find_owner, self._execute) if scratch else None
        for slot in due if owner is not None else ():
            starter = _find_starter(slots[slot], processes, groups.in_groups, scratch)
            if starter is not None:
                self._ask(slot, starter, owner or 0)
        taken: dict[str, str] = {}
        numbers: dict[str, str] = {}
        # An empty group may outlive its job, which may run in another slot now.
        order = sorted(self._answers.items(), key=lambda each: (not slots[each[0]], not each[1].proven))
        for slot, answer in order:
            if answer.job_id is not None and taken.setdefault(answer.job_id, slot) == slot:
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
        return bool(members) and answer.is_due(self._look)

    def _ask(self, slot: str, starter: Process, owner: int) -> None:
        path = f"{self._execute}/dir_{starter.pid}"
        trusted = {0, owner}
        try:
            if os.stat(f"{self._procfs}/{starter.pid}").st_uid not in trusted:
                return
            ads = read_ads(path, trusted)
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


def _find_starter(
    members: Sequence[Process],
    processes: Mapping[int, Process],
    in_groups: Collection[int],
    scratch: Mapping[int, str],
) -> Process | None:
    """Return the nearest ancestor of a slot's processes that is a starter with a scratch directory."""
    for member in sorted(members, key=lambda each: each.pid)[:MAX_ASKED]:
        process: Process | None = member
        for _ in range(MAX_ANCESTORS):
            if process is None:
                break
            is_outside = process.pid in scratch and process.pid not in in_groups
            if process.command == STARTER_COMMAND and is_outside:
                return process
            process = processes.get(process.ppid)
    return None


make_group_names = SlotResolver
