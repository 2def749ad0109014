"""The README answers all twelve use cases of the 2014 draft, with what exists."""

import re
from pathlib import Path

from jobfeatures.cli import COMMANDS, build_parser
from jobfeatures.features.keys import KEYS

ROOT = Path(__file__).parents[2]
SECTION = re.search(
    r"^## The twelve use cases\n(.*?)^## ", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
)[1]
ROWS = [line.split("|")[1:-1] for line in SECTION.splitlines() if re.match(r"\| \d", line)]
NAMED = re.findall(r"`([^`]+)`", SECTION)


def test_there_is_a_row_for_each():
    assert [int(row[0]) for row in ROWS] == list(range(1, 13))
    assert all("`" in row[2] for row in ROWS)


def test_the_commands_are_those_of_the_command_line(capsys):
    commands = [name.split() for name in NAMED if name.startswith("jobfeatures ")]
    assert {words[1] for words in commands} <= COMMANDS.keys()
    for words in commands:
        if words[1] == "get":
            assert words[2] in {key.name for key in KEYS}
    numbers = {"TIME": "+3600", "N": "4"}
    for words in commands:
        build_parser(words[1]).parse_args([numbers.get(word, word) for word in words[1:]])


def test_the_metrics_are_those_of_the_metrics_page():
    page = (ROOT / "docs/reference/metrics.md").read_text()
    metrics = [name for name in NAMED if name.startswith("batch_")]
    assert len(metrics) >= 7
    assert [name for name in metrics if not re.search(rf"`{name}[`{{]", page)] == []


def test_the_keys_are_those_of_the_texts():
    keys = [name for name in NAMED if re.fullmatch(r"[a-z0-9_]+", name) and not name.startswith("batch_")]
    assert keys
    assert set(keys) <= {key.name for key in KEYS}
