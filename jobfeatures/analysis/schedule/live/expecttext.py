"""Formats a job's `Expectation` as text for people, and as values for JSON. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Any, Final

from jobfeatures.analysis.schedule.live.expectation import ENDED, SUSPENDED, WAITS, Ahead, Expectation
from jobfeatures.analysis.schedule.live.facts import JobFacts
from jobfeatures.analysis.schedule.live.outlook import OVERRUN_SECS
from jobfeatures.errors import printable
from jobfeatures.joblogs.loggedjob import Number
from jobfeatures.records.quantities import counted
from jobfeatures.records.schedulequality import Verdict
from jobfeatures.records.waiting import HELD, cause_of

EPOCH_FROM: Final = 2**27  # smaller times (before 1974) count from the beginning of a log
SHARES_FROM: Final = {"given": "set for all users", "given to this user": "set for this user"}
SPANS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


class Words:
    """Formats times as text: as dates in one time zone, and as distances from now."""

    def __init__(self, now_secs: Number, zone: tzinfo | None) -> None:
        """Use this machine's time zone where `zone` is None."""
        self._now_secs = now_secs
        self._zone = zone

    def clock(self, secs: Number) -> str:
        """Return a time as date and time of day; if the log has no dates, as seconds since its time zero."""
        if secs < EPOCH_FROM:
            return f"second {_number(secs)} of the log"
        try:
            shown = datetime.fromtimestamp(math.floor(secs), self._zone)
            if self._zone is None:
                shown = shown.astimezone()
        except (OverflowError, ValueError, OSError):
            return f"second {_number(secs)} since 1970"
        return f"{shown:%Y-%m-%d %H:%M:%S %Z}".strip()

    def time(self, secs: Number) -> str:
        """Return a time as `clock` does, with its distance from now in parentheses."""
        away = secs - self._now_secs
        if abs(away) < 1:
            return f"{self.clock(secs)} (now)"
        return f"{self.clock(secs)} ({f'in {span(away)}' if away > 0 else f'{span(-away)} ago'})"


def span(secs: Number) -> str:
    """Return a number of seconds in its two largest units, such as 2 h 5 min."""
    left = math.floor(secs)
    if left < 1:
        return f"{secs:.3g} s" if secs else "0 s"
    amounts = []
    for unit, size in SPANS:
        count, left = divmod(left, size)
        amounts.append((count, unit))
    first = next(place for place, (count, _) in enumerate(amounts) if count)
    return " ".join(f"{count} {unit}" for count, unit in amounts[first : first + 2] if count)


def format_expectation(found: Expectation, notes: tuple[str, ...] = (), zone: tzinfo | None = None) -> str:
    """Return an expectation as text of several lines, followed by `notes`.

    Times are shown in the time zone `zone`.
    """
    words = Words(found.now_secs, zone)
    parts = [
        [printable(_headline(found, words))],
        list(_expected(found, words)),
        list(_verdict(found, words)),
        ["Why:", *_why(found, words)],
    ]
    if notes:
        parts.append(["Not known:", *(f"- {printable(note)}" for note in notes)])
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _headline(found: Expectation, words: Words) -> str:
    facts, reported = found.facts, found.asked.reported
    where = f", {facts.partition}" if facts.partition else ""
    size = f"{_cpus(facts.cpus)}, {_limit(facts)}{where}"
    name = f"Job {facts.job_id} of {_who(facts.user)} ({size})"
    if found.state == ENDED:
        return f"{name} ended {words.time(facts.end_secs or 0)} after running for {span(found.elapsed_secs)}."
    if found.state == WAITS:
        scheduler_text = f"; the batch system says: {reported.reason}" if reported.reason else ""
        return f"{name} waits since {words.time(facts.submit_secs or 0)}{scheduler_text}."
    state = "is suspended, started" if found.state == SUSPENDED else "runs since"
    return f"{name} {state} {words.time(facts.start_secs or 0)}."


