"""Extracts what is drawn of a schedule: little enough to be kept for many schedules. Needs numpy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from jobfeatures.analysis.schedule.document import Values
from jobfeatures.analysis.schedule.measures import make_edges
from jobfeatures.analysis.schedule.pictures.heatmap import Marks, make_marks
from jobfeatures.analysis.schedule.result import QUEUE, Schedule
from jobfeatures.analysis.schedule.runs import AT_ONCE, Array, Run, Store, as_rows
from jobfeatures.analysis.schedule.whole import Use, Whole, add_steps
from jobfeatures.errors import shown_name
from jobfeatures.joblogs.logfiles import COMPRESSIONS

COLUMNS: Final = 900  # about one per pixel
USE_COLUMNS: Final = 600
_ENDING = re.compile(rf"(\.(swf|jsonl?|csv|txt|log))?({'|'.join(map(re.escape, COMPRESSIONS))})?\Z")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawnSchedule:
    """What is drawn of one schedule. Times are in seconds since its log's time zero.

    `document` holds the figures, from `make_document`; `runs` hold the marks of late jobs, see `heatmap`. For
    each interval between `edges`, `use` holds the mean use of each resource, and `waiting` the mean number
    of waiting jobs.
    """

    document: Values  # as `make_document` returns it
    users: list[str]
    runs: list[Run]  # of marks
    first_secs: float
    last_secs: float
    edges: Array  # of the intervals for use and queue
    use: dict[str, Use]
    waiting: Array

    @property
    def name(self) -> str:
        """Return the name of the schedule's log."""
        return str(self.document["log"])

    @property
    def marks(self) -> Iterator[Marks]:
        """Yield, in blocks, the marks of the jobs that ended after their expected end (see `heatmap`)."""
        for run in self.runs:
            for first in range(0, run.size, AT_ONCE):
                rows = run.read(first, AT_ONCE)
                yield Marks(*(rows[name] for name in Marks._fields))

    @property
    def marked_users(self) -> set[str]:
        """Return the users with at least one job that ended after its expected end."""
        return {user for user, veet in self.document["veet"].items() if veet > 0}


class Sketch:
    """Collects the data to draw while a schedule is evaluated; marks of late jobs go into a store."""

    def __init__(self, whole: Whole, store: Store) -> None:
        self._whole, self._store = whole, store
        self._edges = make_edges(whole.first_secs, whole.last_secs, USE_COLUMNS)
        self._runs: list[Run] = []
        self._steps: dict[str, Array] = {}

    def add(self, chunk: Schedule, first_user: int) -> None:
        """Add the jobs of some users; `first_user` is the index of the first of these among all users."""
        marks = make_marks(chunk)
        rows = as_rows(marks._replace(user=marks.user + first_user)._asdict())
        self._runs.append(self._store.write(rows))
        add_steps(self._steps, chunk.steps(self._edges))

    def view(self, document: Values) -> DrawnSchedule:
        """Return what is to be drawn: the data of all added jobs, and the figures from `make_document`."""
        whole = self._whole
        return DrawnSchedule(
            document=document,
            users=whole.users,
            runs=self._runs,
            first_secs=whole.first_secs,
            last_secs=whole.last_secs,
            edges=self._edges,
            use=whole.use_of(self._steps),
            waiting=self._steps[QUEUE],
        )


def short_names(names: Sequence[str], most: int = 28) -> list[str]:
    """Return names of logs, each at most `most` characters long, for use in pictures.

    Directories and extensions are removed if the names remain distinct without them.
    """
    bare = [_ENDING.sub("", each.rpartition("/")[2]) or each for each in names]
    if len(set(bare)) < len(set(names)):
        bare = list(names)
    cut = [shortened(each, most) for each in bare]
    if len(set(cut)) < len(set(names)):
        cut = [shortened(f"{number} {each}", most) for number, each in enumerate(bare, 1)]
    return cut


def share_words(document: Values) -> str:
    """Return a short text with the default share of each resource, such as ``64 CPU, 128 GiB``."""
    words = []
    for resource, shares in document["shares"].items():
        amount = shares["default"]
        if shares["unit"] == "KiB":
            words.append(f"{amount / 2**20:,.3g} GiB")
        else:
            words.append(f"{amount:,.4g} {resource.upper()}")
        if shares["users"]:
            words[-1] += " (others for some)"
    return ", ".join(words)


def shortened(name: str, most: int) -> str:
    """Return a name without unprintable characters; if longer than `most`, its middle is left out."""
    name = shown_name(name)
    if len(name) <= most:
        return name
    head = most // 2
    return f"{name[:head]}…{name[head + 1 - most :]}"
