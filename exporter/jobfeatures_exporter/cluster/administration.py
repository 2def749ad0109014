"""What administrators look at beside queue and nodes: which question each collector needs, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from jobfeatures.administration import Answer
from jobfeatures.batch.source import AdministrationSource, ClusterSource, Keeper
from jobfeatures.clock import Clock
from jobfeatures_exporter.config import DaemonConfig


class Question(NamedTuple):
    """One line of the table."""

    ask: Callable[[AdministrationSource], Callable[[], Answer]]
    interval_secs: Callable[[DaemonConfig], float]


QUESTIONS = {  # by collector; what is not shown is not asked
    "scheduler": Question(
        lambda source: source.poll_scheduler, lambda config: config.controller_scheduler_interval_secs
    ),
    "licences": Question(
        lambda source: source.poll_licences, lambda config: config.controller_licences_interval_secs
    ),
    "fairshare": Question(
        lambda source: source.poll_shares, lambda config: config.controller_fairshare_interval_secs
    ),
    "reservations": Question(
        lambda source: source.poll_reservations, lambda config: config.controller_reservations_interval_secs
    ),
}


def make_keepers(
    config: DaemonConfig, sources: Iterable[ClusterSource], clock: Clock
) -> Iterator[Keeper[Answer]]:
    """Yield what asks each batch system that can tell; nothing for the others."""
    enabled = config.enabled_collectors()
    for source in sources:
        if not isinstance(source, AdministrationSource):
            continue
        for name, question in QUESTIONS.items():
            if name in enabled:
                interval_secs = question.interval_secs(config)
                yield Keeper(
                    f"{source.name}-{name}",
                    question.ask(source),
                    interval_secs=interval_secs,
                    min_interval_secs=interval_secs / 2,
                    clock=clock,
                )
