"""Counts of a schedule as they are shown; the figures are constructed."""

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.live.tally import Tally
from jobfeatures.records.schedulequality import WAIT_BOUNDS, ScheduleQuality
from jobfeatures_exporter.controller.monotone import compute_shown

VALUES = st.integers(0, 10**6)


def quality(tally, skipped):
    return ScheduleQuality(
        source="slurm",
        taken_at_secs=0,
        begin_secs=0,
        share_cpus=1,
        skipped={"no_user": skipped} if skipped else {},
        wait_secs={"batch": tally.histogram()},
        slowdown={"batch": tally.histogram()},
    )


@given(st.lists(st.tuples(VALUES, st.booleans())))
def test_counts_that_are_taken_back_stand_still_until_others_make_up_for_them(steps):
    tally, counted, skipped = Tally(WAIT_BOUNDS), [], 0
    shown = None
    for value, is_taken_back in steps:
        if is_taken_back and counted:
            tally.add(counted.pop(), -1)
            skipped -= 1
        else:
            tally.add(value, 1)
            counted.append(value)
            skipped += 1
        found = quality(tally, skipped)
        before, shown = shown, compute_shown(shown, found)
        for old, new, true in (
            (before and each(before), each(shown), each(found))
            for each in (lambda one: one.wait_secs["batch"], lambda one: one.slowdown["batch"])
        ):
            assert list(new.counts) == sorted(new.counts)
            assert all(more >= less for more, less in zip(new.counts, true.counts, strict=True))
            if old is not None:
                assert all(after >= was for after, was in zip(new.counts, old.counts, strict=True))
                assert new.sum >= old.sum
        assert shown.skipped.get("no_user", 0) >= (0 if before is None else before.skipped.get("no_user", 0))
        if not any(is_taken_back for _, is_taken_back in steps):
            assert shown == found


def test_what_is_made_up_for_is_shown_as_it_is():
    tally = Tally(WAIT_BOUNDS)
    tally.add(100, 1)
    shown = compute_shown(None, quality(tally, 1))
    tally.add(100, -1)
    shown = compute_shown(shown, quality(tally, 0))
    assert shown.wait_secs["batch"].counts[-1] == 1
    assert shown.skipped == {"no_user": 1}
    for count in (1, 2):
        tally.add(200, 1)
        shown = compute_shown(shown, quality(tally, count))
        assert shown == quality(tally, count) or count == 1
    assert shown.wait_secs["batch"].sum == 400
    assert shown.wait_secs["batch"].counts[-1] == 2
