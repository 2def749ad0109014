"""Man pages from the grammar of the commands, in man(7). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from makepackages.grammar import Command, Option


@dataclass(frozen=True, slots=True)
class Facts:
    """What all pages contain: `version`, `date` as 2026-01-31, the exit status, files and variables."""

    version: str
    date: str
    exit_status: str
    files: dict[str, str]
    variables: dict[str, str]


def write_pages(program: Command, facts: Facts, others: tuple[str, ...] = ()) -> dict[str, str]:
    """Return file names and texts: a page for the program, and one for each of its commands.

    `others` are further pages in the SEE ALSO of the program's own page.
    """
    children = [_page_name(each) for each in program.commands]
    pages = {f"{_page_name(program)}.1": _page(program, facts, [*children, *others])}
    for each in program.commands:
        pages[f"{_page_name(each)}.1"] = _page(each, facts, [_page_name(program)])
    return pages


def _page_name(command: Command) -> str:
    return command.name.replace(" ", "-")


def _page(command: Command, facts: Facts, see_also: list[str]) -> str:
    name = _page_name(command)
    title = f"{name.upper()}"
    lines = [
        f'.TH {title} 1 {facts.date} "jobfeatures-exporter {facts.version}"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(command.summary or _without_stop(command.description))}",
        ".SH SYNOPSIS",
        *_synopsis(command),
        ".SH DESCRIPTION",
        escaped(command.description),
    ]
    if command.commands:
        lines.append(".SH COMMANDS")
        for each in command.commands:
            lines += [".TP", f".B {escaped(each.word)}", escaped(each.summary)]
    lines += _terms(command, ".SH")
    for each in command.commands:
        if " " in command.name:  # the program's direct commands have pages of their own
            lines += [f".SH {escaped(each.name.upper())}", *_synopsis(each), ".PP", escaped(each.description)]
            lines += _terms(each, ".SS")
    lines += [".SH EXIT STATUS", escaped(facts.exit_status)]
    lines += [".SH FILES", *_list(facts.files), ".SH ENVIRONMENT", *_list(facts.variables)]
    lines += [
        ".SH SEE ALSO",
        ",\n".join(f".BR {escaped(each)} (1)" for each in see_also).replace(",\n", " ,\n"),
    ]
    return "\n".join(lines) + "\n"


def _synopsis(command: Command) -> list[str]:
    """Return the usage; for a command with very many flags, without listing them."""
    usage = command.usage if len(command.usage) < 800 else "[OPTION ...] " + _after_options(command)
    return [f".B {escaped(command.name)}", escaped(usage)] if usage else [f".B {escaped(command.name)}"]


def _after_options(command: Command) -> str:
    return " ".join(each.name + (" ..." if each.repeats else "") for each in command.arguments)


def _terms(command: Command, heading: str) -> list[str]:
    lines = []
    if command.arguments:
        lines.append(f"{heading} ARGUMENTS")
        for argument in command.arguments:
            lines += [
                ".TP",
                f".I {escaped(argument.name)}",
                escaped(_full(argument.meaning, argument.choices)),
            ]
    if command.options:
        lines.append(f"{heading} OPTIONS")
        for option in command.options:
            lines += [".TP", _flags(option), escaped(_full(option.meaning, option.choices))]
    return lines


def _flags(option: Option) -> str:
    flags = ", ".join(rf"\fB{escaped(each)}\fR" for each in option.flags)
    value = option.value and ("VALUE" if option.choices else option.value)
    return flags if value is None else rf"{flags} \fI{escaped(value)}\fR"


def _full(meaning: str, choices: tuple[str, ...]) -> str:
    words = "one of " + ", ".join(choices) if choices else ""
    return "; ".join(each for each in (meaning, words) if each) or "see above"


def _list(entries: dict[str, str]) -> list[str]:
    lines = []
    for term, meaning in entries.items():
        lines += [".TP", f".I {escaped(term)}", escaped(meaning)]
    return lines


def _without_stop(text: str) -> str:
    return text.partition("\n")[0].rstrip(".")


def escaped(text: str) -> str:
    r"""Return text escaped for roff: no escapes, no requests, and hyphens that can be copied.

    >>> escaped("--log.level")
    '\\-\\-log.level'
    """
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    text = text.replace("…", "...").replace("×", "x").replace("–", "\\-").replace("−", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)
