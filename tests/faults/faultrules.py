"""Faults of the kernel, switched while a program runs: faults.c, compiled, and the memory shared with it."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

OPEN, READ, WRITE, RENAME, STAT, LIST, MAKE, REMOVE, SYNC = (1 << number for number in range(9))
READING = OPEN | READ | STAT | LIST
WRITING = WRITE | RENAME | MAKE | REMOVE | SYNC
SHORT, BLOCK = -1, -2

COUNT = struct.Struct("=II")
RULE = struct.Struct("=224sIiIIQ")
MAX_RULES = 16


class Rule(NamedTuple):
    """Calls on paths like this, and what becomes of so many of a thousand."""

    pattern: str
    calls: int
    action: int
    per_thousand: int = 1000


def compile_shim(folder: Path) -> Path:
    """Compile the library; the test is skipped where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    library = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    words = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


class Faults:
    """The rules that hold for every program that was started with `environ`."""

    def __init__(self, library: Path, file: Path) -> None:
        file.write_bytes(bytes(COUNT.size + MAX_RULES * RULE.size))
        self.environ = {"LD_PRELOAD": str(library), "FAULTS_FILE": str(file)}
        descriptor = os.open(file, os.O_RDWR)
        self._memory = mmap.mmap(descriptor, COUNT.size + MAX_RULES * RULE.size)
        os.close(descriptor)

    @contextmanager
    def on(self, rules: Sequence[Rule]) -> Iterator[None]:
        """Let these rules hold for a while."""
        for number, rule in enumerate(rules):
            packed = RULE.pack(os.fsencode(rule.pattern), rule.calls, rule.action, rule.per_thousand, 0, 0)
            self._memory[self._at(number) : self._at(number + 1)] = packed
        COUNT.pack_into(self._memory, 0, len(rules), 0)
        try:
            yield
        finally:
            COUNT.pack_into(self._memory, 0, 0, 0)

    def hits(self) -> int:
        """Return how many calls the latest rules have met."""
        return sum(RULE.unpack_from(self._memory, self._at(number))[-1] for number in range(MAX_RULES))

    def close(self) -> None:
        self._memory.close()

    @staticmethod
    def _at(number: int) -> int:
        return COUNT.size + number * RULE.size
