"""What is published against the text of 2016 is said once and counted."""

import pytest

from jobfeatures.publish.contradictions import Contradictions
from jobfeatures.records.model import JobKey

KEY = JobKey("spool", "7")


def check(contradictions, shutdown_secs=None, start_secs=None, *, promised_secs=300, now_secs=1000.0, **more):
    more = {"key": KEY, "was_known": False, **more}
    key = more.pop("key")
    contradictions.check(
        key,
        shutdown_secs=shutdown_secs,
        promised_secs=promised_secs,
        start_secs=start_secs,
        now_secs=now_secs,
        **more,
    )


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"shutdown_secs": 1299}, 1),
        ({"shutdown_secs": 1300}, 0),
        ({"shutdown_secs": 900}, 1),
        ({"shutdown_secs": 1057, "promised_secs": None}, 0),
        ({"start_secs": 1300}, 0),  # two clocks may differ
        ({"start_secs": 1500}, 1),
        ({"shutdown_secs": 1057, "start_secs": 1500}, 2),
        ({}, 0),
        ({"shutdown_secs": 1057, "was_known": True}, 0),  # by an earlier daemon, perhaps in time
        ({"shutdown_secs": 1057, "key": None}, 1),
    ],
)
def test_too_little_notice_and_a_start_to_come_are_counted(values, count):
    contradictions = Contradictions()
    check(contradictions, **values)
    assert contradictions.count == count


def test_the_same_is_said_once_and_another_time_again(caplog):
    contradictions = Contradictions()
    check(contradictions, 1400)
    check(contradictions, 1400, now_secs=1399.0)  # it was announced in time
    for _ in range(3):
        check(contradictions, 1057)
    assert contradictions.count == 1
    assert caplog.messages == ["job 7: a shutdown is 57 s ahead, but grace_secs promises 300 s notice"]
    check(contradictions, 1030)
    contradictions.forget(KEY)
    check(contradictions, 1030)
    assert contradictions.count == 3
