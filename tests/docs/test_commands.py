"""Every command that a page shows is a command: the shell reads it, and ours are as their grammar has them."""

import functools
import re
import subprocess

import pytest
from makepackages.grammar import read_program

import jobfeatures
from jobfeatures.settings.resolve import FILE_FLAG
from tests.docs.pages import NAMES, ROOT, Block, blocks_in, blocks_of, faults_by_page, text_of, words_in
from tests.docs.shell import OURS, commands_in, is_ours, judge, lines_of

SHELLS = ("sh", "bash", "console")
LANGUAGES = {"sh", "bash", "console", "", "promql", "yaml", "toml", "python", "xml", "json", "ini", "text"}


@functools.cache
def grammar_of(program):
    module = OURS[program]
    return read_program(module.build_parser, module.COMMANDS)


def flags_of(program):
    return {flag for each in program.walk() for option in each.options for flag in option.flags}


def negated(flags):
    return {"--no-" + flag[2:] for flag in flags}


def complaints(block):
    found = [judge(words) for words in commands_in(lines_of(block)) if is_ours(words)]
    return [each for each in found if each]


def asking_upgrades(block):
    """Return the commands that install our package and would ask about a changed configuration file."""
    installs = [words for words in commands_in(lines_of(block)) if "apt-get" in " ".join(words)]
    ours = [" ".join(words) for words in installs if "jobfeatures-exporter_" in " ".join(words)]
    return [each for each in ours if "--force-confold" not in each]


def unreadable(block):
    read = subprocess.run(["bash", "-n"], input=lines_of(block), capture_output=True, text=True)
    return [read.stderr] if read.stderr or not commands_in(lines_of(block)) else []


@pytest.mark.program
def test_the_shell_can_read_it():
    assert faults_by_page(blocks_of(*SHELLS), unreadable) == {}


def test_our_commands_are_as_their_grammar_has_them(capsys):
    assert faults_by_page(blocks_of(*SHELLS), complaints) == {}


def test_no_upgrade_asks_about_a_changed_configuration_file():
    assert faults_by_page(blocks_of(*SHELLS), asking_upgrades) == {}
    [asks] = blocks_in(
        "```sh\nclush -a 'apt-get install -qy /tmp/jobfeatures-exporter_1_amd64.deb && true'\n```\n"
    )
    assert len(asking_upgrades(asks)) == 1


def test_what_is_checked_can_fail(capsys):
    text = "```sh\nfor n in a; do ssh x && jobfeatures nonsense || jobfeatures get --wrong; done\n```\n"
    [block] = blocks_in(text)
    assert len(complaints(block)) == 2
    [block] = blocks_in('```console\n$ eval "$(jobfeatures env --http --wrong)"\nout\n```\n')
    assert len(complaints(block)) == 1
    assert complaints(Block("", 1, "sh", "jobfeatures-exporter serve --metrics.max-series many")) != []
    assert complaints(Block("", 1, "sh", "jobfeatures remaining --explain  # seconds")) == []


def test_every_block_says_what_it_is():
    assert {block.language for name in NAMES for block in blocks_in(text_of(name))} <= LANGUAGES


def wrong_commands(name):
    """Words in capitals and dots stand for something; flags and the command's name are taken literally."""
    for span in words_in(text_of(name)):
        words = span.partition(" -- ")[0].split()  # what follows is another program's
        if not words or words[0] not in OURS or len(words) == 1:
            continue
        program = grammar_of(words[0])
        commands = {each.name: each for each in program.walk()}
        called = words[0]
        for word in words[1:]:
            if f"{called} {word}" in commands:
                called = f"{called} {word}"
        flags = {word.partition("=")[0].rstrip("…") for word in words if word.startswith("--")}
        if called == words[0] and not words[1].startswith(("-", "…")):
            yield f"{span}: no such command"
        known = {flag for option in (*program.options, *commands[called].options) for flag in option.flags}
        yield from (f"{span}: {flag}" for flag in flags - known - negated(known))


def test_a_command_in_a_sentence_is_one_of_ours():
    assert faults_by_page(NAMES, wrong_commands) == {}


def unknown_settings(name):
    found = {word.partition("=")[0].split()[0] for word in words_in(text_of(name)) if word.startswith("--")}
    dotted = {flag for flag in found if re.fullmatch(r"--[a-z0-9-]+\.[a-z0-9.-]+", flag)}
    known = {FILE_FLAG}.union(*(flags_of(grammar_of(program)) for program in OURS))
    return dotted - known - negated(known)


def test_a_flag_with_a_dot_is_a_setting():
    assert faults_by_page(NAMES, unknown_settings) == {}


def units_in(text):
    """Return the units that systemctl is called for."""
    for words in commands_in(text):
        if words[0] == "systemctl":
            yield from (word for word in words[2:] if not word.startswith("-"))
        for word in words[1:]:
            if word.startswith("systemctl "):
                yield from units_in(word)


def unknown_services(block):
    units = {unit if "." in unit else f"{unit}.service" for unit in units_in(lines_of(block))}
    ours = {unit for unit in units if unit.startswith("jobfeatures")}
    return {unit for unit in ours if not (ROOT / "packaging/systemd" / unit).is_file()}


def test_services_are_those_that_packages_bring():
    assert faults_by_page(blocks_of(*SHELLS), unknown_services) == {}


def test_files_of_packages_have_the_version_that_is_built():
    pattern = r"jobfeatures[-_]exporter[-_](\d+\.\d+\.\d+)"
    named = {name: set(re.findall(pattern, text_of(name))) for name in NAMES}
    assert {name: found for name, found in named.items() if found - {jobfeatures.__version__}} == {}
