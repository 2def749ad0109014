"""Collector in the controller role: the reservations of each batch system."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jobfeatures.records.administration import Reservation, Reservations
from jobfeatures.records.metrics import Metric, gauge
from jobfeatures_exporter.families.exposition import Family, Number
from jobfeatures_exporter.model.context import Context

_LABELS = ("batch_system", "reservation")

START = gauge("batch_reservation_start_timestamp_seconds", "When the reservation starts.", _LABELS)
END = gauge("batch_reservation_end_timestamp_seconds", "When it ends.", _LABELS)
NODES = gauge("batch_reservation_nodes", "Nodes that it keeps.", _LABELS)
CORES = gauge("batch_reservation_cores", "Cores that it keeps, of these nodes.", _LABELS)
MAINTENANCE = gauge("batch_reservation_maintenance", "1 if it is for maintenance.", _LABELS)

_VALUES: dict[Metric, Callable[[Reservation], Number | None]] = {
    START: lambda each: each.start_secs,
    END: lambda each: each.end_secs,
    NODES: lambda each: each.nodes,
    CORES: lambda each: each.cores,
    MAINTENANCE: lambda each: int(each.is_maintenance),
}
METRICS = tuple(_VALUES)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric families about reservations."""
    reported = [each for each in context.administration if isinstance(each, Reservations)]
    found = [((one.source, each.name), each) for one in reported for each in one.reservations]
    for metric, value in _VALUES.items():
        yield Family.known(metric, [(values, value(each)) for values, each in found])
