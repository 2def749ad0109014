"""The commands in a shell block, and whether one of ours is right: by its own grammar and settings."""

import functools
import re

from jobfeatures import cli
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.resolve import load_config, settings_of
from jobfeatures_exporter import cli as exporter_cli
from jobfeatures_exporter.config import ExporterConfig

OURS = {"jobfeatures": cli, "jobfeatures-exporter": exporter_cli}
PROMPTS = ("$ ", "# ")


def lines_of(block):
    """Return what is typed: all of a script; of a console what stands behind a prompt, and its continuation."""
    if block.language != "console":
        return block.text
    typed, goes_on = [], False
    for line in block.text.splitlines():
        if goes_on or line.startswith(PROMPTS):
            typed.append(line if goes_on else line[2:])
            goes_on = line.endswith("\\")
    return "\n".join(typed) + "\n"


def commands_in(text):
    """Return the words of each simple command of a script, of substitutions and loops too."""
    import bashlex  # makes its tables each time

    found = []

    def visit(node):
        if node.kind == "command":
            words = [part.word for part in node.parts if part.kind == "word"]
            if words:
                found.append(words)
        for name in ("parts", "list"):
            for each in getattr(node, name, ()):
                visit(each)
        if (inner := getattr(node, "command", None)) is not None:
            visit(inner)

    for tree in bashlex.parse(without_comments(text).strip("\n") + "\n"):
        visit(tree)
    return found


def without_comments(text):
    """Return a script without comments: the library stops at some of them."""
    return re.sub(r"(?m)^\s*#.*\n|[ \t]+#[^'\"\n]*$", "", text)


def is_ours(words):
    return words[0].rsplit("/", 1)[-1] in OURS


@functools.cache
def parser_of(program, command):
    return OURS[program].build_parser(command)


def judge(words):
    """Return what the program would say of its command line before it does anything; nothing if it is right."""
    program = words[0].rsplit("/", 1)[-1]
    given = [re.sub(r"\$\(.*\)|\$\{?\w+\}?", "1", word) for word in words[1:]]
    command = next((word for word in given if word in OURS[program].COMMANDS), None)
    try:
        arguments = vars(parser_of(program, command).parse_args(given))
    except SystemExit as error:
        return None if not error.code else f"refused: {' '.join(words)}"
    config = ExporterConfig if program == "jobfeatures-exporter" else Config
    flags = {each.key: arguments.get(each.key) for each in settings_of(config)}
    try:
        load_config(config, flags=flags, environ={}, file="/dev/null")
    except ConfigurationError as error:
        return str(error)
    return None
