"""The `jobfeatures-exporter` command.

Exit status: 0 done; 1 the work failed; 2 wrong usage or settings, said before
a port opens.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from exporter.config import ExporterConfig
from jobfeatures import __version__
from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.logs import configure_logging
from jobfeatures.settings import POSITIVE_DURATION, add_flags, load_config, settings_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = build_parser().parse_args(argv)
    run = {"serve": _serve, "demo": _demo, "check-config": _check_config}[arguments.command]
    try:
        return run(arguments)
    except ConfigurationError as error:
        print(f"jobfeatures-exporter: {error}", file=sys.stderr)
        return 2
    except JobfeaturesError as error:
        print(f"jobfeatures-exporter: {error}", file=sys.stderr)
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    parser = argparse.ArgumentParser(
        prog="jobfeatures-exporter",
        description="Node exporter and job-features provider for batch clusters.",
    )
    parser.add_argument("--version", action="version", version=f"jobfeatures-exporter {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (
        ("serve", "run the daemon"),
        ("demo", "run the daemon on a few jobs that are started for show; no batch system, no root"),
        ("check-config", "check flags, environment and file, print the settings that would be used"),
    ):
        made = commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
        )
        if name == "demo":
            made.add_argument(
                "--duration",
                metavar="SECONDS",
                help="end by itself after this time (default: run until Ctrl-C)",
            )
        add_flags(made, ExporterConfig)
    return parser


def _serve(arguments: argparse.Namespace) -> int:
    config = _config(arguments)
    configure_logging(config.log_level, config.log_format)
    from exporter.serve import serve

    serve(config)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    duration_secs = None
    if arguments.duration is not None:
        try:
            duration_secs = POSITIVE_DURATION.parse(arguments.duration)
        except ValueError as error:
            raise ConfigurationError("--duration", str(error)) from None
    from exporter.demo import run_demo

    def config_for(changes: Mapping[str, str]) -> ExporterConfig:
        return _config(arguments, changes)

    return run_demo(config_for, duration_secs)


def _check_config(arguments: argparse.Namespace) -> int:
    config = _config(arguments)
    from exporter.daemon import Daemon
    from exporter.serve import check_listener

    check_listener(config)
    Daemon(config)  # finds what the settings contradict in one another
    for each in settings_of(ExporterConfig):
        value = getattr(config, each.field_name)
        print(f"{each.key} = {'(not set)' if value is None else value}")
    return 0


def _config(arguments: argparse.Namespace, changes: Mapping[str, str] | None = None) -> ExporterConfig:
    given = vars(arguments)
    flags = {each.key: given.get(each.key) for each in settings_of(ExporterConfig)}
    for key, value in (changes or {}).items():
        if flags.get(key) is None:
            flags[key] = value
    return load_config(ExporterConfig, flags=flags, file=given.get("config.file"))
