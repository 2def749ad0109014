"""Parses command lines: an error is one line with the nearest valid word, and exit status 2."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from jobfeatures.errors import ConfigurationError, nearest, printable, shown

SETTINGS_TITLE = "settings"  # help's title for the flags of settings


def add_option(
    parser: argparse._ActionsContainer,
    flag: str,
    metavar: str,
    meaning: str,
    default: Any = None,
    **more: Any,
) -> None:
    """Add an option that takes a value; its help ends with the default, if that is a text or a number.

    `more` are further arguments of argparse's `add_argument`.
    """
    described = f"{meaning} (default: %(default)s)" if isinstance(default, str | float) else meaning
    parser.add_argument(flag, metavar=metavar, help=described, default=default, **more)


def add_switch(parser: argparse._ActionsContainer, flag: str, meaning: str) -> None:
    """Add an option without a value, which switches something on."""
    parser.add_argument(flag, action="store_true", help=meaning)


class VersionAction(argparse.Action):
    """The action of ``--version``. It keeps line breaks: argparse's own action would join the lines."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        """Print the version and end the program."""
        from jobfeatures.version import format_version  # hooks do not need it

        print(format_version(parser.prog), flush=True)
        parser.exit(0)


class _HelpAll(argparse.Action):
    """``--help-all``: help with every flag."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        print(cast(Parser, parser).format_help(everything=True), end="", flush=True)
        parser.exit(0)


class Parser(argparse.ArgumentParser):
    """Reports an error in one line; its ``--help`` shows only the most common flags."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._later: set[str] = set()
        self.folded: Mapping[str, str] = {}  # groups of settings that help shows as one: what it says of each

    def show_later(self, dests: Iterable[str]) -> None:
        """List the flags with these destinations in ``--help-all`` only."""
        if not self._later:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show every flag and exit")
        self._later.update(dests)

    def format_help(self, *, everything: bool = False) -> str:
        """Return help; unless `everything`, without the flags that only ``--help-all`` shows."""
        formatter = self._get_formatter()
        settings = [group for group in self._action_groups if group.title == SETTINGS_TITLE]
        hidden = {each for group in settings for each in group._group_actions}  # noqa: SLF001  # no other way
        hidden.update(each for each in self._actions if each.dest in self._later)
        exclusive = [
            group
            for group in self._mutually_exclusive_groups
            if not hidden.intersection(group._group_actions)  # noqa: SLF001
        ]
        formatter.add_usage(self.usage, [each for each in self._actions if each not in hidden], exclusive)
        formatter.add_text(self.description)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            found = group._group_actions  # noqa: SLF001
            formatter.add_arguments(each for each in found if self._is_shown(each.dest, everything))
            formatter.end_section()
        for title, text in self.folded.items():
            formatter.start_section(f"{title}s")
            formatter.add_text(text if everything else None)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _is_shown(self, dest: str, everything: bool) -> bool:
        return dest.partition(".")[0] not in self.folded and (everything or dest not in self._later)

    def parse_known_args(  # type: ignore[override]  # the overloads of typeshed differ in the namespace alone
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse as argparse does, but end the program at an unknown flag, with a similar one suggested."""
        found, left = super().parse_known_args(args, namespace)
        if left and left[0].startswith("-"):
            flag = left[0].partition("=")[0]
            known = [each for each in self._option_string_actions if each.startswith("--")]
            self.error(f"there is no flag {shown(flag)}{nearest(flag, known)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """Print the error in one line, and end the program with status 2."""
        text = " ".join(message.split())
        self.exit(2, f"{self.prog}: {text} (see {self.prog} --help)\n")


def check_command(prog: str, given: Sequence[str], commands: Collection[str]) -> None:
    """End the program with status 2 if the first argument is neither a flag nor a known command.

    `given` are the program's arguments, `prog` is its name in the message.
    """
    if given and not given[0].startswith("-") and given[0] not in commands:
        text = f"there is no command {shown(given[0])}{nearest(given[0], commands)}"
        print(f"{prog}: {text} (see {prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def need(module: str, key: str, library: str, extra: str = "analysis") -> None:
    """Raise ConfigurationError if `module`, which an optional extra of the package installs, cannot be used.

    The error names the setting `key` that needs it, the `library`, and how to install the `extra`, or the
    file that fails, such as another Python's by $PYTHONPATH.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        hint = f": pip install 'jobfeatures-exporter[{extra}]'"
        if (found := importlib.util.find_spec(module.partition(".")[0])) is not None:
            *_, reason = str(error).strip().splitlines() or [""]
            hint = (
                f", but {found.origin} cannot be loaded (is it for this Python, see $PYTHONPATH?): {reason}"
            )
        raise ConfigurationError(key, f"needs {library}{hint}") from None


def complain(text: object, program: str = "jobfeatures") -> None:
    """Print a text to standard error, in one line that begins with the program's name."""
    print(f"{program}: {printable(str(text))}", file=sys.stderr)
