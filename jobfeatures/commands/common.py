"""Functions that several commands share: reading settings, finding out which job is meant, time limits."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TypeVar

from jobfeatures.batch import SYSTEMS
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError, ParseError, shown
from jobfeatures.settings.resolve import load_config

JOB_VARIABLES = {name: each.job_variable for name, each in SYSTEMS.items() if each.job_variable}


def read_config(arguments: argparse.Namespace) -> Config:
    """Return the settings for `jobfeatures`; the daemon's own in the same file are ignored."""
    given = vars(arguments)
    return load_config(Config, flags=given, file=given.get("config.file"), strict=False)


def add_batch(parser: argparse.ArgumentParser, names: Iterable[str], when: str) -> None:
    """Add the flag ``--batch``, which chooses one of the batch systems `names`.

    `when` is appended to its help, such as what the default is.
    """
    known = sorted(names)
    parser.add_argument("--batch", metavar="SYSTEM", choices=known, help=f"one of {', '.join(known)}{when}")


def which_batch_system(named: str | None) -> str:
    """Return `named`, else the batch system whose job runs this command, by its environment variables.

    Raises ConfigurationError if no batch system has set any.
    """
    if named is not None:
        return named
    for batch_system, variable in JOB_VARIABLES.items():
        second = SYSTEMS[batch_system].second_variable
        if variable in os.environ and (second is None or second in os.environ):
            return batch_system
    variables = ", ".join(dict.fromkeys(JOB_VARIABLES.values()))
    raise ConfigurationError("--batch", f"must be given, because none of {variables} is set")


def which_job(batch_system: str) -> str:
    """Return the job's id from the batch system's environment variables.

    Raises ConfigurationError if they are not set, or malformed.
    """
    try:
        return SYSTEMS[batch_system].job_id_in(os.environ)
    except ParseError as error:
        raise ConfigurationError(JOB_VARIABLES.get(batch_system, "--job"), error.reason) from error


NumberT = TypeVar("NumberT", int, float)


def number_flag(kind: type[NumberT], what: str, lowest: float, highest: float) -> Callable[[str], NumberT]:
    """Return a parser for a flag's value: a number of the type `kind`, from `lowest` to `highest`.

    `what` describes the valid values, in the error that the parser raises for an invalid one.
    """

    def parse(text: str) -> NumberT:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not lowest <= value <= highest:  # also refuses NaN
            raise argparse.ArgumentTypeError(f"must be {what}, not {shown(text)}")
        return value

    return parse


class TimeIsUpError(Exception):
    """Raised when the time limit of a command, or of a part of it, has passed."""


# An exception in one of these would leave a program that nobody ends, nor waits for.
HELD = {"Popen.__init__", "end_program"}
HELD_SECS = 0.05
MAX_HELD = 10  # times: what hangs there is given up


@contextlib.contextmanager
def time_limit(secs: float) -> Iterator[None]:
    """Limit the time of a ``with`` block of the main thread: raises TimeIsUpError there after `secs`.

    The error is raised by SIGALRM, and again each second, since the first one may arrive where an exception
    is lost. While a program is being started or ended, it comes up to half a second later.
    """
    held = 0

    def time_is_up(_number: int, frame: FrameType | None) -> None:
        nonlocal held
        while frame is not None and held < MAX_HELD:
            if frame.f_code.co_qualname in HELD:
                held += 1
                signal.setitimer(signal.ITIMER_REAL, HELD_SECS, 1.0)
                return
            frame = frame.f_back
        raise TimeIsUpError

    previous = signal.signal(signal.SIGALRM, time_is_up)
    signal.setitimer(signal.ITIMER_REAL, secs, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
