"""The site's rules for reading LSF's limits, from lsf.conf, bparams, bqueues and lshosts. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import chain

from jobfeatures.batch.basics import find_host
from jobfeatures.batch.lsf.answers import Record, text_of
from jobfeatures.batch.lsf.values import UNITS, TimeLimit, parse_limit
from jobfeatures.errors import ParseError, Rejected, parse_each
from jobfeatures.records.nodelist import is_same_host

LSHOSTS = "lshosts"
HOST_FIELDS = ("host_name", "cpuf", "ncpus", "maxmem")
_PARAMETERS = re.compile(r"\A.*lsb\.params configuration", re.IGNORECASE | re.DOTALL)
# Blanks of one line only: \s* would rescan all following empty lines from each of them.
_ABSOLUTE = re.compile(r"^[ \t]*ABS_RUNLIMIT[ \t]*=[ \t]*\"?([YyNn])", re.MULTILINE)
_UNIT = re.compile(
    r"^[ \t]*LSF_UNIT_FOR_LIMITS[ \t]*=[ \t]*\"?([KMGTPEZ])B?\"?[ \t\r]*(?:#.*)?$",
    re.MULTILINE | re.IGNORECASE,
)
_QUEUE = re.compile(r"QUEUE: +(\S{1,255})\s*\Z")
_SECTION = re.compile(r"\s*(DEFAULT|MAXIMUM) LIMITS:\s*\Z")
_HEADS = re.compile(r"\b[A-Z]+LIMIT\b")
_MINUTES = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) min(?: of (\S{1,255}))?")
_FACTOR = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\Z")


QueueLimits = Mapping[str, TimeLimit]  # for jobs that set none: RUNLIMIT, CPULIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRules:
    """A site's rules for computing a job's limits on one node from the limits that LSF prints.

    `absolute`: run limits are wall-clock time, not normalized by CPU factors; if it is None, this is unknown,
    and no wall limit is reported. `factors` are CPU factors by host, `queues` the limits of each queue, and
    `unit` is the unit of sizes that LSF prints without one.
    """

    node_name: str | None = None
    absolute: bool | None = None
    factors: Mapping[str, Fraction] = field(default_factory=dict)  # CPU factors by host
    queues: Mapping[str, QueueLimits] = field(default_factory=dict)
    unit: str = "K"

    @property
    def cpu_factor(self) -> str | None:
        """Return this node's CPU factor as a decimal, None if unknown."""
        factor = self.factors.get(self.node_name or "")
        return None if factor is None else f"{Decimal(factor.numerator) / factor.denominator:f}"

    def wall_limit(self, own: TimeLimit | None, queue: str | None) -> int | None:
        """Return a job's wall limit on this node in seconds: `own`, else that of `queue`; None if unknown."""
        limit = own or self.queues.get(queue or "", {}).get("RUNLIMIT")
        if limit is None or self.absolute is None:
            return None
        return self.limit_secs(limit, absolute=self.absolute)

    def cpu_limit(self, queue: str | None) -> int | None:
        """Return the CPU time limit of a queue in seconds on this node; None if there is none, or unknown.

        CPU limits are always normalized by CPU factors.
        """
        limit = self.queues.get(queue or "", {}).get("CPULIMIT")
        return None if limit is None else self.limit_secs(limit, absolute=False)

    def limit_secs(self, limit: TimeLimit, *, absolute: bool) -> int | None:
        """Return a limit in seconds on this node; None if a CPU factor is unknown.

        Source: "CPU time and run time normalization",
        https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=limits-cpu-time-run-time-normalization: unless
        it is `absolute` (ABS_RUNLIMIT=Y), the limit is multiplied by the CPU factor of the host for which it
        was set (1 if no host is named), and divided by the CPU factor of this node.
        """
        if absolute:
            return int(limit.secs)
        here = self._factor(self.node_name)
        if here is None:
            return None
        if limit.host is None:
            return int(limit.secs / here)
        if self.node_name is not None and is_same_host(limit.host, self.node_name):
            return int(limit.secs)
        there = self._factor(limit.host)
        return None if there is None else int(limit.secs * there / here)

    def _factor(self, name: str | None) -> Fraction | None:
        host = name if name in self.factors else find_host(self.factors, name)
        return None if host is None else self.factors[host]


