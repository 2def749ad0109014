"""Texts of envelopes: what is taken, and what is reported about the rest."""

import json

import pytest

from jobfeatures_exporter.ingest.intake import MAX_FAULTS


@pytest.mark.parametrize("bad", ["{} ", "\n{nonsense", '{"data":{}}'])
def test_reading_stops_at_a_hundred_faults_of_any_kind_and_says_so(site, make, bad):
    text = json.dumps(make.sample()) + bad * 5000
    taken = site.intake.take(text.encode(), "test")
    assert (taken.taken, len(taken.faults)) == (1, MAX_FAULTS + 1)
    assert " faults: nothing after document " in taken.faults[-1]
    assert taken.end < len(text)


def test_what_a_file_holds_behind_many_faults_is_read_from_where_it_was_left(site, make):
    content = ("{} " * 250 + json.dumps(make.sample())).encode()
    offset = taken = 0
    while offset < len(content):
        read = site.intake.take(content[offset:], "test")
        offset, taken = offset + read.end, taken + read.taken
    assert taken == 1


def test_a_sample_of_a_slow_clock_is_told_with_its_node(site, make, caplog):
    site.intake.take(json.dumps(make.sample("c1-7", ago=7200)).encode(), "test")
    assert "sample of 'c1-7' is 7200 s old: is its clock slow?" in caplog.text
