"""Whose the machine's energy is: all of it is somebody's or nobody's, and a second reckoning agrees."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.power.machineenergy import BoardEnergy, card_joules
from jobfeatures_exporter.snapshot import CpuSecs, GpuCard, GpuSample, GroupKey, JobGpu, Snapshot
from tests.held import count_held

A, B = JobKey("slurm", "1"), JobKey("slurm", "2")
KEYS = [JobKey("slurm", str(number)) for number in range(4)]
CARDS = ["GPU-0", "GPU-1"]


def busy(secs):
    return CpuSecs(float(secs), 0, 0, 0, 0, 0, 0, 0)


def look(energy, joules, secs, used, cards=None, used_cards=None):
    return energy.update(
        joules=joules, cpu=busy(secs), used_secs=used, cards=cards or {}, used_cards=used_cards or {}
    )


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
    energy, joules, before, known = BoardEnergy(), 0.0, {}, {}
    for _ in range(data.draw(st.integers(1, 6))):
        joules += data.draw(anything)
        used = data.draw(st.dictionaries(st.sampled_from(KEYS), st.none() | anything))
        told = energy.update(
            joules=joules,
            cpu=data.draw(st.none() | anything.map(busy)),
            used_secs=used,
            cards=data.draw(st.dictionaries(st.sampled_from(CARDS), anything)),
            used_cards=data.draw(
                st.dictionaries(st.tuples(st.sampled_from(KEYS), st.sampled_from(CARDS)), anything)
            ),
        )
        assert told.keys() == used.keys()
        replaced = {key for key, secs in used.items() if secs is not None and secs < known.get(key, 0.0)}
        assert all(share >= before.get(key, 0.0) - 1e-6 for key, share in told.items() if key not in replaced)
        assert sum(told.values()) <= joules * (1 + 1e-9)
        before = told
        known = {
            key: known.get(key) if secs is None else secs
            for key, secs in used.items()
            if secs is not None or key in known
        }


def test_another_job_of_the_same_id_begins_without_the_joules_of_the_first():
    key, card = JobKey("slurm", "7"), "GPU-0"
    energy = BoardEnergy()
    look(energy, 0.0, 0, {key: 0.0}, {card: 0.0}, {(key, card): 0.0})
    told = look(energy, 100.0, 10, {key: 10.0}, {card: 60.0}, {(key, card): 60.0})
    assert told == {key: pytest.approx(100.0)}
    told = look(energy, 150.0, 15, {key: 5.0}, {card: 90.0}, {(key, card): 30.0})
    assert told == {key: pytest.approx(50.0)}


def test_jobs_that_have_ended_leave_nothing_behind():
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
