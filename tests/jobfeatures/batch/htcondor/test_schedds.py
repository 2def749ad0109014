"""What condor_q says of schedds that do not answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.htcondor.schedds import parse_failed, parse_schedds
from jobfeatures.errors import ParseError

A, B = (f"<10.9.9.1:9618?addrs=10.9.9.1-9618&alias=wn1.lab&noUDP&sock={name}>" for name in ("a", "b"))


@pytest.mark.parametrize(
    ("said", "failed"),
    [
        ("", {}),
        ("WARNING: something else\n", {}),
        (
            f"\n-- Failed to fetch ads from: {A} : wn1.lab\nSECMAN:2007:Read failure.\n",
            {A: "SECMAN:2007:Read failure."},
        ),
        (
            f"-- Failed to fetch ads from: {A} : wn1.lab\n-- Failed to fetch ads from: {B} : wn1.lab\nCEDAR:6001\n",
            {A: "no reason is given", B: "CEDAR:6001"},
        ),
        ("-- Failed to fetch ads from: a.example.org\n", {"a.example.org": "no reason is given"}),
        (f"-- Failed to fetch ads from: {A}", {A: "no reason is given"}),
    ],
)
def test_who_did_not_answer_and_why(said: str, failed: dict[str, str]) -> None:
    assert parse_failed(said) == failed


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parse_failed(text)
    assert len(parse_failed(f"-- Failed to fetch ads from: {A} : x\n{text}")) >= 1


def test_schedds_are_known_by_their_address() -> None:
    ads = [{"Name": "a", "MyAddress": A}, {"Name": "b"}, {"MyAddress": B}, {"Name": 3, "MyAddress": 4}]
    assert parse_schedds(json.dumps(ads)) == {A: "a"}
    assert parse_schedds("") == {}
    with pytest.raises(ParseError):
        parse_schedds("[{")
