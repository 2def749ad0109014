"""Sends queries to ``scontrol``; a random word separates its answers, so that users cannot forge them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobfeatures.batch.programs import Programs
from jobfeatures.batch.slurm import COMMAND, VARIABLES
from jobfeatures.batch.slurm.basics import ENVIRONMENT, NAME, SOURCE, checked_id, is_plain_id
from jobfeatures.batch.slurm.record import parse_scontrol_job
from jobfeatures.errors import ParseError, Rejected, SourceError, shown
from jobfeatures.records.model import Job
from jobfeatures.system.command import first_line

if TYPE_CHECKING:
    from jobfeatures.batch.slurm.node import NodeAnswer

MAX_ANSWER_BYTES = 32 * 2**20
VERBOSE = "verbose"
DETAILS = "details"
MIN_TIMEOUT_SECS = 0.1  # of a further query, however little time the earlier ones left

# Errors of the queries about the node and reservations, which say nothing about jobs.
_ELSEWHERE = re.compile(r"(?:\w+: )*slurm_load_(?:node|reservation)s?(?: error)?: ")
_INVALID_ID = re.compile(r"(?:\w+: )*slurm_load_jobs?(?: error)?: Invalid job id specified\Z")


# What tells that a job's details are those known, and what these are.
_SAME = ("uid", "submit_secs", "start_secs", "restarts", "nodes", "total_cpus")
_DETAILED = ("allocated_cpus", "allocated_gpus", "gpus", "sluid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one run of scontrol answered about jobs; they are identified by job number.

    `gone` are jobs that slurmctld no longer knows. `rejected` are those whose record is malformed or perhaps
    forged.
    `ask_alone` are jobs answered together with others: each has to be queried again, by the given name.
    `complete`: each query was answered, without an unexpected error; `complaint` is the first such error.
    `extra` has the lines that further commands printed, by command.
    """

    jobs: Mapping[str, Job]
    gone: frozenset[str]  # no longer known to the controller
    rejected: Mapping[str, Rejected]
    ask_alone: Mapping[str, str]  # answered together with other jobs: query again, by this name
    complete: bool  # each query was answered, without an unexpected error
    complaint: str = ""  # the first unexpected line on standard error
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)  # answer lines by extra command

    def one(self, job_id: str, asked: str) -> Job | None:
        """Return the only job queried, `job_id`; None if it is gone. `asked` names the command in errors.

        Raises ParseError if its record was rejected, SourceError if there is no answer about it.
        """
        if job_id in self.jobs or job_id in self.gone:
            return self.jobs.get(job_id)
        if job_id in self.rejected:
            raise self.rejected[job_id].as_error()
        raise SourceError(f"{asked}: no answer about job {job_id}: {self.complaint}")


def format_questions(
    questions: Collection[str], nonce: str, extra: Sequence[str] = (), *, brief: int = 0
) -> bytes:
    """Return what to write to scontrol's standard input: queries about jobs, then the commands `extra`.

    `questions` are the jobs' names in the queries. The first `brief` queries are without details, as for
    details scontrol loads all nodes of the cluster.

    Before each query stands ``show hostnames NONCE``, to which scontrol itself prints the random word NONCE
    on a line. After ``verbose`` each answer begins with the controller's time.
    """
    marker = f"show hostnames {nonce}\n"
    lines = [*(f"show job {each}" for each in questions), *extra]
    text = [f"{marker}{line}\n" for line in lines]
    if extra:
        text.insert(len(questions), f"{VERBOSE}\n")
    if brief:
        text.insert(brief, f"{DETAILS}\n")
    return "".join([*text, marker]).encode("ascii")


