import math
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobfeatures.records.metrics import Metric
from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.families.exposition import Family, histogram_samples
from jobfeatures_exporter.model.context import job_labels
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import FigureSource, GroupKey, JobSample
from jobfeatures_exporter.scrape.budget import (
    ADMIT_SHARE,
    DROPPED,
    DROPPED_TOTAL,
    FORGET_SECS,
    GPU_CPUS,
    MAX_TOTALS,
    METRICS,
    SeriesBudget,
    Weight,
    compute_weight,
    sums_up,
    weigh_jobs,
)
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.held import count_held

JOB = ("batch_system", "job_id")
CPU = Metric("batch_job_cpu_seconds", "counter", "", (*JOB, "mode"))
MEMORY = Metric("batch_job_memory_charged_bytes", "gauge", "", JOB, sums=True)
LIMIT = Metric("batch_job_memory_limit_bytes", "gauge", "", JOB)
STEP = Metric("batch_job_step_cpu_seconds", "counter", "", (*JOB, "step"))
CORE = Metric("batch_node_core_cpu_seconds", "counter", "", ("core",))
LOAD = Metric("batch_node_load", "gauge", "", ("minutes",))
OWN = Metric("batch_exporter_collector_success", "gauge", "", ("collector",))


def of(job, system="slurm"):
    return system, str(job)


def families(cpu, *, memory=None, limits=None, loads=1):
    """Return a page of some jobs: CPU seconds by job, two series each where memory is given too."""
    return [
        Family(LOAD, [((str(number),), 0.5) for number in range(loads)]),
        Family(CPU, [((*of(job), "user"), secs) for job, secs in cpu.items()]),
        Family(MEMORY, [(of(job), size) for job, size in (memory or {}).items()]),
        Family(LIMIT, [(of(job), size) for job, size in (limits or {}).items()]),
    ]


class Pages:
    """Applies a budget to one page after the other; weights are CPUs by job."""

    def __init__(self, max_series):
        self.budget = SeriesBudget(max_series)
        self.max_series = max_series
        self.now = 1000.0

    def __call__(self, made, weights=None, *, sampled_secs=None, extra=None, now=None):
        self.now = self.now + 15 if now is None else now
        page = self.budget.apply(
            made,
            sampled_secs=self.now if sampled_secs is None else sampled_secs,
            now_secs=self.now,
            weigh=lambda: {of(job): Weight(True, cpus) for job, cpus in (weights or {}).items()},
            extra=extra,
        )
        self.page = page
        found = {
            (family.metric.sample_name, each): value
            for family in page.families
            for each, value in family.samples
        }
        assert len(found) == sum(len(family.samples) for family in page.families)  # no series twice
        return found


def shown_jobs(found):
    return {each for (name, each), _ in found.items() if name == "batch_job_cpu_seconds_total"}


def user(job):
    return ("batch_job_cpu_seconds_total", (*of(job), "user"))


def test_below_the_budget_nothing_is_changed_and_nobody_is_weighed():
    budget = SeriesBudget(20)
    made = families({1: 5.0, 2: 6.0})

    def weigh():
        raise AssertionError

    page = budget.apply(made, sampled_secs=1, now_secs=1, weigh=weigh)
    assert page.families[: len(made)] == made
    assert all(kept is given for kept, given in zip(page.families, made, strict=False))
    assert page.hidden == frozenset()
    assert [family.samples for family in page.families[len(made) :]] == [(((), 0),), (((), 0),)]


def test_zero_is_no_bound():
    pages = Pages(0)
    assert len(shown_jobs(pages(families(dict.fromkeys(range(30_000), 1.0))))) == 30_000


def test_the_heaviest_jobs_keep_their_series_and_the_others_are_summed():
    pages = Pages(11)
    memory = {job: job * 100 for job in range(1, 6)}
    found = pages(families(dict.fromkeys(range(1, 6), 1.0), memory=memory), {job: job for job in range(1, 6)})
    # 11 − 1 load − 2 of its own − room for 2 sums: 3 jobs of 2 series each
    assert shown_jobs(found) == {(*of(job), "user") for job in (3, 4, 5)} | {(*of("other"), "user")}
    assert found[("batch_job_memory_charged_bytes", of("other"))] == 100 + 200
    assert found[("batch_exporter_series_over_budget", ())] == 4
    assert len(found) <= 11


