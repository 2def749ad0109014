"""Where inputs come from: what parsers take of the fixtures, changed by a seed.

Nobody says which fixture belongs to which parser: whole files, paragraphs, lines, words and parts of JSON documents are
shown to each, and so are the texts that stand in its tests; what it takes is its corpus. A few have none there; what they
take stands in values.py.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from jobfeatures.errors import Rejected
from jobfeatures.records.model import JobTable
from tests.fuzz.parsers import ALLOWED, Parser
from tests.fuzz.values import VALUES

TESTS = Path(__file__).parents[1]
FIXTURES = TESTS / "fixtures"
FOUND_CASES = FIXTURES / "fuzz"
MAX_SEED_BYTES = 4096  # larger ones say nothing new, and cost the time of others
MAX_FILE_BYTES = 4 * MAX_SEED_BYTES
MOST_SEEDS = 24
MOST_CANDIDATES = 600
FOLDERS = {  # by what the name of a module has in it; the first that fits
    "batch.slurm": ("slurm",),
    "batch.pbs": ("pbs", "torque"),
    "batch.gridengine": ("gridengine",),
    "batch.htcondor": ("htcondor",),
    "batch.lsf": ("lsf",),
    "batch.oar": ("oar",),
    "classad": ("htcondor",),
    "sss": ("sss",),
    "sonar": ("golden", "slurm"),
    "sampling": ("proc", "cgroup-v1", "cgroup-v2"),
    "": ("golden", "slurm", "pbs"),
}

# Bytes that have meant something to a parser: of numbers, of structure, of other formats, of terminals.
TOKENS = (
    *b"\0 \t \n \r \r\n \x1b[31m \x7f \xff \xc3\x28 \xed\xa0\x80 \xe2\x80\xa8 \xc2\x85 \xef\xbb\xbf".split(b" "),
    *b"0 -0 -1 00 1e9 1e999 nan inf -inf 0x10 1_0 2147483648 4294967295 9223372036854775808 18446744073709551616".split(),
    *"٣ ² １ ß ſ İ 𝟙".encode().split(),
    *b"\" ' ` $ { } [ ] ( ) < > & ; : , . = + * % # @ ! | / \\ ../ \\n \\u0000 \\ud800 %00 %2e ${x} $(x) <!--".split(),
    *b"N/A UNLIMITED NOT_SET infinity (null) None null true false undefined error INFINITY Unknown".split(),
    *b"[1-9] [0-99999999] [01-3,5] n[1-2][1-2] 1-00:00:00 99999999-23:59:59 1:2:3:4 1K 1.5T 1Kc 10% 1970-01-01T00:00:00".split(),
    *b"<!DOCTYPE <!ENTITY &amp; &x; ]]> <![CDATA[ xmlns= {} [] [[[[[[[[ {\"a\": \"\":".split(),
)  # fmt: skip
LENGTHS = (2, 17, 300, 5000)


@cache
def candidates(folders: tuple[str, ...], tests: Path) -> tuple[bytes, ...]:
    """Return what a parser may be shown: files, their paragraphs, lines and words, parts of JSON; no more than some."""
    found: dict[str, dict[bytes, None]] = {"file": {}, "part": {}, "line": {}, "word": {}, "tested": {}}
    for path in sorted(tests.glob("*.py")):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.Constant) and isinstance(each.value, str | bytes):
                data = each.value.encode("utf-8", "replace") if isinstance(each.value, str) else each.value
                if len(data) <= MAX_SEED_BYTES:
                    found["tested"][data] = None
    for folder in folders:
        for kind, pieces in _pieces_of(folder).items():
            found[kind] |= pieces
    drawn = random.Random(0)
    return tuple(
        each
        for kept in found.values()
        for each in (
            list(kept) if len(kept) <= MOST_CANDIDATES else drawn.sample(list(kept), MOST_CANDIDATES)
        )
    )


@cache  # many parsers share a folder, and none has tests of another
def _pieces_of(folder: str) -> dict[str, dict[bytes, None]]:
    found: dict[str, dict[bytes, None]] = {"file": {}, "part": {}, "line": {}, "word": {}}
    for path in sorted((FIXTURES / folder).rglob("*")):
        if path.is_file() and not path.name.startswith("README") and path.stat().st_size < 400_000:
            for kind, data in _pieces(path.read_bytes()):
                if len(data) <= (MAX_FILE_BYTES if kind == "file" else MAX_SEED_BYTES):
                    found[kind][data] = None
    return found


def _pieces(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "file", data
    yield "file", data[:MAX_SEED_BYTES].rpartition(b"\n")[0] + b"\n"
    try:
        document = json.loads(data)
    except ValueError:
        pass
    else:
        for part in _parts(document):
            yield "part", json.dumps(part).encode()
    for paragraph in data.split(b"\n\n"):
        yield "part", paragraph + b"\n"
    for line in data.splitlines():
        yield "line", line
        yield "part", line.partition(b": ")[2] or line.partition(b" = ")[2]
    for word in re.findall(rb"[^\s,;=\"<>]+", data):
        yield "word", word


def _parts(document: object) -> Iterator[object]:
    """Yield a document, shortened, and all that is in it; of a list the first three members."""
    if isinstance(document, dict):
        yield {name: each[:2] if isinstance(each, list) else each for name, each in document.items()}
        for each in document.values():
            yield from _parts(each)
    elif isinstance(document, list):
        yield document[:2]
        for each in document[:3]:
            yield from _parts(each)


@cache
def seeds_of(parser: Parser) -> tuple[bytes, ...]:
    """Return what the parser takes: shorter ones and longer ones, of as many results as there are."""
    folders = next(folders for part, folders in FOLDERS.items() if part in parser.module)
    package, _, inside = parser.module.partition(".")
    tests = (
        TESTS / {"jobfeatures_exporter": "exporter"}.get(package, package) / inside.replace(".", "/")
    ).parent
    by_result: dict[str, list[bytes]] = {}
    for data in (*VALUES.get(parser.name, ()), *candidates(folders, tests)):
        try:
            result = parser.call(data)
        except ALLOWED:
            continue
        if says_something(result):
            by_result.setdefault(repr(result)[:200], []).append(data)
    each_once = sorted((min(kept, key=len) for kept in by_result.values()), key=len)
    if len(each_once) > MOST_SEEDS:
        step = (len(each_once) - 1) / (MOST_SEEDS - 1)
        each_once = [each_once[round(step * place)] for place in range(MOST_SEEDS)]
    return (*VALUES.get(parser.name, ()), *each_once)


def says_something(result: object) -> bool:
    """Return whether a parser took more than nothing: records that all were rejected are none."""
    if isinstance(result, list | tuple) and any(isinstance(each, Rejected) for each in result):
        return not all(isinstance(each, Rejected) for each in result)
    if isinstance(result, JobTable) and not result.jobs:
        return False
    return result is not None and result is not False and result not in ("", b"", (), [], {}, frozenset())


def mutations(seeds: tuple[bytes, ...], seed: int | str) -> Iterator[bytes]:
    """Yield changed seeds without end: the same ones for the same seed."""
    draw = random.Random(seed)
    pick, below = draw.choice, draw.randrange
    while True:
        data = pick(seeds)
        for _ in range(pick((1, 1, 1, 2, 3, 6))):
            start = below(len(data) + 1)
            end = min(len(data), start + pick((0, 1, 1, 2, 4, 16, 100)))
            way = below(8)
            if way < 3:  # a token, put in or in place of something
                data = data[:start] + pick(TOKENS) + data[end:]
            elif way == 3:  # something is lacking
                data = data[:start] + data[end:]
            elif way == 4:  # something comes again
                data = (
                    data[:end] + data[start:end] * pick(LENGTHS[: 2 if len(data) > 1000 else 4]) + data[end:]
                )
            elif way == 5:  # a byte is another
                data = data[:start] + bytes((below(256),)) + data[start + 1 :]
            elif way == 6:  # the rest is another's
                other = pick(seeds)
                data = data[:start] + other[below(len(other) + 1) :]
            else:  # a number is another
                data = data[:start] + re.sub(
                    rb"[0-9]+",
                    lambda found: pick((b"", found[0] * 9, b"-" + found[0], b"0")),
                    data[start:],
                    count=1,
                )
        yield data[:MAX_FILE_BYTES]
