"""The grammar of a command line that was made for this, and what is written from it."""

import argparse
import re
import shutil
import subprocess
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from makepackages.completions import write_completion
from makepackages.configfile import toml_value
from makepackages.grammar import Argument, Command, Option, read_parser, read_program
from makepackages.man import Facts, escaped, write_pages

HOSTILE = 'it\'s 100 % [of] "a:b" \\ $(reboot) `x` {y} .SH'
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


def make_parser(called=None):
    parser = argparse.ArgumentParser(prog="tool", description="A tool.")
    parser.add_argument("--version", action="version", version="tool 1")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in ("run", "odd-name"):
        made = commands.add_parser(name, help=f"do {name}", description=f"Do {name}.")
        if name == called:
            made.add_argument("-n", "--number", type=int, default=3, help="how many (default: %(default)s)")
            made.add_argument("--hidden", help=argparse.SUPPRESS)
            made.add_argument("--on", action="store_true", help=HOSTILE.replace("%", "%%"))
            made.add_argument("--form", metavar="a|b", help="a setting")
            made.add_argument("--output", metavar="FILE")
            made.add_argument("what", choices=["x", "y"], help="one thing")
            made.add_argument("others", nargs="*", metavar="FILE", help="more")
    return parser


NAMES = ["run", "odd-name"]
PROGRAM = read_program(make_parser, NAMES)
HELP = Option(("-h", "--help"), None, (), "show this help message and exit")


def test_a_parser_is_read_as_a_record():
    assert PROGRAM.description == "A tool."
    assert [option.flags for option in PROGRAM.options] == [("-h", "--help"), ("--version",)]
    run, odd = PROGRAM.commands
    assert (run.name, run.word, run.summary, run.description) == ("tool run", "run", "do run", "Do run.")
    assert run.options == (
        HELP,
        Option(("-n", "--number"), "NUMBER", (), "how many (default: 3)"),
        Option(("--on",), None, (), HOSTILE),
        Option(("--form",), "a|b", ("a", "b"), "a setting"),
        Option(("--output",), "FILE", (), ""),
    )
    assert run.options[-1].takes_path
    assert run.arguments == (
        Argument("what", ("x", "y"), False, "one thing"),
        Argument("FILE", (), True, "more"),
    )
    assert odd.options == run.options  # each is complete when it is called
    assert [each.name for each in PROGRAM.walk()] == ["tool", "tool run", "tool odd-name"]


def test_commands_below_commands_are_read_too():
    parser = argparse.ArgumentParser(prog="tool")
    below = parser.add_subparsers().add_parser("drain").add_subparsers()
    below.add_parser("set", help="announce")
    [drain] = read_parser(parser, "").commands
    [found] = drain.commands
    assert (found.name, found.word, found.summary) == ("tool drain set", "set", "announce")


@pytest.mark.program
def test_shells_take_texts_for_what_they_are(tmp_path):
    """Nothing that help says is run or expanded."""
    for shell in ("bash", "zsh", "fish"):
        file = tmp_path / shell
        file.write_text(write_completion(make_parser, NAMES, shell))
        if shutil.which(shell) is None:  # a folder of PATH may not be ours to enter: exec would say EACCES
            assert shell != "bash"
            continue
        done = subprocess.run([shell, "-n", file], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert "reboot" not in (tmp_path / "bash").read_text()


def test_a_page_shows_hostile_text_as_it_is(tmp_path):
    facts = Facts("1", "2026-01-31", "0 done", {"/etc/x": "a file"}, {"X": "a variable"})
    pages = write_pages(PROGRAM, facts)
    assert pages.keys() == {"tool.1", "tool-run.1", "tool-odd-name.1"}
    assert "`x` {y} .SH\n" in pages["tool-run.1"]
    assert ".I what\none thing; one of x, y\n" in pages["tool-run.1"]
    assert "\\fB\\-n\\fR, \\fB\\-\\-number\\fR \\fINUMBER\\fR\n" in pages["tool-run.1"]
    assert ".BR tool\\-run (1) ,\n.BR tool\\-odd\\-name (1)\n" in pages["tool.1"]


def test_a_usage_that_would_fill_the_page_is_short():
    options = tuple(Option((f"--option-{number}",), "TEXT", (), "a") for number in range(90))
    usage = " ".join(f"[{each.flags[0]} TEXT]" for each in options)
    command = Command("tool run", "do", "Do.", usage, options, (Argument("FILE", (), True, ""),), ())
    program = Command("tool", "", "A tool.", "COMMAND", (), (), (command,))
    page = write_pages(program, Facts("1", "2026-01-31", "0 done", {}, {}))["tool-run.1"]
    assert ".B tool run\n[OPTION ...] FILE ...\n" in page


@given(TEXTS)
def test_no_text_is_a_request_or_an_escape_of_its_own(text):
    page = escaped(text)
    assert "\n" not in page
    assert not page.startswith((".", "'"))
    assert re.sub(r"\\e|\\-|^\\&", "", page).count("\\") == 0


@given(st.one_of(TEXTS, st.booleans(), st.integers(0, 10**15), st.lists(TEXTS).map(tuple)))
def test_a_default_of_any_kind_is_read_again(value):
    found = tomllib.loads(f"x = {toml_value(value)}")["x"]
    assert found == (list(value) if isinstance(value, tuple) else value)
