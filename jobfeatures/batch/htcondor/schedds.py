"""Finds out which schedds did not answer ``condor_q -global``, and keeps their last known jobs. Pure.

If a schedd does not answer, condor_q prints none of its jobs. Only standard error says so; the exit status is
that of the schedd asked last (23.9.6)::

    -- Failed to fetch ads from: <10.9.9.1:9618?addrs=10.9.9.1-9618&alias=wn1.lab&sock=schedd2> : wn1.lab
    SECMAN:2007:Read failure during security negotiation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from jobfeatures.errors import Rejected, SourceError, shown
from jobfeatures.formats.classad.jsonform import parse_json_ads
from jobfeatures.records.combining import grouped
from jobfeatures.records.model import Job, JobKey, JobTable

QUEUE_SOURCE = "condor_q"
SCHEDD_ATTRIBUTES = ("Name", "MyAddress")
KEPT_SECS = 86_400.0  # for so long a schedd's last answer stands for it
_FAILED = re.compile(
    r"^-- Failed to fetch ads from: *(<[^>\n]*>|[^\n]*)[^\n]*\n?([^\n-][^\n]*)?", re.MULTILINE
)


def parse_failed(stderr: str) -> dict[str, str]:
    """Return, by address of a schedd that did not answer, the reason that condor_q's standard error gives."""
    return {match[1].strip(): match[2] or "no reason is given" for match in _FAILED.finditer(stderr)}


def parse_schedds(text: str) -> dict[str, str]:
    """Return schedds' names, by address, in ``condor_status -schedd -json``.

    Raises ParseError if malformed.
    """
    found = ((ad.text("MyAddress"), ad.text("Name")) for ad in parse_json_ads(text, source="condor_status"))
    return {address: name for address, name in found if address and name}


@dataclass(slots=True)
class LastAnswers:
    """The jobs in each schedd's last answer, and the epoch time of that answer, both by the schedd's name."""

    jobs: dict[str, Mapping[JobKey, Job]] = field(default_factory=dict)
    taken_at_secs: dict[str, float] = field(default_factory=dict)

    def complete(
        self, table: JobTable, failed: Mapping[str, str], ask_schedds: Callable[[], Mapping[str, str]]
    ) -> JobTable:
        """Return `table`; if some schedds are silent, their last known jobs are added, and it is incomplete.

        A schedd is silent if it did not answer (`failed` has the reasons, by address), or if it had jobs but
        has left the collector, which drops a dead schedd after 15 minutes. `ask_schedds` returns the names of
        the schedds in the collector, by address. Raises SourceError if no schedd has answered.
        """
        pairs = ((job.schedd, (key, job)) for key, job in table.jobs.items() if job.schedd is not None)
        answered = {name: dict(jobs) for name, jobs in grouped(pairs).items()}
        missing = self.jobs.keys() - answered.keys()
        silent: dict[str, str] = {}
        if failed or missing:
            names = ask_schedds()
            silent = {names.get(address, address): why for address, why in failed.items()}
            if failed and not answered and silent.keys() >= {*names.values()}:
                raise SourceError(
                    f"{QUEUE_SOURCE}: no schedd answers; the first error: "
                    f"{shown(next(iter(failed.values())))}"
                )
            if failed.keys() <= names.keys():
                missing -= {*names.values()}  # whose queue has become empty
            silent = {**dict.fromkeys(missing, "it may have left the collector"), **silent}
        now_secs = table.taken_at_secs
        last = {
            name: self.jobs[name]
            for name in silent.keys() & self.jobs.keys()
            if now_secs - self.taken_at_secs[name] < KEPT_SECS
        }
        self.taken_at_secs = {name: self.taken_at_secs[name] for name in last} | dict.fromkeys(
            answered.keys() - last.keys(), now_secs
        )
        self.jobs = {**answered, **{name: {**jobs, **answered.get(name, {})} for name, jobs in last.items()}}
        kept = {key: job for jobs in last.values() for key, job in jobs.items() if key not in table.jobs}
        complaints = [_silent(name, why, is_known=name in last) for name, why in silent.items()]
        return replace(
            table,
            jobs={**kept, **table.jobs},
            complete=table.complete and not silent,
            rejected=(*table.rejected, *complaints),
            reported_secs={key: self.taken_at_secs[job.schedd or ""] for key, job in kept.items()},
        )


def _silent(name: str, why: str, *, is_known: bool) -> Rejected:
    jobs = "its jobs are those of its last answer" if is_known else "its jobs are not known"
    return Rejected(QUEUE_SOURCE, f"schedd {shown(name)} does not answer, {jobs}: {why[:200]}")