def test_what_cannot_be_summed_is_left_out():
    pages = Pages(8)
    found = pages(families(dict.fromkeys(range(9), 1.0), limits=dict.fromkeys(range(9), 7)))
    assert ("batch_job_memory_limit_bytes", of("other")) not in found
    assert not sums_up(LIMIT)
    assert not sums_up(STEP)
    assert sums_up(CPU)
    assert sums_up(MEMORY)


def test_the_others_of_each_batch_system_have_a_sum_of_their_own():
    made = [Family(MEMORY, [(of(job, system), 1) for job in range(9) for system in ("slurm", "spool")])]
    found = Pages(6)(made)
    assert found[("batch_job_memory_charged_bytes", of("other", "slurm"))] >= 7
    assert found[("batch_job_memory_charged_bytes", of("other", "spool"))] >= 7


def test_others_count_what_is_used_while_a_job_is_one_of_them():
    pages = Pages(8)
    other = user("other")
    everyone = dict.fromkeys(range(8), 100.0)
    weights = {job: 10 - job for job in range(8)}
    first = pages(families(everyone), weights)
    assert user(7) not in first
    assert first[other] == 0  # what was used before belongs to the job's own series, that have been shown
    second = pages(families({**everyone, 7: 130.0}), weights)
    assert second[other] == 30
    third = pages(families({**everyone, 7: 130.0}), {**weights, 7: 1000})
    assert third[user(7)] == 130
    assert third[other] == 30  # it has left, what it had used stays
    fourth = pages(families({**everyone, 7: 190.0}), {**weights, 7: 1000})
    assert fourth[other] == 30
    fifth = pages(families({**everyone, 7: 195.0}), {**weights, 4: 100, 5: 100, 6: 100})
    assert user(7) not in fifth
    assert fifth[other] == 35  # only from what its own series has shown last
    for _ in range(2):
        small = pages(families({1: 1.0}))
        assert (small[user(1)], small[other]) == (1, 35)  # also when there is room for all again
    assert pages(families(everyone), weights)[other] == 35


def test_a_job_that_begins_among_the_others_counts_from_its_start():
    pages = Pages(8)
    everyone = dict.fromkeys(range(8), 100.0)
    weights = {job: 10 - job for job in range(8)}
    pages(families(everyone), weights)
    assert pages(families({**everyone, 50: 2.5}), weights)[user("other")] == 2.5


def test_a_job_that_was_out_of_sight_for_a_while_is_not_counted_twice():
    pages = Pages(8)
    everyone = dict.fromkeys(range(8), 100.0)
    weights = {job: 10 - job for job in range(8)}
    pages(families(everyone), weights)
    pages(families(dict.fromkeys(range(7), 100.0)), weights)
    assert pages(families({**everyone, 7: 101.0}), weights)[user("other")] == 1


def test_a_counter_of_the_others_that_fell_does_not_count_twice_what_it_makes_up_for():
    pages = Pages(8)
    everyone = dict.fromkeys(range(8), 100.0)
    weights = {job: 10 - job for job in range(8)}
    pages(families(everyone), weights)
    found = [
        pages(families({**everyone, 7: secs}), weights)[user("other")] for secs in (130.0, 90.0, 130.0, 131.0)
    ]
    assert found == [30, 30, 30, 31]


@pytest.mark.parametrize(("absent_secs", "counted"), [(FORGET_SECS, 1), (FORGET_SECS + 1, 101)])
def test_after_a_while_without_a_job_one_of_its_name_is_new(absent_secs, counted):
    pages = Pages(8)
    everyone = dict.fromkeys(range(8), 100.0)
    weights = {job: 10 - job for job in range(8)}
    pages(families(everyone), weights, now=0)
    pages(families(dict.fromkeys(range(7), 100.0)), weights, now=absent_secs)
    assert pages(families({**everyone, 7: 101.0}), weights, now=absent_secs)[user("other")] == counted


