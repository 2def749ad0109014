"""Drains: times, promises, documents, and what batch systems announce."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.drains.drain import (
    MAX_EPOCH_SECS,
    NO_DRAINS,
    NOT_ANNOUNCED,
    Announced,
    Drain,
    Drains,
    GraceError,
    check_grace,
    compute_announced,
    format_announced,
    format_drains,
    machine_shutdown,
    machine_shutdowns,
    parse_announced,
    parse_drains,
    parse_when,
)
from jobfeatures.errors import ParseError
from jobfeatures.records.model import JobKey, JobTable, NodeNotice

NOW = 1_800_000_000.75  # 2027-01-15T08:00:00.75Z
KEY = JobKey("slurm", "12")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1800003600", 1_800_003_600),
        ("+3600", 1_800_003_600),
        ("+90s", 1_800_000_090),
        ("+15m", 1_800_000_900),
        ("+2h", 1_800_007_200),
        ("+1d", 1_800_086_400),
        ("2027-01-15T09:00:00Z", 1_800_003_600),
        ("2027-01-15T09:00:00+01:00", 1_800_000_000),
        ("2027-01-15 09:30+0100", 1_800_001_800),
        ("2027-01-15T09:00:00.9", 1_800_000_000),  # local, here an hour east
        ("2027-01-15 09:00", 1_800_000_000),
    ],
)
def test_a_time_is_an_epoch_relative_or_iso(text, expected, set_zone):
    set_zone("Europe/Berlin")
    assert parse_when(text, now_secs=NOW) == expected


@pytest.mark.parametrize(
    "text",
    ["", "+", "-3600", "+1w", "tomorrow", "1e9", "1800003600000", "2027-13-01T00:00", "2027-01-15",
     "+999999999999d", "１８００００３６００", " 1800003600", "2027-01-15T09:00:00+99:00"],
)  # fmt: skip
def test_another_text_is_no_time(text):
    with pytest.raises(ParseError, match="TIME"):
        parse_when(text, now_secs=NOW)


@given(st.text(max_size=40) | st.from_regex(r"\+?[0-9T:Z .+-]{0,30}[smhd]?", fullmatch=True))
def test_any_text_is_a_time_in_range_or_a_parse_error(text):
    try:
        assert 0 <= parse_when(text, now_secs=NOW) <= MAX_EPOCH_SECS
    except ParseError:
        pass


def test_a_shutdown_sooner_than_promised_is_refused_and_the_earliest_time_is_named():
    with pytest.raises(
        GraceError, match=r"only 3599 s of notice, but grace_secs promises them 3600 s: .* 1800003601"
    ):
        check_grace(int(NOW) + 3600, now_secs=NOW, grace_secs=3600, key="grace_secs")
    check_grace(int(NOW) + 3601, now_secs=NOW, grace_secs=3600, key="grace_secs")


def test_a_shutdown_in_the_past_is_refused_even_where_nothing_is_promised():
    with pytest.raises(GraceError, match="s in the past"):
        check_grace(int(NOW) - 5, now_secs=NOW, grace_secs=None, key="grace_secs")
    check_grace(int(NOW) + 1, now_secs=NOW, grace_secs=None, key="grace_secs")


def test_the_earliest_shutdown_counts_and_each_source_is_told_apart():
    drains = Drains(Drain(200, 1, "root"))
    announced = Announced({"slurm": True}, {"slurm": 150})
    assert machine_shutdowns(drains, announced) == {"operator": 200, "slurm": 150}
    assert machine_shutdown(drains, announced) == 150
    assert machine_shutdown(NO_DRAINS, NOT_ANNOUNCED) is None


def test_the_drain_of_an_earlier_run_of_the_same_id_does_not_reach_the_next_one():
    drains = NO_DRAINS.with_drain(KEY, Drain(5000, 1000, "root"))
    assert drains.of_job(KEY, 900) == drains.of_job(KEY, None) == Drain(5000, 1000, "root")
    assert drains.of_job(KEY, 1200) is not None  # the clocks of two machines differ a little
    assert drains.of_job(KEY, 1301) is None
    assert drains.with_drain(KEY, None) == NO_DRAINS


def table(*shutdowns, draining=False, source="slurm"):
    notice = NodeNotice(draining, shutdowns)
    return JobTable(source=source, jobs={}, taken_at_secs=0, complete=True, node=notice)


def test_the_first_shutdown_to_come_is_announced():
    assert compute_announced(NOT_ANNOUNCED, [table(300, 200, 50)], now_secs=100) == Announced(
        {"slurm": False}, {"slurm": 200}
    )


def test_a_drain_without_a_time_announces_none():
    assert compute_announced(NOT_ANNOUNCED, [table(draining=True)], now_secs=100) == Announced(
        {"slurm": True}, {}
    )


def test_a_shutdown_that_has_come_stays_only_if_it_was_announced_before_and_is_in_force():
    before = Announced({}, {"slurm": 50})
    assert compute_announced(before, [table(50, 200)], now_secs=100).shutdowns == {"slurm": 50}
    assert compute_announced(before, [table(200)], now_secs=100).shutdowns == {"slurm": 200}
    assert compute_announced(NOT_ANNOUNCED, [table(50)], now_secs=100).shutdowns == {}


def test_a_source_that_tells_nothing_of_the_node_announces_nothing():
    silent = JobTable(source="hooks", jobs={}, taken_at_secs=0, complete=True)
    assert compute_announced(NOT_ANNOUNCED, [silent], now_secs=100) == NOT_ANNOUNCED


epochs = st.integers(0, MAX_EPOCH_SECS)
drain_records = st.builds(Drain, epochs, epochs, st.text(min_size=1, max_size=20))
job_keys = st.builds(JobKey, st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9))


@given(st.builds(Drains, st.none() | drain_records, st.dictionaries(job_keys, drain_records, max_size=4)))
def test_a_document_of_drains_holds_them_all(drains):
    assert parse_drains(format_drains(drains)) == drains


@given(
    st.builds(
        Announced,
        st.dictionaries(st.text(max_size=9), st.booleans()),
        st.dictionaries(st.text(max_size=9), epochs),
        st.dictionaries(st.text(max_size=9), st.integers(0, 2**31)),
        st.dictionaries(st.text(max_size=9), st.text(max_size=9)),
    )
)
def test_a_document_of_announcements_holds_them_all(announced):
    assert parse_announced(format_announced(announced)) == announced


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["machine", "jobs", "at_secs", "set_at_secs", "set_by", "job_id", "draining", "shutdowns", "job_slots", "features"]),
        inner, max_size=4,
    ),
)  # fmt: skip


@given(json_values.map(__import__("json").dumps) | st.text(max_size=60))
def test_any_document_is_drains_or_a_parse_error_that_names_the_file(text):
    for parse in (parse_drains, parse_announced):
        try:
            parse(text, source="/x.json")
        except ParseError as error:
            said = str(error)
        else:
            continue
        assert "/x.json" in said


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"machine": {"at_secs": -1, "set_at_secs": 1, "set_by": "root"}}', "at_secs"),
        ('{"machine": {"at_secs": 1, "set_at_secs": true, "set_by": "root"}}', "set_at_secs"),
        ('{"machine": {"at_secs": 1, "set_at_secs": 1, "set_by": ""}}', "set_by"),
        ('{"machine": 7}', "machine"),
        ('{"jobs": {}}', "jobs"),
        ('{"jobs": [{"batch_system": "slurm"}]}', "job_id"),
        ('{"machine": {"at_se', "not JSON"),
    ],
)
def test_a_broken_document_is_named_with_its_field(text, field):
    with pytest.raises(ParseError, match=field):
        parse_drains(text, source="/run/x")
