"""What became of the kernel's exit records, if they are read."""

from __future__ import annotations

from collections.abc import Iterator

from jobfeatures.records.metrics import counter
from jobfeatures_exporter.context import Context
from jobfeatures_exporter.scrape.exposition import Family

RECORDS = counter(
    "batch_node_exit_records",
    "Exits reported by the kernel: of a job's processes, of others, or of unknown ones.",
    ("result",),
)

METRICS = (RECORDS,)


def families(context: Context) -> Iterator[Family]:
    """Yield the family; nothing if no records are read."""
    records = context.snapshot.exit_records if context.snapshot is not None else {}
    yield Family.by_word(RECORDS, dict(sorted(records.items())))