def test_nothing_of_a_forgotten_job_is_left_to_one_of_its_name_and_the_rest_stays():
    pages = Pages(8)
    everyone = dict.fromkeys(range(8), 100.0)
    weights = {job: 10 - job for job in range(8)}
    pages(families(everyone), weights, now=0)
    without = dict.fromkeys(range(7), 100.0)
    pages(families(without), weights, now=FORGET_SECS + 1)
    assert pages(families({**without, 6: 110.0}), weights)[user("other")] == 10
    again = [pages(families({**without, 6: 110.0, 7: secs}), weights)[user("other")] for secs in (5.0, 50.0)]
    assert again == [10 + 5, 10 + 50]


def test_jobs_that_ended_are_forgotten():
    pages = Pages(8)
    weights = {job: 10 - job for job in range(8)}
    pages(families({1: 1.0}), weights)
    one, held = count_held(pages.budget), []
    for round_number in range(50):
        jobs = {**dict.fromkeys(range(8), 1.0), **{f"{round_number}.{each}": 1.0 for each in range(20)}}
        pages(families(jobs), weights, now=round_number * FORGET_SECS)
        held.append(count_held(pages.budget))
    assert max(held) <= 1.1 * max(held[:4])
    pages(families({1: 1.0}), weights, now=51 * FORGET_SECS)
    assert count_held(pages.budget) <= one + 20


def test_labels_without_end_do_not_fill_the_memory():
    pages = Pages(50)
    wild = Metric("batch_job_wild", "counter", "", (*JOB, "word"))
    for round_number in range(30):
        words = [((*of(1), f"{round_number}.{each}"), 1) for each in range(100)]
        assert len(pages([Family(wild, words)])) <= 50
    pages.budget.limit(0)  # all that it has is shown
    assert 0 < sum("other" in labels for _name, labels in pages([Family(wild, words)])) <= MAX_TOTALS


def test_series_that_users_name_are_never_summed():
    found = Pages(6)([Family(STEP, [((*of(job), str(job)), 1.0) for job in range(20)])])
    assert not any("other" in labels for _name, labels in found)


def test_a_job_that_is_called_other_is_one_of_the_others():
    made = [Family(MEMORY, [*((of(job), 1) for job in range(9)), (of("other"), 5)])]
    found = Pages(8)(made, {"other": 1000})
    assert found[("batch_job_memory_charged_bytes", of("other"))] >= 5


@pytest.mark.parametrize(("cpus", "has_series"), [(4.0, False), (4.9, False), (5.1, True)])
def test_a_job_takes_the_place_of_another_only_if_it_is_a_quarter_heavier(cpus, has_series):
    pages = Pages(100)
    made, weights = families(dict.fromkeys(range(200), 1.0)), dict.fromkeys(range(200), 4.0)
    first = pages(made, weights)
    job = next(job for job in weights if user(job) not in first)
    again = pages(made, {**weights, job: cpus})
    assert (user(job) in again) is has_series
    assert len(shown_jobs(first) - shown_jobs(again)) == has_series  # one goes for it, else none


def test_room_is_not_filled_to_the_last_series_with_jobs_that_were_not_there():
    """Else a job that gets one more series would push another out at once."""
    assert ADMIT_SHARE < 1
    pages = Pages(1000)
    jobs = dict.fromkeys(range(2000), 1.0)
    full = len(shown_jobs(pages(families(jobs))))
    fewer = dict.fromkeys(range(500), 1.0) | dict.fromkeys(range(5000, 7000), 1.0)
    refilled = len(shown_jobs(pages(families(fewer), dict.fromkeys(range(500), 5.0))))
    assert full > 990
    assert 0.93 * full < refilled < 0.96 * full


