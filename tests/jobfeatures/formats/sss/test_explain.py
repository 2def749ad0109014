"""What a document comes to, in words. What the specification says stands beside each test."""

from __future__ import annotations

import pytest

from jobfeatures.formats.sss.explain import explain_job
from jobfeatures.formats.sss.inherit import resolve_group
from jobfeatures.formats.sss.reader import parse_object


def explained(*contents: str) -> list[str]:
    jobs = "".join(f"<Job><Id>{number}</Id>{content}</Job>" for number, content in enumerate(contents, 1))
    group = parse_object(f"<JobGroup><Id>g</Id>{jobs}</JobGroup>".encode()).root
    resolved = resolve_group(group)
    return list(explain_job(resolved[-1], group.jobs[-1], resolved))


# "conj … Nand meaning and not, and Nor meaning or not"; "expression grouping and operator precedence much
# like parenthetical groupings": section 8.1. The third of the text's four examples.
def test_a_request_is_written_with_its_parentheses():
    assert explained(
        '<Requested><User group="1">scottmo</User><Account group="-1">mscfops</Account>'
        '<User conj="Or" group="1">amy</User><Account group="-1">chemistry</Account></Requested>'
    ) == ["requests (User scottmo and Account mscfops) or (User amy and Account chemistry)"]
    assert explained(
        '<Requested><Node conj="Nand">a</Node><Memory conj="Nor" preference="-2" units="GB">2</Memory></Requested>'
    ) == ["requests not Node a or not Memory 2 GB [wished, 2]"]


# "OnSuccess this job should run after the referenced job only if it completes successfully"; "If the code
# attribute is omitted, then the current job should run after the referenced job for any exit status".
@pytest.mark.parametrize(
    ("other", "dependency", "standing"),
    [
        ("<State>Running</State>", "", "(OnSuccess): has to wait"),
        ("<State>Completed</State><ExitCode>0</ExitCode>", "", "(OnSuccess): may start"),
        ("<State>Completed</State><ExitCode>1</ExitCode>", "", "(OnSuccess): never, it ended with 1"),
        ("<State>Completed</State><ExitCode>1</ExitCode>", "condition='OnFailure'", "(OnFailure): may start"),
        ("<State>Completed</State>", "", "(OnSuccess): is unknown, like its ExitCode"),
        ("<State>Completed</State>", "condition='OnExit'", "(OnExit): may start"),
        (
            "<State>Completed</State><ExitCode>1</ExitCode>",
            "condition='OnExit' code='3'",
            "(OnExit): never, it ended with 1",
        ),
    ],
)
def test_whether_a_dependency_lets_a_job_start(other, dependency, standing):
    assert explained(other, f"<Dependency {dependency}>1</Dependency>") == [f"after 1 {standing}"]


# "JobName the job(s) this job is dependent upon are specified by JobName".
def test_all_jobs_of_a_name_are_waited_for():
    named = "<Name>prepare</Name><State>Running</State>"
    assert explained(named, named, '<Dependency designator="JobName">prepare</Dependency>') == [
        "after 1 (OnSuccess): has to wait",
        "after 2 (OnSuccess): has to wait",
    ]


# "the amount of time for which that resource was used"; "the average percentage that a resource was used over
# its duration": section 5.1, whose example is this one.
def test_use_over_time_counts_duration_and_rate():
    assert explained(
        "<StartTime>0</StartTime><EndTime>9999</EndTime><State>Completed</State><Delivered>"
        '<Processors duration="1234" consumptionRate="0.63">4</Processors></Delivered>'
    ) == ["used Processors × seconds: 3109.68"]


# "The growth bounds can be indicated via the op attribute".
def test_between_what_a_dynamic_resource_may_change():
    assert explained('<Requested><Processors dynamic="true" op="GE">8</Processors></Requested>')[1:] == [
        "Processors may change between 8 and no bound"
    ]
