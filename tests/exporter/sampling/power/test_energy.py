"""Sharing out what packages and the machine used: never more than the whole, never less than before."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import (
    CpuSecs,
    FigureSource,
    GpuCard,
    GpuSample,
    GroupKey,
    JobGpu,
    JobSample,
    Kind,
    NodeSample,
    Snapshot,
    UnitKey,
)
from jobfeatures_exporter.sampling.power.energy import (
    MAX_WATTS,
    BoardEnergy,
    JobEnergy,
    card_joules,
    compute_busy_secs,
    compute_increase_uj,
    compute_package_joules,
    compute_shares,
)
from tests.held import count_held

A, B = JobKey("slurm", "1"), JobKey("slurm", "2")
RANGE_UJ = 262_143_328_850


def key(number):
    return JobKey("slurm", str(number))


def busy(secs, idle=0.0):
    return CpuSecs(float(secs), 0, 0, idle, 0, 0, 0, 0)


@given(
    st.integers(0, RANGE_UJ),
    st.integers(0, 40_000_000_000),
)
def test_a_counter_goes_on_through_one_wrap(before, used):
    now = before + used
    if now > RANGE_UJ:
        now -= RANGE_UJ
    increase = compute_increase_uj(before, now, max_range_uj=RANGE_UJ, elapsed_secs=10)
    assert increase == used


@given(st.integers(0, 2**63), st.integers(0, 2**63), st.none() | st.integers(0, 2**63), st.floats(-1, 1e9))
def test_an_increase_is_never_negative(before, now, most, elapsed):
    assert compute_increase_uj(before, now, max_range_uj=most, elapsed_secs=elapsed) >= 0


def test_a_counter_that_was_set_back_is_no_wrap():
    assert compute_increase_uj(5_000_000, 10, max_range_uj=RANGE_UJ, elapsed_secs=10) == 0
    assert compute_increase_uj(5_000_000, 10, max_range_uj=None, elapsed_secs=10) == 0


@pytest.mark.parametrize("range_uj", [65_532_610_987, RANGE_UJ])  # AMD's, Intel's
@pytest.mark.parametrize("elapsed_secs", [1, 10, 30, 60, 120])
@pytest.mark.parametrize("lost_uj", [1, 1000, 5_000_000, 20_000_000_000])
def test_a_step_back_is_no_wrap_at_any_interval(range_uj, elapsed_secs, lost_uj):
    before = 30_000_000_000
    found = compute_increase_uj(
        before, before - lost_uj, max_range_uj=range_uj, elapsed_secs=elapsed_secs, max_watts=MAX_WATTS
    )
    assert found == 0


def test_after_a_pause_in_which_a_counter_may_have_wrapped_twice_its_increase_is_unknown():
    for now in (6_000_000_000, 4_000_000_000):
        assert compute_increase_uj(5_000_000_000, now, max_range_uj=RANGE_UJ, elapsed_secs=3600) == 0
    assert compute_increase_uj(0, 50_000_000_000, max_range_uj=RANGE_UJ, elapsed_secs=500) == 50_000_000_000


seconds = st.floats(0, 1e6, allow_nan=False)


@given(seconds, seconds, st.dictionaries(st.integers(0, 20).map(key), seconds))
def test_shares_never_exceed_the_whole(joules, busy_secs, used):
    shares = compute_shares(joules, busy_secs=busy_secs, used_secs=used)
    assert shares.keys() == used.keys()
    assert all(share >= 0 for share in shares.values())
    assert sum(shares.values()) <= joules * (1 + 1e-9)


def test_what_no_job_used_stays_with_the_node():
    assert compute_shares(100.0, busy_secs=40, used_secs={key(1): 10, key(2): 20}) == {key(1): 25, key(2): 50}


def test_jobs_bear_the_idle_power_of_the_package_they_run_on():
    assert compute_shares(100.0, busy_secs=1, used_secs={key(1): 1}) == {key(1): 100}


def test_stolen_and_idle_time_is_not_busy():
    assert compute_busy_secs(CpuSecs(1, 2, 4, 100, 100, 8, 16, 100)) == 31


def test_the_platform_is_not_added_to_its_packages():
    assert compute_package_joules({"package-0": 5, "package-1": 6, "dram-0": 1, "psys": 100}) == 12
    assert compute_package_joules({"psys": 100}) is None


def test_a_job_gets_its_part_between_two_looks():
    energy = JobEnergy()
    assert energy.update(joules=50, cpu=busy(1000), used_secs={key(1): 500.0}) == {key(1): 0}
    assert energy.update(joules=150, cpu=busy(1040), used_secs={key(1): 510.0}) == {key(1): 25}


def test_a_job_that_began_after_the_last_look_counts_from_its_start():
    energy = JobEnergy()
    energy.update(joules=0, cpu=busy(0), used_secs={})
    assert energy.update(joules=100, cpu=busy(10), used_secs={key(1): 5.0}) == {key(1): 50}


def test_a_job_with_a_past_longer_than_the_interval_counts_from_here_on():
    energy = JobEnergy()
    energy.update(joules=0, cpu=busy(0), used_secs={})
    assert energy.update(joules=100, cpu=busy(10), used_secs={key(1): 5000.0}) == {key(1): 0}
    assert energy.update(joules=200, cpu=busy(20), used_secs={key(1): 5010.0}) == {key(1): 100}


def test_the_next_job_of_an_id_that_never_went_has_no_joules_of_the_last():
    energy = JobEnergy()
    first, second = (key(1), 0), (key(1), 1)
    energy.update(joules=0, cpu=busy(0), used_secs={first: 100.0})
    energy.update(joules=50, cpu=busy(10), used_secs={first: 110.0})
    assert energy.update(joules=60, cpu=busy(14), used_secs={second: 2.0}) == {second: 5.0}
    assert energy.update(joules=70, cpu=busy(24), used_secs={second: 112.0}) == {second: 15.0}


def test_after_a_look_that_could_not_be_read_the_next_shares_for_both():
    energy = JobEnergy()
    energy.update(joules=0, cpu=busy(0), used_secs={key(1): 0.0})
    energy.update(joules=10, cpu=busy(10), used_secs={key(1): 5.0})
    for joules, cpu in ((None, busy(15)), (15, None)):
        assert energy.update(joules=joules, cpu=cpu, used_secs={key(1): 9.0}) == {key(1): 5}
    assert energy.update(joules=30, cpu=busy(30), used_secs={key(1): 15.0}) == {key(1): 15}


def test_without_a_readable_package_no_job_has_joules():
    assert JobEnergy().update(joules=None, cpu=busy(1), used_secs={key(1): 1.0}) == {}


@pytest.mark.parametrize("unreadable", [False, True])
@given(data=st.data())
def test_joules_never_fall_and_never_exceed_what_the_packages_used(unreadable, data):
    energy = JobEnergy()
    joules, cpu, used, told = 0.0, 0.0, {}, {}
    for _ in range(data.draw(st.integers(2, 8))):
        joules += data.draw(st.floats(0, 1000))
        cpu += data.draw(st.floats(0, 100))
        for number in data.draw(st.sets(st.integers(0, 4))):
            used[key(number)] = used.get(key(number), 0.0) + data.draw(st.floats(0, 100))
        gone = unreadable and data.draw(st.booleans())
        now = energy.update(joules=None if gone else joules, cpu=busy(cpu), used_secs=used)
        if now:
            assert all(now[each] >= before - 1e-9 for each, before in told.items())
            told = now
        assert sum(told.values()) <= joules * (1 + 1e-9)


def test_jobs_that_have_ended_leave_nothing_behind():
    energy, held = JobEnergy(), []
    for number in range(1000):
        energy.update(joules=number, cpu=busy(number), used_secs={key(number): float(number)})
        held.append(count_held(energy))
    assert held[-1] < held[2] + 5


SERVICE = UnitKey(Kind.SERVICE, "a.service")
IDLE = CpuSecs(*[0.0] * len(CpuSecs._fields))


def sample(key, secs):
    return JobSample(
        key=key,
        accounting=FigureSource.CGROUP,
        memory=MemoryBytes(),
        user_cpu_secs=secs,
        system_cpu_secs=0.0,
    )


@pytest.fixture
def share():
    energy = JobEnergy()

    def share(domains, busy_secs, **used):
        node = NodeSample(cpu=IDLE._replace(user=busy_secs))
        keys = {"one": A, "two": B, "service": SERVICE}
        return energy.share(
            domains, node, {keys[name]: sample(keys[name], secs) for name, secs in used.items()}
        )

    return share


def test_jobs_have_their_parts_and_what_is_no_job_has_none(share):
    share({"package-0": 0.0}, 0.0, one=0.0, two=0.0, service=0.0)
    node, jobs = share({"package-0": 100.0}, 10.0, one=5.0, two=2.5, service=2.5)
    assert node.energy_joules == {"package-0": 100.0}
    assert {key: each.energy_joules for key, each in jobs.items()} == {A: 50.0, B: 25.0, SERVICE: None}


def test_a_machine_without_counters_leaves_all_as_it_is(share):
    node, jobs = share({}, 10.0, one=5.0)
    assert (dict(node.energy_joules), jobs[A].energy_joules) == ({}, None)


KEYS = [JobKey("slurm", str(number)) for number in range(4)]
CARDS = ["GPU-0", "GPU-1"]


def look(energy, joules, secs, used, cards=None, used_cards=None, run=0):
    return update(energy, joules, busy(secs), used, cards or {}, used_cards or {}, run)


def update(energy, joules, cpu, used, cards, used_cards, run=0):
    used_secs = {(key, run): secs for key, secs in used.items()}
    told = energy.update(joules=joules, cpu=cpu, used_secs=used_secs, cards=cards, used_cards=used_cards)
    assert told.keys() == used_secs.keys()
    return {key: share for (key, _), share in told.items()}


def test_without_cards_energy_is_shared_by_cpu_time():
    energy = BoardEnergy()
    assert look(energy, 0.0, 0, {A: 0.0, B: 0.0}) == {A: 0, B: 0}
    assert look(energy, 1000.0, 10, {A: 5.0, B: 2.5}) == {A: 500, B: 250}


def test_who_uses_a_card_bears_it_and_the_rest_goes_by_cpu_time():
    energy = BoardEnergy()
    look(energy, 0.0, 0, {A: 0.0, B: 0.0}, {"GPU-0": 50.0})
    shares = look(energy, 1000.0, 10, {A: 1.0, B: 9.0}, {"GPU-0": 850.0}, {(A, "GPU-0"): 600.0})
    assert shares == {A: 600 + 20, B: 180}  # 200 of the card are nobody's


def test_cards_that_drew_more_than_the_machine_share_what_it_drew():
    energy = BoardEnergy()
    look(energy, 0.0, 0, {A: 0.0, B: 0.0}, {"GPU-0": 0.0})
    assert look(energy, 100.0, 10, {A: 1.0, B: 9.0}, {"GPU-0": 400.0}, {(A, "GPU-0"): 400.0}) == {
        A: 100,
        B: 0,
    }


def test_nothing_is_shared_while_nothing_was_measured():
    energy = BoardEnergy()
    look(energy, 100.0, 0, {A: 0.0})
    look(energy, 100.0, 10, {A: 10.0}, {"GPU-0": 5.0})
    assert look(energy, 150.0, 20, {A: 15.0}, {"GPU-0": 5.0}) == {A: 25}


amount = st.integers(0, 1000)
looks = st.lists(
    st.fixed_dictionaries(
        {
            "joules": amount,
            "idle_cpu": amount,
            "cpu": st.dictionaries(st.sampled_from(KEYS), amount, max_size=4),
            "nobody": st.dictionaries(st.sampled_from(CARDS), amount, max_size=2),
            "cards": st.dictionaries(
                st.tuples(st.sampled_from(KEYS), st.sampled_from(CARDS)), amount, max_size=4
            ),
        }
    ),
    min_size=1,
    max_size=6,
)


@given(looks)
def test_jobs_and_nobody_have_what_the_machine_drew_as_a_second_reckoning_says(intervals):
    energy = BoardEnergy()
    zero = dict.fromkeys(KEYS, 0.0)
    look(energy, 0.0, 0, zero, dict.fromkeys(CARDS, 0.0))
    joules = secs = 0
    used, cards = dict(zero), dict.fromkeys(CARDS, 0.0)
    used_cards = {}
    wanted: dict[JobKey | None, Fraction] = dict.fromkeys([*KEYS, None], Fraction(0))
    for each in intervals:
        joules += each["joules"]
        secs += each["idle_cpu"] + sum(each["cpu"].values())
        for key, more in each["cpu"].items():
            used[key] += more
        for use, more in each["cards"].items():
            used_cards[use] = used_cards.get(use, 0.0) + more
            cards[use[1]] += more
        for card, more in each["nobody"].items():
            cards[card] += more
        told = look(energy, float(joules), secs, dict(used), dict(cards), dict(used_cards))
        # The same, literally: every joule of this interval is put somewhere.
        drawn = sum(each["cards"].values()) + sum(each["nobody"].values())
        part = min(each["joules"], drawn)
        for (key, _), more in each["cards"].items():
            wanted[key] += Fraction(part * more, drawn) if drawn else 0
        wanted[None] += Fraction(part * sum(each["nobody"].values()), drawn) if drawn else 0
        busy_secs = each["idle_cpu"] + sum(each["cpu"].values())
        for key, more in each["cpu"].items():
            wanted[key] += Fraction((each["joules"] - part) * more, busy_secs) if busy_secs else 0
        left = each["idle_cpu"] if busy_secs else 1
        wanted[None] += Fraction((each["joules"] - part) * left, busy_secs or 1)
    assert sum(wanted.values()) == joules
    assert told == pytest.approx({key: float(wanted[key]) for key in KEYS})
    assert joules - sum(told.values()) == pytest.approx(float(wanted[None]), abs=1e-6)


anything = st.floats(0, 1e6)


@given(st.data())
def test_whatever_is_told_joules_of_a_job_never_fall_and_never_exceed_the_machine_s(data):
    energy, joules, before = BoardEnergy(), 0.0, {}
    for _ in range(data.draw(st.integers(1, 6))):
        joules += data.draw(anything)
        used = data.draw(st.dictionaries(st.sampled_from(KEYS), st.none() | anything))
        told = update(
            energy,
            joules,
            data.draw(st.none() | anything.map(busy)),
            used,
            data.draw(st.dictionaries(st.sampled_from(CARDS), anything)),
            data.draw(st.dictionaries(st.tuples(st.sampled_from(KEYS), st.sampled_from(CARDS)), anything)),
        )
        assert all(share >= before.get(key, 0.0) - 1e-6 for key, share in told.items())
        assert sum(told.values()) <= joules * (1 + 1e-9)
        before = told


def test_another_job_of_the_same_id_begins_without_the_joules_of_the_first():
    key, card = JobKey("slurm", "7"), "GPU-0"
    energy = BoardEnergy()
    look(energy, 0.0, 0, {key: 0.0}, {card: 0.0}, {(key, card): 0.0})
    told = look(energy, 100.0, 10, {key: 10.0}, {card: 60.0}, {(key, card): 60.0})
    assert told == {key: pytest.approx(100.0)}
    told = look(energy, 150.0, 15, {key: 5.0}, {card: 90.0}, {(key, card): 30.0}, run=1)
    assert told == {key: pytest.approx(50.0)}


def test_jobs_that_have_ended_leave_nothing_of_the_machine_s_behind():
    energy, held = BoardEnergy(), []
    for number in range(100):
        key = JobKey("slurm", str(number))
        look(
            energy, number * 10.0, number, {key: 1.0}, {"GPU-0": number * 5.0}, {(key, "GPU-0"): number * 5.0}
        )
        held.append(count_held(energy))
    assert held[-1] < held[2] + 5


def test_parts_of_cards_and_others_than_jobs_do_not_count():
    def gpu(uuid, joules, parent=None):
        card = GpuCard(uuid=uuid, parent_uuid=parent)
        return GpuSample(card=card, taken_at_secs=0.0, energy_joules=joules)

    snapshot = Snapshot(
        taken_at_secs=0,
        duration_secs=0,
        node=None,
        jobs={},
        gpus=(gpu("GPU-0", 5.0), gpu("MIG-0", 3.0, "GPU-0"), gpu("GPU-1", None)),
        job_gpus=(
            JobGpu(key=A, uuid="GPU-0", energy_joules=2.0),
            JobGpu(key=A, uuid="MIG-0", energy_joules=3.0),
            JobGpu(key=B, uuid="GPU-1"),
            JobGpu(key=GroupKey(1, 2), uuid="GPU-0", energy_joules=1.0),
        ),
    )
    assert card_joules(snapshot) == ({"GPU-0": 5.0}, {(A, "GPU-0"): 2.0})
