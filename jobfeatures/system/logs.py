"""Logs to standard error, as logfmt or JSON."""

from __future__ import annotations

import logging
import math
import re
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext

from jobfeatures.system.clock import Clock, SystemClock
from jobfeatures.system.loglimits import PERIOD_SECS, RepeatLimits, without_numbers

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("logfmt", "json")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+-]+\Z")
_NOT_PLAIN = re.compile(r"[^ !#-\[\]-~]")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logging(level: str, form: str) -> None:
    """Write messages of `level` and above to standard error; `form` is one of `FORMATS`."""
    handler = LimitedHandler(SystemClock())
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class LimitedHandler(logging.StreamHandler):  # type: ignore[type-arg]  # the standard library has no parameter
    """Writes to standard error; repeated messages (not debug) once, then once a minute with their count."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(sys.stderr)
        self._clock = clock
        self._limits: RepeatLimits[logging.LogRecord] = RepeatLimits()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record, or hold it back and count it."""
        if record.levelno < logging.INFO:
            super().emit(record)
            return
        self.write_due()
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  # arguments that do not fit: logging never raises
            self.handleError(record)
            return
        kind = (record.name, record.levelno, without_numbers(str(record.msg)))
        if record.exc_info and (error := record.exc_info[1]) is not None:
            text += f": {type(error).__name__}: {error}"
        if self._limits.admit(kind, text, _bare(record, text), self._clock.monotonic_secs()):
            super().emit(record)
        elif self._timer is None:
            self._start_timer()

    def write_due(self) -> None:
        """Write of each kind of message held back for a minute the last one, with how many were held back."""
        self._write(self._limits.take_due(self._clock.monotonic_secs()))

    def close(self) -> None:
        """Write the outstanding counts and close."""
        with self._locked():
            self._write(self._limits.take_due(float("inf")))
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    def _write_later(self) -> None:
        with self._locked():
            self._timer = None
            self.write_due()
            if self._limits.is_holding:
                self._start_timer()

    def _locked(self) -> AbstractContextManager[object]:
        return self.lock or nullcontext()

    def _start_timer(self) -> None:
        self._timer = threading.Timer(PERIOD_SECS, self._write_later)
        self._timer.daemon = True
        self._timer.start()

    def _write(self, counts: list[tuple[logging.LogRecord, int]]) -> None:
        for record, count in counts:
            record.repeated = count
            super().emit(record)


def _bare(record: logging.LogRecord, text: str) -> logging.LogRecord:
    """Return a record without arguments and traceback, which would keep the objects they refer to alive."""
    more = {"msg": text, "args": None, "exc_info": None, "exc_text": None, "stack_info": None}
    return logging.makeLogRecord({**vars(record), **more})


class LineFormatter(logging.Formatter):
    """Formats a record as one line: ts, level, logger, msg, the `extra` values, an exception's text."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line."""
        values: dict[str, object] = {
            "ts": _timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        values.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            values["error"] = self.formatException(record.exc_info)
        if self._form == "json":
            import json  # hooks log in logfmt

            return json.dumps({name: _plain(value) for name, value in values.items()}, ensure_ascii=True)
        return " ".join(f"{name}={_quoted(str(value))}" for name, value in values.items())


def _timestamp(epoch_secs: float) -> str:
    """Return e.g. ``2026-11-21T09:24:47.123Z``; importing datetime would cost a hook two milliseconds."""
    whole, millis = divmod(int(epoch_secs * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{millis:03}Z"


def _plain(value: object) -> object:
    """Return a value that JSON can represent; it has no NaN and no infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | bool | None) else str(value)


def _quoted(text: str) -> str:
    if _PLAIN.match(text):
        return text
    if not _NOT_PLAIN.search(text):
        return f'"{text}"'
    import json  # seldom needed

    return json.dumps(text).replace("\x7f", "\\u007f")  # no newline or escape sequence gets through
