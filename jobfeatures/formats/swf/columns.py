"""Reads large logs in SWF as arrays. Needs numpy: the extra ``analysis``."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy

from jobfeatures.formats.swf.fields import FIELDS, IS_TIME, SwfJob
from jobfeatures.formats.swf.header import Header, parse_comment, parse_later_comment
from jobfeatures.formats.swf.lines import LARGEST, SwfReader
from jobfeatures.joblogs.logfiles import bounded_lines, reading

Array = numpy.ndarray[Any, numpy.dtype[Any]]

DTYPES = ("int64", "float64")  # in the order in which they are tried
CHUNK_CHARACTERS = 2**20  # of a log: each bad line costs some of them numpy's reader
EXACT = 2**53  # whole numbers beyond it have no place in a double


class SwfColumns(NamedTuple):
    """A log in SWF as one array per field, with the names and the order of `SwfJob`.

    Times are int64 if all times of the log are whole, else float64; other fields are int64. −1 means unknown.
    `repaired` counts repairs by kind, `skipped` counts lines that could not be read.
    """

    header: Header
    columns: dict[str, Array]
    repaired: dict[str, int]
    skipped: int

    def __len__(self) -> int:
        return len(self.columns["number"])


def read_header(name: str) -> Header:
    """Return the comments at the top of a log in SWF. Raises LogFileError if it cannot be read."""
    with reading(name) as stream:
        return SwfReader(bounded_lines(stream), source=name).header


def _load(lines: Iterable[str], dtype: str) -> dict[str, Array] | None:
    """Return the columns of lines, None if any line needs repair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an empty log
        warnings.simplefilter("error", DeprecationWarning)  # 1.5 as a whole number
        try:
            table = numpy.loadtxt(lines, dtype=dtype, comments=";", ndmin=2)
        except (ValueError, DeprecationWarning):
            return None
    return _split(table.reshape(-1, len(FIELDS))) if _is_clean(table) else None


def _is_clean(table: Array) -> bool:
    """Return whether there is nothing to repair: nothing below −1, whole numbers where they belong."""
    if table.size == 0:
        return True
    if table.shape[1] != len(FIELDS):
        return False
    if table.dtype == numpy.int64:
        return bool(table.min() >= -1)
    whole = table[:, [not each for each in IS_TIME]]
    fine = numpy.isfinite(table).all() and (table.max() <= LARGEST) and (numpy.abs(whole) < EXACT).all()
    below = (table < 0) & (table != -1)
    return bool(fine and not below.any() and (whole == numpy.floor(whole)).all())


def _split(table: Array) -> dict[str, Array]:
    columns = {}
    for place, name in enumerate(FIELDS):
        column = table[:, place]
        columns[name] = column if IS_TIME[place] else column.astype(numpy.int64, copy=False)
    return columns


def read_pieces(name: str, lines: int) -> Iterator[SwfColumns]:
    """Yield a log in pieces of at least `lines` lines (the last one: fewer).

    The pieces share one header, which grows as comments are read. Raises LogFileError if the log cannot be
    read.
    """
    header = Header(name)
    found: list[SwfColumns] = []
    is_first = True
    for chunk in _read_chunks(name, header):
        found.append(chunk)
        if sum(map(len, found)) >= lines:
            yield _joined(found, header)
            found, is_first = [], False
    if found or is_first:  # of an empty log too
        yield _joined(found, header)


def read_jobs(name: str, lines: int) -> Iterator[SwfColumns]:
    """Yield a log as `read_pieces` does, but with all consecutive lines of a job in the same piece."""
    pieces = read_pieces(name, lines)
    left = next(pieces)
    for piece in pieces:
        both = _joined([left, piece], piece.header)
        numbers = both.columns["number"]
        others = (numbers != numbers[-1:]).nonzero()[0]
        cut = int(others[-1]) + 1 if len(others) else 0
        fine = {field: each[:cut] for field, each in both.columns.items()}
        rest = {field: each[cut:] for field, each in both.columns.items()}
        yield SwfColumns(piece.header, fine, both.repaired, both.skipped)
        left = SwfColumns(piece.header, rest, {}, 0)
    yield left


def _read_chunks(name: str, header: Header) -> Iterator[SwfColumns]:
    """Read a log in chunks: by numpy's reader where a chunk is clean, else by the tolerant one."""
    first, add = 1, parse_comment
    with reading(name) as stream:
        while text := stream.read(CHUNK_CHARACTERS):
            if not text.endswith("\n"):  # what its last line lacks
                text += next(bounded_lines(stream), "")
            if ";" in text:
                for number, line in enumerate(bounded_lines(io.StringIO(text)), first):
                    if line.lstrip().startswith(";"):
                        add(line.strip(), header, number)
                    elif line.strip():
                        add = parse_later_comment
            else:
                add = parse_later_comment
            first += text.count("\n")
            columns = next(filter(None, (_load(io.StringIO(text), dtype) for dtype in DTYPES)), None)
            if columns is not None:
                yield SwfColumns(header, columns, {}, 0)
                continue
            reader = SwfReader(bounded_lines(io.StringIO(text)), source=name)
            columns = _columns_of(list(reader))
            yield SwfColumns(header, columns, reader.repaired, reader.skipped)


def _joined(found: list[SwfColumns], header: Header) -> SwfColumns:
    columns = [each.columns for each in found] or [_columns_of([])]
    repaired: Counter[str] = Counter()
    for each in found:
        repaired.update(each.repaired)
    return SwfColumns(
        header,
        {field: numpy.concatenate([each[field] for each in columns]) for field in FIELDS},
        dict(repaired),
        sum(each.skipped for each in found),
    )


def _columns_of(jobs: list[SwfJob]) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    whole = all(
        isinstance(value, int) for job in jobs for value, time in zip(job, IS_TIME, strict=True) if time
    )
    for place, field in enumerate(FIELDS):
        dtype = numpy.int64 if whole or not IS_TIME[place] else numpy.float64
        columns[field] = numpy.array([job[place] for job in jobs], dtype=dtype)
    return columns
