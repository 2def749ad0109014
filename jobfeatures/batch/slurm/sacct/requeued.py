"""Finds out what the state REQUEUED in accounting means, besides that a run was taken from its nodes. Pure.

Slurm also requeues a scrontab's job at its end, for its next time, and one that exits with a code of
RequeueExit. A run that was taken from its nodes has the ExitCode 0:0 (26.05.5), so one with another code has
ended by itself. With 0:0 and a batch step that is COMPLETED nobody knows: either a scrontab's run has
succeeded, or a script has ended in order when its requeue was announced, or asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, takewhile
from typing import Final

from jobfeatures.batch.slurm.sacct.values import REQUEUED, split_step
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.records.model import JobState

Batch = tuple[Sequence[int], Sequence[Sequence[str]]]

AHEAD: Final = 3  # rows behind a job's in which its batch step comes, if it has one
REVOKED: Final = "REVOKED"
SIBLING: Final = "revoked sibling of a federation's job, which another cluster has"
_EXIT = re.compile("[0-9]+:[0-9]+")


def state_of_requeued(*, has_code: bool, batch_step: str | None) -> JobState:
    """Return how a run in state REQUEUED ended.

    FAILED if it has an exit code (`has_code`). Else UNKNOWN if its batch step's state is COMPLETED, and
    PREEMPTED if the step has another state or there is none (None).
    """
    if has_code:
        return JobState.FAILED
    return JobState.UNKNOWN if batch_step == JobState.COMPLETED.value else JobState.PREEMPTED


def without_revoked(batches: Iterable[Batch], names: Sequence[str], notes: Notes) -> Iterator[Batch]:
    """Yield batches of rows without those in state REVOKED, which sacct shows with ``-D`` alone.

    Each cluster of a federation has a job until one of them starts it. `notes` counts the rows left out.
    """
    state = names.index("State") if "State" in names else None
    for numbers, columns in batches:
        if state is None or not columns or REVOKED not in columns[state]:
            yield numbers, columns
            continue
        kept = [word != REVOKED for word in columns[state]]
        notes.read += kept.count(False)
        notes.folded[SIBLING] += kept.count(False)
        yield [*compress(numbers, kept)], [[*compress(each, kept)] for each in columns] if any(kept) else []


def with_ends(batches: Iterable[Batch], names: Sequence[str]) -> Iterator[Batch]:
    """Yield batches of rows in which a job's state REQUEUED also says how it ended: ``REQUEUED FAILED``.

    A batch holds the line numbers and the columns of some rows; `names` are the columns' names. The last rows
    of a batch may be moved to the next one.
    """
    places = {name: place for place, name in reversed([*enumerate(names)])}
    head, state, code = (
        places.get("JobIDRaw", places.get("JobID")),
        places.get("State"),
        places.get("ExitCode"),
    )
    if head is None or state is None:
        yield from batches
        return

    kept: Batch = ((), ())
    for batch in batches:
        rows = joined_batches(kept, batch) if kept[0] else batch
        kept = ((), ())
        if rows[1] and REQUEUED in rows[1][state]:
            rows, kept = _restated(rows, head, state, code, is_end=False)
        yield rows
    if kept[0]:
        yield _restated(kept, head, state, code, is_end=True)[0]


def joined_batches(one: Batch, two: Batch) -> Batch:
    """Return the rows of one batch and those of the next."""
    columns = zip(one[1], two[1] or [()] * len(one[1]), strict=True)
    return [*one[0], *two[0]], [[*first, *second] for first, second in columns]


def _restated(rows: Batch, head: int, state: int, code: int | None, *, is_end: bool) -> tuple[Batch, Batch]:
    """Return rows with what REQUEUED means, and last rows that cannot be read without the next batch."""
    numbers, columns = rows
    heads, states = columns[head], [*columns[state]]
    sure = len(heads)
    for place in [place for place, word in enumerate(states) if word == REQUEUED]:
        job, dot, _ = split_step(heads[place])
        behind = heads[place + 1 : place + 1 + AHEAD]
        if dot:
            continue
        steps = list(takewhile(f"{job}.".__eq__, (f"{each.rpartition('.')[0]}." for each in behind)))
        if len(steps) == len(behind) < AHEAD and not is_end:
            sure = place
            break
        ends = [states[place + 1 + at] for at in range(len(steps)) if behind[at] == f"{job}.batch"]
        exit_code = "" if code is None else columns[code][place]
        has_code = _EXIT.fullmatch(exit_code) is not None and exit_code != "0:0"
        means = state_of_requeued(has_code=has_code, batch_step=ends[0] if ends else None)
        states[place] = f"{REQUEUED} {means.value}"
    restated = [*columns[:state], states, *columns[state + 1 :]]
    if sure == len(heads):
        return (numbers, restated), ((), ())
    now = (numbers[:sure], [each[:sure] for each in restated] if sure else [])
    return now, (numbers[sure:], [each[sure:] for each in restated])
