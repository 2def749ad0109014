"""Jobs of sacct, of logs and as it answers the controller role → the records of all formats. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo
from itertools import islice

from jobfeatures.batch.slurm.basics import NAME
from jobfeatures.batch.slurm.fields import expand_kept, split_open
from jobfeatures.batch.slurm.gpus import count_gpus
from jobfeatures.batch.slurm.sacct.lines import parse_header
from jobfeatures.batch.slurm.sacct.reader import Row, RowConverter, SacctReader
from jobfeatures.batch.slurm.sacct.values import NO_NODES
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.joblog import Accounting, JobRecord, Notes, StepUse
from jobfeatures.model import JobState

ACCOUNTING_SOURCE = "sacct"
ACCOUNTING_FIELDS = (
    *("JobIDRaw", "JobID", "User", "Account", "Partition", "JobName", "State", "Start", "End", "Submit"),
    *("AveCPU", "AveDiskRead", "AveDiskWrite", "AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout"),
    *("MaxRSS", "MaxVMSize", "MinCPU", "ReqCPUS", "ReqMem", "ReqNodes", "ReqTRES", "AllocTRES"),
    *("Reservation", "Suspended", "SystemCPU", "UserCPU", "TimelimitRaw", "Priority", "NodeList"),
)
BATCH = 256  # records that are converted together


def recognise(head: str) -> bool:
    """Return whether a text begins with a header of sacct."""
    try:
        parse_header(head.lstrip().partition("\n")[0])
    except ParseError:
        return False
    return True


def read_records(
    lines: Iterable[str],
    *,
    source: str,
    zone: tzinfo | None = None,
    notes: Notes | None = None,
    folds_steps: bool = False,
) -> Iterator[JobRecord | StepUse | Rejected]:
    """Return the jobs of a log, each with its steps behind it.

    `zone` is that of the machine that sacct ran on, None: this machine's; times
    in epoch seconds (``SLURM_TIME_FORMAT=%s``) need none. The same id twice is
    a job that was requeued (``sacct -D``): `restarts` counts the runs before.
    """
    try:
        reader = SacctReader(lines, source=source, zone=zone, folds_steps=folds_steps)
    except ParseError as error:
        yield Rejected.from_error(error.at(source))
        return
    requeued: dict[str, int] = {}
    for row in reader:
        if not isinstance(row, Row):
            yield row
            continue
        try:
            record = make_record(row, earlier_runs=requeued.get(row.job_id, 0))
        except ParseError as error:
            yield Rejected.from_error(error.at(source, row.number))
            continue
        if row.step is None and row.state is JobState.PREEMPTED:
            requeued[row.job_id] = requeued.get(row.job_id, 0) + 1
        yield record
    if notes is not None:
        notes.not_taken.update(reader.not_taken)


def make_record(row: Row, *, earlier_runs: int = 0) -> JobRecord:
    """Return the record of a job or step. Raises ParseError for a list of nodes that is none.

    A job that never had a CPU or a node has not run, whatever its Start says. Of one that runs, or waits, the
    end is not known. Memory is what sacct measured in all tasks together (TRESUsageInTot), else in the
    largest task (MaxRSS); 0 says that the job was over before it was looked at. CPU time is reported when
    steps end, so that 0 of a job that runs says nothing.
    """
    state = row.state
    waits = state is JobState.PENDING
    allocated, requested = row.allocated, row.requested
    cpus = row.allocated_cpus if row.allocated_cpus is not None else allocated.get("cpu")
    never_ran = waits or (state.is_finished and not row.elapsed_secs and (cpus == 0 or row.nodes == NO_NODES))
    start = None if never_ran else row.start_secs
    end = row.end_secs if state.is_finished or state is JobState.UNKNOWN else None
    if end is None and start is not None and row.elapsed_secs is not None and state.is_finished:
        end = start + round(row.elapsed_secs + (row.suspended_secs or 0))
    used = row.cpu_secs
    if used is None and row.user_cpu_secs is not None and row.system_cpu_secs is not None:
        used = row.user_cpu_secs + row.system_cpu_secs
    nodes = () if row.nodes is None else expand_kept(row.nodes)
    requested_cpus = row.requested_cpus or requested.get("cpu")
    requested_nodes = row.requested_nodes or requested.get("node")
    memory = None
    if row.requested_memory is not None:
        memory = row.requested_memory.of_job(requested_cpus or cpus, requested_nodes or row.allocated_nodes)
    status, signal = row.exit if state.is_finished else (None, None)
    identity = row.identity
    return JobRecord(
        batch_system=NAME,
        job_id=row.job_id,
        cluster=row.cluster,
        step=row.step,
        state=state,
        state_word=row.state_word,
        name=row.name,
        user=row.user,
        uid=row.uid,
        group=row.group,
        gid=row.gid,
        account=row.account,
        partition=row.partition,
        qos=row.qos,
        reservation=row.reservation,
        priority=row.priority,
        submit_secs=row.submit_secs,
        eligible_secs=row.eligible_secs,
        start_secs=start,
        end_secs=end,
        run_secs=None if never_ran else row.elapsed_secs,
        suspended_secs=row.suspended_secs,
        restarts=earlier_runs or None if row.restarts is None else row.restarts,
        exit_status=status,
        exit_signal=signal,
        nodes=nodes,
        total_nodes=None if waits else row.allocated_nodes or allocated.get("node"),
        total_cpus=None if waits else cpus or None,
        total_gpus=count_gpus(allocated),
        requested_nodes=requested_nodes,
        requested_cpus=requested_cpus,
        requested_gpus=count_gpus(requested),
        requested_memory_bytes=memory or requested.get("mem") or None,
        wall_limit_secs=row.wall_limit_secs,
        used_cpu_secs=None if never_ran or not (used or state.is_finished) else used,
        user_cpu_secs=None if never_ran else row.user_cpu_secs,
        system_cpu_secs=None if never_ran else row.system_cpu_secs,
        energy_joules=row.energy_joules,
        used_memory_bytes=row.memory_bytes or None,
        array_job_id=identity.array_job_id,
        array_task_id=identity.array_task_id,
        het_job_id=identity.het_job_id,
        het_offset=identity.het_offset,
        more=row.more,
    )


def accounting_format() -> str:
    """Return the value of sacct's ``--format``."""
    return ",".join(ACCOUNTING_FIELDS)


def parse_accounting(text: str, separator: str, *, taken_at_secs: float) -> Accounting:
    """Return the records of ``sacct -a -P -n --noconvert --delimiter SEPARATOR``, times as epoch seconds.

    A bad record costs itself only. Raises ParseError where the answer is cut off.
    """
    records: list[JobRecord] = []
    rejected: list[Rejected] = []
    converter = RowConverter(ACCOUNTING_FIELDS)
    answer = split_open(text, separator, ACCOUNTING_FIELDS, source=ACCOUNTING_SOURCE)
    while rows := [tuple(values.values()) for values in islice(answer, BATCH)]:
        for row, found in zip(
            rows, converter.each(range(len(rows)), list(zip(*rows, strict=True))), strict=True
        ):
            try:
                if isinstance(found, ParseError):
                    raise found
                records.append(make_record(found))
            except ParseError as error:
                rejected.append(Rejected.from_error(error.at(ACCOUNTING_SOURCE, about=f"job {row[0][:32]}")))
    return Accounting(
        source=NAME, records=tuple(records), taken_at_secs=taken_at_secs, rejected=tuple(rejected)
    )
