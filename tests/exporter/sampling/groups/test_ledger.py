from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.model.snapshot import BlockIo
from jobfeatures_exporter.sampling.groups.ledger import KEPT_ABSENT, CounterLedger, JobCounters
from jobfeatures_exporter.sampling.layout.jobdirectory import JobDirectory
from tests.held import count_held

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
    assert ledger.update({}) == (8,)
    assert ledger.update({"a": (7,)}) == (8,)


def test_a_counter_that_is_zero_is_told_as_zero():
    assert CounterLedger().update({"a": (0,)}) == (0,)


def test_cpu_time_that_was_read_lower_is_what_it_was():
    ledger = CounterLedger(2, resets=False)
    assert ledger.update({"a": (1.0, 2.0), "b": (3.0, 4.0)}) == (4.0, 6.0)
    assert ledger.update({"b": (2.0, 5.0)}) == (4.0, 7.0)
    assert ledger.update({}) == (4.0, 7.0)


def test_what_was_read_before_the_last_look_and_comes_after_it_is_no_reset():
    ledger = CounterLedger()
    ledger.update({"a": (10,)})
    assert ledger.update({"a": (9,)}, late={"a"}) == (10,)
    assert ledger.update({"a": (12,)}, late={"a"}) == (12,)


def test_a_run_has_what_comes_after_the_last_mark_before_it():
    ledger = CounterLedger()
    ledger.update({"a": (5,)})
    ledger.mark()
    assert ledger.update({"a": (7,), "b": (1,)}) == (8,)
    ledger.begin_run()
    assert ledger.update({"a": (7,), "b": (2,)}) == (4,)
    ledger.begin_run()  # at a moment that was not marked: what nobody can tell apart is not the next one's
    assert ledger.update({"b": (3,)}) == (1,)


def test_memory_does_not_grow_with_what_has_gone():
    ledger, held = CounterLedger(), []
    for number in range(10 * KEPT_ABSENT):
        sums = ledger.update({number: (1,)})
        if number % KEPT_ABSENT == KEPT_ABSENT - 1:
            held.append(count_held(ledger))
    assert sums == (10 * KEPT_ABSENT,)
    assert held[-1] < 1.1 * held[1]


@given(LOOKS)
def test_no_sum_ever_falls_or_comes_from_nothing(looks):
    ledger = CounterLedger(2)
    told, has_begun = (0, 0), False
    for look in looks:
        sums = ledger.update(look)
        has_begun = has_begun or any(row is not None for row in look.values())
        assert (sums is None) == (not has_begun or None in look.values())
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


def of(groups):
    """Return counters of groups as these come with their directories, by path."""
    return {
        path: (JobDirectory(path=path, membership=None, groups={}), counters, False)
        for path, counters in groups.items()
    }


V2 = {
    "oom_kills": {"": (1,)},
    "ooms": {"": (3,)},
    "limit_hits": {"": (174,)},
    "throttled": {"": (500_000,)},
    ("cpu", "some"): {"": (1_500_000,)},
}


def test_counters_of_all_groups_of_a_job_become_fields_of_its_record():
    counters = JobCounters()
    assert counters.update(of({"/a": V2, "/b": V2})) == {
        "oom_kills": 2,
        "memory_limit_hits": 348,
        "memory_ooms": 6,
        "throttled_secs": 1.0,
        "pressure_secs": {("cpu", "some"): 3.0},
    }
    assert counters.update(of({}))["oom_kills"] == 2, "groups may go and come while a job runs"


def test_block_io_is_summed_over_devices_but_those_that_are_made_of_others():
    rows = {"8:0": (8192, 4096, 2, 1), "253:0": (8192, 4096, 2, 1), "8:16": (10, 0, 1, 0)}
    counted = JobCounters().update(of({"/a": {"block_io": rows}}), {"253:0": True})["block_io"]
    assert counted == BlockIo(read_bytes=8202, written_bytes=4096, reads=3, writes=1)


def test_what_the_kernel_writes_to_disks_for_a_job_counts_on_the_stack_above_them():
    """As captured on Linux 6.1: 30 MiB written to RAID 5 are on none of its disks the job's, reads are."""
    rows = {"9:5": (30414848, 31457280, 56, 50), "1:3": (6822912, 0, 24, 0), "1:4": (6815744, 0, 17, 0)}
    others, counters = {"9:5": True, "253:0": True}, JobCounters()
    of_disks = BlockIo(read_bytes=30414848, written_bytes=31457280, reads=56, writes=50)
    assert counters.update(of({"/a": {"block_io": rows}}), others)["block_io"] == of_disks
    # LVM upon it has the same again; and nothing is taken back when a device is removed.
    above = {**rows, "253:0": rows["9:5"]}
    assert counters.update(of({"/a": {"block_io": above}}), others)["block_io"] == of_disks
    left = {"1:3": rows["1:3"]}
    assert counters.update(of({"/a": {"block_io": left}}), others)["block_io"] == of_disks
    counters.update(of({}))


def test_a_group_that_has_moved_nothing_has_moved_zero_and_one_that_cannot_tell_nothing():
    nothing = BlockIo(read_bytes=0, written_bytes=0, reads=0, writes=0)
    assert JobCounters().update(of({"/a": {"block_io": {}}}))["block_io"] == nothing
    assert (
        JobCounters().update(of({"/a": {"block_io": {"7:0": (1, 1, 1, 1)}}}), {"7:0": False})["block_io"]
        == nothing
    )
    assert "block_io" not in JobCounters().update(of({"/a": {"block_io": None}}))
    assert "block_io" not in JobCounters().update(of({"/a": {}}))


def test_a_counter_that_comes_back_is_not_lower_than_it_was_told():
    counters = JobCounters()
    counters.update(of({"/a": {"oom_kills": {"": (0,), "/step_0": (2,)}}}))
    assert "oom_kills" not in counters.update(of({"/a": {"oom_kills": None}}))
    assert counters.update(of({"/a": {"oom_kills": {"": (0,)}}}))["oom_kills"] == 2


NAMES = ["oom_kills", "limit_hits", "block_io", ("cpu", "some"), ("io", "full")]


@st.composite
def group_counters(draw):
    """Draw what one group counts: some counters, some of them unreadable, of some sources."""
    counters = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        row = st.tuples(*[COUNTERS] * (4 if name == "block_io" else 1))
        counters[name] = draw(st.none() | st.dictionaries(st.sampled_from(["", "8:0", "/step_0"]), row))
    return counters


@given(st.lists(st.dictionaries(st.sampled_from(["/a", "/b"]), group_counters()), max_size=8))
def test_no_field_of_a_job_ever_falls(looks):
    counters = JobCounters()
    told = {}
    for look in looks:
        fields = counters.update(of(look))
        flat = {name: value for name, value in fields.items() if isinstance(value, int)}
        flat.update(fields["pressure_secs"])
        if "block_io" in fields:
            flat.update(fields["block_io"]._asdict())
        assert all(value >= told.get(name, 0) for name, value in flat.items())
        told.update(flat)
