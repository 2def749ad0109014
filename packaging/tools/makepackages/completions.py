"""Shell completions for bash, zsh and fish, by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy

from makepackages.grammar import PATHS, words_in

# shtab knows no flag that is joined to its value by "=", which readline makes a word of its own.
JOINED = """
{function}_joined() {{
  local -a words=() COMP_WORDS=("${{COMP_WORDS[@]:0:COMP_CWORD+1}}")
  local word COMP_CWORD
  for word in "${{COMP_WORDS[@]}}"; do [[ $word == = ]] || words+=("$word"); done
  [[ $word == = ]] && words+=('')
  COMP_WORDS=("${{words[@]}}") COMP_CWORD=$((${{#words[@]}} - 1))
  {function}
}}
complete -o bashdefault -F {function}_joined {name}
"""


def write_completion(
    build: Callable[[str | None], argparse.ArgumentParser], names: Iterable[str], shell: str
) -> str:
    """Return the script of a shell for a program whose parser is complete for one command at a time."""
    import shtab  # only where packages are built and tested

    parser = deepcopy(build(None))  # what shtab is to know is no concern of the parsers that others have
    commands = _commands(parser)
    for name in names:
        commands[name] = deepcopy(_commands(build(name))[name])
    for action in _actions(parser):
        action.choices = action.choices or words_in(action.metavar) or None
        if action.metavar in PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab's way
    text: str = shtab.complete(parser, shell)
    function = "_shtab_" + parser.prog.replace("-", "_")
    return text + JOINED.format(function=function, name=parser.prog) if shell == "bash" else text


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return action.choices
    return {}


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for command in _commands(parser).values():
        yield from _actions(command)
    for action in parser._actions:  # noqa: SLF001
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield action
