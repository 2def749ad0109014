"""The grammar of a command line as records, from which man pages and completions are generated. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

PATHS = frozenset({"PATH", "FILE", "FOLDER", "DIRECTORY", "DIR", "LOG"})


@dataclass(frozen=True, slots=True)
class Option:
    """A flag. `value` is the name of its value, None if it takes none."""

    flags: tuple[str, ...]
    value: str | None
    choices: tuple[str, ...]
    meaning: str

    @property
    def takes_path(self) -> bool:
        """Return whether the value names a file or folder."""
        return self.value in PATHS


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument of a command."""

    name: str
    choices: tuple[str, ...]
    repeats: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command: `name` is "jobfeatures drain set", `usage` what follows the name."""

    name: str
    summary: str
    description: str
    usage: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]

    @property
    def word(self) -> str:
        """Return the last word of the name."""
        return self.name.rsplit(maxsplit=1)[-1]

    def walk(self) -> Iterable[Command]:
        """Yield the command and all below it."""
        yield self
        for each in self.commands:
            yield from each.walk()


def read_program(build: Callable[[str | None], argparse.ArgumentParser], names: Iterable[str]) -> Command:
    """Return the grammar of a program whose parser is complete for one command at a time."""
    complete = []
    for name in names:
        [found] = [each for each in read_parser(build(name), "").commands if each.word == name]
        complete.append(found)
    return replace(read_parser(build(None), ""), commands=tuple(complete))


def read_parser(parser: argparse.ArgumentParser, summary: str) -> Command:
    """Return the grammar of a parser, without what --help does not show."""
    options: list[Option] = []
    arguments: list[Argument] = []
    commands: list[Command] = []
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to ask
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            summaries = {each.dest: each.help or "" for each in action._choices_actions}  # noqa: SLF001
            commands += [read_parser(each, summaries.get(name, "")) for name, each in action.choices.items()]
            continue
        choices = tuple(str(each) for each in action.choices or ()) or words_in(action.metavar)
        meaning = parser._get_formatter()._expand_help(action) if action.help else ""  # noqa: SLF001
        if action.option_strings:
            options.append(Option(tuple(action.option_strings), _value(action), choices, meaning))
        else:
            name = action.metavar or action.dest
            repeats = action.nargs in ("*", "+", argparse.REMAINDER) or isinstance(action.nargs, int)
            arguments.append(Argument(name if isinstance(name, str) else name[0], choices, repeats, meaning))
    usage = " ".join(parser.format_usage().split())
    usage = usage.removeprefix("usage:").strip().removeprefix(parser.prog).strip()
    return Command(
        parser.prog,
        summary,
        parser.description or "",
        usage,
        tuple(options),
        tuple(arguments),
        tuple(commands),
    )


def _value(action: argparse.Action) -> str | None:
    """Return the name of an option's value, None if it takes none."""
    if action.nargs == 0:
        return None
    if action.metavar is None:
        return action.dest.upper() if not action.choices else "|".join(str(each) for each in action.choices)
    return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)


def words_in(metavar: object) -> tuple[str, ...]:
    """Return the choices in the placeholder of a setting's flag, such as "local|http|both"."""
    return tuple(metavar.split("|")) if isinstance(metavar, str) and "|" in metavar else ()
