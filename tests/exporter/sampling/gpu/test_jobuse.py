import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample, GroupKey, JobGpu
from jobfeatures_exporter.sampling.gpu.jobuse import GpuBook, compute_shares

A, B = JobKey("slurm", "1"), JobKey("slurm", "2")
GROUP = GroupKey(7, 1)
KEYS = {1: A, 2: A, 3: B, 7: GROUP}
SM, ECC, XID, LIFETIME = ("busy", "sm"), ("ecc", "corrected"), ("xid", "79"), ("lifetime_ecc", "corrected")


def process(pid, percent=None, memory=None):
    return GpuProcess(pid=pid, ce_util_percent=percent, memory_bytes=memory)


def reading(*processes, uuid="GPU-1", busy=None, joules=None, percent=None, parent=None, counts=None, at=0.0):
    return GpuSample(
        card=GpuCard(uuid=uuid, parent_uuid=parent),
        counts=counts or {},
        taken_at_secs=at,
        processes=processes,
        busy_secs=busy,
        energy_joules=joules,
        ce_util_percent=percent,
    )


class Look:
    """A book, and looks at it with the keys of `KEYS`."""

    def __init__(self):
        self.book = GpuBook()

    def __call__(self, *readings, allocations=None, alive=(A, B), keys=None, latest=None, run=0):
        found, self.unattributed = self.book.update(
            readings,
            readings if latest is None else latest,
            key_of=(KEYS if keys is None else keys).get,
            allocations=allocations or {},
            runs=dict.fromkeys(alive, run),
        )
        return {(each.key, each.uuid): each for each in found}


@pytest.fixture
def look():
    return Look()


@pytest.mark.parametrize(
    ("processes", "allocated", "expected"),
    [
        ([process(1, 60), process(3, 20)], (), {A: 0.75, B: 0.25}),
        ([process(1, 30), process(2, 30), process(3, 0)], (), {A: 1.0, B: 0.0}),
        ([process(1, 50), process(99, 50)], (), {A: 0.5, None: 0.5}),
        ([process(1), process(2), process(3)], (), {A: 0.5, B: 0.5}),
        ([process(1), process(98), process(99)], (), {A: 0.5, None: 0.5}),
        ([process(1, 0), process(3, 0)], (), {A: 0.5, B: 0.5}),
        ([], (A,), {A: 1.0}),
        ([], (A, B), {}),
        ([], (), {}),
        ([process(3)], (A,), {B: 1.0}),
    ],
)
def test_a_cards_time_is_shared_by_utilisation_else_evenly_else_by_allocation(processes, allocated, expected):
    assert compute_shares(processes, KEYS.get, allocated) == expected


def test_counters_begin_where_a_job_is_first_seen(look):
    assert look(reading(process(1), busy=500, joules=9000))[A, "GPU-1"].busy_secs == 0
    found = look(reading(process(1), busy=505, joules=9100, percent=50))[A, "GPU-1"]
    assert found == JobGpu(key=A, uuid="GPU-1", busy_secs=5, energy_joules=100, ce_util_percent=50)


def test_an_allocated_idle_card_shows_and_has_no_busy_seconds(look):
    for joules in (100, 200):
        found = look(reading(busy=0, joules=joules, percent=0), allocations={A: {"GPU-1"}})
    assert found == {
        (A, "GPU-1"): JobGpu(key=A, uuid="GPU-1", allocated=True, energy_joules=100, ce_util_percent=0)
    }


def test_use_that_nobodys_process_explains_is_that_of_the_only_job_with_the_card(look):
    look(reading(busy=0), allocations={A: {"GPU-1"}})
    assert look(reading(busy=8), allocations={A: {"GPU-1"}})[A, "GPU-1"].busy_secs == 8
    assert look(reading(busy=10), allocations={A: {"GPU-1"}, B: {"GPU-1"}})[A, "GPU-1"].busy_secs == 8


def test_two_jobs_on_one_card(look):
    look(reading(process(1, 60, 100), process(3, 20, 7), busy=0, joules=0))
    found = look(
        reading(process(1, 60, 100), process(2, 0, 11), process(3, 20, 7), busy=8, joules=40, percent=80)
    )
    assert (found[A, "GPU-1"].busy_secs, found[B, "GPU-1"].busy_secs) == (6, 2)
    assert (found[A, "GPU-1"].energy_joules, found[B, "GPU-1"].energy_joules) == (30, 10)
    assert (found[A, "GPU-1"].memory_bytes, found[B, "GPU-1"].memory_bytes) == (111, 7)
    assert (found[A, "GPU-1"].ce_util_percent, found[B, "GPU-1"].ce_util_percent) == (60, 20)


