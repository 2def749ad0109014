"""A log evaluated as one hand, in its own order."""

from __future__ import annotations

from jobfeatures.schedule import result
from jobfeatures.schedule.jobs import ScheduleLog
from jobfeatures.schedule.result import Options, Schedule
from jobfeatures.schedule.whole import Whole


def evaluate(log: ScheduleLog, options: Options) -> Schedule:
    """Return it by the shares of the whole log. Raises ScheduleError."""
    return result.evaluate(log, options, Whole(log.name, [log], options).shares)