def test_series_without_a_job_stay_and_the_largest_family_goes_when_they_alone_are_too_many():
    cores = Family(CORE, [((str(number),), 1.0) for number in range(384)])
    own = Family(OWN, [((str(number),), 1) for number in range(90)])
    found = Pages(100)([cores, own, *families({1: 1.0})])
    names = {name for name, _ in found}
    assert "batch_node_core_cpu_seconds_total" not in names
    assert {"batch_node_load", "batch_exporter_collector_success"} <= names
    assert found[("batch_exporter_series_over_budget", ())] == 384
    assert len(found) <= 100


def test_of_families_without_a_job_the_largest_goes_and_none_that_fits():
    few = Family(Metric("batch_node_a", "gauge", "", ("n",)), [((str(number),), 1) for number in range(3)])
    many = Family(Metric("batch_node_z", "gauge", "", ("n",)), [((str(number),), 1) for number in range(5)])
    assert len(Pages(10)([few, many])) == 10
    found = Pages(9)([few, many])
    assert {name for name, _ in found} & {"batch_node_a", "batch_node_z"} == {"batch_node_a"}


def test_the_bound_can_be_moved_and_taken_away():
    pages = Pages(8)
    made, weights = families(dict.fromkeys(range(20), 1.0)), {}
    for bound, most in ((8, 8), (12, 12), (0, 24)):
        pages.budget.limit(bound)
        assert len(pages(made, weights)) <= most
    assert len(shown_jobs(pages(made))) == 20 + 1


@pytest.mark.parametrize(("max_series", "sums"), [(3, 0), (4, 1), (5, 2), (6, 2)])
def test_where_there_is_no_room_for_all_sums_there_are_as_many_as_fit(max_series, sums):
    jobs = dict.fromkeys(range(9), 1.0)
    found = Pages(max_series)(families(jobs, memory=jobs))  # a load, two of its own
    assert len([labels for _, labels in found if "other" in labels]) == sums
    assert len(found) == 3 + sums


def test_room_is_kept_for_earlier_sums_and_for_those_of_every_family():
    pages = Pages(8)
    pages(families(dict.fromkeys(range(8), 1.0)))
    pages(families({1: 1.0}))
    assert len(pages(families(dict.fromkeys(range(5), 1.0)))) <= 8  # with the sum that there was
    jobs = dict.fromkeys(range(9), 1)
    limits, memory = (Family(each, [(of(job), 1) for job in jobs]) for each in (LIMIT, MEMORY))
    assert len(Pages(10)([limits, memory])) == 2 + 1 + 3 * 2  # a fourth would fit without the sum


def test_series_of_the_callers_without_a_job_take_room_from_jobs():
    pages = Pages(10)
    found = pages(families(dict.fromkeys(range(9), 1.0)), extra={None: 3})
    assert len(shown_jobs(found) - {(*of("other"), "user")}) == 10 - 2 - 3 - 1 - 1


def test_sums_keep_the_other_labels():
    by_kind = Metric("batch_job_kept_bytes", "gauge", "", (*JOB, "kind"), sums=True)
    made = Family(
        by_kind, [((*of(job), kind), amount) for job in range(9) for kind, amount in (("a", 1), ("b", 5))]
    )
    found = Pages(4)([made])
    assert found["batch_job_kept_bytes", (*of("other"), "a")] == 9
    assert found["batch_job_kept_bytes", (*of("other"), "b")] == 45


def test_a_histogram_stays_whole_or_goes_whole():
    waits = Metric("batch_schedule_wait_seconds", "histogram", "Waits.", ("batch_system", "partition", "le"))
    samples = histogram_samples(("slurm", "a"), tuple(range(20)), (0,) * 21, 0)
    found = Pages(40)([Family(waits, samples), *families(dict.fromkeys(range(8), 1.0))])
    assert [labels for name, labels in found if name == waits.name] == [labels for labels, _ in samples]
    found = Pages(10)([Family(waits, samples), *families(dict.fromkeys(range(8), 1.0))])
    assert [labels for name, labels in found if name == waits.name] == []


