"""The `jobfeatures-exporter` command.

Exit status: 0 success; 1 failure; 2 wrong usage or settings, reported before
any port opens; 130 interrupted. docs/reference/exits.md lists them by command.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.settings.usage import Parser, VersionAction, check_command, complain
from jobfeatures.system.exitstatus import INTERRUPTED
from jobfeatures.system.lack import describe_lack, is_lack
from jobfeatures.system.output import end_output, give_up_output, is_about_output

# Each command is a file in commands/ with `add_arguments(parser)` and `run(arguments)`; dashes become
# underscores. Imported only when called: most need little of the daemon.
COMMANDS = {
    "serve": "run the daemon",
    "demo": "run the daemon on a few demonstration jobs; no batch system, no root",
    "check-config": "check flags, environment and file, print the settings that would be used",
    "doctor": "check everything that the daemon depends on, with remedies",
    "node-token": "print the nodes' tokens for the controller role, derived from its secret",
    "report": "show what a job requested, used and wasted, from a Prometheus server's data",
    "summaries": "write a summary of each ended job into Slurm's accounting, as Jobstats does",
    "mail": "send Slurm's mail on a job's end with what it used, as its MailProg",
    "top": "show the jobs of this node, live",
    "textfile": "write the metrics to a file for node_exporter, without a listener",
    "sonar": "print documents in Sonar's JSON format",
}
# New objects before a garbage collection: imports and a sample of 1,000 jobs make that many, without cycles.
GARBAGE_AFTER = 50_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    gc.set_threshold(GARBAGE_AFTER)
    given = sys.argv[1:] if argv is None else list(argv)
    check_command("jobfeatures-exporter", given, COMMANDS)
    parser = build_parser(given[0] if given else None)
    try:
        arguments = parser.parse_args(given)
        status: int = _module(arguments.command).run(arguments)
    except ConfigurationError as error:
        complain(error, "jobfeatures-exporter")
        return 2
    except JobfeaturesError as error:
        complain(error, "jobfeatures-exporter")
        return 1
    except OSError as error:
        if not is_about_output(error):
            raise
        return give_up_output(error, _complain)
    except KeyboardInterrupt:
        complain("interrupted", "jobfeatures-exporter")
        return INTERRUPTED
    except (MemoryError, RuntimeError) as error:
        if not is_lack(error):
            raise
        complain(describe_lack(error), "jobfeatures-exporter")
        return 1
    return end_output(status, _complain)


def _complain(text: str) -> None:
    complain(text, "jobfeatures-exporter")


def build_parser(called: str | None = None) -> argparse.ArgumentParser:
    """Return the argument parser for the command line.

    Every command is listed in it, but only the command `called` gets its own arguments, to save time (None:
    no command does).
    """
    parser = Parser(
        prog="jobfeatures-exporter", description="Node exporter and job-features provider for batch clusters."
    )
    parser.add_argument("--version", action=VersionAction, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, meaning in COMMANDS.items():
        if called in COMMANDS and name != called:
            continue  # a subparser costs as much time as a dozen flags
        made = commands.add_parser(
            name, help=meaning, description=meaning[0].upper() + meaning[1:] + ".", allow_abbrev=False
        )
        if name == called:
            _module(name).add_arguments(made)
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"jobfeatures_exporter.commands.{name.replace('-', '_')}")
