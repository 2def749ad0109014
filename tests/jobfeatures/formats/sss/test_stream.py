"""SSS documents that are kept as they are read. What the specification says stands beside each test."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.sss.records import read_records
from jobfeatures.joblogs.loggedjob import JobRecord, LastLine, Notes, Passage
from jobfeatures.logkinds import read_log, write_log
from tests.jobfeatures.formats.sss.documents import as_bytes, documents

# "The representation should use the same job object at all stages of that job's lifecycle."
# Everything that section 5.1 and its tables have a name for, in one job; its group has defaults.
FULL = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- of a résumé -->
<JobGroup>
  <Id>workflow1</Id><Name>all</Name><Description>of it</Description>
  <CreationTime>1690000000</CreationTime><State>Active</State>
  <JobDefaults><GlobalUser>C=US,CN=Ada</GlobalUser><Shell>sh</Shell></JobDefaults>
  <Job awarenessPolicy="Warn">
    <Id>1</Id><GlobalId>urn:1</GlobalId><Application>NWChem</Application>
    <Arguments>-input basis.in</Arguments><Charge units="USD">12.75</Charge>
    <Checkpointable>true</Checkpointable><DeadlineTime>1700009999</DeadlineTime>
    <Hold>System</Hold><Hold>User</Hold><InitialWorkingDirectory>/home/ada</InitialWorkingDirectory>
    <Interactive>True</Interactive><Type>batch</Type><Machine>Colony</Machine>
    <NetworkType>IB</NetworkType><OperatingSystem>Linux</OperatingSystem><Architecture>x86_64</Architecture>
    <QualityOfService>low</QualityOfService><Quote>q1</Quote><ReservationTime>1690000001</ReservationTime>
    <Restartable>false</Restartable><StagedTime>1690000002</StagedTime><StatusMessage>fine</StatusMessage>
    <SubmitHost>login</SubmitHost><Suspendable>true</Suspendable><TimeCategory>PrimeTime</TimeCategory>
    <Feature aggregation="List">fast,big</Feature>
    <OutputFile redirectList="Append">~/out</OutputFile><ErrorFile redirectList="Merge"></ErrorFile>
    <InputFile>~/in</InputFile><NotificationList uri="ada@example.org">JobStart,JobEnd</NotificationList>
    <TaskDistribution type="TasksPerNode">2</TaskDistribution>
    <Dependency condition="OnFailure">0</Dependency>
    <Dependency designator="JobName">prepare</Dependency>
    <Extension type="Scheduler" name="Restartable">true</Extension>
    <ResourceLimit name="StackSize">8</ResourceLimit>
    <Environment export="true"><Variable name="PATH">/usr/bin</Variable></Environment>
    <Requested>
      <Processors op="GE">4</Processors><Disk>10</Disk><Swap>20</Swap><Network>1</Network>
      <Resource name="License" type="MATLAB">1</Resource>
    </Requested>
    <Delivered><Processors consumptionRate="0.78">4</Processors></Delivered>
    <TaskGroup><TaskCount>4</TaskCount><Name>Slave</Name>
      <Task><Node>n1</Node><Process>99353</Process></Task></TaskGroup>
  </Job>
</JobGroup>
"""
GONE = {
    *("Application", "Architecture", "Arguments", "Charge", "Checkpointable", "DeadlineTime", "Dependency"),
    *(
        "Disk",
        "Environment",
        "ErrorFile",
        "Extension Restartable",
        "Feature",
        "GlobalId",
        "GlobalUser",
        "Hold",
    ),
    *("InitialWorkingDirectory", "InputFile", "JobGroup CreationTime", "JobGroup Description"),
    *("JobGroup Name", "JobGroup State", "Machine", "Network", "NetworkType"),
    *("NotificationList", "OperatingSystem", "OutputFile", "Processors@consumptionRate", "Processors@op"),
    *("Quote", "ReservationTime", "Resource License", "ResourceLimit StackSize", "Restartable", "Shell"),
    *("StagedTime", "StatusMessage", "SubmitHost", "Suspendable", "Swap", "Task Process", "TaskDistribution"),
    *("TaskGroup Name", "TaskGroup TaskCount", "TimeCategory", "Type"),
}


def kept(text: str) -> tuple[str, Notes]:
    """Return what a log becomes that is read and written with its text, and what is reported about it."""
    notes = Notes()
    found = read_log(io.StringIO(text, newline=""), "sss", source="f", notes=notes, keep_text=True)
    lines = write_log(notes.accepted_with_passages(found), "sss", notes)
    return "".join(line if isinstance(line, LastLine) else f"{line}\n" for line in lines), notes


def told(text: str) -> Counter[str]:
    """Return what the records of a log do not say."""
    notes = Notes()
    assert all(
        isinstance(each, JobRecord) for each in read_records(io.StringIO(text), source="f", notes=notes)
    )
    return notes.not_taken


def test_nothing_of_a_document_vanishes_from_sss_to_sss():
    written, notes = kept(FULL)
    assert written == FULL
    assert list(notes.lines()) == []
    assert notes.read == 1


