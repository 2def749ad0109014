"""Tokens of nodes."""

import base64
import hashlib
import hmac
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.controller.credential import (
    is_token,
    make_token,
    parse_secrets,
    parse_token,
)
from jobfeatures.errors import ParseError

SECRET, OTHER = b"s" * 32, b"t" * 64
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(NAMES, NAMES)
def test_a_token_is_good_for_its_node_and_its_secret_alone(name, other):
    token = make_token(SECRET, name)
    assert is_token(token, name, [OTHER, SECRET])
    assert not is_token(token, name, [OTHER])
    assert is_token(token, other, [SECRET]) is (name == other)
    for wrong in ("", token[:-1], token + "=", token.swapcase(), "é" * 43):
        assert not is_token(wrong, name, [SECRET])


@pytest.mark.program
def test_a_token_is_an_hmac_as_others_make_it():
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    done = subprocess.run(
        [openssl, "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{SECRET.hex()}", "-binary"],
        input=b"jobfeatures node token 1\nn1",
        capture_output=True,
        check=True,
    )
    assert make_token(SECRET, "n1") == base64.urlsafe_b64encode(done.stdout).decode().rstrip("=")


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert is_token(make_token(SECRET, "n1"), "n1", [SECRET, OTHER])
    assert len(compared) == 2  # all secrets, whichever is right


def test_a_file_holds_the_secret_and_those_before_it():
    text = b"\n" + SECRET + b"\n" + OTHER + b"\n\n"
    assert parse_secrets(text, "f") == (SECRET, OTHER)


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", SECRET + b"\nshort", (SECRET + b"\n") * 5])
def test_a_secret_that_can_be_guessed_is_refused_and_not_shown(content):
    with pytest.raises(ParseError, match="f") as refusal:
        parse_secrets(content, "f")
    assert "short" not in str(refusal.value).replace("a secret has", "")


def test_a_file_of_a_node_holds_a_token_and_nothing_else():
    token = make_token(SECRET, "n1")
    assert parse_token(f"{token}\n".encode(), "f") == token
    for content in (b"", b"x" * 44, f"n1 {token}".encode(), b"\xff" * 43):
        with pytest.raises(ParseError, match="no token"):
            parse_token(content, "f")


def test_the_digest_is_sha256():
    assert len(base64.urlsafe_b64decode(make_token(SECRET, "n1") + "=")) == hashlib.sha256().digest_size
