"""`jobfeatures-exporter textfile`: writes the metrics to a file, for nodes on which no daemon may listen."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from jobfeatures.errors import ConfigurationError, JobfeaturesError, UnsafePathError, shown
from jobfeatures.settings.flags import parse_duration_flag
from jobfeatures.system.logs import configure_logging
from jobfeatures_exporter.commands.common import add_settings, config_of, pause_until_signal

if TYPE_CHECKING:
    from jobfeatures_exporter.registry import NodeCollector

NAME = "jobfeatures.prom"
# A one-time sample publishes nothing and sends nothing.
ONCE = {"features.publish": "false", "sonar.sinks": ""}

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command `textfile`, and all settings, to its parser."""
    parser.add_argument(
        "directory",
        metavar="DIRECTORY",
        help=f"of node_exporter's textfile collector: where {NAME} is written",
    )
    parser.add_argument(
        "--interval",
        metavar="DURATION",
        help="write at this interval until a signal, then remove the file (default: write once)",
    )
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the metrics of this node to a file, once or periodically; return the exit status."""
    from jobfeatures_exporter.registry import ELSEWHERE

    interval_secs = None
    if arguments.interval is not None:
        interval_secs = parse_duration_flag("--interval", arguments.interval)
    _check_directory(arguments.directory)
    config = config_of(arguments, ELSEWHERE | (ONCE if interval_secs is None else {}))
    if config.role != ELSEWHERE["role"]:
        raise ConfigurationError(
            "role", "must be node: textfile does not write the metrics of the controller role"
        )
    configure_logging(config.log.level, config.log.format)
    from jobfeatures_exporter.registry import NodeCollector

    collector = NodeCollector.from_config(config)
    path = os.path.join(arguments.directory, NAME)
    collector.start()
    try:
        if interval_secs is None:
            _write(path, collector)
        else:
            _keep_writing(path, collector, interval_secs)
    finally:
        collector.stop()
    return 0


def _check_directory(path: str) -> None:
    """Raise ConfigurationError if the directory is missing, or users but root and us may write there."""
    from jobfeatures.publish.files import DIRECTORY, must_be_ours
    from jobfeatures.system.privatefile import opened

    try:
        with opened(path, DIRECTORY) as descriptor:
            must_be_ours(descriptor, path)
    except (OSError, UnsafePathError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError("DIRECTORY", f"{shown(path)}: {reason}") from None


def _write(path: str, collector: NodeCollector) -> None:
    """Replace the file of metrics by a rename; if that fails, leave it and raise JobfeaturesError."""
    from prometheus_client import CollectorRegistry, write_to_textfile

    registry = CollectorRegistry()
    registry.register(collector)
    mask = os.umask(0o022)  # the reader is another user, and nobody else may change the file
    try:
        write_to_textfile(path, registry)
    except OSError as error:
        raise JobfeaturesError(f"{path}: cannot write: {error.strerror or error}") from error
    finally:
        os.umask(mask)


def _keep_writing(path: str, collector: NodeCollector, interval_secs: float) -> None:
    """Write until a signal; then remove the file, as its values would become stale."""
    pause = pause_until_signal()
    logged = ""
    try:
        while True:
            try:
                _write(path, collector)
                logged = ""
            except JobfeaturesError as error:
                if str(error) != logged:  # once, not at each attempt
                    log.error("%s", error)
                logged = str(error)
            if pause(interval_secs):
                return
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
