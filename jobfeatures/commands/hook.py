"""Runs a hook's work within a deadline, so that no failure affects the job."""

from __future__ import annotations

import argparse
import logging
import os
import stat
from collections.abc import Callable

from jobfeatures.commands.common import JOB_VARIABLES, TimeIsUpError, add_batch, read_config, time_limit
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.publish.hookreasons import reason_of
from jobfeatures.settings.flags import add_flags
from jobfeatures.settings.resolve import load_config

log = logging.getLogger(__name__)

ROOT_VARIABLE = "JOBFEATURES_FEATURES_ROOT"
KEPT_CONFIG = "intake/config.toml"  # below the features' root; written by the daemon


def add_hook_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `publish` and `remove` have in common."""
    add_flags(parser, Config)
    add_batch(parser, JOB_VARIABLES, " (default: by the environment)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if something failed")


def run_hook(arguments: argparse.Namespace, work: Callable[[Config], None]) -> int:
    """Run a hook's work within its deadline; return the exit status: 1 for a failure with `--strict`, else 0.

    A failure is logged. Its log line ends with ``reason=WORD``, so that the calling script can count failures
    by reason.
    """
    status = 1 if arguments.strict else 0
    try:
        config = read_hook_config(arguments)
        with time_limit(config.hook.timeout_secs):
            work(config)
    except TimeIsUpError:
        log.error(
            "%s: stopped at the time limit hook.timeout", arguments.command, extra={"reason": "timeout"}
        )
        return status
    except (JobfeaturesError, OSError) as error:
        log.error("%s: %s", arguments.command, error, extra={"reason": reason_of(error)})
        return status
    except Exception as error:  # a hook must not fail its job, whatever our error
        log.exception("%s failed", arguments.command, extra={"reason": reason_of(error)})
        return status
    return 0


def read_hook_config(arguments: argparse.Namespace) -> Config:
    """Return the settings; if they are invalid, the last ones that the daemon accepted, or the defaults.

    So a mistake in the settings file does not cost jobs their features. Raises ConfigurationError for a wrong
    flag, or if it is unknown where features are published.
    """
    try:
        return read_config(arguments)
    except ConfigurationError as error:
        if error.key.startswith("--") or error.key == ROOT_VARIABLE:
            raise
        broken = error
    here = {name: value for name, value in os.environ.items() if name == ROOT_VARIABLE}
    kept = f"{here.get(ROOT_VARIABLE) or Config().batch.common.root}/{KEPT_CONFIG}"
    for file, environ in ((kept, os.environ), (kept, here), (os.devnull, here)):
        try:
            if file == kept and not is_ours(kept):
                continue
            config = load_config(Config, flags=vars(arguments), environ=environ, file=file, strict=False)
        except ConfigurationError:
            continue
        message = "%s; the last good configuration is used" if file == kept else "%s; defaults are used"
        log.error(message, broken, extra={"reason": reason_of(broken)})
        return config
    raise broken


def is_ours(path: str) -> bool:
    """Return whether a file exists that only root or this user can have written."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022