def parse_answers(
    stdout: str,
    stderr: str,
    nonce: str,
    questions: Mapping[str, str],
    *,
    node_name: str | None,
    extra: Sequence[str] = (),
    known: Mapping[str, Job] = MappingProxyType({}),
) -> Answers:
    """Parse what scontrol printed for the input made by `format_questions`; never raises.

    `questions` maps each job number to the job's name in the query: the number, ``ARRAY_TASK`` or
    ``HET+OFFSET``. `nonce` is the random word between the answers. Answers about `known` jobs lack details:
    the known details are kept if the job's run, CPUs and nodes are the same; else the job goes into
    `Answers.ask_alone`, to be queried with details. Depending on its line editor scontrol echoes the prompt
    and the command, or only the prompt; both are recognised.

    Jobs without an answer are gone only if standard error says "Invalid job id specified" exactly as many
    times, and nothing else.
    """
    jobs: dict[str, Job] = {}
    rejected: dict[str, Rejected] = {}
    ask_alone: dict[str, str] = {}
    missing: list[str] = []
    frames = list(_frames(stdout, nonce))
    if len(frames) > len(questions) + len(extra):  # cannot come from these questions
        frames = []
    for (job_id, question), frame in zip(questions.items(), frames, strict=False):
        lines = frame[1:] if frame[:1] == [f"show job {question}"] else frame
        try:
            record = _single_record(lines, job_id, question)
            if record is None:
                missing.append(job_id)
            elif isinstance(record, _AskAlone):
                ask_alone[job_id] = record.question
            else:
                job = parse_scontrol_job(record, node_name=node_name)
                if job_id not in known:
                    jobs[job_id] = job
                elif all(getattr(job, name) == getattr(known[job_id], name) for name in _SAME):
                    jobs[job_id] = _with_details(job, known[job_id])
                else:
                    ask_alone[job_id] = question
        except ParseError as error:
            rejected[job_id] = Rejected.from_error(error)
    further = {
        line: frame[1:] if frame[:1] == [line] else frame
        for line, frame in zip(extra, frames[len(questions) :], strict=False)
    }
    complaints = [line for line in stderr.splitlines() if line.strip() and not _ELSEWHERE.match(line)]
    foreign = [line for line in complaints if not _INVALID_ID.match(line)]
    proven = not foreign and len(complaints) == len(missing)
    return Answers(
        jobs=jobs,
        gone=frozenset(missing if proven else ()),
        rejected=rejected,
        ask_alone=ask_alone,
        complete=proven and len(frames) >= len(questions),
        complaint=shown(foreign[0]) if foreign else "",
        extra=further,
    )


def _frames(stdout: str, nonce: str) -> Iterator[list[str]]:
    """Yield the lines between markers, without prompts; a frame without its end marker is left out."""
    frame: list[str] | None = None
    for raw in stdout.split("\n"):
        line = raw
        while line.startswith("scontrol: "):
            line = line.removeprefix("scontrol: ")
        if line == nonce:
            if frame is not None:
                yield frame
            frame = []
        elif frame is not None and line not in {f"show hostnames {nonce}", VERBOSE, DETAILS}:
            frame.append(line)


def _with_details(job: Job, known: Job) -> Job:
    details = {name: getattr(known, name) for name in _DETAILED}
    return replace(job, **details, limits=replace(job.limits, memory_bytes=known.limits.memory_bytes))


@dataclass(frozen=True, slots=True)
class _AskAlone:
    question: str


def _single_record(lines: Sequence[str], job_id: str, question: str) -> str | _AskAlone | None:
    """Return the only record of a frame, None for an empty frame.

    A frame with one line that starts like a record is one record, with or without newlines: a record forged
    inside it would repeat its fields. A frame with several such lines comes from an array, a heterogeneous
    job or a forged name; it only serves to learn the name by which to query the single job.
    """
    while lines and not lines[-1]:
        lines = lines[:-1]
    if not lines:
        return None
    starts = [line for line in lines if line.startswith("JobId=")]
    own = [line for line in starts if line.startswith(f"JobId={job_id} ")]
    if len(own) != 1:
        raise ParseError(f"the answer must have one record of job {job_id}", source=SOURCE, text=lines[0])
    if len(starts) == 1 and lines[0] == own[0]:
        return "\n".join(lines)
    head = own[0].partition(" JobName=")[0]
    for pattern, form in (
        (r" ArrayJobId=([0-9]{1,10}) ArrayTaskId=([0-9]{1,10})(?: |\Z)", "{}_{}"),
        (r" HetJobId=([0-9]{1,10}) HetJobOffset=([0-9]{1,10})(?: |\Z)", "{}+{}"),
    ):
        match = re.search(pattern, head)
        if match and question == job_id:
            return _AskAlone(form.format(match[1], match[2]))
    raise ParseError(f"several records in the answer for job {job_id}", source=SOURCE, text=lines[0])


