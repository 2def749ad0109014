"""The table of docs/evidence.md: what each of its rows and columns means, for tests and for drawing it."""

from __future__ import annotations

from pathlib import Path

from jobfeatures.jobs.evidence import (
    HOOKS,
    REMEMBERED,
    EndEvidence,
    Evidence,
    Group,
    JobObservation,
    Presence,
    judge,
)
from jobfeatures.records.model import Job, JobKey, JobState

PAGE = Path(__file__).parents[3] / "docs/evidence.md"
KEY = JobKey("slurm", "12")
ALICE, BOB = 6001, 6002
THEN, LATER, NOW, HOLD_SECS = 100.0, 200.0, 210.0, 3600.0


def job(uid=ALICE, state=JobState.RUNNING, **values):
    return Job(key=KEY, uid=uid, state=state, **values)


def told(at_secs, source="slurm", **values):
    return JobObservation(source, at_secs, job(**values))


def known(source, **values):
    return {"told": (told(THEN, source, **values),)}


# What was known; each row is of Alice's job, restarted once.
ROWS = {
    "a directory, nothing else": {"published_at_secs": THEN},
    "the prolog's record": known(HOOKS, restarts=1),
    "published before a restart of the daemon": known(REMEMBERED, restarts=1),
    "an answer: runs": known("slurm", restarts=1),
    "an answer: has ended": known("slurm", state=JobState.COMPLETED, restarts=1),
    "a record, then the epilog": {
        **known(HOOKS, restarts=1),
        "events": ((THEN + 1, EndEvidence.EPILOG),),
    },
}

# What is told after it.
COLUMNS = {
    "nothing": {},
    "a record": {"told": (told(LATER, HOOKS),)},
    "a record of Bob's": {"told": (told(LATER, HOOKS, uid=BOB),)},
    "runs": {"told": (told(LATER),)},
    "is completing": {"told": (told(LATER, state=JobState.COMPLETING),)},
    "waits": {"told": (told(LATER, state=JobState.PENDING),)},
    "has ended": {"told": (told(LATER, state=JobState.FAILED),)},
    "an earlier run ended": {"told": (told(LATER, state=JobState.FAILED, restarts=0),)},
    "an earlier run runs": {"told": (told(LATER, restarts=0),)},
    "a later run runs": {"told": (told(LATER, restarts=2),)},
    "Bob's runs": {"told": (told(LATER, uid=BOB),)},
    "Bob's has ended": {"told": (told(LATER, uid=BOB, state=JobState.COMPLETED),)},
    "not known": {"events": ((LATER, EndEvidence.ABSENT),)},
    "no usable answer": {"told": (JobObservation("slurm", LATER, Job(key=KEY)),)},
    "epilog": {"events": ((LATER, EndEvidence.EPILOG),)},
}

WORDS = {
    Presence.HERE: "here",
    Presence.COMPLETING: "completing",
    Presence.UNCLEAR: "as it is",
    Presence.REMAINS: "remains",
    Presence.LEFT: "gone",
}


def find(row, column, *, group=None, late=False):
    """Return what the code makes of a row and a column; `late`: after the hold has run out."""
    before, after = ROWS[row], COLUMNS[column]
    evidence = Evidence(
        reported=before.get("told", ()) + after.get("told", ()),
        events=before.get("events", ()) + after.get("events", ()),
        published_at_secs=before.get("published_at_secs"),
        group=group,
    )
    return judge(evidence, now_secs=NOW + (2 * HOLD_SECS if late else 0))


def word(finding):
    bobs = finding.job is not None and finding.job.uid == BOB
    has_run = finding.presence in (Presence.HERE, Presence.COMPLETING)
    return WORDS[finding.presence] + (" (Bob)" if bobs and has_run else "")


def cell(row, column):
    """Return a cell: without processes in Alice's control group · with them · an hour later, too; one word for most."""
    populated = Group(uid=ALICE)
    words = (
        word(find(row, column)),
        word(find(row, column, group=populated)),
        word(find(row, column, group=populated, late=True)),
    )
    if words == ("gone", "remains", "gone"):
        return "ended"
    return words[0] if len(set(words)) == 1 else " · ".join(words)


def draw():
    """Return the table as Markdown: a column of the page's is a row of evidence."""
    lines = ["| learnt later | " + " | ".join(ROWS) + " |", "|---" * (len(ROWS) + 1) + "|"]
    for column in COLUMNS:
        lines.append(f"| **{column}** | " + " | ".join(cell(row, column) for row in ROWS) + " |")
    return "\n".join(lines)


def read_page():
    """Return the cells of the page by row and column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    start = next(n for n, line in enumerate(lines) if line.startswith("| learnt later |"))
    rows = [each.strip() for each in lines[start].strip("|").split("|")][1:]
    cells = {}
    for line in lines[start + 1 :]:
        column, *texts = (each.strip() for each in line.strip("|").split("|"))
        cells.update({(row, column.strip("*")): text for row, text in zip(rows, texts, strict=True)})
    return cells
