"""Slurm: what ``scontrol`` says of a job, what a Prolog's environment says, and a source that asks.

The controller serves thousands of nodes, so it is asked about single jobs
only, all questions of a poll go through one ``scontrol -a -o -d``, and answers
are kept. Commands: scontrol(1). Job states: squeue(1), "JOB STATE CODES".
The Prolog's variables: https://slurm.schedmd.com/prolog_epilog.html

Users write job names, comments and paths, and scontrol escapes nothing: a job
name may hold newlines and whole imitated records. Hence the questions are
framed by a word nobody can guess, a record is read between fields that users
cannot move, and what is ambiguous is rejected, never guessed.

Asking needs root, SlurmUser or an operator: where ``PrivateData=jobs`` is set,
others are told "Invalid job id" of jobs that live.
"""

from jobfeatures.batch.system import System

SYSTEM = System(
    name="slurm",
    room=__name__,
    summary=__doc__,
    job_variable="SLURM_JOB_ID",
)
