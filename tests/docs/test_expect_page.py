"""The page on `jobfeatures expect`: its example says what it says there, and every field is named."""

import json
import re
from pathlib import Path

import pytest

from jobfeatures.cli import main
from jobfeatures.records.schedulequality import Verdict
from tests.docs.test_runs import fits

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "expect.md").read_text(encoding="utf-8")
JSON = (DOCS / "library.md").read_text(encoding="utf-8").partition("## JSON of `expect`")[2]
EXAMPLES = re.findall(r"```console\n\$ jobfeatures (expect .*)\n((?:.*\n)*?)```", PAGE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "ann.swf").write_text(PAGE[PAGE.index("; Version: 2.2") :].split("```")[0])
    monkeypatch.chdir(tmp_path)


def test_there_are_examples():
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("words", "said"), EXAMPLES)
def test_an_example_is_what_is_printed(folder, capsys, words, said):
    assert main(words.split()) == 0
    assert fits(said, capsys.readouterr().out)


def test_every_field_is_named(folder, capsys):
    assert main([*EXAMPLES[0][0].split(), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = JSON[JSON.index("| field |") :].split("\n\n")[0].splitlines()
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(document)
    text = "\n".join(rows)
    for group in ("expected", "share", "ahead"):
        assert all(f"`{name}`" in text for name in document[group]), group


def test_every_verdict_is_named():
    for verdict in Verdict:
        assert f"`{verdict.value}`" in JSON
        assert f"| {verdict.value.replace('_', ' ')} |" in PAGE