def test_processes_that_only_the_driver_sees_are_counted_by_card(look):
    look(reading(process(1), process(98), process(99)), reading(uuid="GPU-2"))
    assert look.unattributed == {"GPU-1": 2, "GPU-2": 0}


def test_a_process_that_ended_since_it_was_read_is_still_its_jobs(look):
    look(reading(process(3, 10), busy=0))
    found = look(reading(process(3, 10), busy=5), keys={1: A})
    assert found[B, "GPU-1"].busy_secs == 5
    assert look.unattributed == {"GPU-1": 0}


def test_readings_between_two_looks_all_count(look):
    look(reading(process(1), busy=0))
    found = look(
        reading(process(1), busy=4), reading(process(3), busy=6), latest=[reading(process(3), busy=6)]
    )
    assert (found[A, "GPU-1"].busy_secs, found[B, "GPU-1"].busy_secs) == (4, 2)


def test_a_counter_stays_when_the_process_has_left_the_card(look):
    look(reading(process(1), busy=0))
    look(reading(process(1), busy=5))
    assert look(reading(busy=5))[A, "GPU-1"].busy_secs == 5


def test_a_job_that_is_gone_is_forgotten(look):
    look(reading(process(1), busy=0))
    look(reading(process(1), busy=5))
    assert look(reading(busy=5), alive=()) == {}
    assert look(reading(process(1), busy=6))[A, "GPU-1"].busy_secs == 1


def test_another_run_of_a_job_begins_with_nothing_of_the_last_one_s(look):
    for each in (0, 5):
        look(reading(process(1), busy=each, joules=each, counts={SM: each}))
    # Process 1 has ended after it was read, so it was the earlier run's.
    found = look(reading(process(1), busy=9, joules=9, counts={SM: 9}), keys={}, run=1)
    assert found == {}
    found = look(reading(process(2), busy=10, joules=12, counts={SM: 10}), run=1)[A, "GPU-1"]
    assert (found.busy_secs, found.energy_joules, found.counts) == (1, 3, {})
    found = look(reading(process(2), busy=12, joules=13, counts={SM: 13}), run=1)[A, "GPU-1"]
    assert (found.busy_secs, found.energy_joules, found.counts) == (3, 4, {SM: 3})


def test_the_first_process_of_a_job_that_had_its_card_before_takes_nothing_from_it(look):
    given = {A: {"GPU-1"}}
    look(reading(joules=0), allocations=given, alive=())
    look(reading(joules=50), allocations=given, alive=())
    assert look(reading(process(1), joules=60), allocations=given, run=7)[A, "GPU-1"].energy_joules == 60


def test_a_card_that_tells_nothing_leaves_counters_as_they_are(look):
    look(reading(process(1), busy=0))
    look(reading(process(1), busy=5))
    assert look(reading(process(1)))[A, "GPU-1"].busy_secs == 5
    assert look(reading(process(1), busy=9))[A, "GPU-1"].busy_secs == 9


def test_a_process_group_without_a_job_has_its_part_too(look):
    look(reading(process(7, 50), process(1, 50), busy=0), alive=(A, GROUP))
    found = look(reading(process(7, 50), process(1, 50), busy=10), alive=(A, GROUP))
    assert (found[GROUP, "GPU-1"].busy_secs, found[A, "GPU-1"].busy_secs) == (5, 5)


processes = st.lists(
    st.builds(
        GpuProcess,
        pid=st.sampled_from([1, 2, 3, 7, 98, 99]),
        ce_util_percent=st.none() | st.floats(0, 100),
        memory_bytes=st.none() | st.integers(0, 2**40),
    ),
    max_size=5,
    unique_by=lambda each: each.pid,
)
steps = st.tuples(processes, st.floats(0, 10), st.sampled_from([(), (A,), (A, B)]))


@given(st.lists(steps, min_size=1, max_size=20))
def test_the_jobs_together_never_exceed_the_card_and_no_counter_falls(steps):
    look, busy, before = Look(), 0.0, {}
    for there, grown, owners in steps:
        busy += grown
        found = look(
            reading(*there, busy=busy, percent=50, counts={SM: busy}),
            allocations={key: {"GPU-1"} for key in owners},
            alive=(A, B, GROUP),
        )
        assert sum(each.counts.get(SM, 0) for each in found.values()) <= busy + 1e-6
        counters = {place: each.busy_secs for place, each in found.items() if each.busy_secs is not None}
        assert sum(counters.values()) <= busy + 1e-6
        assert sum(each.ce_util_percent or 0 for each in found.values()) <= 50 + 1e-6
        assert all(counters[place] >= value for place, value in before.items())
        before = counters


