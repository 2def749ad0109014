"""Requests of ``qsub -L``."""

import pytest

from jobfeatures.batch.pbs.commands import DIALECTS
from jobfeatures.batch.pbs.jobs import PbsRecord, make_job
from jobfeatures.batch.pbs.records import parse_text, parse_xml
from jobfeatures.batch.pbs.taskrequests import count_asked, parse_cpus, parse_memory
from jobfeatures.errors import ParseError


@pytest.mark.parametrize(
    ("text", "cpus", "memory"),
    [
        ("-L tasks=1:lprocs=1:usecores:memory=4GB -L tasks=1:lprocs=1:usecores:memory=4GB", 2, 8 * 2**30),
        ("-L tasks=2:lprocs=80:memory=100GB", 160, 200 * 2**30),
        ("-L tasks=2:lprocs=all:memory=1gb", None, 2 * 2**30),
        ("-L memory=1GB:tasks=3", 3, 3 * 2**30),
        ("-L tasks=3 -L tasks=1:memory=1GB", 4, None),
    ],
)
def test_what_a_task_asks_for_is_asked_for_by_each(text, cpus, memory):
    assert (parse_cpus(text), parse_memory(text)) == (cpus, memory)


@pytest.mark.parametrize(
    "text", ["-L lprocs=2", "-L tasks=x", "-L tasks=1:lprocs=many", "-L tasks=1 -L memory=1GB", ""]
)
def test_what_is_no_request_is_refused(text):
    with pytest.raises(ParseError):
        parse_cpus(text)


def told(**values: str) -> PbsRecord:
    named = {f"req_information.{name.replace('__', '.')}": text for name, text in values.items()}
    return PbsRecord(named, lambda _: None)


@pytest.mark.parametrize(
    ("values", "cpus", "gpus"),
    [
        ({"task_count__0": "2", "lprocs__0": "80", "gpus__0": "1"}, 160, 2),
        ({"task_count__0": "1", "lprocs__0": "4", "task_count__1": "3"}, 7, None),
        ({"task_count__0": "1", "lprocs__0": "all"}, None, None),
        ({"task_count__0": "1", "lprocs__0": "many"}, None, None),
        ({"task_count__0": "x", "lprocs__0": "4"}, None, None),
        ({"lprocs__0": "4"}, None, None),
        ({}, None, None),
    ],
)
def test_what_a_queued_job_s_tasks_ask_for_is_added_up(values, cpus, gpus):
    fields = told(**values)
    assert (count_asked(fields, "lprocs", each=1), count_asked(fields, "gpus", each=0)) == (cpus, gpus)


HOSTS = "".join(f"<hostlist.0>n{number}:ppn=4</hostlist.0>" for number in (1, 2))
JOB = f"""<Data><Job><Job_Id>7.srv</Job_Id><job_state>STATE</job_state><queue>batch</queue>{{hosts}}
<req_information><task_count.0>2</task_count.0><lprocs.0>4</lprocs.0><memory.0>1024kb</memory.0>
<gpus.0>1</gpus.0><thread_usage_policy.0>allowthreads</thread_usage_policy.0>{HOSTS}</req_information>
<request_version>1</request_version></Job></Data>"""


@pytest.mark.parametrize("state", ["Q", "R"])
def test_a_job_of_several_hosts_is_there_with_its_tasks(state):
    """qstat has a line of the same name for each host; what it runs on is told by exec_host."""
    hosts = "<exec_host>n1/0-3+n2/0-3</exec_host>" if state == "R" else ""
    data = JOB.replace("{hosts}", hosts).replace("STATE", state).encode()
    records = parse_xml(data, kind="Job", source="qstat")
    assert not records.rejected
    job = make_job(
        records.found["7.srv"], batch_system="torque", states=DIALECTS["torque"].states,
        node_name=None, now_secs=0.0, note=pytest.fail,
    )  # fmt: skip
    assert (job.total_cpus, job.total_gpus) == (8, 2)


def test_as_text_too_but_nothing_else_may_come_twice():
    lines = [
        "job_state = Q",
        "queue = batch",
        "req_information.task_count.0 = 2",
        "req_information.lprocs.0 = 4",
    ]
    hosts = [f"req_information.hostlist.0 = n{number}:ppn=4" for number in (1, 2)]
    text = "Job Id: 7.srv\n" + "".join(f"    {line}\n" for line in lines + hosts)
    record = parse_text(text, kind="job", source="qstat").found["7.srv"]
    assert count_asked(PbsRecord(record.attributes, pytest.fail), "lprocs", each=1) == 8
    again = text + "    req_information.task_count.0 = 99\n"
    assert parse_text(again, kind="job", source="qstat").found == {}
