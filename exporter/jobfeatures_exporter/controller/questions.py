"""Administrative data besides queue and nodes: the query that each collector needs, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jobfeatures.batch.source import AdministrationSource, ClusterSource, Keeper
from jobfeatures.records.administration import Answer
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.config import DaemonConfig

# By collector; disabled collectors cause no queries.
QUESTIONS: dict[str, Callable[[AdministrationSource], Callable[[], Answer]]] = {
    "scheduler": lambda source: source.poll_scheduler,
    "licences": lambda source: source.poll_licences,
    "fairshare": lambda source: source.poll_shares,
    "reservations": lambda source: source.poll_reservations,
}

RARELY = {"fairshare": 5, "reservations": 5}  # times controller.interval; the others at each interval


def make_keepers(
    config: DaemonConfig, sources: Iterable[ClusterSource], clock: Clock
) -> Iterator[Keeper[Answer]]:
    """Yield the pollers of each batch system that supports the query; nothing for the others."""
    enabled = config.enabled_collectors()
    for source in sources:
        if not isinstance(source, AdministrationSource):
            continue
        for name, ask_of in QUESTIONS.items():
            if name in enabled:
                interval_secs = config.controller_interval_secs * RARELY.get(name, 1)
                yield Keeper(
                    f"{source.name}-{name}",
                    ask_of(source),
                    interval_secs=interval_secs,
                    min_interval_secs=interval_secs / 2,
                    clock=clock,
                )
