from dataclasses import replace
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures import __version__
from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.envelopes import (
    error_envelope,
    extended,
    timestamp,
    unicode_text,
    without_defaults,
)
from jobfeatures.formats.sonar.validate import validate_envelope


def test_a_timestamp_has_its_zone_and_no_parts_of_a_second():
    assert (
        timestamp(1_800_000_000.9, timezone(timedelta(hours=-3, minutes=-30))) == "2027-01-15T04:30:00-03:30"
    )
    assert timestamp(1_800_000_000.9, UTC) == "2027-01-15T08:00:00Z"


def test_an_extended_number_keeps_two_values_for_unset_and_infinite():
    assert [extended(value) for value in (None, 0, 7)] == [0, 2, 9]


def test_defaults_are_left_out():
    assert without_defaults({"a": 0, "b": "", "c": None, "d": [], "e": 0.0, "f": False, "g": 1}) == {"g": 1}


@given(st.text())
def test_any_text_becomes_unicode(text):
    unicode_text(text).encode("utf-8")


def test_bytes_that_were_no_utf8_are_replaced():
    assert unicode_text(b"a\xffb".decode("utf-8", "surrogateescape")) == "a\ufffdb"


@pytest.mark.parametrize("profile", [CURRENT, SEED])
@pytest.mark.parametrize("detail", ["no answer", "", "x" * 5000, "\udcff"])
def test_an_error_envelope_is_valid_whatever_went_wrong(origin, profile, detail):
    document = error_envelope(replace(origin, profile=profile), detail, 1.8e9)
    assert validate_envelope(document, profile=profile, strict=True) == []
    assert "data" not in document


def test_the_producer_tells_the_version_of_the_format_and_its_own(origin):
    meta = error_envelope(origin, "x", 1.8e9)["meta"]
    assert (meta["producer"], meta["version"]) == ("jobfeatures-exporter", "0.18.0")
    assert meta["attrs"] == [{"key": "exporter_version", "value": __version__}]