def test_on_the_way_to_another_kind_each_lost_element_is_named_and_counted():
    found = told(FULL)
    assert set(found) == GONE
    assert (found["Hold"], found["Dependency"], found["Processors@op"]) == (2, 2, 1)


# "OnFailure this job should run after the referenced job only if it fails"; "Since a job may have two or
# more dependencies, this element may appear more than once"; "JobName the job(s) this job is dependent
# upon are specified by JobName".
@pytest.mark.parametrize(
    "dependencies",
    [
        '<Dependency condition="OnFailure">0</Dependency>',
        '<Dependency condition="OnExit" code="3">0</Dependency>',
        '<Dependency designator="JobName">prepare</Dependency>',
        "<Dependency>0</Dependency><Dependency>1</Dependency>",
    ],
)
def test_a_dependency_keeps_its_meaning_or_is_told(dependencies):
    text = f"<Job><Id>2</Id>{dependencies}</Job>\n"
    assert kept(text)[0] == text
    assert told(text)["Dependency"] == dependencies.count("<Dependency")


def test_of_a_dependency_on_the_mere_end_of_a_job_nothing_is_lost():
    assert told('<Job><Id>2</Id><Dependency condition="OnExit">0</Dependency></Job>') == {}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("\ufeff" + FULL, "\ufeff" + FULL),
        ("<Job><Id>1</Id></Job>", "<Job><Id>1</Id></Job>"),
        ("<Job><Id>1</Id></Job >\r\n\r\n<Job><Id>é</Id></Job>\r\n", None),
        ("<JobGroup><Id>g</Id><Job><Id>1</Id></Job><Job><Id>2</Id></Job></JobGroup>\n", None),
        # what is broken goes, and nothing else
        ("<Job><Id>1</Id></Job>\n<Job><Id></Job>\n<Job><Id>2</Id></Job>\n", "<Job><Id>1</Id></Job>\n<Job><Id>2</Id></Job>\n"),
        (
            "<JobGroup>\n<Id>g</Id>\n<Job><Moon/><Id>1</Id></Job>\n<Job><Id>2</Id></Job>\n</JobGroup>\n",
            "<JobGroup>\n<Id>g</Id>\n\n<Job><Id>2</Id></Job>\n</JobGroup>\n",
        ),
        (
            "<JobGroup>\n<Id>g</Id>\n<Job><Id>1</Id></Job>\n<Job><Id></Job>\n</JobGroup>\n<Job><Id>2</Id></Job>\n",
            "<JobGroup>\n<Id>g</Id>\n<Job><Id>1</Id></Job>\n</JobGroup>\n<Job><Id>2</Id></Job>\n",
        ),
        ("<html/>\n<Job><Id>1</Id></Job>\n", "\n<Job><Id>1</Id></Job>\n"),
        # jobs that wait for defaults behind them
        ("<JobGroup><Id>g</Id>\n<Job><Id>1</Id></Job>\n<JobDefaults><User>a</User></JobDefaults>\n</JobGroup>\n", None),
        ("<Job awarenessPolicy='Ignore'><Id>1</Id><Moon a=\"/>\"/></Job>\n", None),
    ],
)  # fmt: skip
def test_what_stands_around_jobs_stays_and_what_is_broken_goes(text, written):
    assert kept(text)[0].replace("\n</", "</") == (text if written is None else written).replace("\n</", "</")


def test_a_job_that_was_changed_is_written_of_its_record():
    text = "<JobGroup><Id>g</Id>\n<Job><Id>1</Id><Hold>User</Hold></Job>\n</JobGroup>\n"
    notes = Notes()
    found = read_log(io.StringIO(text), "sss", source="f", notes=notes, keep_text=True)
    from dataclasses import replace

    changed = [replace(each, user="ada") if isinstance(each, JobRecord) else each for each in found]
    assert isinstance(changed[0], Passage)
    written = "\n".join(write_log(changed, "sss", notes))
    assert "<User>ada</User>" in written
    assert "Hold" not in written
    assert notes.lost == {"what a changed job says and its record does not": 1}


@given(st.lists(documents().map(lambda each: as_bytes(each).decode()), min_size=1, max_size=3))
def test_any_documents_that_can_be_read_stay_as_they_are(parts):
    text = "".join(f"{part}\n" for part in parts)
    written, notes = kept(text)
    assert written == text or notes.rejected


def test_the_id_of_a_group_of_interdependent_jobs_is_that_of_their_workflow():
    """ "an optional element that aggregates one or more interdependent jobs" """
    group = "<JobGroup><Id>%s</Id>\n<Job><Id>%s</Id></Job>\n</JobGroup>\n"
    text = group % ("workflow1", "1") + "<Job><Id>2</Id></Job>\n" + group % ("log", "3")
    found = list(read_records(text.splitlines(keepends=True), source="log", notes=Notes()))
    assert [(each.job_id, each.workflow_id) for each in found] == [
        ("1", "workflow1"),
        ("2", None),
        ("3", None),
    ]
    again = list(read_records(write_log(found, "sss", Notes()), source="log", notes=Notes()))
    assert [each.workflow_id for each in again] == ["workflow1", None, None]
