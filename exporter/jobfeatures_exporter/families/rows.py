"""Metric families with a row of samples for each job; unchanged rows are reused on the next page as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, overload

from jobfeatures.records.metrics import Metric
from jobfeatures_exporter.families.exposition import Family, LabelTexts, Sample, Values, sample_lines

# Makes the samples of one job, for each metric, from its labels and its row's input.
Make = Callable[[Values, Any], Iterable[Sequence[Sample]]]


class _Row:
    """The samples of one job in the families of a table; `basis` is the input they were made from."""

    __slots__ = ("basis", "former", "samples", "sizes", "texts")

    def __init__(self, basis: object, samples: Iterable[Sequence[Sample]], last: _Row | None) -> None:
        self.basis = basis
        self.samples = tuple(samples)
        self.sizes = tuple(map(len, self.samples))
        self.texts: tuple[str, ...] | None = None
        # Its text on the last page, most of which can be reused.
        self.former = None if last is None or last.texts is None else (last.samples, last.texts)

    def write(self, metrics: Sequence[Metric], texts: LabelTexts) -> tuple[str, ...]:
        """Return the page's lines of the row's job, one piece of text for each family."""
        if self.texts is None:
            empty = [()] * len(metrics), [""] * len(metrics)
            found = zip(metrics, self.samples, *(self.former or empty), strict=True)
            self.texts = tuple(
                [
                    text if samples == before else "".join(sample_lines(metric, samples, texts))
                    for metric, samples, before, text in found
                ]
            )
            self.former = None
        return self.texts


class _Table:
    def __init__(self, metrics: Sequence[Metric], rows: Sequence[_Row]) -> None:
        self.metrics = metrics
        self.rows = rows
        self._columns: list[tuple[str, ...]] | None = None

    def lines(self, number: int, texts: LabelTexts) -> tuple[str, ...]:
        """Return the page's lines of the family in column `number`, one piece of text for each row."""
        if self._columns is None:
            written = [row.write(self.metrics, texts) for row in self.rows]
            self._columns = list(zip(*written, strict=True))
        return self._columns[number]


class SampleColumn(Sequence[Sample]):
    """The samples of one metric family, of all jobs: a column of a table that has a row for each job."""

    def __init__(self, table: _Table, number: int, size: int) -> None:
        self._table = table
        self._number = number
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sample]:
        return chain.from_iterable([row.samples[self._number] for row in self._table.rows])

    @overload
    def __getitem__(self, place: int) -> Sample: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Sample]: ...
    def __getitem__(self, place: int | slice) -> Sample | Sequence[Sample]:
        return list(self)[place]

    def lines(self, texts: LabelTexts) -> Sequence[str]:
        """Return the family's text on the metrics page: one item for each job, with any number of lines."""
        return self._table.lines(self._number, texts)


class KeptRows:
    """Caches the row of samples of each job from one page to the next. Pages may be made concurrently."""

    def __init__(self) -> None:
        self._rows: dict[Make, Mapping[Values, _Row]] = {}

    def families(
        self, metrics: Sequence[Metric], jobs: Iterable[tuple[Values, object]], make: Make
    ) -> list[Family]:
        """Return a family for each metric, with the samples of all jobs.

        `jobs` has, for each job, its label values and the data that its samples are made from. Given these
        two, `make` returns a sequence of samples for each metric. It is not called for a job whose data are
        the same as on the last page.
        """
        before, now = self._rows.get(make, {}), {}
        for job, basis in jobs:
            row = before.get(job)
            if row is None or (row.basis is not basis and row.basis != basis):
                row = _Row(basis, make(job, basis), row)
            now[job] = row
        self._rows[make] = now
        table = _Table(metrics, list(now.values()))
        sizes = [sum(each) for each in zip(*(row.sizes for row in table.rows), strict=True)]
        return [
            Family(metric, SampleColumn(table, number, size))
            for number, (metric, size) in enumerate(zip(metrics, sizes or [0] * len(metrics), strict=True))
        ]
