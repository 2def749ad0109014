"""The graph of a job group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.objects import Property, Reference, SssJob
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.requests.dependencies import Dependency, JobOrder, order_jobs, read_dependencies


def job(job_id: str, *on: str, name: str | None = None, by_name: str | None = None) -> SssJob:
    properties = [Property("Id", job_id), *(Property("Dependency", each) for each in on)]
    if name:
        properties.append(Property("Name", name))
    if by_name:
        properties.append(Property("Dependency", by_name, {"designator": "JobName"}))
    return SssJob(properties=tuple(properties))


def test_dependencies_are_read_with_their_conditions():
    data = b"""<Job><Id>1</Id><Dependency>a</Dependency>
      <Dependency condition="OnExit" code="3" designator="JobName">b</Dependency>
      <TaskGroup><Dependency condition="OnFailure">c</Dependency>
        <Task><Dependency>d</Dependency></Task></TaskGroup></Job>"""
    assert read_dependencies(parse_object(data).root) == (
        Dependency("a"),
        Dependency("b", "JobName", "OnExit", 3),
        Dependency("c", condition="OnFailure"),
        Dependency("d"),
    )


@pytest.mark.parametrize(
    ("dependency", "by_exit_code"),
    [
        (Dependency("a"), {0: True, 1: False, None: None}),
        (Dependency("a", condition="OnFailure"), {0: False, 1: True, None: None}),
        (Dependency("a", condition="OnExit"), {0: True, 1: True, None: True}),
        (Dependency("a", condition="OnExit", code=3), {3: True, 0: False, None: None}),
    ],
)
def test_a_dependency_is_met_by_the_end_of_the_other_job(dependency, by_exit_code):
    for exit_code, is_met in by_exit_code.items():
        assert dependency.is_met(has_ended=True, exit_code=exit_code) is is_met
        assert dependency.is_met(has_ended=False, exit_code=exit_code) is False


def test_jobs_come_after_what_they_wait_for():
    jobs = [job("3", "2", "1"), job("2", by_name="start"), job("1", name="start"), job("0", name="start")]
    order = order_jobs(jobs)
    assert sorted(order.order) == ["0", "1", "2", "3"]
    places = {each: place for place, each in enumerate(order.order)}
    assert places["0"] < places["2"] > places["1"]
    assert places["3"] > places["2"]
    assert (order.cycle, order.missing) == ((), ())


@pytest.mark.parametrize(
    ("jobs", "cycle"),
    [
        ([job("a", "c"), job("b", "a"), job("c", "b")], ("a", "c", "b")),
        ([job("x", "x")], ("x",)),
        ([job("p", by_name="q"), job("q", "p", name="q")], ("p", "q")),
    ],
)
def test_a_cycle_is_found_and_named(jobs, cycle):
    assert order_jobs([job("free"), *jobs, job("behind", "a")]).cycle == cycle


def test_what_a_group_with_a_cycle_lacks_is_told_all_the_same():
    assert order_jobs([job("a", "b", "old"), job("b", "a")]) == JobOrder((), ("a", "b"), (("a", "old"),))


def test_what_no_job_of_the_group_has_may_be_from_before():
    order = order_jobs([job("1", "old", by_name="older"), Reference("Job", "9"), job("2", "9")])
    assert order.missing == (("1", "old"), ("1", "older"))
    assert set(order.order) == {"1", "2", "9"}


def test_two_jobs_with_one_id_are_refused():
    with pytest.raises(ParseError, match="two jobs have this Id"):
        order_jobs([job("1"), job("1")])


def test_many_jobs_that_wait_for_many_of_one_name_are_no_product():
    jobs = [job(f"a{n}", name="a") for n in range(5000)] + [job(f"b{n}", by_name="a") for n in range(5000)]
    assert len(order_jobs(jobs).order) == 10_000  # 25 million edges would run into the timeout


@given(st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7), max_size=3)))
def test_every_job_is_in_order_or_there_is_a_cycle(graph):
    jobs = [job(str(each), *map(str, sorted(on))) for each, on in graph.items()]
    order = order_jobs(jobs)
    assert sorted(order.order) == ([] if order.cycle else sorted(str(each) for each in graph))
    for place, each in enumerate(order.order):
        waits_for = {str(other) for other in graph[int(each)] if other in graph}
        assert waits_for <= set(order.order[:place])
    for each, after in zip(order.cycle, (*order.cycle[1:], *order.cycle[:1]), strict=True):
        assert int(after) in graph[int(each)]
