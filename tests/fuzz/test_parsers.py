"""Whatever stands in a foreign text, a parser takes it or refuses it: nothing else is raised, and no time or memory goes.

Short: some hundreds of inputs of each parser, always the same ones. JOBFEATURES_LONG=1: a million of each at most, and
as many as take three seconds of CPU: a million of all take hours. These are others every time, so that runs add up.
JOBFEATURES_FUZZ_INPUTS, JOBFEATURES_FUZZ_SECS and JOBFEATURES_FUZZ_SEED say how many, how long, and which.
"""

from __future__ import annotations

import gc
import hashlib
import os
import resource
import tempfile
import time
from itertools import islice
from pathlib import Path

import pytest

from tests.fuzz.corpus import FOUND_CASES, mutations, seeds_of
from tests.fuzz.parsers import ALLOWED, Parser, parsers

IS_LONG = bool(os.environ.get("JOBFEATURES_LONG"))
INPUTS = int(os.environ.get("JOBFEATURES_FUZZ_INPUTS", "1000000" if IS_LONG else "600"))
SEED = os.environ.get("JOBFEATURES_FUZZ_SEED", str(time.time_ns()) if IS_LONG else "1")
SECS = float(
    os.environ.get("JOBFEATURES_FUZZ_SECS", "3" if IS_LONG else "0.25")
)  # of CPU: slow ones try fewer
BATCH = 100
MOST_BATCH_SECS = 5.0  # of CPU, for a hundred inputs of 16 KiB at most
MOST_GROWN_BYTES = 512 * 2**20


def complaint(parser: Parser, data: bytes) -> str:
    """Return what is wrong with what a parser makes of some bytes, "" where nothing is."""
    try:
        parser.call(data)
    except ALLOWED:
        pass
    except BaseException as error:  # noqa: BLE001  # also what is no Exception
        return f"{type(error).__name__}: {str(error)[:200]}"
    return ""


@pytest.mark.fuzz
@pytest.mark.timeout(24 * 3600 if IS_LONG else 120)
@pytest.mark.parametrize("parser", parsers(), ids=lambda each: each.name)
def test_changed_texts_are_taken_or_refused(parser):
    tried, began = 0, time.process_time()
    inputs = mutations(seeds_of(parser), f"{SEED} {parser.name}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while tried < INPUTS and time.process_time() - began < SECS:
        batch = list(islice(inputs, min(BATCH, INPUTS - tried)))
        started = time.process_time()
        for data in batch:
            wrong = complaint(parser, data)
            assert not wrong, f"{wrong}\nseed {SEED}; {keep(parser, data)}"
        spent = time.process_time() - started
        assert spent < MOST_BATCH_SECS, f"{spent:.1f} s for {slowest(parser, batch)!r}, seed {SEED}"
        tried += len(batch)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown) * 1024
    assert grown < MOST_GROWN_BYTES, f"{grown >> 20} MiB more, seed {SEED}"
    if IS_LONG:
        print(
            f"{parser.name}: {tried} inputs, {time.process_time() - began:.0f} s of CPU, {grown >> 20} MiB more"
        )
    gc.collect()


def slowest(parser: Parser, batch: list[bytes]) -> bytes:
    def spent(data: bytes) -> float:
        started = time.process_time()
        complaint(parser, data)
        return time.process_time() - started

    return max(batch, key=spent)


def keep(parser: Parser, data: bytes) -> str:
    """Write a case down; say where it belongs."""
    name = f"{parser.name.replace(':', '.')}/{hashlib.sha256(data).hexdigest()[:12]}"
    path = Path(tempfile.gettempdir()) / "found" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return f"{path} belongs to tests/fixtures/fuzz/{name}: {data[:300]!r}"


@pytest.mark.fuzz
def test_what_was_once_found_stays_mended():
    by_folder = {each.name.replace(":", "."): each for each in parsers()}
    cases = [path for path in FOUND_CASES.glob("*/*") if path.is_file()]
    assert cases
    for path in cases:
        started = time.process_time()
        assert not complaint(by_folder[path.parent.name], path.read_bytes()), path
        assert time.process_time() - started < MOST_BATCH_SECS, path