def parse_parameters(text: str) -> bool:
    """Return whether run limits are plain wall-clock time (ABS_RUNLIMIT), from ``bparams -a``.

    Sample: ``lsb.params configuration at Sat Nov 21 12:30:00 2026`` and lines ``ABS_RUNLIMIT = Y``.
    The default is N. Raises ParseError if the text is not output of bparams.
    Source: https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_command_ref/bparams.1.html, lsb.params(5).
    """
    match = _ABSOLUTE.search(text)
    if match is None and not _PARAMETERS.match(text):
        raise ParseError("not an answer of bparams -a", source="bparams", text=text.strip())
    return match is not None and match[1] in "Yy"


def parse_limit_unit(text: str) -> str:
    """Return the unit of limits that lsf.conf(5) sets by ``LSF_UNIT_FOR_LIMITS=MB``; K if it sets none.

    `text` is the file's content.
    """
    found: list[str] = _UNIT.findall(text)
    unit = found[-1].upper() if found else "K"
    return unit if unit in UNITS else "K"


def parse_queues(text: str) -> Mapping[str, QueueLimits]:
    """Return the time limits of the queues from ``bqueues -l``.

    Sample, shortened::

        QUEUE: normal
          -- the usual queue
        …
        DEFAULT LIMITS:
         RUNLIMIT
         60.0 min of n1
        MAXIMUM LIMITS:
         CPULIMIT                 RUNLIMIT
         720.0 min                1440.0 min of n1

    The default applies to a job that sets no limit; without one, the maximum. A queue that has only one
    kind prints no headings. Source: https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_command_ref/bqueues.1.html
    """
    queues: dict[str, dict[str, TimeLimit]] = {}
    found: dict[str, TimeLimit] = {}
    section = ""
    heads: list[str] = []
    for line in text.splitlines():
        if match := _QUEUE.match(line):
            found = queues.setdefault(match[1], {})
            section, heads = "", []
        elif match := _SECTION.match(line):
            section, heads = match[1], []
        elif heads:
            _take(heads, line, found, is_default=section == "DEFAULT")
            heads = []
        elif line.strip() and not _HEADS.sub("", line).strip():
            heads = [head for head in _HEADS.findall(line) if head in {"CPULIMIT", "RUNLIMIT"}]
    return queues


def _take(heads: list[str], line: str, found: dict[str, TimeLimit], *, is_default: bool) -> None:
    """Add the limits in `line` to `found`, by heading; none if there are not as many as headings."""
    values = _MINUTES.findall(line)
    if len(values) != len(heads):
        return
    for head, (minutes, host) in zip(heads, values, strict=True):
        limit = parse_limit(f"{minutes}/{host}" if host else minutes)
        if limit is not None and (is_default or head not in found):
            found[head] = limit


def parse_factors(records: Iterable[Record]) -> tuple[dict[str, Fraction], tuple[Rejected, ...]]:
    """Return the CPU factor of each host, by host, and the malformed records of lshosts.

    The records are those of ``lshosts -o "host_name cpuf …" -json``. Hosts with the factor 0 or ``-`` are
    left out.
    """
    factors: dict[str, Fraction] = {}
    rejected: list[Rejected] = []
    for record in records:
        name, factor = text_of(record, "HOST_NAME"), text_of(record, "CPUF")
        if name is None or factor is None:
            continue
        if not _FACTOR.match(factor):
            rejected.append(Rejected(LSHOSTS, "not a CPU factor", field="CPUF", text=factor))
        elif Fraction(factor) > 0:
            factors[name] = Fraction(factor)
    return factors, tuple(rejected)


def hosts_of_limits(records: Iterable[Record], queues: Iterable[QueueLimits]) -> set[str]:
    """Return the hosts and host models to whose CPU speed the time limits of jobs and queues refer.

    Malformed limits are skipped.
    """
    own = parse_each(lambda record: parse_limit(record.get("RUNTIMELIMIT", "")), records, [])
    limits = chain(own, *(queue.values() for queue in queues))
    return {limit.host for limit in limits if limit is not None and limit.host is not None}
