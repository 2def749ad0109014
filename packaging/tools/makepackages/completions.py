"""Shell completions for bash, zsh and fish from the grammar of a command. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from makepackages.grammar import Command, Option


def _below(command: Command, program: Command) -> str:
    """Return a command's name without its program's: the completion state in which its flags are valid."""
    return command.name.removeprefix(program.name).strip()


def _function(program: Command) -> str:
    return "_" + re.sub(r"\W", "_", program.name)


# --- bash ---------------------------------------------------------------------

BASH = """\
# Completion of {name} for bash. It needs nothing but bash.
{function}_grammar() {{ # STATE: sets the valid words and flags in this state
  words='' flags='' valued='' choices='' files=''
  case $1 in
{states}
  esac
}}

{function}_values() {{ # "STATE FLAG": sets the flag's valid values
  choices='' files=''
  case $1 in
{values}
  esac
}}

{function}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} state='' flag='' word words flags valued choices files i
  {function}_grammar ''
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    if [[ $word == = ]]; then continue; fi
    if [[ -n $flag ]]; then
      flag='' # this word is its value
    elif [[ $word == -* ]]; then
      [[ " $valued " == *" $word "* ]] && flag=$word
    elif [[ " $words " == *" $word "* ]]; then
      state="${{state:+$state }}$word"
      {function}_grammar "$state"
    fi
  done
  [[ $current == = ]] && current=''
  COMPREPLY=()
  if [[ -n $flag ]]; then
    {function}_values "$state $flag"
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$current")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words $choices" -- "$current")
  fi
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F {function} {name}
"""


def write_bash(program: Command) -> str:
    """Return the script for bash."""
    states, values = [], []
    for command in program.walk():
        state = _below(command, program)
        settings = {
            "words": [each.word for each in command.commands],
            "flags": [flag for option in command.options for flag in option.flags],
            "valued": [flag for option in command.options if option.value for flag in option.flags],
            "choices": [word for argument in command.arguments for word in argument.choices],
            "files": ["yes"] if _takes_files(command) else [],
        }
        assigned = "; ".join(f"{name}={shlex.quote(' '.join(it))}" for name, it in settings.items() if it)
        states.append(f"  {shlex.quote(state)}) {assigned or ':'} ;;")
        for option in command.options:
            if option.choices or option.takes_path:
                names = "|".join(shlex.quote(f"{state} {flag}") for flag in option.flags)
                what = f"choices={shlex.quote(' '.join(option.choices))}" if option.choices else "files=yes"
                values.append(f"  {names}) {what} ;;")
    return BASH.format(
        name=program.name,
        function=_function(program),
        states="\n".join(states),
        values="\n".join(values) or "  '') ;;",
    )


def _takes_files(command: Command) -> bool:
    """Return whether a command has positional arguments without choices, which may be files."""
    return any(not argument.choices for argument in command.arguments)


# --- zsh ----------------------------------------------------------------------


def write_zsh(program: Command) -> str:
    """Return the function file for zsh."""
    function = _function(program)
    functions = "\n\n".join(_zsh_function(command, program) for command in program.walk())
    head = f"#compdef {program.name}\n# Completion of {program.name} for zsh.\n"
    return f'{head}\n{functions}\n\n{function} "$@"\n'


def _zsh_function(command: Command, program: Command) -> str:
    name = _zsh_name(command, program)
    specs = [_zsh_option(option) for option in command.options]
    after = ""
    if command.commands:
        entries = " ".join(
            shlex.quote(f"{_zsh_text(each.word)}:{_zsh_text(each.summary or each.description)}")
            for each in command.commands
        )
        specs += ["'1: :->command'", "'*:: :->rest'"]
        calls = "\n".join(
            f"      {shlex.quote(each.word)}) {_zsh_name(each, program)} ;;" for each in command.commands
        )
        after = (
            "\n  case $state in\n"
            f"  command) local -a commands=({entries}); _describe command commands ;;\n"
            f"  rest)\n    case $line[1] in\n{calls}\n    esac ;;\n  esac"
        )
    for position, argument in enumerate(command.arguments, 1):
        values = "(" + " ".join(argument.choices) + ")" if argument.choices else "_files"
        place = "*" if argument.repeats else str(position)
        specs.append(shlex.quote(f"{place}:{_zsh_text(argument.name)}:{values}"))
    joined = " \\\n    ".join(specs)
    local = "  local curcontext=$curcontext state line\n  typeset -A opt_args\n" if command.commands else ""
    flags = "-C" if command.commands else "-s"
    return f"{name}() {{\n{local}  _arguments {flags} \\\n    {joined}{after}\n}}"


def _zsh_name(command: Command, program: Command) -> str:
    return re.sub(r"\W", "_", "_".join([_function(program), *_below(command, program).split()]))


def _zsh_option(option: Option) -> str:
    value = ""
    if option.value:
        values = "_files" if option.takes_path else " "
        if option.choices:
            values = "(" + " ".join(option.choices) + ")"
        value = f":{_zsh_text(option.value.lower())}:{values}"
    meaning = _zsh_text(option.meaning)
    if len(option.flags) == 1:
        return shlex.quote(f"{option.flags[0]}[{meaning}]{value}")
    both = " ".join(option.flags)
    return shlex.quote(f"({both})") + "{" + ",".join(option.flags) + "}" + shlex.quote(f"[{meaning}]{value}")


def _zsh_text(text: str) -> str:
    """Return a text with the brackets and colons escaped that are special to zsh."""
    return re.sub(r"([\\:\[\]])", r"\\\1", " ".join(text.split()))


# --- fish ---------------------------------------------------------------------


def write_fish(program: Command) -> str:
    """Return the script for fish."""
    lines = [f"# Completion of {program.name} for fish.", f"complete -c {program.name} -f"]
    for command in program.walk():
        condition = _fish_condition(command, program)
        for each in command.commands:
            word, summary = _fish_text(each.word), _fish_text(each.summary)
            lines.append(f"complete -c {program.name} -n {condition} -a {word} -d {summary}")
        if _takes_files(command):
            lines.append(f"complete -c {program.name} -n {condition} -F")
        words = [word for argument in command.arguments for word in argument.choices]
        if words:
            lines.append(f"complete -c {program.name} -n {condition} -a {_fish_text(' '.join(words))}")
        lines += [_fish_option(program, condition, option) for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_condition(command: Command, program: Command) -> str:
    """Return the condition for completing a command's own words: after it, and before any subcommand."""
    terms = [f"__fish_seen_subcommand_from {word}" for word in _below(command, program).split()]
    if command.commands:
        below = " ".join(each.word for each in command.commands)
        terms.append(f"not __fish_seen_subcommand_from {below}")
    return _fish_text("; and ".join(terms))


def _fish_option(program: Command, condition: str, option: Option) -> str:
    parts = [f"complete -c {program.name} -n {condition}", *_fish_flags(option.flags)]
    if option.value and option.takes_path:
        parts.append("-r -F")
    elif option.value:
        parts.append("-x" + (f" -a {_fish_text(' '.join(option.choices))}" if option.choices else ""))
    return " ".join([*parts, f"-d {_fish_text(option.meaning)}"])


def _fish_flags(flags: Iterable[str]) -> list[str]:
    return [f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in flags]


def _fish_text(text: str) -> str:
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"
