from hypothesis import given
from hypothesis import strategies as st

from exporter.sampling.ledger import KEPT_ABSENT, CounterLedger

# What a look may find of each of three sources: nothing, something that cannot be read, or a number.
COUNTERS = st.integers(0, 2**64 - 1)
LOOKS = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.tuples(COUNTERS | st.integers(0, 9), COUNTERS)),
    max_size=12,
)


def test_counters_of_several_sources_are_summed():
    ledger = CounterLedger(2)
    assert ledger.update({"a": (1, 10), "b": (2, 20)}) == (3, 30)
    assert ledger.update({"a": (5, 10), "b": (2, 21)}) == (7, 31)


def test_a_source_that_is_gone_keeps_its_part():
    ledger = CounterLedger()
    ledger.update({"a": (5,), "b": (2,)})
    assert ledger.update({"b": (3,)}) == (8,)


def test_a_counter_that_begins_anew_adds_to_what_it_had():
    ledger = CounterLedger()
    ledger.update({"a": (2**64 - 1,)})
    assert ledger.update({"a": (4,)}) == (2**64 + 3,)
    assert ledger.update({"a": (6,)}) == (2**64 + 5,)


def test_what_is_not_there_has_no_sum_and_what_is_unreadable_neither():
    ledger = CounterLedger()
    assert ledger.update({}) is None
    assert ledger.update({"a": (7,), "b": None}) is None
    assert ledger.update({"a": (7,), "b": (1,)}) == (8,)
    assert ledger.update({}) is None
    assert ledger.update({"a": (7,)}) == (8,)


def test_a_counter_that_is_zero_is_told_as_zero():
    assert CounterLedger().update({"a": (0,)}) == (0,)


def test_memory_does_not_grow_with_what_has_gone():
    ledger = CounterLedger()
    for number in range(10 * KEPT_ABSENT):
        sums = ledger.update({number: (1,)})
    assert sums == (10 * KEPT_ABSENT,)
    assert len(ledger._last) <= KEPT_ABSENT + 1


@given(LOOKS)
def test_no_sum_ever_falls_or_comes_from_nothing(looks):
    ledger = CounterLedger(2)
    told = (0, 0)
    for look in looks:
        sums = ledger.update(look)
        assert (sums is None) == (not look or None in look.values())
        if sums is not None:
            assert all(now >= before for now, before in zip(sums, told, strict=True))
            told = sums


@given(LOOKS)
def test_a_sum_is_at_least_what_its_sources_say_and_at_most_all_that_was_ever_counted(looks):
    ledger = CounterLedger(2)
    increases = 0
    last = {}
    for look in looks:
        for source, row in look.items():
            if row is not None:
                increases += row[0] - last.get(source, 0) if row[0] >= last.get(source, 0) else row[0]
                last[source] = row[0]
        sums = ledger.update(look)
        if sums is not None:
            assert sums[0] == increases
            assert sums[0] >= sum(row[0] for row in look.values())
