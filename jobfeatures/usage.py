"""Wrong words on a command line: one line that names the nearest right one, and exit status 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from jobfeatures.errors import shown


class VersionAction(argparse.Action):
    """Prints the version line by line: argparse's own action would fold the lines."""

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        """Print and end the program."""
        from jobfeatures.version import format_version  # hooks start without

        print(format_version(parser.prog))
        parser.exit(0)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line: with hundreds of settings the usage would bury it."""

    def parse_known_args(  # type: ignore[override]  # the overloads of typeshed differ in the namespace alone
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Refuse a flag that there is not, and tell which is like it."""
        found, left = super().parse_known_args(args, namespace)
        if left and left[0].startswith("-"):
            flag = left[0].partition("=")[0]
            known = [each for each in self._option_string_actions if each.startswith("--")]
            self.error(f"there is no flag {shown(flag)}{_nearest(flag, known)}")
        return found, left

    def error(self, message: str) -> NoReturn:
        """Print one line and end the program."""
        text = " ".join(message.split())
        self.exit(2, f"{self.prog}: {text} (see {self.prog} --help)\n")


def check_command(prog: str, given: Sequence[str], commands: Collection[str]) -> None:
    """End the program if the first word is meant to be a command and is none."""
    if given and not given[0].startswith("-") and given[0] not in commands:
        text = f"there is no command {shown(given[0])}{_nearest(given[0], commands)}"
        print(f"{prog}: {text} (see {prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def complain(text: object) -> None:
    """Say one line to whoever called `jobfeatures`."""
    print(f"jobfeatures: {text}", file=sys.stderr)


def _nearest(word: str, known: Collection[str]) -> str:
    from jobfeatures.settingsfile import nearest  # only where somebody has made a mistake

    return nearest(word, known)
