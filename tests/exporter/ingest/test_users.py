from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ConfigurationError, ParseError, UnsafePathError
from jobfeatures_exporter.ingest.users import User, UsersFile, parse_basic, parse_users, read_users


def header(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "users"

    def write(text, mode=0o600):
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return write


def test_users_and_passwords_are_lines():
    text = "# who\n\nhpc.example.org:s e:cret\nother:ü\nbound[lab,hpc.example.org]:[a]:b\n"
    assert parse_users(text) == {
        "hpc.example.org": User("s e:cret"),
        "other": User("ü"),
        "bound": User("[a]:b", frozenset({"lab", "hpc.example.org"})),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# none",
        "user",
        "user:",
        ":secret",
        "a:1\na:2",
        "a:1\na[x]:2",
        "a[]:secret",
        "a[x:secret",
        "a[x]y:secret",
    ],
)
def test_other_lines_are_refused_and_no_password_is_shown(text):
    with pytest.raises(ParseError) as error:
        parse_users(text)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (header("a:b:c"), ("a", "b:c")),
        (header("a:b").replace("Basic", "basic"), ("a", "b")),
        (header("ab"), None),
        ("Bearer x", None),
        ("Basic !!", None),
        ("Basic " + base64.b64encode(b"\xff:x").decode(), None),
        ("Basic " + "A" * 4096, None),
        ("", None),
    ],
)
def test_the_header_of_basic_authentication(text, expected):
    assert parse_basic(text) == expected


@given(st.text())
def test_no_header_raises(text):
    parse_basic(text)
    parse_basic(f"Basic {text}")


def test_only_user_and_password_together_are_let_in(file):
    users = UsersFile(file("a:one\nb:two\n"))
    assert users.find(header("a:one")) is not None
    refused = ["a:two", "a:", "c:one", ":", "a:one\n", "\0:one"]
    assert [each for each in refused if users.find(header(each)) is not None] == []
    assert users.find("") is None


def test_a_user_without_password_cannot_be_guessed_by_an_empty_header(file):
    users = UsersFile(file("a:one\n"))
    assert users.find(header("nobody:" + "\0" * 32)) is None


def test_the_file_is_read_again_when_it_changes_and_a_broken_one_is_not_used(file):
    path = file("a:one\n")
    users = UsersFile(path)
    file("a:changed\n")
    assert users.find(header("a:changed")) is not None
    file("no users\n")
    assert users.find(header("a:changed")) is not None
    os.unlink(path)
    assert users.find(header("a:changed")) is not None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_is_refused(mode, file):
    with pytest.raises(UnsafePathError, match="only its owner"):
        read_users(file("a:one\n", mode))


def test_links_folders_and_pipes_are_refused(file, tmp_path):
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file("a:one\n"))
    os.mkfifo(pipe, 0o600)
    for path in (link, pipe, tmp_path):
        with pytest.raises((OSError, UnsafePathError)):
            read_users(str(path))


def test_a_file_of_no_use_ends_the_start_and_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"sonar\.users_file"):
        UsersFile(str(tmp_path / "none"))
