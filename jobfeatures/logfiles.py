"""Log files by name: plain, ``.gz``, ``.xz``, ``.bz2``, ``.zst``; ``-`` for standard input and output."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, TextIO, cast

from jobfeatures.convert import KINDS, recognise_kind
from jobfeatures.errors import JobfeaturesError

MAX_LINE_CHARACTERS: Final = 65536
HEAD_CHARACTERS: Final = 4096  # tell what kind a log is
COMPRESSIONS: Final = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2", ".zst": "zstandard"}


class LogFileError(JobfeaturesError):
    """A log could not be opened, read to its end, or written."""


@contextmanager
def reading(name: str) -> Iterator[TextIO]:
    """Open a log to read. What is not UTF-8 becomes U+FFFD. Raises LogFileError, also while it is read."""
    with _telling(name, "read"):
        if name == "-":
            yield io.TextIOWrapper(cast(BinaryIO, sys.stdin.buffer), "utf-8", "replace")
            return
        with _open(name, "rb") as binary, io.TextIOWrapper(binary, "utf-8", "replace") as text:
            yield text


@contextmanager
def writing(name: str) -> Iterator[TextIO]:
    """Open a log to write, anew. Raises LogFileError."""
    with _telling(name, "write"):
        if name == "-":
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # whatever the locale says
            yield sys.stdout
            sys.stdout.flush()
            return
        with _open(name, "wb") as binary, io.TextIOWrapper(binary, "utf-8", newline="\n") as text:
            yield text


@contextmanager
def replacing(name: str) -> Iterator[str]:
    """Give the name to write to: a file comes into its place as a whole, or what was there stays."""
    try:
        is_plain = name != "-" and stat.S_ISREG(os.stat(name).st_mode)
    except OSError:
        is_plain = name != "-"
    if not is_plain:
        yield name
        return
    folder, base = os.path.split(os.path.realpath(name))
    aside = os.path.join(folder, f".{os.getpid()}.{base}")
    try:
        yield aside
        os.replace(aside, os.path.join(folder, base))
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        if isinstance(error, OSError | LogFileError):
            raise LogFileError(str(error).replace(aside, name)) from None
        raise


def bounded_lines(stream: TextIO, *, most: int = MAX_LINE_CHARACTERS) -> Iterator[str]:
    """Return the lines of a stream; of one longer than `most` characters only the first `most` + 1."""
    readline = stream.readline
    while line := readline(most + 1):
        yield line
        while len(line) > most and not line.endswith("\n"):
            line = readline(most + 1)
            if not line:
                return


def _open(name: str, mode: str) -> BinaryIO:
    """Open a file by its ending: the modules of this table all have the same open()."""
    module = COMPRESSIONS.get(name[name.rfind(".") :])
    if module is None:
        return cast(BinaryIO, open(name, mode))  # the caller closes it
    try:
        compression = importlib.import_module(module)
    except ImportError:
        raise LogFileError(f"{name}: needs the package {module} (extra: analysis)") from None
    return cast(BinaryIO, compression.open(name, mode))


@contextmanager
def _telling(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except (JobfeaturesError, BrokenPipeError):  # who reads no more has seen enough
        raise
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise LogFileError(f"{name}: cannot {what}: {reason}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] in {"zlib", "lzma", "_lzma", "zstandard"}:
            raise LogFileError(f"{name}: broken compression: {error}") from None
        raise


def open_log(stream: TextIO, named: str | None) -> tuple[str, Iterator[str]]:
    """Return the kind of a log, as it was named or by its beginning, and its lines. Raises KindError."""
    if named is not None:
        return named, bounded_lines(stream, most=KINDS[named].longest_line)
    head = stream.read(HEAD_CHARACTERS)
    kind = recognise_kind(head)
    most = KINDS[kind].longest_line
    rest = bounded_lines(stream, most=most)
    if not head.endswith("\n"):
        head += next(rest, "")  # what its last line lacks
    return kind, itertools.chain(bounded_lines(io.StringIO(head), most=most), rest)
