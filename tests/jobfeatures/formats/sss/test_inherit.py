"""Defaults and what they become."""

from __future__ import annotations

import pytest
from hypothesis import given

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.inherit import resolve_group, resolve_job
from jobfeatures.formats.sss.objects import Property, Reference, SssJob, SssTask, SssTaskGroup
from jobfeatures.formats.sss.reader import parse_object
from jobfeatures.formats.sss.requests.expressions import evaluate, parse_expression
from tests.jobfeatures.formats.sss.documents import as_bytes, documents, variables_of


def resolve(defaults: str, *jobs: str) -> tuple[SssJob, ...]:
    inside = "".join(f"<Job><Id>{number}</Id>{job}</Job>" for number, job in enumerate(jobs))
    data = f"<JobGroup><Id>g</Id>{inside}<JobDefaults>{defaults}</JobDefaults></JobGroup>"
    return resolve_group(parse_object(data.encode()).root)


def summary(properties) -> list[tuple[str, object]]:
    return [(" ".join(filter(None, each.key)), each.value) for each in properties]


def test_a_job_has_what_its_group_gives_it_and_says_otherwise_by_name():
    one, other = resolve(
        "<Id>d</Id><User>a</User><Hold>x</Hold>", "<User>b</User>", "<Hold>y</Hold><Hold>z</Hold>"
    )
    assert summary(one.properties) == [("Id", "0"), ("User", "b"), ("Hold", "x")]
    assert summary(other.properties) == [("Id", "1"), ("Hold", "y"), ("Hold", "z"), ("User", "a")]


def test_limits_resources_and_extensions_are_overridden_by_their_names():
    (job,) = resolve(
        '<ResourceLimit name="CPUTime">1</ResourceLimit><ResourceLimit name="MaxDisk" type="Soft">2</ResourceLimit>'
        '<Extension name="a" type="t">1</Extension><Extension name="a">2</Extension><Resource name="License">1</Resource>',
        '<ResourceLimit name="MaxDisk">3</ResourceLimit><Extension name="a">4</Extension>',
    )
    assert summary(job.properties) == [
        ("Id", "0"),
        ("ResourceLimit MaxDisk", "3"),
        ("Extension a", "4"),
        ("ResourceLimit CPUTime", "1"),
        ("Extension a t", "1"),
        ("Resource License", 1),
    ]


def test_each_category_is_inherited_by_itself():
    (job,) = resolve(
        "<Memory>1</Memory><Requested><Memory>2</Memory><Duration>60</Duration></Requested><Delivered><Memory>3</Memory></Delivered>",
        "<Requested><Memory>4</Memory></Requested>",
    )
    assert job.value("Memory", object) == 1
    assert summary(job.requested) == [("Memory", 4), ("Duration", 60)]
    assert summary(job.delivered) == [("Memory", 3)]


def test_an_environment_is_overridden_as_a_whole():
    given_, own = resolve(
        '<Environment><Variable name="A">1</Variable></Environment>',
        "",
        '<Environment><Variable name="B">2</Variable></Environment>',
    )
    assert variables_of(given_.environment) == {"A": "1"}
    assert variables_of(own.environment) == {"B": "2"}


ALTERNATIVES = '<Requested><Processors>4</Processors><Processors conj="Or">8</Processors></Requested>'


def test_an_inherited_expression_stands_or_falls_as_a_whole():
    kept, fallen = resolve(
        ALTERNATIVES,
        '<Requested><Memory>1</Memory><Memory conj="Or">2</Memory></Requested>',
        "<Requested><Processors>5</Processors></Requested>",
    )
    assert [each.number("group") for each in kept.requested] == [1, -1, 1, -1]
    expression = parse_expression(kept.requested)
    for memory, processors, satisfied in ((1, 4, True), (2, 8, True), (1, 5, False), (3, 8, False)):
        verdict = evaluate(expression, {"Memory": memory * 2**20, "Processors": processors})
        assert verdict.is_satisfied is satisfied
    assert summary(fallen.requested) == [("Processors", 5)]


