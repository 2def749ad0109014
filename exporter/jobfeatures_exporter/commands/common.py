"""Functions shared by several commands."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Mapping, Set
from queue import Empty, SimpleQueue

from jobfeatures.settings.flags import add_flags
from jobfeatures.settings.resolve import load_config, settings_of
from jobfeatures.settings.usage import complain
from jobfeatures_exporter.config import ExporterConfig


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting to a command's parser."""
    add_flags(parser, ExporterConfig)


def config_of(arguments: argparse.Namespace, changes: Mapping[str, str] | None = None) -> ExporterConfig:
    """Return the settings from flags, environment and settings file.

    `changes`, by a setting's key, replace values from the environment and the file, but not flags. Raises
    ConfigurationError if a setting is invalid.
    """
    flags = dict(vars(arguments))
    _warn_of_misspelt({each.variable for each in settings_of(ExporterConfig)})
    for key, value in (changes or {}).items():
        if flags.get(key) is None:
            flags[key] = value
    return load_config(ExporterConfig, flags=flags, file=flags.get("config.file"))


def _warn_of_misspelt(variables: Set[str]) -> None:
    """Warn of environment variables named nearly as a setting's; others may be of other programs."""
    unknown = os.environ.keys() - variables
    for name in sorted(each for each in unknown if each.startswith("JOBFEATURES_")):
        from difflib import get_close_matches  # seldom needed

        words = [each.removeprefix("JOBFEATURES_") for each in variables]
        if near := get_close_matches(name.removeprefix("JOBFEATURES_"), words, 1, 0.85):
            warning = f"{name}: there is no such setting; did you mean JOBFEATURES_{near[0]}?"
            complain(warning, "jobfeatures-exporter")


def pause_until_signal() -> Callable[[float], bool]:
    """Return `pause(secs)`: it waits `secs` seconds, or until SIGINT or SIGTERM; True if a signal has come.

    An Event would not do: the signal handler runs in the main thread, which may be holding the Event's lock
    at that time, and would wait for itself. A SimpleQueue is made for this.
    """
    came: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup
            signal.signal(number, lambda number, _frame: came.put(number))

    def pause(secs: float) -> bool:
        try:
            came.put(came.get(timeout=secs))
        except Empty:
            return False
        return True

    return pause