class Scontrol:
    """Queries the controller by running scontrol, mostly as one process per poll.

    `timeout_secs` limits all processes of a poll together.
    """

    def __init__(
        self,
        command: str = "scontrol",
        *,
        node_name: str | None = None,
        timeout_secs: float = 10.0,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self.command, self.node_name, self.timeout_secs = command, node_name, timeout_secs
        self.programs = Programs(
            COMMAND, command, timeout_secs, kept=VARIABLES, environment=ENVIRONMENT, max_bytes=max_bytes
        )

    def poll(
        self,
        ids: Collection[str],
        extra: Sequence[str] = (),
        known: Mapping[str, Job] = MappingProxyType({}),
    ) -> Answers:
        """Query the jobs `ids` by one process, or by two if one belongs to an array or a heterogeneous job.

        Details of `known` jobs are queried only if the rest of the record shows that they have changed.
        `extra` are further commands for the same process.

        Jobs whose record is rejected are queried again by the squeue in scontrol's directory: they are in
        `Answers.jobs` then, and in `rejected` too. Raises SourceError if there was no answer, CommandError if
        scontrol did not run to its end.
        """
        deadline = time.monotonic() + self.timeout_secs
        in_order = sorted(filter(is_plain_id, ids), key=lambda job_id: job_id not in known)
        answers = self._run(dict(zip(in_order, in_order, strict=True)), self.timeout_secs, extra, known)
        if answers.ask_alone:
            answers = self._ask_alone(answers, deadline)
        refused = answers.rejected.keys() - answers.jobs.keys()
        if not refused:
            return answers
        from jobfeatures.batch.slurm.refused import ask_squeue  # rarely needed

        try:
            left_secs = _remaining_secs(deadline)
            jobs = ask_squeue(self.programs, refused, node_name=self.node_name, timeout_secs=left_secs)
        except SourceError as error:
            return replace(answers, complaint=answers.complaint or str(error))
        return replace(answers, jobs={**answers.jobs, **jobs})

    def _ask_alone(self, answers: Answers, deadline: float) -> Answers:
        """Add the answers about the jobs in `ask_alone`; of these, one without an answer is rejected."""
        try:
            second = self._run(answers.ask_alone, _remaining_secs(deadline))
        except SourceError as error:
            reason = f"no answer about this job alone within {self.timeout_secs:g} s: {error}"
            late = {job_id: Rejected(SOURCE, reason, text=name) for job_id, name in answers.ask_alone.items()}
            return replace(answers, rejected={**answers.rejected, **late}, ask_alone={}, complete=False)
        return replace(  # with the jobs gone that were: names may have changed since the first answer
            answers,
            jobs={**answers.jobs, **second.jobs},
            rejected={**answers.rejected, **second.rejected},
            ask_alone={},
            complete=answers.complete and second.complete and not second.gone,
            complaint=answers.complaint or second.complaint,
        )

    def ask(
        self,
        job_ids: Collection[str],
        *,
        about_node: bool,
        now_secs: float,
        known: Mapping[str, Job] = MappingProxyType({}),
    ) -> tuple[Answers, NodeAnswer | None]:
        """Query the jobs `job_ids` and, if `about_node`, this node; return both answers.

        The second answer is None if the node was not queried or gave no answer. Details of `known` jobs are
        not queried again unless they have changed. `now_secs` is epoch time. Raises SourceError if there is
        no answer.
        """
        # A prolog has no use for it.
        from jobfeatures.batch.slurm.node import SHOW_RESERVATIONS, node_questions, parse_node_answer

        extra = node_questions(self.node_name) if about_node else ()
        answers = self.poll(job_ids, extra, known)
        if not extra or self.node_name is None:
            return answers, None
        node, reservations = (answers.extra.get(line) for line in (extra[0], SHOW_RESERVATIONS))
        if not node or not reservations:
            return answers, None
        found = parse_node_answer(node, reservations, node_name=self.node_name, now_secs=now_secs)
        return answers, found

    def ask_about_job(self, job_id: str) -> Job | None:
        """Query slurmctld about one job; return the job, or None if slurmctld does not know it.

        Raises SourceError if the query failed. Raises ParseError if `job_id` is not a job number, or if the
        job's record is malformed, or may be forged by texts that users choose, such as the job's name.
        """
        return self.poll([checked_id(job_id, source=NAME)]).one(job_id, self.command)

    def _run(
        self,
        questions: Mapping[str, str],
        timeout_secs: float,
        extra: Sequence[str] = (),
        known: Mapping[str, Job] = MappingProxyType({}),
    ) -> Answers:
        brief = len(questions.keys() & known.keys())
        nonce = f"n{os.urandom(8).hex()}"
        output = self.programs.run(
            # Without --local, a question about a federation follows each one.
            *("scontrol", "--local", "-a", "-o", *(() if brief else ("-d",))),
            stdin=format_questions(questions.values(), nonce, extra, brief=brief),
            timeout_secs=timeout_secs,
        )
        answers = parse_answers(
            output.stdout.decode("utf-8", "replace"),
            output.stderr.decode("utf-8", "replace"),
            nonce,
            questions,
            node_name=self.node_name,
            extra=extra,
            known=known,
        )
        reported = answers.jobs or answers.gone or answers.rejected or answers.ask_alone
        if not reported and (questions or not any(answers.extra.values())):
            reason = answers.complaint or first_line(output.stderr)
            raise SourceError(f"{self.command}: no answer (exit status {output.status}): {reason}")
        return answers


def _remaining_secs(deadline: float) -> float:
    return max(MIN_TIMEOUT_SECS, deadline - time.monotonic())
