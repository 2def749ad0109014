"""The account by exit records, beside that of `accumulate`, on the same simulated kernel."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.sampling.exits.exitcounts import (
    COUNTED,
    ELSEWHERE,
    UNKNOWN,
    ExitAccount,
    compute_reported,
)
from jobfeatures_exporter.sampling.exits.exitrecords import ExitRecord
from jobfeatures_exporter.sampling.processes.accumulate import CpuAccumulator, CpuTicks
from tests.exporter.sampling.simulation import Kernel, Life
from tests.held import count_held

TICKS_PER_SEC = 100
BOOT_SECS = 1_800_000_000.0
START_SECS = 10  # one after the other start so far apart that none is taken for another


class RecordingKernel(Kernel):
    """A kernel that leaves a record of each exit; some may be lost."""

    def __init__(self):
        super().__init__()
        self.records = []
        self.loses = lambda: False

    def exit(self, task):
        if not self.loses():
            self.records.append(
                ExitRecord(
                    pid=task.pid,
                    ppid=task.parent.pid,
                    start_secs=BOOT_SECS + task.start * START_SECS,
                    user_usecs=task.user * 10_000,
                    system_usecs=task.system * 10_000,
                )
            )
        super().exit(task)

    def drain(self):
        records, self.records = self.records, []
        return records

    def look(self):
        samples, keys = super().look()
        scaled = {
            pid: each._replace(start_ticks=each.start_ticks * START_SECS * TICKS_PER_SEC)
            for pid, each in samples.items()
        }
        return scaled, {pid: key for pid, key in keys.items() if key != "system"}


class Watch:
    """Both accounts of one kernel."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.other = CpuAccumulator[str]()
        self.account = ExitAccount[str]()

    def __call__(self, between=lambda: None, boot_time_secs=BOOT_SECS):
        records = self.kernel.drain()
        between()
        processes, keys = self.kernel.look()
        if not self.account.has_started:
            self.kernel.drain()  # as a sampler does: who ended during the first look is in it
        self.by_parents = dict(self.other.update(processes, keys))
        return self.account.update(records, processes, keys, self.by_parents, boot_time_secs=boot_time_secs)


def make_life(seed, *, orderly=False):
    life = Life(seed, orderly=orderly)
    kernel = RecordingKernel()
    life.kernel = kernel
    kernel.fork(kernel.init, 2, "job")
    return life


def total(ticks):
    return ticks.user + ticks.system


@given(st.integers(0, 2**32), st.booleans())
def test_totals_never_fall_and_never_exceed_the_truth(seed, loses):
    life, chance = make_life(seed), random.Random(seed)
    life.kernel.loses = lambda: loses and chance.random() < 0.3
    watch, last, ended = Watch(life.kernel), {}, 0
    for _ in life.looks():
        now = watch()
        assert now.keys() == watch.by_parents.keys()
        for key, ticks in now.items():
            assert total(ticks) >= total(watch.by_parents[key])
            assert ticks.user >= last.get(key, CpuTicks(0, 0)).user
            assert ticks.system >= last.get(key, CpuTicks(0, 0)).system
        ended += sum(total(ticks) for key, ticks in last.items() if key not in now)
        truth = sum(sum(each) for each in life.kernel.truth.values())
        assert ended + sum(map(total, now.values())) <= truth
        last = now


@given(st.integers(0, 2**32))
def test_what_happens_between_the_records_and_the_look_is_counted_once(seed):
    life = make_life(seed)
    watch, steps = Watch(life.kernel), life.looks()
    for _ in steps:
        now = watch(between=lambda: next(steps, None))
        truth = sum(sum(each) for each in life.kernel.truth.values())
        assert sum(map(total, now.values())) <= truth


@given(st.integers(0, 2**32))
def test_a_job_in_which_every_exit_is_reaped_is_counted_exactly(seed):
    life = make_life(seed, orderly=True)
    watch = Watch(life.kernel)
    for _ in life.looks():
        assert total(watch()["job"]) == sum(life.kernel.truth["job"])


@pytest.fixture
def tree():
    """Return a kernel with a job's shell, and what watches it."""
    kernel = RecordingKernel()
    shell = kernel.fork(kernel.init, 2, "job")
    watch = Watch(kernel)
    watch()
    return kernel, shell, watch


def test_a_child_that_no_look_saw_and_nobody_waits_for_is_counted(tree):
    kernel, shell, watch = tree
    shell.ignores_children = True
    child = kernel.fork(shell, 3)
    kernel.run(child, 70, 7)
    kernel.exit(child)
    assert watch()["job"] == CpuTicks(70, 7)
    assert watch.by_parents["job"] == CpuTicks(0, 0)
    assert watch.account.results[COUNTED] == 1


