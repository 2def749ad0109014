"""The rules are checked against a small simulated kernel, which knows the truth."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.sampling.processes.accumulate import (
    CpuAccumulator,
    CpuTicks,
    IoAccumulator,
    _Claims,
    _match_upwards,
)
from tests.exporter.sampling.simulation import Kernel, Life, Task


@given(st.integers(0, 2**32))
def test_totals_never_fall_and_never_exceed_the_truth(seed):
    life = Life(seed, orderly=False)
    accumulator = CpuAccumulator[str]()
    last: dict[str, CpuTicks] = {}
    ended = CpuTicks(0, 0)
    for _ in life.looks():
        now = dict(accumulator.update(*life.kernel.look()))
        for key in last.keys() - now.keys():
            ended = CpuTicks(ended.user + last[key].user, ended.system + last[key].system)
        for key, ticks in now.items():
            before = last.get(key, CpuTicks(0, 0))
            assert ticks.user >= before.user
            assert ticks.system >= before.system
        truth = life.kernel.truth.values()
        assert ended.user + sum(each.user for each in now.values()) <= sum(user for user, _ in truth)
        assert ended.system + sum(each.system for each in now.values()) <= sum(system for _, system in truth)
        last = now


@given(st.integers(0, 2**32))
def test_a_job_in_which_every_exit_is_reaped_is_counted_exactly(seed):
    life = Life(seed, orderly=True)
    accumulator = CpuAccumulator[str]()
    for _ in life.looks():
        total = accumulator.update(*life.kernel.look())["job"]
        assert [total.user, total.system] == life.kernel.truth["job"]


@given(st.integers(0, 2**32), st.booleans())
def test_input_and_output_never_fall_and_never_exceed_the_truth(seed, orderly):
    life = Life(seed, orderly=orderly)
    accumulator = IoAccumulator[str]()
    last: dict[str, tuple[int, ...]] = {}
    ended = [0, 0]
    for _ in life.looks():
        now = dict(accumulator.update(*life.kernel.look_at_io()))
        for key in last.keys() - now.keys():
            ended = [ended[0] + last[key][0], ended[1] + last[key][1]]
        for key, totals in now.items():
            assert all(after >= before for after, before in zip(totals, last.get(key, totals), strict=True))
        truth = life.kernel.truth.values()
        assert ended[0] + sum(each[0] for each in now.values()) <= sum(read for read, _ in truth)
        assert ended[1] + sum(each[1] for each in now.values()) <= sum(written for _, written in truth)
        if orderly:
            assert list(now["job"][:2]) == life.kernel.truth["job"]
        last = now


@given(st.integers(0, 2**32), st.data())
def test_time_by_command_is_never_counted_twice_when_a_process_takes_another_name(seed, data):
    life = Life(seed, orderly=True)
    accumulator = CpuAccumulator[str](brings_life=lambda _last, _now: False)
    told: dict[str, int] = {}
    for _ in life.looks():
        samples, _ = life.kernel.look()
        names = {pid: data.draw(st.sampled_from("abc")) for pid in samples if pid > 1}
        now = {key: ticks.user for key, ticks in accumulator.update(samples, names).items()}
        for key, ticks in now.items():
            assert ticks >= told.get(key, 0)
        told = now
        assert sum(now.values()) <= life.kernel.truth["job"][0]


def small_tree() -> tuple[Kernel, Task, Task, CpuAccumulator[str]]:
    kernel = Kernel()
    shell = kernel.fork(kernel.init, 2, "job")
    worker = kernel.fork(shell, 3)
    return kernel, shell, worker, CpuAccumulator[str]()


def test_a_child_that_was_seen_is_not_counted_again_with_its_parent():
    kernel, _, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(100, 10)
    kernel.run(worker, 5, 5)
    kernel.exit(worker)
    kernel.reap(worker)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(105, 15)


def test_a_child_that_nobody_waits_for_keeps_what_it_used():
    kernel, shell, worker, accumulator = small_tree()
    shell.ignores_children = True
    kernel.run(worker, 100, 10)
    accumulator.update(*kernel.look())
    kernel.exit(worker)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(100, 10)


def test_the_reaper_outside_the_job_is_not_charged_for_what_the_job_was():
    kernel, shell, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    accumulator.update(*kernel.look())
    kernel.exit(shell)
    kernel.reap(shell)
    total = accumulator.update(*kernel.look())
    assert total["job"] == CpuTicks(100, 10)
    kernel.exit(worker)
    kernel.reap(worker)
    assert accumulator.update(*kernel.look()) == {"system": CpuTicks(0, 0)}


def test_parent_and_child_that_end_between_two_looks_are_not_counted_twice():
    kernel, shell, worker, accumulator = small_tree()
    grandchild = kernel.fork(worker, 4)
    kernel.run(grandchild, 100, 10)
    accumulator.update(*kernel.look())
    kernel.exit(grandchild)
    kernel.reap(grandchild)
    kernel.exit(worker)
    kernel.reap(worker)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(100, 10)
    kernel.run(shell, 1, 1)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(101, 11)


def test_a_child_read_after_its_parent_in_one_look_is_not_counted_twice():
    kernel, _, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    accumulator.update(*kernel.look())
    early, keys = kernel.look()
    kernel.exit(worker)
    kernel.reap(worker)
    late, _ = kernel.look()
    # The shell was read before the worker ended, the worker's own line after it had gone …
    assert accumulator.update({1: early[1], 2: early[2]}, keys)["job"] == CpuTicks(100, 10)
    assert accumulator.update(late, keys)["job"] == CpuTicks(100, 10)


def test_a_child_read_before_it_ended_and_again_within_its_parent_is_set_right():
    kernel, shell, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    accumulator.update(*kernel.look())
    early, keys = kernel.look()
    kernel.exit(worker)
    kernel.reap(worker)
    late, _ = kernel.look()
    # … or the other way round: for one look the time is there twice, then the total waits until it is true.
    high = accumulator.update({**late, 3: early[3]}, keys)["job"]
    assert accumulator.update(late, keys)["job"] == high
    kernel.run(shell, 150, 20)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(250, 30)


@pytest.mark.parametrize("reaped", [True, False])
def test_a_claim_that_was_not_met_yet_goes_up_with_its_parent(reaped):
    kernel, _, worker, accumulator = small_tree()
    grandchild = kernel.fork(worker, 4)
    great_grandchild = kernel.fork(grandchild, 5)
    kernel.run(great_grandchild if not reaped else grandchild, 100, 10)
    accumulator.update(*kernel.look())
    early, keys = kernel.look()
    kernel.exit(great_grandchild)
    kernel.reap(great_grandchild)
    kernel.exit(grandchild)
    kernel.reap(grandchild)
    accumulator.update({pid: early[pid] for pid in (1, 2, 3)}, keys)  # the rest ended after these were read
    kernel.exit(worker)
    kernel.reap(worker)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(100, 10)


def test_a_reused_number_is_a_new_process():
    kernel, shell, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    accumulator.update(*kernel.look())
    kernel.exit(worker)
    kernel.reap(worker)
    kernel.run(kernel.fork(shell, 3), 7, 1)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(107, 11)


def test_a_reused_number_is_a_new_process_also_where_another_has_moved():
    kernel, shell, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    accumulator.update(*kernel.look())
    kernel.exit(worker)
    kernel.reap(worker)
    kernel.run(kernel.fork(shell, 3), 107, 11)
    samples, keys = kernel.look()
    assert accumulator.update(samples, {**keys, 1: "moved"})["job"] == CpuTicks(207, 21)


def test_a_process_brings_its_life_along_to_the_job_that_is_learnt_later():
    kernel, _, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    samples, keys = kernel.look()
    accumulator.update(samples, {**keys, 3: "group"})
    assert accumulator.update(samples, keys)["job"] == CpuTicks(100, 10)


def test_a_process_without_a_key_is_counted_nowhere_until_it_has_one():
    kernel, _, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    samples, keys = kernel.look()
    assert accumulator.update(samples, {1: "system", 2: "job"}) == {
        "system": CpuTicks(0, 0),
        "job": CpuTicks(0, 0),
    }
    assert accumulator.update(samples, keys)["job"] == CpuTicks(100, 10)


def test_a_job_without_processes_is_forgotten():
    kernel, shell, worker, accumulator = small_tree()
    accumulator.update(*kernel.look())
    for task in (worker, shell):
        kernel.exit(task)
        kernel.reap(task)
    assert accumulator.update(*kernel.look()) == {"system": CpuTicks(0, 0)}
    assert accumulator.update({}, {}) == {}


def test_parents_in_a_circle_end_too():
    kernel, _, _, accumulator = small_tree()
    samples, keys = kernel.look()
    one, other = samples[2], samples[3]
    circle = {
        4: _changed(one, pid=4, ppid=5),
        5: _changed(other, pid=5, ppid=4),
        6: _changed(other, pid=6, ppid=5),
    }
    accumulator.update(circle, dict.fromkeys(circle, "job"))
    assert accumulator.update({}, {}) == {}
    assert keys


def test_one_without_an_heir_does_not_hide_others_that_went():
    kernel, _, worker, accumulator = small_tree()
    samples, keys = kernel.look()
    orphan = _changed(samples[3], pid=1000, ppid=999)  # nobody knows its parent
    kernel.run(worker, 100, 10)
    samples, keys = kernel.look()
    accumulator.update({1000: orphan, **samples}, {1000: "job", **keys})
    kernel.exit(worker)
    kernel.reap(worker)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(100, 10)


def _changed(sample: ProcessSample, **changes) -> ProcessSample:
    return sample._replace(**changes)


def test_input_and_output_of_a_process_come_along_to_the_job_that_is_learnt_later():
    kernel, _, worker, _ = small_tree()
    accumulator = IoAccumulator[str]()
    kernel.run(worker, 100, 10)
    readings, keys = kernel.look_at_io()
    accumulator.update(readings, {**keys, 3: "group"})
    assert accumulator.update(readings, keys)["job"][:2] == (100, 10)


def test_what_else_changes_of_a_process_is_no_time():
    kernel, _, worker, accumulator = small_tree()
    kernel.run(worker, 100, 10)
    samples, keys = kernel.look()
    accumulator.update(samples, keys)
    more = {pid: each._replace(threads=9, resident_bytes=9, virtual_bytes=9) for pid, each in samples.items()}
    assert accumulator.update(more, keys)["job"] == CpuTicks(100, 10)


TREE = {pid: SimpleNamespace(ppid=pid - 1) for pid in (2, 3, 4)}  # 4 is the child of 3, which is that of 2


@pytest.mark.parametrize(
    ("amount", "taken", "left"),
    [
        (5, 5, {4: 0, 3: 10, 2: 100}),
        (30, 30, {4: 0, 3: 0, 2: 85}),
        (200, 115, {4: 0, 3: 0, 2: 0}),
    ],
)
def test_what_ancestors_show_is_taken_from_the_nearest_first(amount, taken, left):
    shown = {4: 5, 3: 10, 2: 100}
    assert _match_upwards(shown, 4, amount, TREE) == taken
    assert shown == left


def test_ancestors_in_a_circle_are_asked_once():
    circle = {2: SimpleNamespace(ppid=3), 3: SimpleNamespace(ppid=2)}
    assert _match_upwards({2: 1, 3: 2}, 3, 9, circle) == 3


class Heirs:
    """Looks at what is claimed: who has gone, as (pid, parent, ancestor, what it had), and what is shown."""

    def __init__(self):
        self._claims = _Claims()

    def look(self, *gone, shown=None):
        """Return what is added, by pid."""
        added = {}
        left = [
            (SimpleNamespace(process=SimpleNamespace(pid=pid), parent=parent, ancestor=ancestor), had)
            for pid, parent, ancestor, had in gone
        ]
        self._claims.advance(left, dict(shown or {}), TREE, lambda pid, amount: added.update({pid: amount}))
        return {pid: amount for pid, amount in added.items() if amount}


ENDED = (4, 3, None, 100)  # its parent 3 lives on
ORPHANED = (4, None, 3, 100)  # so does its ancestor 3, no parent


@pytest.mark.parametrize("gone", [ENDED, ORPHANED])
def test_what_the_gone_had_may_be_shown_by_their_heirs_at_this_look_or_the_next(gone):
    assert Heirs().look(gone, shown={3: 130}) == {3: 30}
    heirs = Heirs()
    assert heirs.look(gone, shown={3: 60}) == {}
    assert heirs.look(shown={3: 50}) == {3: 10}
    heirs = Heirs()
    assert heirs.look(gone) == {}
    assert heirs.look() == {}
    assert heirs.look(shown={3: 50}) == {3: 50}  # not at the one after that


def test_children_of_one_parent_add_up():
    assert Heirs().look(ENDED, (5, 3, None, 20), shown={3: 130}) == {3: 10}
    assert Heirs().look(ORPHANED, (5, None, 3, 20), shown={3: 130}) == {3: 10}


def test_an_orphan_s_time_may_be_shown_further_up_a_child_s_may_not():
    assert Heirs().look(ORPHANED, shown={2: 130}) == {2: 30}
    assert Heirs().look(ENDED, shown={2: 130}) == {2: 130}


def test_what_nobody_can_have_inherited_is_forgotten():
    heirs = Heirs()
    assert heirs.look((4, None, None, 100), shown={3: 60}) == {3: 60}
    assert heirs.look(shown={3: 60}) == {3: 60}


@pytest.mark.parametrize("first", [ENDED, ORPHANED])
@pytest.mark.parametrize("second", [(3, 2, None, 50), (3, None, 2, 50)])
def test_an_heir_that_goes_hands_on_what_it_has_not_shown(first, second):
    heirs = Heirs()
    assert heirs.look(first) == {}
    assert heirs.look(second, shown={2: 170}) == {2: 20}


def test_what_was_shown_before_its_claim_is_taken_back_once():
    heirs = Heirs()
    assert heirs.look(shown={3: 60}) == {3: 60}
    assert heirs.look(ENDED) == {3: -60}
    assert heirs.look(shown={3: 70}) == {3: 30}  # 40 were still claimed
    heirs = Heirs()
    assert heirs.look(shown={3: 60}) == {3: 60}
    assert heirs.look() == {}
    assert heirs.look(ENDED) == {}  # only of the look before
    assert heirs.look(shown={3: 100}) == {}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_order_of_processes_does_not_matter(order):
    kernel, _, worker, accumulator = small_tree()
    kernel.run(worker, 9, 9)
    samples, keys = kernel.look()
    pids = [2, 3]
    accumulator.update({pids[i]: samples[pids[i]] for i in order}, keys)
    kernel.exit(worker)
    kernel.reap(worker)
    assert accumulator.update(*kernel.look())["job"] == CpuTicks(9, 9)