def test_task_groups_and_tasks_inherit_job_properties_too():
    (job,) = resolve(
        "",
        """<TaskGroupDefaults><Executable>/bin/a</Executable><Memory>1</Memory>
             <TaskDefaults><Node>n1</Node><Shell>sh</Shell></TaskDefaults></TaskGroupDefaults>
           <TaskGroup><Memory>2</Memory><Task><Id>1</Id><Node>n2</Node></Task><Task/><Task>ref</Task></TaskGroup>
           <TaskGroup><Name>b</Name><TaskDefaults><Shell>zsh</Shell></TaskDefaults></TaskGroup>""",
    )
    first, second = job.task_groups
    assert summary(first.properties) == [("Memory", 2), ("Executable", "/bin/a")]
    assert [summary(task.properties) for task in first.tasks[:2]] == [
        [("Id", "1"), ("Node", "n2"), ("Shell", "sh")],
        [("Node", "n1"), ("Shell", "sh")],
    ]
    assert first.tasks[2] == Reference("Task", "ref")
    assert summary(second.properties) == [("Name", "b"), ("Executable", "/bin/a"), ("Memory", 1)]
    assert [summary(task.properties) for task in second.tasks] == [[("Shell", "zsh"), ("Node", "n1")]]
    assert job.task_group_defaults is None
    assert first.task_defaults is None


def test_task_groups_of_the_job_defaults_hold_for_jobs_without_their_own():
    defaults = "<TaskGroup><Name>d</Name></TaskGroup><TaskGroupDefaults><Shell>sh</Shell></TaskGroupDefaults>"
    one, other = resolve(defaults, "", "<TaskGroup><Name>own</Name></TaskGroup>")
    assert summary(one.task_groups[0].properties) == [("Name", "d"), ("Shell", "sh")]
    assert summary(other.task_groups[0].properties) == [("Name", "own"), ("Shell", "sh")]


def test_defaults_of_task_groups_in_both_places_are_overridden_by_name():
    (job,) = resolve(
        """<TaskGroupDefaults><Executable>/bin/a</Executable><NodeCount>1</NodeCount>
             <TaskDefaults><Shell>sh</Shell></TaskDefaults></TaskGroupDefaults>""",
        """<TaskGroupDefaults><NodeCount>2</NodeCount><TaskDefaults><Node>n1</Node></TaskDefaults></TaskGroupDefaults>
           <TaskGroup><Id>a</Id></TaskGroup><TaskGroup><Id>b</Id><NodeCount>3</NodeCount></TaskGroup>""",
    )
    assert [summary(group.properties) for group in job.task_groups] == [
        [("Id", "a"), ("NodeCount", 2), ("Executable", "/bin/a")],
        [("Id", "b"), ("NodeCount", 3), ("Executable", "/bin/a")],
    ]
    assert [summary(task.properties) for group in job.task_groups for task in group.tasks] == [
        [("Node", "n1"), ("Shell", "sh")]
    ] * 2


def test_there_is_one_task_group_with_one_task_where_none_is_said():
    job = resolve_job(SssJob(properties=(Property("Id", "1"),)))
    assert job.task_groups == (SssTaskGroup(tasks=(SssTask(),)),)


def test_large_defaults_are_not_multiplied_by_many_that_inherit_them():
    many = SssTaskGroup(
        tasks=(SssTask(),) * 2000, task_defaults=SssTask(properties=(Property("Hold", "x"),) * 2000)
    )
    with pytest.raises(ParseError, match="more than 1048576 inherited properties"):
        resolve_job(SssJob(task_groups=(many,)))


@given(documents())
def test_whatever_is_read_is_resolved_and_resolving_again_changes_nothing(document):
    try:
        root = parse_object(as_bytes(document)).root
    except ParseError:
        return
    jobs = [root] if isinstance(root, SssJob) else resolve_group(root) if hasattr(root, "jobs") else []
    for job in jobs:
        if isinstance(job, SssJob):
            resolved = resolve_job(job)
            assert resolve_job(resolved) == resolved