def _expected(found: Expectation, words: Words) -> Iterator[str]:
    upper, mine = found.upper_secs, printable(_who(found.facts.user))
    share = f"With {_cpus(found.share_cpus)} for {mine} it should"
    if found.state == ENDED:
        if upper == found.lower_secs:
            yield f"{share} have ended by {words.clock(upper)}."
        else:
            until = "with no upper bound" if upper is None else f"{words.clock(upper)} at the latest"
            yield f"{share} have ended by {words.clock(found.lower_secs)} at the earliest,"
            why = "may be missing" if found.is_partial else "have not ended"
            yield f"{until}: earlier jobs of {mine} {why}."
        return
    yield f"{share} end by"
    if found.state != WAITS:
        late = "" if found.late_secs is None else f", {_lateness(found.late_secs[1])}"
        yield f"  {words.time(found.lower_secs)} at the earliest: if it and all earlier jobs ended now{late}"
    if found.full_secs is not None and found.full_secs != upper:
        yield f"  {words.time(found.full_secs)} if it uses all of its limit, and the earlier jobs end now"
    if upper is None:
        yield f"  at no certain time at the latest: {_why_unbounded(found)}"
    else:
        of_whom = (
            "it and the earlier jobs use all of their limits" if found.ahead else "it uses all of its limit"
        )
        late = ""
        if found.late_secs is not None and found.late_secs[0] is not None:
            late = f", {_lateness(found.late_secs[0])}"
        yield f"  {words.time(upper)} at the latest: if {of_whom}, and {span(OVERRUN_SECS)} more{late}"


def _lateness(secs: Number) -> str:
    return f"{span(secs)} late" if secs else "in time"


def _why_unbounded(found: Expectation) -> str:
    if found.is_partial:
        return "earlier jobs may be missing"
    if found.facts.limit_secs is None:
        return "it has no time limit"
    if found.facts.tasks > 1 and all(each.leaves_secs is not None for each in found.ahead):
        return "it follows too many tasks of its array"
    return "an earlier job has no time limit, or there are too many tasks of an array"


def _verdict(found: Expectation, words: Words) -> Iterator[str]:
    if found.state == ENDED and found.late_secs is not None:
        yield from _verdict_of_ended(*found.late_secs)
        return
    if found.state == WAITS:
        yield {
            Verdict.CERTAINLY_LATE: "It is certainly late, even if it starts now, and however long it runs.",
            Verdict.NOT_LATE: "It is not late: until now earlier jobs of its user have used up the share.",
            Verdict.POSSIBLY_LATE: "It is possibly late: the share had room for it before now. "
            "The shorter it runs, the more its wait counts.",
        }[found.verdict or Verdict.POSSIBLY_LATE]
        if found.last_start_secs is not None:
            could, started = (
                ("could", "had started") if found.verdict is Verdict.CERTAINLY_LATE else ("can", "starts")
            )
            yield f"It {could} only end in time if it {started} by {words.time(found.last_start_secs)}."
        yield from _plan(found, words)
        return
    yield {
        Verdict.CERTAINLY_LATE: "It is certainly late: however long it and the earlier jobs run.",
        Verdict.NOT_LATE: "It is not late, and will not be, however long it runs.",
        Verdict.POSSIBLY_LATE: "It is possibly late: that depends on how long it and the earlier jobs run.",
    }[found.verdict or Verdict.POSSIBLY_LATE]
    if found.limit_end_secs is not None:
        ends = words.time(found.limit_end_secs)
        yield f"Its own limit ends it {ends}, or up to {span(OVERRUN_SECS)} later."


def _plan(found: Expectation, words: Words) -> Iterator[str]:
    reported = found.asked.reported
    planned_secs, cause = reported.planned_secs, cause_of(reported.reason, is_held=reported.is_held)
    if cause == HELD:
        yield "It is held until somebody releases it. Its share counts from its submission all the same."
    elif cause is not None:
        yield "It waits for another job or a date. Its share counts from its submission all the same."
    if planned_secs is None:
        return
    line = f"The batch system means to start it {words.time(planned_secs)}"
    if found.facts.limit_secs is not None:
        line += f"; with all of its limit it would end {words.clock(planned_secs + found.facts.limit_secs)}"
    last_secs = found.last_start_secs
    if last_secs is not None:
        line += ", too late" if planned_secs > last_secs else ", which may be in time"
    yield f"{line}."


def _verdict_of_ended(at_least: Number | None, at_most: Number) -> Iterator[str]:
    if not at_most:
        yield "It was in time."
    elif at_least == at_most:
        yield f"It was late, by {span(at_most)}."
    elif at_least:
        yield f"It was late, by {span(at_least)} to {span(at_most)}."
    else:
        yield f"It was late by {span(at_most)} at most, or in time."