def test_the_exporters_own_series_stay_whatever_the_bound():
    own = Family(OWN, [((str(number),), 1) for number in range(90)])
    found = Pages(10)([own, *families({1: 1.0})])
    assert sum(name == "batch_exporter_collector_success" for name, _ in found) == 90


def test_dropped_series_are_counted_once_a_look():
    pages = Pages(8)
    everyone = families(dict.fromkeys(range(8), 1.0))
    total = ("batch_exporter_series_dropped_total", ())
    assert pages(everyone, sampled_secs=1.0)[total] == 4
    assert pages(everyone, sampled_secs=1.0)[total] == 4
    assert pages(everyone, sampled_secs=2.0)[total] == 8


def test_series_that_the_caller_adds_count_with_the_job_that_they_are_of():
    pages = Pages(22)
    jobs = dict.fromkeys(range(4), 1.0)
    pages(families(jobs), {0: 9}, extra={None: 3, of(0): 10, of(1): 10, of(2): 1, of(3): 1})
    assert pages.page.hidden == {of(1)}


def test_a_job_of_which_only_the_callers_series_are_known_is_weighed_too():
    pages = Pages(10)
    pages(families({}), extra={of(0): 10, of(1): 2})
    assert pages.page.hidden == {of(0)}


def test_numbers_that_are_none_do_not_spoil_a_sum():
    pages = Pages(6)
    values = {0: math.nan, 1: math.inf, 2: 10**400, **dict.fromkeys(range(3, 9), 2.0)}
    pages(families(values, memory=values))
    found = pages(families({job: value + 1 for job, value in values.items()}, memory=values))
    assert all(math.isfinite(value) for (_, each), value in found.items() if "other" in each)
    largest = {0: math.inf, 1: sys.float_info.max}
    assert Pages(4)(families({}, memory=largest))["batch_job_memory_charged_bytes", of("other")] == largest[1]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_of_a_job_is_taken_for_what_it_is(system, job):
    key = JobKey(system, job)
    made = [Family(MEMORY, [(job_labels(key), 3), *((of(each), 1) for each in range(9))])]
    page = SeriesBudget(3).apply(made, sampled_secs=1, now_secs=1, weigh=dict)
    assert job_labels(key) in page.hidden
    assert page.hidden >= {of(each) for each in range(9)}


values = st.dictionaries(st.integers(0, 12), st.floats(0, 100), max_size=13)


@given(values, values, st.integers(5, 25))
def test_asking_twice_for_the_same_changes_nothing(first, second, max_series):
    """Several may scrape, in both formats, between two looks at the node."""
    pages = Pages(max_series)
    pages(families(first), first)
    once = pages(families(second, memory=second), second, sampled_secs=7.0)
    assert pages(families(second, memory=second), second, sampled_secs=7.0) == once


@settings(stateful_step_count=25)
class NothingEverFalls(RuleBasedStateMachine):
    """Jobs begin, work, change their weight and end; pages are asked for at any time."""

    @initialize(max_series=st.integers(4, 30))
    def start(self, max_series):
        self.pages = Pages(max_series)
        self.used = {}
        self.weights = {}
        self.names = {}  # of the living: a number is given again, to another job
        self.begun = 0
        self.told = {}
        self.all_used = 0.0

    @rule(job=st.integers(0, 9), secs=st.integers(0, 50), weight=st.integers(0, 20))
    def work(self, job, secs, weight):
        self.begun += job not in self.names
        name = self.names.setdefault(job, f"{job}.{self.begun}")
        self.used[name] = self.used.get(name, 0) + secs
        self.weights[name] = weight
        self.all_used += secs

    @rule(job=st.integers(0, 9))
    def end(self, job):
        if (name := self.names.pop(job, None)) is not None:
            del self.used[name]
            for key in [key for key in self.told if key[1][:2] == of(name)]:
                del self.told[key]

    @rule(times=st.integers(1, 3))
    def sampled_secs(self, times):
        memory = dict.fromkeys(self.used, 5)
        for _ in range(times):
            found = self.pages(families(self.used, memory=memory), self.weights)
            assert len(found) <= max(self.pages.max_series, 1 + len(METRICS))
            counters = {key: value for key, value in found.items() if key[0].endswith("_total")}
            for key, value in counters.items():
                assert value >= self.told.get(key, 0), key
            self.told.update(counters)

    @invariant()
    def the_others_never_used_more_than_all_together(self):
        if hasattr(self, "told"):
            assert self.told.get(user("other"), 0) <= self.all_used


