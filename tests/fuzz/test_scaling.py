"""Four times the text takes about four times the time and memory, however it grows: no parser is quadratic.

CPU time of this process alone is compared with itself, several times over, and only where it is enough to be told: a
parser that takes 32 KiB in less than `TOO_LITTLE_SECS` passes (a quadratic one would take 10⁹ steps).
"""

from __future__ import annotations

import gc
import os
import pyexpat
import random
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from tests.fuzz.corpus import seeds_of
from tests.fuzz.parsers import ALLOWED, Parser, parsers

IS_LONG = bool(os.environ.get("JOBFEATURES_LONG"))
SMALL_BYTES, LARGE_BYTES = 8 * 1024, 32 * 1024
TOO_LITTLE_SECS = 0.02
SHORT_FILLS = 4  # of each parser, always the same ones; all in the long form
MOST_TIMES = 9.0  # linear: 4, n log n: 4.6, quadratic: 16
ATTEMPTS = 6
MOST_BYTES_PER_BYTE = 400  # a word of one letter is a string of 50 bytes, in a tuple in a dict
CONSTANT_BYTES = 4 * 2**20
FILL = (
    b"A",
    b"1",
    b" ",
    b",",
    b"(",
    b"[",
    b'"',
    b"\\",
    b"=",
    b"-",
    b"\n",
    b"a b,",
    b"n1,",
    b"<a>",
    b"1:",
    b"a=1 ",
    b"a/",
    b"[1-9]",
)


# Expat before 2.6.0 looks at a tag that is not closed again with each line that it is fed.
FED_BY_LINES = {
    "jobfeatures.logkinds:read_log",
    "jobfeatures.formats.sss.records:read_records",
    "jobfeatures.formats.sss.stream:read_jobs",
}
LINES_IN_A_TAG = {"b'\\n' in the middle", "a line again and again"}


def shapes(parser: Parser) -> Iterator[tuple[str, tuple[bytes, bytes, bytes]]]:
    """Yield how texts grow: head, what comes again, tail."""
    seeds = seeds_of(parser)
    fills = FILL if IS_LONG else random.Random(parser.name).sample(FILL, SHORT_FILLS)
    for seed in dict.fromkeys((seeds[-1], seeds[len(seeds) // 2]) if IS_LONG else seeds[-1:]):
        yield "a text again and again", (b"", seed, b"")
        lines = seed.splitlines(keepends=True)
        if len(lines) > 2:
            yield "a line again and again", (b"".join(lines[:2]), lines[1], b"".join(lines[2:]))
        for fill in fills:
            middle = len(seed) // 2
            yield f"{fill!r} in the middle", (seed[:middle], fill, seed[middle:])
    for fill in fills:
        yield f"{fill!r} alone", (b"", fill, b"")


def grown(parts: tuple[bytes, bytes, bytes], size: int) -> bytes:
    head, again, tail = parts
    return head + again * max(1, (size - len(head) - len(tail)) // max(1, len(again))) + tail


def spent_secs(parser: Parser, data: bytes) -> float:
    started = time.process_time()
    try:
        parser.call(data)
    except ALLOWED:
        pass
    return time.process_time() - started


def is_linear(parser: Parser, parts: tuple[bytes, bytes, bytes]) -> tuple[bool, str]:
    """Return whether time grows with the text, and what was measured. The least of some times counts: others may work here."""
    small, large = grown(parts, SMALL_BYTES), grown(parts, LARGE_BYTES)
    least_large = spent_secs(parser, large)
    if least_large < TOO_LITTLE_SECS:
        return True, ""
    least_small = min(spent_secs(parser, small) for _ in range(3))
    for _ in range(ATTEMPTS):
        if least_large < MOST_TIMES * least_small or least_large < TOO_LITTLE_SECS:
            return True, ""
        least_large = min(least_large, spent_secs(parser, large))
        least_small = min(least_small, *(spent_secs(parser, small) for _ in range(3)))
    return False, f"{least_small * 1e3:.1f} ms, then {least_large * 1e3:.1f} ms for four times the text"


@pytest.mark.fuzz
@pytest.mark.parametrize("parser", parsers(), ids=lambda each: each.name)
def test_time_grows_with_the_text_and_no_faster(parser):
    gc.disable()  # a look at all there is would be counted as the parser's
    try:
        found = {
            shape: is_linear(parser, parts)
            for shape, parts in shapes(parser)
            if parser.name not in FED_BY_LINES
            or shape not in LINES_IN_A_TAG
            or pyexpat.version_info >= (2, 6)
        }
    finally:
        gc.enable()
    assert not {shape: measured for shape, (linear, measured) in found.items() if not linear}


@pytest.mark.fuzz
@pytest.mark.parametrize("parser", parsers(), ids=lambda each: each.name)
def test_memory_is_some_hundred_times_the_text_at_most(parser):
    wrong = {}
    for shape, parts in (
        *((f"{fill!r} alone", (b"", fill, b"")) for fill in FILL[::4]),
        *list(shapes(parser))[:2],
    ):
        data = grown(parts, SMALL_BYTES)
        tracemalloc.start()
        try:
            parser.call(data)
        except ALLOWED:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        if peak > CONSTANT_BYTES + MOST_BYTES_PER_BYTE * len(data):
            wrong[shape] = f"{peak >> 20} MiB for {len(data)} bytes"
    assert not wrong


@pytest.mark.fuzz
def test_the_probe_tells_a_quadratic_parser_from_a_linear_one():
    def quadratic(data: bytes) -> int:
        return sum(1 for place in range(len(data) // 16) for _ in range(place))

    parts = (b"", b"ab", b"")
    assert not is_linear(Parser("quadratic", quadratic, quadratic), parts)[0]
    assert is_linear(Parser("linear", lambda data: sum(map(hash, map(str, data))), sum), parts)[0]
