"""A log evaluated as one hand, in its own order, or whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobfeatures.analysis.schedule import result
from jobfeatures.analysis.schedule.followers import LinkIndex, link_keys
from jobfeatures.analysis.schedule.jobarrays import ScheduleLog, from_records, with_links
from jobfeatures.analysis.schedule.result import Options, Schedule
from jobfeatures.analysis.schedule.runs import Store
from jobfeatures.analysis.schedule.spooled import spool
from jobfeatures.analysis.schedule.whole import HAND_JOBS, Whole
from jobfeatures.joblogs.loggedjob import JobRecord


def evaluate(log: ScheduleLog, options: Options) -> Schedule:
    """Return it by the shares of the whole log. Raises ScheduleError."""
    return result.evaluate(log, options, Whole(spool(log.name, [log], options)).shares)


def linked_log(records: Sequence[JobRecord]) -> ScheduleLog:
    """Return a log of records that says who follows whom, as one that is read does."""
    log, (numbers, preceding, thinks) = from_records(records, "log"), link_keys(records)
    index = LinkIndex(Store())
    index.add(numbers, preceding, log.end)
    index.find_links()
    [found] = index.links_by_piece([len(log)])
    return with_links(log, thinks, *found)


def summarise(
    name: str,
    pieces: Iterable[ScheduleLog],
    options: Options,
    by: Sequence[str] = (),
    *,
    store: Store | None = None,
    most: int = HAND_JOBS,
) -> Whole:
    """Return all that is known of a log. Raises ScheduleError, TemporaryFileError."""
    whole = Whole(spool(name, pieces, options, store), by, most=most)
    for _ in whole.evaluate_chunks():
        del _  # or two are in memory at once
    return whole
