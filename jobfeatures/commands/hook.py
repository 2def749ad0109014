"""The frame of a hook: a deadline, and no failure that could reach the job."""

from __future__ import annotations

import argparse
import logging
import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from jobfeatures.commands.common import JOB_VARIABLES, read_config
from jobfeatures.config import Config
from jobfeatures.errors import JobfeaturesError
from jobfeatures.settings import add_flags

log = logging.getLogger(__name__)


class _DeadlineError(Exception):
    """The hook's time is up."""


def add_hook_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what both hooks take."""
    add_flags(parser, Config)
    parser.add_argument(
        "--batch", choices=sorted(JOB_VARIABLES), help="batch system (default: by the environment)"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 where something failed")


def run_hook(arguments: argparse.Namespace, work: Callable[[Config], None]) -> int:
    """Run a hook's work within its deadline; a failure is logged, and a status only with `--strict`."""
    status = 1 if arguments.strict else 0
    try:
        config = read_config(arguments)
        signal.signal(signal.SIGALRM, _deadline)
        signal.setitimer(signal.ITIMER_REAL, config.hook_timeout_secs)
        work(config)
    except _DeadlineError:
        log.error("%s: out of time", arguments.command)
        return status
    except (JobfeaturesError, OSError) as error:
        log.error("%s: %s", arguments.command, error)
        return status
    except Exception:  # a hook must not fail its job, whatever is wrong with us
        log.exception("%s failed", arguments.command)
        return status
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _deadline(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _DeadlineError
