"""Opens log files by name: plain, ``.gz``, ``.xz``, ``.bz2``, ``.zst``; ``-`` is standard input or output."""

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

from jobfeatures.errors import JobfeaturesError

MAX_LINE_CHARACTERS: Final = 65536
ZSTD_BYTES: Final = 2**12  # compressed bytes per step, which expand to 128 MiB at most
AT_ONCE: Final = 256  # lines
HEAD_CHARACTERS: Final = 2**14  # enough to recognise a log's kind
COMPRESSIONS: Final = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2", ".zst": "zstandard"}
BOM: Final = "\ufeff"
SWF_ENDINGS: Final = (".swf", *(f".swf{ending}" for ending in COMPRESSIONS))


class LogFileError(JobfeaturesError):
    """Raised when a log cannot be opened, read to its end, or written completely."""

    exit_status = 2


@contextmanager
def reading(name: str, *, exactly: bool = False) -> Iterator[TextIO]:
    """Open a log for reading. Raises LogFileError if opening fails, or later, reading.

    Invalid UTF-8 becomes U+FFFD, line endings become newlines, and a byte order mark is skipped. With
    `exactly`, all is preserved, so that `writing` can write it back.
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
    """Open a log for writing; an existing file is truncated. Raises LogFileError if that or writing fails."""
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
    """Yield `lines`; turn an error while they are read into a LogFileError that names the file `name`."""
    with _blaming(name, "read"):
        yield from lines


@contextmanager
def replacing(name: str) -> Iterator[str]:
    """Replace a file atomically: yield the name of a temporary file to write to.

    The temporary file replaces the file after the `with` block. On an error, the old file stays.
    """
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
    """Convert lines that `reading` returned with `exactly` to the lines that it returns without `exactly`.

    Line endings become newlines, invalid UTF-8 becomes U+FFFD, and a byte order mark is removed.
    """
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
            if text:  # a byte order mark alone is not a line
                yield text


def bounded_lines(stream: TextIO, *, most: int = MAX_LINE_CHARACTERS) -> Iterator[str]:
    """Yield the lines of a stream; a longer line is cut to `most` + 1 characters."""
    readline = stream.readline
    while line := readline(most + 1):
        yield line
        while len(line) > most and not line.endswith("\n"):
            line = readline(most + 1)
            if not line:
                return


def _open(name: str, mode: str) -> BinaryIO:
    """Open a file with the module for its ending; all modules of the table have the same open()."""
    module = COMPRESSIONS.get(name[name.rfind(".") :])
    if module is None:
        return cast(BinaryIO, open(name, mode))  # the caller closes it
    try:
        compression = importlib.import_module(module)
    except ImportError:
        raise LogFileError(f"{name}: needs {module}: pip install 'jobfeatures-exporter[analysis]'") from None
    if module == "zstandard" and mode == "rb":
        return cast(BinaryIO, io.BufferedReader(_ZstdFile(open(name, "rb"), compression)))
    return cast(BinaryIO, compression.open(name, mode))


class _ZstdFile(io.RawIOBase):
    """Decompresses a .zst file. Unlike the library's own reader, it detects truncated files."""

    def __init__(self, file: BinaryIO, zstandard: Any) -> None:
        self._file = file
        self._new = zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._rest = b""  # read already, after the end of a frame
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read decompressed bytes. Raises EOFError if the last frame is truncated."""
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
        """Close this reader and its file."""
        self._file.close()
        super().close()


@contextmanager
def _blaming(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except (JobfeaturesError, BrokenPipeError):  # a reader that closes the pipe is no fault of the log
        raise
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise LogFileError(f"{name}: cannot {what}: {reason}") from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] in {"zlib", "lzma", "_lzma", "zstandard"}:
            raise LogFileError(f"{name}: the compressed data are damaged: {error}") from None
        raise
