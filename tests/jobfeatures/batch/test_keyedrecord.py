"""Records of which a class says of each key once how it is parsed and what it becomes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jobfeatures.batch.keyedrecord import KeyedRecord, key, key_within, required_key
from jobfeatures.errors import ParseError
from jobfeatures.records.quantities import parse_count


def _parse_end(record: Ship, text: str) -> int | None:
    return parse_count(text) if record.state == "SUNK" else None


class Ship(KeyedRecord):
    source = "harbour"
    nothing = frozenset({"", "-"})

    state = required_key(str, "State")
    masts = key(parse_count, "Masts", "masts")
    end = key_within(_parse_end, "End")


class Liner(Ship):
    line = key(str, "Line")


@dataclass
class Seen:
    state: str
    masts: int | None


def test_each_key_becomes_its_attribute():
    ship = Liner({"State": "SUNK", "Masts": "3", "End": "7", "Line": "Blue"})
    assert (ship.state, ship.masts, ship.end, ship.line) == ("SUNK", 3, 7, "Blue")
    assert Liner.names == ("State", "Masts", "masts", "End", "Line")


def test_of_several_names_the_first_that_is_set_counts():
    assert Ship({"State": "", "Masts": "-", "masts": "2"}).masts == 2


def test_what_is_not_there_or_has_the_source_s_word_for_nothing_is_unknown():
    assert Ship({"State": "-", "Masts": "-"}).masts is None
    assert Ship({"State": "-"}).state == "-"  # required: any text counts


def test_a_key_may_depend_on_what_was_read_before_it():
    assert Ship({"State": "AFLOAT", "End": "never"}).end is None


def test_an_error_names_source_key_and_text():
    with pytest.raises(ParseError) as caught:
        Ship({"State": "AFLOAT", "Masts": "many"})
    error = caught.value
    assert (error.source, error.field, error.text) == ("harbour", "Masts", "many")


def test_with_somebody_to_tell_an_error_costs_its_value_alone():
    told = []
    ship = Ship({"State": "SUNK", "Masts": "many", "masts": "2", "End": "7"}, told.append, about="ship 1")
    assert (ship.masts, ship.end) == (2, 7)
    [problem] = told
    assert (problem.source, problem.field, problem.text) == ("harbour", "Masts", "many")
    assert problem.reason == "must be a whole number, 0 or more (ship 1)"


def test_a_dataclass_gets_what_it_has_fields_for():
    ship = Ship({"State": "SUNK", "Masts": "3", "End": "7"})
    assert Seen(**ship.fields(Seen)) == Seen("SUNK", 3)
    assert ship.fields(Seen) == {"state": "SUNK", "masts": 3}


def test_a_key_that_is_declared_behind_cannot_be_read_yet():
    class Early(KeyedRecord):
        source = "harbour"
        first = key_within(lambda record, _: record.second, "First")
        second = key(str, "Second")

    with pytest.raises(AttributeError, match="declared later"):
        Early({"First": "1"})
