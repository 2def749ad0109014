"""Counts the work of jobs that have the node to themselves, by hardware performance counters."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import option, words
from jobfeatures_exporter.sampling.performance.events import NAMES


@dataclass(frozen=True, kw_only=True)
class WorkSettings:
    """Settings: which hardware events are counted for jobs that have the node to themselves."""

    events: tuple[str, ...] = option(
        words(*NAMES), (), "what is counted of jobs that have the node alone; takes work.conf"
    )
