"""Finds the job id of a SLUID on the node itself, without a query.

Slurm 26.05 names control groups by SLUID, an id that only one run of a job has. The job id is in two places
on the node: the title of the job's slurmstepd, ``slurmstepd: [3385.0]``, and SLURM_JOB_ID in the environment
of its processes. Users can forge environments and the titles of their own processes. So a title counts only
if the real user of its process is root, and the environment only while there is no such title.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from jobfeatures.batch.processes import (
    MAX_ASKED,
    Failures,
    FoundJobId,
    Process,
    UnnumberedGroups,
    read_real_uid,
)
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.system.privatefile import read_bounded

_TITLE = re.compile(rb"slurmstepd: \[([1-9][0-9]{0,9})\.[A-Za-z0-9_+]{1,32}\]")
_VARIABLE = re.compile(rb"(?:\A|\0)SLURM_JOB_ID=([1-9][0-9]{0,9})(?:\0|\Z)")
MAX_FILE_BYTES = 2**22


def parse_slurmstepd_title(cmdline: bytes) -> str | None:
    """Return the job id in the command line of a slurmstepd, ``slurmstepd: [3385.0]``; else None."""
    match = _TITLE.match(cmdline)
    return match[1].decode("ascii") if match else None


def parse_job_variable(environ: bytes) -> str | None:
    """Return SLURM_JOB_ID in /proc/PID/environ, None if it is missing or not a job id."""
    match = _VARIABLE.search(environ)
    return match[1].decode("ascii") if match else None


class SluidResolver:
    """Finds job ids for the SLUIDs (Slurm's ids of runs of jobs) in control groups, once per sample."""

    def __init__(self, config: SystemSettings[object], failures: Failures) -> None:
        self._procfs = config.procfs
        self._failures = failures
        self._answers: dict[str, FoundJobId] = {}
        self._sample = 0

    def update(self, groups: UnnumberedGroups) -> Mapping[str, str]:
        """Return the known job ids by SLUID; `groups` are the control groups in this sample.

        Ids that Slurm itself has reported (`groups.jobs`) take precedence. Ids from environments are searched
        again at ever longer intervals. If two SLUIDs would get the same job id, the one with processes gets
        it.
        """
        jobs = groups.members
        self._sample += 1
        for sluid in self._answers.keys() - jobs.keys():
            del self._answers[sluid]
        for sluid, processes in jobs.items():
            answer = self._answers.setdefault(sluid, FoundJobId())
            if not answer.proven and processes and answer.is_due(self._sample):
                self._ask(answer, processes[:MAX_ASKED])
        living = {*groups.living, *(sluid for sluid, processes in jobs.items() if processes)}
        answers = sorted(self._answers.items(), key=lambda each: each[0] not in living)
        proven = {answer.job_id for sluid, answer in answers if answer.proven and sluid in living}
        proven.update(groups.taken)
        numbers: dict[str, str] = {}
        for sluid, answer in answers:
            # A user may claim any job id, but not that of another job.
            if answer.job_id is not None and (answer.proven or answer.job_id not in proven):
                numbers[sluid] = answer.job_id
                proven.add(answer.job_id)
        for key, job in groups.jobs.items() if jobs else ():
            if job.sluid is not None and job.sluid in jobs and key.batch_system == NAME:
                numbers[job.sluid] = key.job_id
        return numbers

    def _ask(self, answer: FoundJobId, processes: Sequence[Process]) -> None:
        pids = [process.pid for process in processes]
        if (titled := next(filter(None, map(self._titled, pids)), None)) is not None:
            answer.job_id, answer.proven = titled, True
        elif answer.job_id is None:
            claimed = (parse_job_variable(self._read(pid, "environ")) for pid in pids)
            answer.job_id = next(filter(None, claimed), None)

    def _titled(self, pid: int) -> str | None:
        try:
            if os.stat(f"{self._procfs}/{pid}").st_uid != 0:
                return None
        except OSError:
            return None
        job_id = parse_slurmstepd_title(self._read(pid, "cmdline"))
        if job_id is None:
            return None
        # Root also owns /proc/PID of a set-user-ID program, which a user can run with any title.
        real_uid = self._failures.tried("process_status", read_real_uid, self._procfs, pid)
        return job_id if real_uid == 0 else None

    def _read(self, pid: int, name: str) -> bytes:
        path = f"{self._procfs}/{pid}/{name}"
        found = self._failures.tried(f"process_{name}", read_bounded, path, MAX_FILE_BYTES)
        return b"" if found is None else found[0]
