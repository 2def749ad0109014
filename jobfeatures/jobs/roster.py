"""Combines the reports of several sources about the node's jobs. No I/O, but it keeps state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from jobfeatures.jobs.evidence import (
    HOLD_SECS,
    HOOKS,
    REMEMBERED,
    START_SECS,
    EndEvidence,
    Evidence,
    Finding,
    Group,
    JobObservation,
    Presence,
    RunRelation,
    compare_runs,
    judge,
)
from jobfeatures.jobs.suspension import Freezes, SuspensionRules
from jobfeatures.records.model import Job, JobKey, JobTable, Version

TICK_SECS = 0.001
SETTLED_SECS = 60.0  # after an end: by then the list of directories has been read anew
_PRESENT = frozenset({Presence.HERE, Presence.COMPLETING})


class KnownJobs(NamedTuple):
    """What is known about all jobs at one time; immutable.

    `findings` are the judgements; `versions` identify the state of the prolog records that they are based on.
    Both are by job.
    """

    findings: Mapping[JobKey, Finding]
    versions: Mapping[JobKey, Version]  # of the prolog records known at that time

    @property
    def jobs(self) -> dict[JobKey, Job]:
        """Return the jobs about which something is known, with the values to publish, by key."""
        return {key: each.job for key, each in self.findings.items() if each.job is not None}

    @property
    def presences(self) -> dict[JobKey, Presence]:
        """Return, by job, whether it is on this node: this decides what happens to its directories."""
        return {key: each.presence for key, each in self.findings.items()}

    @property
    def leftovers(self) -> dict[JobKey, float]:
        """Return, by job, when the end of a job whose processes still run was reported (epoch seconds)."""
        return {
            key: each.end_reported_secs or 0.0 for key, each in self.findings.items() if each.has_processes
        }


EMPTY = KnownJobs({}, {})


class Roster:
    """Decides which jobs are here from the sources' reports, by `evidence.judge`, and keeps state in between.

    The removal of a prolog's record proves that the job has left this node: it overrules earlier answers that
    still report the job as running.
    """

    def __init__(self, rules: SuspensionRules = SuspensionRules()) -> None:  # noqa: B008  # it cannot change
        self._freezes = Freezes(rules)
        self._remembered: dict[JobKey, JobObservation] = {}
        self._recorded: dict[JobKey, float] = {}  # time of the prolog record's report
        self._replacements = 0  # of the folder of these records
        self._beside: dict[JobKey, Version | None] = {}  # the record that the last decision had weighed
        self._withdrawn: dict[JobKey, float] = {}
        self._left: dict[JobKey, tuple[float, EndEvidence]] = {}  # as of which evidence, and what that proves
        self._end_reported: dict[JobKey, float] = {}
        self.suspects: frozenset[JobKey] = frozenset()
        self._leftovers: Mapping[JobKey, Finding] = {}
        self._grouped: Mapping[JobKey, float] = {}  # since when their control groups have had processes

    def remember(self, published: Iterable[JobObservation]) -> None:
        """Take over what an earlier daemon stored about the jobs that it published."""
        self._remembered.update((each.job.key, each) for each in published)

    def note_epilogs(self, withdrawn: Mapping[JobKey, float | None]) -> None:
        """Note the jobs whose prolog record an epilog has removed, as the publisher noticed.

        `withdrawn` maps each job to the epoch time of the removal, None if another prolog has left its record
        since.
        """
        for key, at_secs in withdrawn.items():
            self._remembered.pop(key, None)
            if at_secs is not None:
                self._withdrawn[key] = at_secs
            elif key in self._recorded:
                self._withdrawn[key] = self._recorded[key] - TICK_SECS

    def judge(
        self,
        tables: Collection[JobTable],
        *,
        now_secs: float,
        groups: Mapping[JobKey, Group] | None = None,
        published: Mapping[JobKey, float] | None = None,
        sources: Collection[str] = (),
    ) -> KnownJobs:
        """Return what is known about all jobs, from the sources' latest tables and what is remembered.

        `groups` are the control groups with processes, by job. `published` has the time of the last change of
        each job's directory (epoch). `sources` are the batch systems that are polled: if no source reports a
        job, what is remembered about it counts only if its batch system is one of them. `now_secs` is epoch
        time.
        """
        groups, published = groups or {}, published or {}
        versions: dict[JobKey, Version] = {}
        for table in tables:
            versions.update(table.versions)
            if table.source == HOOKS:
                self._note_epilogs(table)
                self._decide_anew(table)
        reported = _observations(tables)
        for key, known in self._remembered.items():
            if key in reported or key in self._withdrawn or key.batch_system in sources:
                reported.setdefault(key, []).append(known)
        self._freezes.follow(groups, now_secs=now_secs)
        self.suspects = frozenset(self._suspects(reported))
        evidence = {
            key: Evidence(
                reported=tuple(reported.get(key, ())),
                events=tuple(self._events(key, tables)),
                group=groups.get(key),
                published_at_secs=published.get(key),
                end_reported_secs=self._end_reported.get(key),
            )
            for key in {*reported, *published, *self._denied(groups, tables, now_secs)}
        }
        findings = {key: judge(each, now_secs=now_secs) for key, each in evidence.items()}
        ahead = {table.source: table.clock_ahead_secs or 0.0 for table in tables}
        for key, found in findings.items():
            if found.known is not None and found.presence is Presence.HERE:
                job = self._freezes.apply(found.known, ahead_secs=ahead.get(key.batch_system, 0.0))
                if job is not found.known.job:
                    findings[key] = replace(found, known=replace(found.known, job=job))
        for key in groups.keys() & self._leftovers.keys():  # no source reports them now
            if key not in findings or findings[key].known is None:
                found = self._leftovers[key]
                is_over = now_secs - (found.end_reported_secs or now_secs) >= HOLD_SECS
                findings[key] = replace(found, presence=Presence.LEFT) if is_over else found
        self._leftovers = {key: each for key, each in findings.items() if each.has_processes}
        self._remember(findings, evidence, now_secs)
        self._beside = {key: versions.get(key) for key in findings}
        return KnownJobs(findings, versions)

    def has_left(self, key: JobKey, known_at_secs: float) -> bool:
        """Return whether the job's epilog has run since `known_at_secs` (epoch), when the job was here."""
        return self._withdrawn.get(key, float("-inf")) >= known_at_secs

    def _note_epilogs(self, table: JobTable) -> None:
        if table.replacements == self._replacements:  # else no epilog has removed them
            gone = self._recorded.keys() - table.jobs.keys() - table.versions.keys()
            self._withdrawn.update(dict.fromkeys(gone, table.taken_at_secs))
        self._replacements = table.replacements
        self._recorded = {key: table.answered_at_secs(key) for key in table.jobs}
        for key in self._withdrawn.keys() & table.jobs.keys():
            # The next job's prolog may have started before its predecessor's epilog was detected.
            self._withdrawn[key] = min(self._withdrawn[key], table.answered_at_secs(key) - TICK_SECS)

    def _decide_anew(self, table: JobTable) -> None:
        """Forget what was decided before a prolog's record was read, but for what was known of the same run.

        What an earlier daemon published was decided beside the record: prologs remove what another run left.
        """
        for key, job in table.jobs.items():
            version = table.versions.get(key)
            if self._beside.get(key, version) == version:
                continue
            self._left.pop(key, None)
            self._end_reported.pop(key, None)
            record = JobObservation(HOOKS, table.answered_at_secs(key), job)
            before = self._remembered.get(key)
            if before is not None and compare_runs(before, record) is not RunRelation.SAME:
                del self._remembered[key]

    def _suspects(self, reported: Mapping[JobKey, Collection[JobObservation]]) -> Iterator[JobKey]:
        for key, pieces in reported.items():
            own = next((each for each in pieces if each.source == key.batch_system), None)
            if own is None:
                continue
            others = (each for each in pieces if each is not own)
            if self._freezes.has_changed(key, own.at_secs) or any(
                each.at_secs > own.at_secs or compare_runs(own, each) is not RunRelation.SAME
                for each in others
            ):
                yield key

    def _events(self, key: JobKey, tables: Collection[JobTable]) -> Iterator[tuple[float, EndEvidence]]:
        if key in self._withdrawn:
            yield self._withdrawn[key], EndEvidence.EPILOG
        if key in self._left:
            yield self._left[key]
        for table in tables:
            if table.source == key.batch_system and (at_secs := table.absent_at_secs(key)) is not None:
                yield at_secs, EndEvidence.ABSENT

    def _denied(
        self, groups: Collection[JobKey], tables: Collection[JobTable], now_secs: float
    ) -> Iterator[JobKey]:
        """Yield jobs unknown to their batch system after their groups had held processes for a while."""
        self._grouped = {key: self._grouped.get(key, now_secs) for key in groups}
        for key, since_secs in self._grouped.items():
            if any(at_secs - since_secs >= START_SECS for at_secs, _ in self._events(key, tables)):
                yield key

    def _remember(
        self, findings: Mapping[JobKey, Finding], evidence: Mapping[JobKey, Evidence], now_secs: float
    ) -> None:
        """Keep what is known about jobs until they have left and their directories are gone.

        That they have left is kept too: they must not come back when an answer no longer repeats it, and
        directories made after an epilog, for a late answer, are an ended job's.
        """
        self._end_reported = {
            key: each.end_reported_secs
            for key, each in findings.items()
            if each.end_reported_secs is not None
        }
        published = {key for key, each in evidence.items() if each.published_at_secs is not None}
        for key, each in findings.items():
            if each.presence is Presence.LEFT:
                is_settled = now_secs - (each.end_reported_secs or 0.0) >= SETTLED_SECS
                if is_settled and key not in published:
                    self._remembered.pop(key, None)
                    self._left.pop(key, None)
                elif key in evidence and key not in self._left:
                    self._left[key] = _newest(evidence[key]), _proof(each)
            elif each.presence in _PRESENT:
                self._left.pop(key, None)
                if each.known is not None:
                    self._remembered[key] = replace(
                        each.known, source=REMEMBERED, start_source=each.known.start_clock
                    )
        others = {
            key
            for key, each in evidence.items()
            if any(piece.source != REMEMBERED for piece in each.reported)
        }
        kept = others | self._remembered.keys() | published
        self._withdrawn = {key: at for key, at in self._withdrawn.items() if key in kept}
        self._left = {key: each for key, each in self._left.items() if key in kept}


def _newest(evidence: Evidence) -> float:
    reported_at = [each.at_secs for each in evidence.reported]
    return max(reported_at + [at_secs for at_secs, _ in evidence.events], default=0.0)


def _proof(finding: Finding) -> EndEvidence:
    is_reported = finding.job is not None and finding.job.state.is_finished
    return EndEvidence.EPILOG if is_reported else EndEvidence.ABSENT


def _observations(tables: Collection[JobTable]) -> dict[JobKey, list[JobObservation]]:
    reported: dict[JobKey, list[JobObservation]] = {}
    for table in tables:
        for key, job in table.jobs.items():
            reported.setdefault(key, []).append(
                JobObservation(table.source, table.answered_at_secs(key), job)
            )
    return reported