def _why(found: Expectation, words: Words) -> Iterator[str]:
    asked, facts, user = found.asked, found.facts, printable(_who(found.facts.user))
    share_from = SHARES_FROM.get(found.share_from, found.share_from)
    yield f"- The share is {_cpus(found.share_cpus)} at any time: {share_from}."
    if facts.cpus and facts.cpus > found.share_cpus:
        yield "- It asks for more than the share: it is expected to take longer than it runs."
    if not found.earlier_jobs:
        yield f"- No earlier job of {user} is known: the whole share is there for it."
    elif not found.ahead_jobs:
        yield f"- {counted(found.earlier_jobs, 'earlier job')} of {user}, and none was left when it arrived."
    else:
        ahead = counted(found.ahead_jobs, "earlier job")
        yield f"- When it arrived, {ahead} of {user} had {_taken(found)} of"
        yield "  the share before it. The last to leave the share do so, at the latest,"
        for each in found.ahead:
            yield f"    {_ahead(each, words)}"
        more = found.ahead_jobs - len(found.ahead)
        if more:
            yield f"    and {more:,} more before these"
    if asked.is_whole_array:
        yield f"- {printable(facts.array_id)} is an array. This is of its last task, behind all others of it."
    if asked.components > 1:
        yield f"- It is one of {asked.components} components of a job. Each counts by itself."
    if found.state != ENDED:
        yield f"- Limits may be exceeded by {span(OVERRUN_SECS)}: so long may ending a job take."
    yield f"- Mode {found.mode.value}. Jobs count from their submission, in that order; other users' do not."


def _taken(found: Expectation) -> str:
    least, most = (None if each is None else each / 3600 for each in found.taken_cpu_secs)
    assert least is not None  # noqa: S101  # only the second may be None
    if most is None:
        return f"at least {_hours(least)} core hours"
    if abs(most - least) < 1e-9:
        return f"{_hours(most)} core hours"
    return f"{_hours(least)} to {_hours(most)} core hours"


def _hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _ahead(each: Ahead, words: Words) -> str:
    facts = each.facts
    when = "at no certain time" if each.leaves_secs is None else words.clock(each.leaves_secs)
    tasks = f", {facts.tasks} tasks" if facts.tasks > 1 else ""
    state = "ended" if facts.end_secs is not None else "waits" if facts.start_secs is None else "runs"
    length = f"ran {span(facts.runtime_secs)}" if facts.end_secs is not None else _limit(facts)
    return f"{when}: job {printable(facts.job_id)} ({state}{tasks}, {_cpus(facts.cpus)}, {length})"


def _limit(facts: JobFacts) -> str:
    return "no time limit known" if facts.limit_secs is None else f"limit {span(facts.limit_secs)}"


def _cpus(count: Number | None) -> str:
    return f"{_number(count or 0)} CPU{'' if count == 1 else 's'}"


def _number(value: Number) -> str:
    return f"{value:d}" if isinstance(value, int) else f"{value:.15g}"


def _who(user: str | None) -> str:
    """Return a user as named in a sentence: some logs have only numbers."""
    return f"user {user}" if user and user.isdecimal() else user or ""


def make_document(found: Expectation, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an expectation and `notes` as values for JSON; None means unknown or not applicable."""
    facts, reported = found.facts, found.asked.reported
    late = found.late_secs
    return {
        "job": facts.job_id,
        "user": facts.user,
        "partition": facts.partition,
        "state": found.state,
        "reason": reported.reason,
        "now_secs": found.now_secs,
        "submit_secs": facts.submit_secs,
        "start_secs": facts.start_secs,
        "end_secs": facts.end_secs,
        "planned_start_secs": reported.planned_secs,
        "limit_secs": facts.limit_secs,
        "limit_end_secs": found.limit_end_secs,
        "cpus": facts.cpus,
        "elapsed_secs": found.elapsed_secs,
        "expected": {
            "mode": found.mode.value,
            "lower_secs": found.lower_secs,
            "lower_with_limit_secs": found.full_secs,
            "upper_secs": found.upper_secs,
            "is_final": found.state == ENDED and found.lower_secs == found.upper_secs,
        },
        "verdict": found.verdict.value if found.verdict is not None else None,
        "last_start_secs": found.last_start_secs,
        "late_secs": None if late is None else {"at_least": late[0], "at_most": late[1]},
        "share": {"cpus": found.share_cpus, "from": found.share_from},
        "earlier_jobs": found.earlier_jobs,
        "ahead": {
            "jobs": found.ahead_jobs,
            "cpu_secs_at_least": found.taken_cpu_secs[0],
            "cpu_secs_at_most": found.taken_cpu_secs[1],
            "last": [
                {"job": each.facts.job_id, "cpus": each.facts.cpus, "leaves_secs": each.leaves_secs}
                for each in found.ahead
            ],
        },
        "overrun_secs": OVERRUN_SECS,
        "is_whole_array": found.asked.is_whole_array,
        "components": found.asked.components,
        "is_partial": found.is_partial,
        "not_known": list(notes),
    }
