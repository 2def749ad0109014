"""Parses local times without an offset, which are ambiguous in one hour of the year. Pure.

When clocks are set back, the same local time occurs twice. `parse_local` returns both moments, and
`choose_moments` chooses one of them by what else is known about the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import pairwise, product
from typing import Final

from jobfeatures.errors import ParseError

Secs = int | float
REPEATED_HOUR: Final = "time in the hour that clocks repeat"
SKIPPED_HOUR: Final = "time in the hour that clocks skip: another zone's?"


class Twice(int):
    """A local time that occurs twice because clocks were set back.

    The value is the earlier of the two moments in epoch seconds; `later` is the other moment.
    """

    later: int

    def __new__(cls, earlier: int, later: int) -> Twice:
        """Return the earlier moment as an int that also holds the later one."""
        made = super().__new__(cls, earlier)
        made.later = later
        return made


class Skipped(int):
    """A local time that never occurred because clocks were set forward.

    The value is in epoch seconds, computed as if clocks had not been set forward.
    """


def parse_local(text: str, zone: tzinfo | None, *, field: str) -> int:
    """Parse an ISO time into epoch seconds; ParseError, which names `field`, for any other text.

    A time without an offset is a local time in `zone` (None: this machine's zone). The result is a `Twice` if
    two moments have this local time, and a `Skipped` if none has.
    """
    try:
        local = datetime.fromisoformat(text)
        if local.tzinfo is not None:
            return int(local.timestamp())
        local = local.replace(tzinfo=zone)
        earlier, later = (int(local.replace(fold=fold).timestamp()) for fold in (0, 1))
    except (ValueError, OverflowError, OSError) as error:
        raise ParseError("not a time", field=field, text=text) from error
    if earlier == later:
        return earlier
    return Twice(earlier, later) if earlier < later else Skipped(earlier)


def choose_moments(
    times: Sequence[int | None], ran_secs: Secs | None, away_secs: Secs | None, doubtful: Counter[str]
) -> tuple[int | None, ...]:
    """Choose one moment for each of a job's local times, some of which may mean two moments (`Twice`).

    `times` are in the order in which the events happen; the last two are start and end. From start to end the
    job ran for `ran_secs` and was suspended for `away_secs` (None: unknown). The combination that agrees best
    with this is chosen; of several, the one with the shortest time span, then the earliest. If the choice is
    uncertain, the job is counted in `doubtful`; so is a job with a time that never occurred (`Skipped`).
    """
    if any(isinstance(each, Skipped) for each in times):
        doubtful[SKIPPED_HOUR] += 1
    moments = [(each, each.later) if isinstance(each, Twice) else (each,) for each in times]
    found = sorted((_disagreement(each, ran_secs, away_secs), each) for each in product(*moments))
    (least, best), *others = found
    if others and (any(least[:2]) or any(each[:2] == least[:2] for each, _ in others)):
        doubtful[REPEATED_HOUR] += 1
    return tuple(None if each is None else int(each) for each in best)


def _disagreement(
    times: Sequence[int | None], ran_secs: Secs | None, away_secs: Secs | None
) -> tuple[Secs, ...]:
    """Return how often the order is broken, by how much the run is not as long as known, and the span."""
    known = [each for each in times if each is not None]
    start, end = times[-2:]
    differs: Secs = 0
    if start is not None and end is not None and ran_secs is not None:
        differs = abs(end - start - (away_secs or 0) - ran_secs)
    broken = sum(later < earlier for earlier, later in pairwise(known))
    return broken, differs, max(known, default=0) - min(known, default=0)
