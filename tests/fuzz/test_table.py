"""The table of parsers, against the modules: none is forgotten, and each gets texts that it takes."""

from __future__ import annotations

import sys

import pytest

from tests.fuzz.corpus import seeds_of
from tests.fuzz.parsers import ADAPTERS, ALLOWED, INNER, NO_PARSERS, found, make_parser, parsers


def test_every_parser_of_the_modules_can_be_called_with_bytes():
    names = {each.name for each in parsers()}  # one that nobody knows how to call raises
    assert names | set(INNER) | set(NO_PARSERS) == set(found())
    assert set(ADAPTERS) <= names
    assert not names & (set(INNER) | set(NO_PARSERS))
    assert set(INNER.values()) <= names


@pytest.mark.fuzz
def test_every_parser_has_texts_that_it_takes():
    assert [each.name for each in parsers() if not seeds_of(each)] == []


@pytest.mark.fuzz
def test_the_corpus_of_another_reaches_what_it_alone_calls():
    for name, through in INNER.items():
        module, _, attribute = name.partition(":")
        code = getattr(sys.modules.get(module) or __import__(module, fromlist=["x"]), attribute).__code__
        reached = []

        def look(frame, event, _, code=code, reached=reached):
            if event == "call" and frame.f_code is code:
                reached.append(True)

        outer = make_parser(through)
        for data in seeds_of(outer):
            sys.setprofile(look)
            try:
                outer.call(data)
            except ALLOWED:
                pass
            finally:
                sys.setprofile(None)
        assert reached, f"{through} does not call {name} for any of its corpus"
