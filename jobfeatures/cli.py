"""The `jobfeatures` command: what hooks, administrators and jobs run.

Exit status: 0 success; 1 the answer is unknown (`get`, `remaining`, `show`) or the command failed; 2 wrong
usage or settings; 130 interrupted. docs/reference/exits.md lists them by command. `publish` and `remove`
always exit with 0, unless `--strict` is given: a prolog that fails takes its node out of service.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from jobfeatures.errors import JobfeaturesError
from jobfeatures.settings.usage import Parser, VersionAction, check_command, complain
from jobfeatures.system.exitstatus import INTERRUPTED
from jobfeatures.system.logs import FORMATS, LEVELS, configure_logging
from jobfeatures.system.output import give_up_output, is_about_output

# Each is a module in jobfeatures/commands with `add_arguments(parser)` and `run(arguments)`.
# It is imported only when it is called, because every import delays a prolog.
COMMANDS = {
    "publish": "publish the features of the job that starts here; for a prolog",
    "remove": "remove the features of the job that ended here; for an epilog",
    "env": "print export lines for this job; for a task prolog or a shell's eval",
    "show": "print the features of a job, or of all jobs published here",
    "get": "print the value of one key of this job or this machine",
    "remaining": "print how many seconds this job may still run",
    "run": "run a program, and send it a signal before this job ends",
    "drain": "set, cancel, show and plan shutdowns of this node and of its jobs",
    "victims": "find the jobs of this node that free a number of cores with the least waste",
    "report": "report to the site what this job is doing; for pilots",
    "check": "check feature directories, SWF logs, and documents of SSS and of Sonar",
    "sss": "explain documents of jobs in SSS's format, find nodes for them, and print its schema",
    "convert": "convert logs of jobs between SWF, SSS, accounting files and others",
    "schedule": "measure how good the schedules of logs were, and what ended later than a fair share "
    "promises",
    "expect": "show when a job is expected to end by its user's share, and why",
    "simulate": "simulate how another scheduler would have run the jobs of a log",
}
HELP = frozenset({"-h", "--help"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `jobfeatures` with these arguments (default: the process's); return the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    check_command("jobfeatures", given, COMMANDS)
    called = next((word for word in given if word in COMMANDS), None)
    parser = build_parser(called, in_haste=given[:1] == [called] and not HELP & set(given))
    try:
        arguments = parser.parse_args(given)
        configure_logging(arguments.log_level, arguments.log_format)
        status: int = _module(arguments.command).run(arguments)
    except JobfeaturesError as error:
        complain(error)
        return error.exit_status
    except OSError as error:
        if not is_about_output(error):
            raise
        return give_up_output(error, complain)
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    return status


def build_parser(called: str | None, *, in_haste: bool = False) -> argparse.ArgumentParser:
    """Return the argument parser of `jobfeatures`; of the commands, only `called` gets its own arguments.

    With `in_haste`, the other commands are left out, and the terminal's width is not queried: that halves the
    time that a prolog spends here.
    """
    form = functools.partial(argparse.HelpFormatter, width=80) if in_haste else argparse.HelpFormatter
    parser = Parser(
        prog="jobfeatures",
        description="Machine/job features: publish them for jobs, and read them in a job.",
        formatter_class=form,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=VersionAction, nargs=0, help="print the version and exit")
    parser.add_argument(
        "--log.level", dest="log_level", choices=LEVELS, default="info", help="(default: info)"
    )
    parser.add_argument(
        "--log.format", dest="log_format", choices=FORMATS, default="logfmt", help="(default: logfmt)"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, meaning in COMMANDS.items():
        if in_haste and name != called:
            continue
        description = meaning[0].upper() + meaning[1:] + "."
        made = commands.add_parser(
            name, help=meaning, description=description, allow_abbrev=False, formatter_class=form
        )
        if name == called:
            _module(name).add_arguments(made)
    return parser


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"jobfeatures.commands.{name}")