def test_what_a_card_counts_is_of_the_job_that_held_it_alone_before_and_after(look):
    look(reading(process(1), counts={SM: 100, ECC: 5}))
    found = look(reading(process(1), counts={SM: 104, ECC: 5}))
    assert found[A, "GPU-1"].counts == {SM: 4, ECC: 0}
    look(reading(counts={SM: 106, ECC: 6}))  # nobody's
    found = look(reading(process(1), counts={SM: 109, ECC: 9}))
    assert found[A, "GPU-1"].counts == {SM: 4, ECC: 0}  # when it came back is not known
    assert look(reading(process(2), counts={SM: 110, ECC: 9}))[A, "GPU-1"].counts == {SM: 5, ECC: 0}


def test_a_job_that_was_given_the_card_holds_it_though_it_is_idle(look):
    for counted in (7, 9):
        found = look(reading(counts={ECC: counted}), allocations={A: {"GPU-1"}})
    assert found[A, "GPU-1"].counts == {ECC: 2}


@pytest.mark.parametrize(
    ("processes", "allocations"),
    [
        ([process(1, 100), process(3, 0)], {}),
        ([process(1, 100), process(99, 0)], {}),
        ([process(1, 100)], {B: {"GPU-1"}}),
        ([], {A: {"GPU-1"}, B: {"GPU-1"}}),
        ([process(99)], {}),
    ],
)
def test_of_a_card_that_several_hold_or_somebody_unknown_nothing_is_split(look, processes, allocations):
    for counted in (0, 10, 20):
        found = look(reading(*processes, counts={SM: counted}), allocations=allocations)
    assert [each.counts for each in found.values() if each.counts] == []


def test_of_a_card_that_is_divided_nothing_is_the_jobs_that_was_given_it(look):
    for counted in (0, 10):
        found = look(
            reading(counts={SM: counted}),
            reading(uuid="MIG-1", parent="GPU-1", counts={SM: counted / 2}),
            allocations={A: {"GPU-1", "MIG-1"}},
        )
    assert (found[A, "GPU-1"].counts, found[A, "MIG-1"].counts) == ({}, {SM: 5})


def test_an_event_that_is_the_first_of_its_code_counts(look):
    look(reading(process(1), counts={ECC: 0}))
    assert look(reading(process(1), counts={ECC: 0, XID: 2}))[A, "GPU-1"].counts == {ECC: 0, XID: 2}


def test_counts_that_begin_anew_go_on_and_one_that_appears_begins_at_nothing(look):
    look(reading(process(1), counts={ECC: 50}))
    found = look(reading(process(1), counts={ECC: 3, SM: 40}))
    assert found[A, "GPU-1"].counts == {ECC: 3, SM: 0}


@pytest.mark.parametrize(
    ("count", "told", "expected"),
    [
        (ECC, (1000, 999, 1001), 2),
        (ECC, (1000, 0, 2), 2),
        (LIFETIME, (1000, 999, 1001), 1),
        (LIFETIME, (1000, 0, 1001), 1),
        (("remapped", "corrected"), (3, 0, 3), 0),
        (SM, (90.0, 0.5, 1.0), 1.0),
    ],
)
def test_a_count_that_steps_back_and_goes_on_is_not_counted_again(look, count, told, expected):
    for value in told:
        found = look(reading(process(1), counts={count: value}))
    assert found[A, "GPU-1"].counts == {count: expected}


def test_what_a_card_used_in_a_pause_is_not_that_of_a_job_that_came_in_it(look):
    look.book = GpuBook(30)
    look(reading(process(1), joules=100, at=1000.0))
    for at in (1300.0, 1600.0):
        found = look(reading(process(1), process(3), joules=at, at=at))
    assert found[A, "GPU-1"].energy_joules == (1300 - 100) / 2 + 150
    assert found[B, "GPU-1"].energy_joules == 150
    look(reading(process(1), at=1610.0))
    found = look(reading(process(7), joules=9000, at=1700.0), alive=(A, GROUP))
    assert found[GROUP, "GPU-1"].energy_joules == 0


def test_what_was_not_told_while_another_held_the_card_is_nobodys(look):
    look(reading(process(1), counts={SM: 0, ECC: 0}))
    look(reading(process(3), counts={ECC: 0}))
    found = look(reading(process(3), counts={SM: 90, ECC: 1}))
    assert found[B, "GPU-1"].counts == {SM: 0, ECC: 1}


def test_a_holder_between_two_readings_that_told_nothing_counts_too(look):
    look(reading(process(1), counts={SM: 0}))
    look(reading(process(3)))
    found = look(reading(process(1), counts={SM: 90}))
    assert found[A, "GPU-1"].counts == {}


def test_an_account_stays_as_it_was_when_more_is_counted(look):
    look(reading(process(1), counts={SM: 0}))
    early = look(reading(process(1), counts={SM: 1}))[A, "GPU-1"]
    look(reading(process(1), counts={SM: 5}))
    assert early.counts == {SM: 1}