def test_the_last_moments_of_a_child_that_nobody_waits_for_are_counted(tree):
    kernel, shell, watch = tree
    shell.ignores_children = True
    child = kernel.fork(shell, 3)
    kernel.run(child, 70, 7)
    watch()
    kernel.run(child, 5, 0)
    kernel.exit(child)
    assert watch()["job"] == CpuTicks(75, 7)


def test_the_last_moments_of_a_daemon_that_init_waits_for_are_counted(tree):
    kernel, shell, watch = tree
    middle = kernel.fork(shell, 3)
    daemon = kernel.fork(middle, 4)
    kernel.exit(middle)
    kernel.reap(middle)
    kernel.run(daemon, 20, 0)
    watch()
    kernel.run(daemon, 5, 0)
    kernel.exit(daemon)
    assert watch()["job"] == CpuTicks(25, 0)


def test_a_child_that_is_waited_for_is_counted_once(tree):
    kernel, shell, watch = tree
    child = kernel.fork(shell, 3)
    kernel.run(child, 70, 7)
    kernel.exit(child)
    assert watch()["job"] == CpuTicks(70, 7)  # a zombie
    kernel.reap(child)
    assert watch()["job"] == CpuTicks(70, 7)
    assert watch()["job"] == CpuTicks(70, 7)


def test_a_chain_of_which_no_look_saw_any_is_counted_to_the_job(tree):
    kernel, shell, watch = tree
    shell.ignores_children = True
    parent = kernel.fork(shell, 3)
    parent.ignores_children = True
    child = kernel.fork(parent, 4)
    kernel.run(child, 10, 0)
    kernel.exit(child)
    kernel.run(parent, 1, 0)
    kernel.exit(parent)
    assert watch()["job"] == CpuTicks(11, 0)


def test_a_parent_s_record_may_come_a_look_later_than_its_child_s(tree):
    kernel, shell, watch = tree
    shell.ignores_children = True
    parent = kernel.fork(shell, 3)
    parent.ignores_children = True
    child = kernel.fork(parent, 4)
    kernel.run(child, 10, 0)
    kernel.exit(child)

    assert watch(between=lambda: kernel.exit(parent))["job"] == CpuTicks(0, 0)
    assert watch()["job"] == CpuTicks(10, 0)


def test_an_exit_outside_of_jobs_or_with_an_unknown_parent_is_told_apart(tree):
    kernel, _, watch = tree
    other = kernel.fork(kernel.init, 8, "system")
    watch()
    other.ignores_children = kernel.init.ignores_children = True
    kernel.exit(kernel.fork(other, 9))
    watch()
    assert watch.account.results[ELSEWHERE] == 1
    kernel.exit(kernel.fork(kernel.init, 10))
    watch()
    assert watch.account.results[UNKNOWN] == 0
    watch()
    assert watch.account.results[UNKNOWN] == 1


def test_a_number_used_again_is_not_the_process_that_had_it(tree):
    kernel, shell, watch = tree
    shell.ignores_children = True
    child = kernel.fork(shell, 3)
    watch()
    kernel.exit(child)
    kernel.init.ignores_children = True
    stranger = kernel.fork(kernel.init, 3, "system")
    kernel.run(stranger, 1000, 0)
    kernel.exit(stranger)
    assert watch()["job"] == CpuTicks(0, 0)
    assert watch.account.results[UNKNOWN] == 1


def test_after_the_clock_was_set_records_of_seen_processes_count_for_nothing(tree):
    kernel, shell, watch = tree
    shell.ignores_children = True
    child = kernel.fork(shell, 3)
    watch()
    kernel.run(child, 5, 0)
    kernel.exit(child)
    assert watch(boot_time_secs=BOOT_SECS + 3600)["job"] == CpuTicks(0, 0)
    assert watch.account.results[UNKNOWN] == 1


def test_a_job_with_another_job_below_it_is_left_to_the_other_account(tree):
    kernel, shell, watch = tree
    inner = kernel.fork(shell, 3, "inner")
    inner.ignores_children = True
    watch()
    child = kernel.fork(inner, 4)
    kernel.run(child, 10, 0)
    kernel.exit(child)
    assert watch()["inner"] == CpuTicks(0, 0)


def test_ten_thousand_exits_leave_nothing_behind(tree):
    kernel, shell, watch = tree
    shell.ignores_children = True
    watch()
    before = count_held(watch.account)
    for number in range(10_000):
        child = kernel.fork(shell, 3 + number)
        if number % 100 == 0:
            watch()
        kernel.exit(child)
    watch()
    watch()
    assert count_held(watch.account) < before + 10


@given(*[st.builds(CpuTicks, st.integers(0, 1000), st.integers(0, 1000))] * 2)
def test_what_is_told_grows_to_the_greater_total_and_in_no_mode_falls(told, best):
    now = compute_reported(told, best)
    assert now.user >= told.user
    assert now.system >= told.system
    assert total(now) == max(total(told), total(best))
