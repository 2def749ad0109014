"""Log files by name: plain, ``.gz``, ``.xz``, ``.bz2``, ``.zst``; ``-`` for standard input and output."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, TextIO, cast

from jobfeatures.convert import KINDS, KindError, recognise_kind
from jobfeatures.errors import JobfeaturesError, shown_name

MAX_LINE_CHARACTERS: Final = 65536
ZSTD_BYTES: Final = 2**12  # that are unpacked at once, to 128 MiB at most
AT_ONCE: Final = 256  # lines
HEAD_CHARACTERS: Final = 4096  # tell what kind a log is
COMPRESSIONS: Final = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2", ".zst": "zstandard"}
BOM: Final = "\ufeff"
SWF_ENDINGS: Final = (".swf", *(f".swf{ending}" for ending in COMPRESSIONS))


class LogFileError(JobfeaturesError):
    """A log could not be opened, read to its end, or written."""

    exit_status = 2


@contextmanager
def reading(name: str, *, exactly: bool = False) -> Iterator[TextIO]:
    """Open a log to read. Raises LogFileError, also while it is read.

    What is not UTF-8 becomes U+FFFD, ends of lines become newlines, and a byte
    order mark is passed over; `exactly`: all of it stays, for `writing`.
    """
    encoding = ("utf-8", "surrogateescape", "") if exactly else ("utf-8-sig", "replace", None)
    with _blaming(name, "read"):
        if name == "-":
            yield io.TextIOWrapper(cast(BinaryIO, sys.stdin.buffer), *encoding)
            return
        with _open(name, "rb") as binary, io.TextIOWrapper(binary, *encoding) as text:
            yield text


@contextmanager
def writing(name: str) -> Iterator[TextIO]:
    """Open a log to write, anew. Raises LogFileError."""
    with _blaming(name, "write"):
        if name == "-":
            if isinstance(sys.stdout, io.TextIOWrapper):  # whatever the locale says
                sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
            yield sys.stdout
            sys.stdout.flush()
            return
        with (
            _open(name, "wb") as binary,
            io.TextIOWrapper(binary, "utf-8", "surrogateescape", newline="\n") as text,
        ):
            yield text


def blaming(name: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield lines whose file is to blame where they cannot be read. Raises LogFileError."""
    with _blaming(name, "read"):
        yield from lines


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


def as_text(lines: Iterable[str]) -> Iterator[str]:
    """Return lines that were read exactly as they are read otherwise."""
    is_first = True
    rest = iter(lines)
    while some := list(itertools.islice(rest, AT_ONCE)):
        together = "".join(some)
        if together.isascii() and "\r" not in together:  # nearly all
            yield from some
            is_first = False
            continue
        for line in some:
            text = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            if is_first:
                text, is_first = text.removeprefix(BOM), False
            if text.endswith(("\r", "\r\n")):
                text = text.rstrip("\n").removesuffix("\r") + "\n"
            if text:  # a byte order mark alone is no line
                yield text


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
    if module == "zstandard" and mode == "rb":
        return cast(BinaryIO, io.BufferedReader(_ZstdFile(open(name, "rb"), compression)))
    return cast(BinaryIO, compression.open(name, mode))


class _ZstdFile(io.RawIOBase):
    """What a .zst file holds. The library's own reader takes one that was cut off for one that ended."""

    def __init__(self, file: BinaryIO, zstandard: Any) -> None:
        self._file = file
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._rest = b""  # of what was read, behind the end of a frame
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some. Raises EOFError where the last frame is cut off."""
        while not self._ready:
            packed = self._rest or self._file.read(ZSTD_BYTES)
            self._rest = b""
            if not packed:
                if self._frame is not None:
                    raise EOFError("cut off")
                return 0
            if self._frame is None:
                self._frame = self._new()
            self._ready = memoryview(self._frame.decompress(packed))
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()


@contextmanager
def _blaming(name: str, what: str) -> Iterator[None]:
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


def open_log(stream: TextIO, named: str | None, name: str = "") -> tuple[str, Iterator[str]]:
    """Return the kind of a log, as it was named or by its beginning, and its lines. Raises KindError.

    Where the beginning does not say, the end of its `name` does: ``.swf``, packed or not.
    """
    if named is not None:
        return named, blaming(name or "-", bounded_lines(stream, most=KINDS[named].longest_line))
    head = stream.read(HEAD_CHARACTERS)
    try:
        kind = recognise_kind(head.removeprefix(BOM))
    except KindError as error:
        if not name.endswith(SWF_ENDINGS):
            raise KindError(f"{shown_name(name or '-')}: {error}") from None
        kind = "swf"  # the reader will tell what is wrong
    most = KINDS[kind].longest_line
    rest = bounded_lines(stream, most=most)
    if not head.endswith("\n"):
        head += next(rest, "")  # what its last line lacks
    return kind, blaming(
        name or "-", itertools.chain(bounded_lines(io.StringIO(head, newline=""), most=most), rest)
    )
