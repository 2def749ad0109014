"""Collector in the controller role: the licences of each batch system."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.administration import Licences
from jobfeatures.records.metrics import gauge
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context

LICENCES = gauge(
    "batch_licences",
    "Licences by kind: total, used by jobs, free, reserved.",
    ("batch_system", "licence", "kind"),
)
METRICS = (LICENCES,)


def families(context: Context) -> Iterator[Family]:
    """Yield the metric family about licences."""
    yield Family.known(
        LICENCES,
        [
            ((reported.source, each.name, kind), getattr(each, kind))
            for reported in context.administration
            if isinstance(reported, Licences)
            for each in reported.licences
            for kind in ("total", "used", "free", "reserved")
        ],
    )
