"""Makes jobs from the XML that ``qstat`` prints about a cluster's queue. Pure.

Command: qstat(1), "OUTPUT FORMATS". Job states: sge_status(5), "Job state",
https://manpages.debian.org/bookworm/gridengine-common/sge_status.5.en.html
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, tzinfo

from jobfeatures.batch.basics import count_ranges
from jobfeatures.batch.gridengine.answers import Element, parse_slots, parse_xml, text_of
from jobfeatures.batch.gridengine.basics import (
    NAME,
    checked_number,
    known,
    least_limit,
    make_key,
    parse_limit_secs,
)
from jobfeatures.batch.gridengine.record import parse_timestamp
from jobfeatures.errors import ParseError, Rejected, parse_each, shown
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, Limit, Limits, multiplied

QUEUE_SOURCE = "qstat -s prsz"

# -ext alone omits the times; -g t reports the host of each slot of a parallel job.
QUEUE_QUESTION = ("-u", "*", "-s", "prsz", "-r", "-ext", "-urg", "-pri", "-g", "t", "-xml")

_LETTERS = frozenset("dEhqrRsStTwzPNn")
MAX_TASKS = 10_000_000
BASE_PRIORITY = 1024


def parse_state(text: str) -> JobState:
    """Return the job state that a combination of qstat's letters means.

    ``qw hqw hRwq Rq Eqw Ehqw`` are pending (an error must be cleared first), ``r t hr Rr Rt`` running, ``s ts
    S tS T tT Rs …`` suspended for any reason, ``dr dt ds …`` being deleted. A job in ``z`` has ended, and
    qstat does not say how; deleted jobs are shown so too. Anything else is UNKNOWN.
    """
    letters = set(text)
    if not letters or not letters <= _LETTERS:
        return JobState.UNKNOWN
    if "z" in letters:
        return JobState.COMPLETED
    if letters & {"q", "w"}:
        return JobState.PENDING
    if not letters & set("rtsSTR"):
        return JobState.UNKNOWN
    if "d" in letters:
        return JobState.COMPLETING
    return JobState.SUSPENDED if letters & set("sSTP") else JobState.RUNNING


def reason_of(text: str) -> str | None:
    """Return why a job with these state letters is pending: "Error", "Held", or None if it waits its turn."""
    if "E" in text:
        return "Error"
    return "Held" if "h" in text else None


def parse_queue(data: bytes, *, taken_at_secs: float, tz: tzinfo | None = None) -> JobTable:
    """Return the jobs in the XML that ``qstat`` prints for the arguments `QUEUE_QUESTION`.

    Sample, shortened: ``<job_list state="running"><JB_job_number>11</JB_job_number> …
    <JB_owner>bob</JB_owner> … <state>r</state> <JAT_start_time>2026-11-21T13:33:21</JAT_start_time> …
    <queue_name>all.q@node1</queue_name> <master>MASTER</master> <slots>1</slots> <tasks>4</tasks> …
    <granted_pe name="smp">2</granted_pe> <hard_request name="h_rt" …>3601</hard_request> …``, one row for
    each slot of a job. Times are local to `tz` (None: this machine's zone).

    The table is complete unless a record was malformed. Raises ParseError if the XML is malformed.
    """
    root = parse_xml(data, {"job_info"}, "the queue", source=QUEUE_SOURCE)
    jobs: dict[JobKey, Job] = {}
    nodes: dict[JobKey, dict[str, None]] = {}
    rejected: list[Rejected] = []
    made = parse_each(
        lambda element: (parse_queued_job(element, tz), text_of(element, "master") == "MASTER"),
        root.iter("job_list"),
        rejected,
        QUEUE_SOURCE,
        lambda element: f"job {shown(text_of(element, 'JB_job_number') or '')}",
    )
    for job, is_master in made:
        nodes.setdefault(job.key, {}).update(dict.fromkeys(job.nodes))
        if job.key not in jobs or is_master:
            jobs[job.key] = job
    for key, hosts in nodes.items():
        if hosts:
            jobs[key] = replace(jobs[key], nodes=tuple(hosts), total_nodes=len(hosts))
    return JobTable.listed(NAME, jobs, taken_at_secs, rejected)


def parse_queued_job(element: Element, tz: tzinfo | None = None) -> Job:
    """Return the job of one row of the queue, ``<job_list>``. Raises ParseError if malformed.

    The pending tasks of an array are reported as one job with the array's
    number. `nodes` is the host of this row.
    """
    number = checked_number(text_of(element, "JB_job_number") or "", field="JB_job_number")
    letters = text_of(element, "state") or ""
    state = parse_state(letters)
    tasks = text_of(element, "tasks")
    waits = state is JobState.PENDING
    granted = element.find("granted_pe")
    slots = text_of(element, "slots") if granted is None else (granted.text or "").strip()
    cpus = parse_slots(slots) or None
    queue, _, host = (text_of(element, "queue_name") or "").partition("@")
    wall, cpu = _parse_limits(element)
    started = state.is_on_node
    return Job(
        key=make_key(number, tasks if tasks is not None and tasks.isdigit() and not waits else None),
        state=state,
        name=text_of(element, "full_job_name") or text_of(element, "JB_name"),
        user=text_of(element, "JB_owner"),
        account=known(text_of(element, "JB_project")),
        partition=queue or text_of(element, "hard_req_queue"),
        submit_secs=_parse_time(element, "JB_submission_time", tz),
        start_secs=_parse_time(element, "JAT_start_time", tz) if started else None,
        nodes=(host,) if host else (),
        total_cpus=cpus,
        limits=Limits(wall_secs=wall, cpu_secs=multiplied(cpu, cpus)),
        array_job_id=number if tasks is not None else None,
        array_task_id=tasks,
        tasks=count_tasks(tasks) if tasks is not None and waits else 1,
        reason=reason_of(letters) if waits else None,
        priority=_parse_priority(text_of(element, "JB_priority")),
    )


def count_tasks(text: str) -> int:
    """Return the number of tasks in a range such as ``1-9:2,15``. Raises ParseError if malformed."""
    count = count_ranges(text.replace(" ", ""), "tasks of an array", field="tasks")
    if count > MAX_TASKS:
        raise ParseError(f"more than {MAX_TASKS} tasks", field="tasks", text=text)
    return count


def _parse_limits(element: Element) -> tuple[Limit, Limit]:
    """Return the wall and CPU time limits that the job requested; None if it did not."""
    limits: dict[str, Limit] = {}
    for request in element.iterfind("hard_request"):
        name = request.get("name", "")
        if name in {"h_rt", "s_rt", "h_cpu"}:
            limits[name] = parse_limit_secs((request.text or "").strip(), field=name)
    cpu = limits.pop("h_cpu", None)
    return least_limit(*limits.values()), cpu


def _parse_time(element: Element, name: str, tz: tzinfo | None) -> int | None:
    """Parse ``2026-11-21T13:33:21``, with or without a fraction, or an epoch timestamp."""
    text = text_of(element, name)
    if text is None or text == "0":
        return None
    if text.isascii() and text.isdigit():
        return parse_timestamp(text)
    try:
        local = datetime.fromisoformat(text)
        return int((local.replace(tzinfo=tz) if tz and local.tzinfo is None else local).timestamp())
    except (ValueError, OverflowError, OSError) as error:
        raise ParseError("not a time", field=name, text=text) from error


def _parse_priority(text: str | None) -> int | None:
    """Return a priority on the scale of ``qstat -j``: that of ``qsub -p``, -1023 to 1024, plus 1024."""
    match = re.fullmatch(r"-?[0-9]{1,4}", text or "", re.ASCII)
    return max(0, int(match[0]) + BASE_PRIORITY) if match else None