TestNothingEverFalls = NothingEverFalls.TestCase


def sample(key, **more):
    return JobSample(key=key, accounting=FigureSource.CGROUP, **more)


def test_a_job_weighs_what_it_uses_and_what_it_has():
    key = JobKey("slurm", "1")
    assert compute_weight(Job(key=key, allocated_cpus=4), None, rate_cpus=2.5, gpus=0) == 6.5
    assert compute_weight(None, sample(key, cpus=3), rate_cpus=0, gpus=0) == 3
    assert compute_weight(Job(key=key, allocated_gpus=2), None, rate_cpus=0, gpus=0) == 32
    assert compute_weight(None, None, rate_cpus=0, gpus=1) == 16


def test_memory_decides_between_equals_only():
    key = JobKey("slurm", "1")
    large = compute_weight(None, sample(key, memory=MemoryBytes(charged=2**40)), rate_cpus=0, gpus=0)
    small = compute_weight(None, sample(key, memory=MemoryBytes(charged=2**30)), rate_cpus=0, gpus=0)
    assert 0 < small < large < 0.01


def test_everything_that_is_shown_is_weighed_with_all_that_is_known_of_it():
    seen, waits, group = JobKey("slurm", "1"), JobKey("slurm", "2"), GroupKey(321, 5)
    cards = [
        SimpleNamespace(key=key, uuid=uuid)
        for key, uuid in ((seen, "a"), (seen, "a"), (seen, "b"), (group, "c"))
    ]
    context = SimpleNamespace(
        shown_jobs={seen: Job(key=seen, allocated_cpus=4), waits: Job(key=waits, allocated_cpus=3)},
        shown_samples=[sample(seen, cpus=99), sample(group, cpus=2)],
        shown_job_gpus=cards,  # one of them used by two processes
        cpu_rates={seen: 0.5},
    )
    assert weigh_jobs(context) == {
        job_labels(seen): Weight(True, 0.5 + 4 + 2 * GPU_CPUS),
        job_labels(waits): Weight(True, 3),
        job_labels(group): Weight(False, 2 + GPU_CPUS),
    }


def test_batch_jobs_come_before_processes_without_a_job(context):
    weights = weigh_jobs(context)
    assert weights[job_labels(JobKey("slurm", "12"))].is_batch
    assert not weights[job_labels(GroupKey(321, 216_000_000))].is_batch
    made = [Family(MEMORY, [(job_labels(GroupKey(321, 216_000_000)), 1), (of(12), 1)])]
    page = SeriesBudget(4).apply(made * 1, sampled_secs=1, now_secs=1, weigh=lambda: weights)
    assert page.hidden == frozenset()  # two and its own two
    more = [*made, Family(CPU, [((*of(12), "user"), 1)])]
    page = SeriesBudget(7).apply(
        [*more, *families({}, loads=3)], sampled_secs=1, now_secs=1, weigh=lambda: weights
    )
    assert job_labels(GroupKey(321, 216_000_000)) in page.hidden


def test_every_counter_of_jobs_is_summed_unless_users_name_its_labels():
    declared = [metric for each in COLLECTORS.values() for metric in each.metrics]
    counters = [each for each in declared if each.kind == "counter" and each.label_names[:2] == JOB]
    assert counters
    assert {each.name for each in counters if not sums_up(each)} <= {
        each.name for each in counters if {"step", "command"} & set(each.label_names)
    }


def test_its_own_metrics_are_what_it_gives():
    page = SeriesBudget(100).apply([], sampled_secs=None, now_secs=1, weigh=dict)
    assert tuple(family.metric for family in page.families) == METRICS == (DROPPED, DROPPED_TOTAL)
