"""Work done by jobs that have the node to themselves, from hardware performance counters."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.resolve import option, words
from jobfeatures_exporter.sampling import PathsConfig
from jobfeatures_exporter.sampling.performance.events import NAMES


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class WorkConfig(PathsConfig):
    """What is counted of jobs that have the node alone."""

    work_events: tuple[str, ...] = option(
        words(*NAMES), (), "what is counted of jobs that have the node alone; takes work.conf"
    )
