"""What messages hold: names of files whole, foreign text escaped and cut, the nearest word there is."""

import pytest

from jobfeatures.cli import main
from jobfeatures.errors import ParseError, nearest, shown, shown_name
from jobfeatures_exporter.cli import main as exporter_main

LONG = "a-folder-of-a-project-whose-name-is-long/" * 3


def test_names_stand_whole_and_what_is_not_printable_is_escaped():
    assert shown_name(LONG) == LONG
    assert shown_name("a\n2: b\x1b[31m") == r"'a\n2: b\x1b[31m'"
    assert str(ParseError("bad", source=LONG, line=3, text="x" * 500)) == f"{LONG}:3: bad: '{'x' * 80}…'"
    assert str(ParseError("bad", source="a\n2: b", line=3)) == r"'a\n2: b':3: bad"


def test_foreign_text_is_quoted_escaped_and_cut():
    assert shown("a\nb") == r"'a\nb'"
    assert shown("x" * 81) == f"'{'x' * 80}…'"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("web.listen_addres", "; did you mean web.listen_address?"),
        ("listen_address", "; did you mean web.listen_address?"),
        ("sonar.interval", "; did you mean sample.interval?"),
        ("quite_different", ""),
        ("", ""),
    ],
)
def test_the_nearest_word_is_told_where_one_is_near(word, hint):
    assert nearest(word, ["web.listen_address", "sample.interval"]) == hint


@pytest.mark.parametrize(
    ("program", "words", "status"),
    [
        (main, ["check", "--as", "sonar", "FILE"], 1),
        (main, ["check", "--as", "sonar", "FILE.not-there"], 2),
        (exporter_main, ["serve", "--config.file", "FILE"], 2),
        (main, ["schedule", "FILE"], 2),
        (main, ["schedule", "LOG", "--report", "FILE/in/it"], 2),
        (main, ["schedule", "LOG", "--report", "FILE/in/it/"], 2),
        (main, ["convert", "FILE", "-", "--to", "swf"], 2),
        (main, ["check", "FILE"], 2),
    ],
)
def test_a_person_with_long_paths_can_tell_which_file_is_meant(tmp_path, program, words, status, capsys):
    folder = tmp_path / LONG
    folder.mkdir(parents=True)
    (folder / "file").write_text("{}")
    (folder / "log.swf").write_text("; MaxProcs: 8\n1 0 0 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1\n")
    filled = [word.replace("FILE", f"{folder}/file").replace("LOG", f"{folder}/log.swf") for word in words]
    assert program(filled) == status
    said = "".join(capsys.readouterr())
    assert f"{folder}/file" in said
