"""Every command that a page shows is a command: the shell reads it, and ours are as their grammar has them."""

import re
import subprocess

import pytest
from makepackages.grammar import read_program

import jobfeatures
from jobfeatures.settings import FILE_FLAG
from tests.docs.pages import NAMES, ROOT, Block, blocks_in, blocks_of, text_of, words_in
from tests.docs.shell import OURS, commands_in, is_ours, judge, lines_of

BLOCKS = blocks_of("sh", "bash", "console")
GRAMMAR = {
    name: read_program(lambda command, module=module: module.build_parser(command), module.COMMANDS)
    for name, module in OURS.items()
}
LANGUAGES = {"sh", "bash", "console", "", "promql", "yaml", "toml", "python", "xml", "json", "ini", "text"}


def flags_of(program):
    return {flag for each in program.walk() for option in each.options for flag in option.flags}


def negated(flags):
    return {"--no-" + flag[2:] for flag in flags}


FLAGS = set().union(*(flags_of(program) for program in GRAMMAR.values())) | {FILE_FLAG}


def complaints(block):
    found = [judge(words) for words in commands_in(lines_of(block)) if is_ours(words)]
    return [each for each in found if each]


@pytest.mark.program
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_the_shell_can_read_it(block):
    read = subprocess.run(["bash", "-n"], input=lines_of(block), capture_output=True, text=True)
    assert read.stderr == ""
    assert commands_in(lines_of(block))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_our_commands_are_as_their_grammar_has_them(block, capsys):
    assert complaints(block) == []


def test_what_is_checked_can_fail(capsys):
    text = "```sh\nfor n in a; do ssh x && jobfeatures nonsense || jobfeatures get --wrong; done\n```\n"
    [block] = blocks_in(text)
    assert len(complaints(block)) == 2
    [block] = blocks_in('```console\n$ eval "$(jobfeatures env --http --wrong)"\nout\n```\n')
    assert len(complaints(block)) == 1
    assert complaints(Block("", 1, "sh", "jobfeatures-exporter serve --web.rate many")) != []
    assert complaints(Block("", 1, "sh", "jobfeatures remaining --explain  # seconds")) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_block_says_what_it_is(name):
    assert {block.language for block in blocks_in(text_of(name))} <= LANGUAGES


@pytest.mark.parametrize("name", NAMES)
def test_a_command_in_a_sentence_is_one_of_ours(name):
    """Words in capitals and dots stand for something; flags and the command's name are taken literally."""
    wrong = []
    for span in words_in(text_of(name)):
        words = span.split()
        if not words or words[0] not in OURS or len(words) == 1:
            continue
        program = GRAMMAR[words[0]]
        commands = {each.name: each for each in program.walk()}
        called = words[0]
        for word in words[1:]:
            if f"{called} {word}" in commands:
                called = f"{called} {word}"
        flags = {word.partition("=")[0].rstrip("…") for word in words if word.startswith("--")}
        if called == words[0] and not words[1].startswith(("-", "…")):
            wrong.append(f"{span}: no such command")
        known = {flag for option in (*program.options, *commands[called].options) for flag in option.flags}
        wrong += [f"{span}: {flag}" for flag in flags - known - negated(known)]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_a_flag_with_a_dot_is_a_setting(name):
    found = {word.partition("=")[0].split()[0] for word in words_in(text_of(name)) if word.startswith("--")}
    dotted = {flag for flag in found if re.fullmatch(r"--[a-z0-9-]+\.[a-z0-9.-]+", flag)}
    assert dotted - FLAGS - negated(FLAGS) == set()


def units_in(text):
    """Return the units that systemctl is called for."""
    for words in commands_in(text):
        if words[0] == "systemctl":
            yield from (word for word in words[2:] if not word.startswith("-"))
        for word in words[1:]:
            if word.startswith("systemctl "):
                yield from units_in(word)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_services_are_those_that_packages_bring(block):
    units = {unit if "." in unit else f"{unit}.service" for unit in units_in(lines_of(block))}
    ours = {unit for unit in units if unit.startswith("jobfeatures")}
    assert {unit for unit in ours if not (ROOT / "packaging/systemd" / unit).is_file()} == set()


@pytest.mark.parametrize("name", NAMES)
def test_files_of_packages_have_the_version_that_is_built(name):
    pattern = r"jobfeatures[-_]exporter[-_](\d+\.\d+\.\d+)"
    assert set(re.findall(pattern, text_of(name))) <= {jobfeatures.__version__}
