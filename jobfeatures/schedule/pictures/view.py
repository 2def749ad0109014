"""What is drawn of a schedule: small, so that many can be kept while others are evaluated. Pure, numpy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from jobfeatures.errors import shown_name
from jobfeatures.logfiles import COMPRESSIONS
from jobfeatures.schedule.document import Values
from jobfeatures.schedule.metrics import Steps, compute_steps, make_edges
from jobfeatures.schedule.pictures.heatmap import Marks, make_marks
from jobfeatures.schedule.result import Schedule, Use

COLUMNS: Final = 900  # about as many as there are pixels
USE_COLUMNS: Final = 600
_ENDING = re.compile(rf"(\.(swf|jsonl?|csv|txt|log))?({'|'.join(map(re.escape, COMPRESSIONS))})?\Z")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """One schedule as it is drawn. Times are seconds of its log."""

    document: Values  # as `make_document` gives it
    users: list[str]
    marks: Marks
    first_secs: float
    last_secs: float
    use: dict[str, Use]
    waiting: Steps

    @property
    def name(self) -> str:
        """Return the name of its log."""
        return str(self.document["log"])

    @property
    def marked_users(self) -> set[str]:
        """Return the users who have violated jobs."""
        return {self.users[place] for place in np.unique(self.marks.user).tolist()}


def make_view(schedule: Schedule, document: Values) -> View:
    """Return what is drawn of a schedule."""
    chosen = schedule.chosen
    first, last = chosen.arrival.min().item(), chosen.end.max().item()
    edges = make_edges(first, last, USE_COLUMNS)
    return View(
        document=document,
        users=chosen.users,
        marks=make_marks(schedule),
        first_secs=first,
        last_secs=last,
        use=schedule.use_over(edges),
        waiting=compute_steps(chosen.arrival, chosen.start, None, edges),
    )


def short_names(names: Sequence[str], most: int = 28) -> list[str]:
    """Return names of logs for pictures: without directories and endings, where they stay different."""
    bare = [_ENDING.sub("", each.rpartition("/")[2]) or each for each in names]
    if len(set(bare)) < len(set(names)):
        bare = list(names)
    cut = [shortened(each, most) for each in bare]
    if len(set(cut)) < len(set(names)):
        cut = [shortened(f"{number} {each}", most) for number, each in enumerate(bare, 1)]
    return cut


def counted(count: int, noun: str) -> str:
    """Return a number of things."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def share_words(document: Values) -> str:
    """Return the default shares of a schedule in few words."""
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
    """Return a name without characters that cannot be shown, and cut in the middle where it is long."""
    name = shown_name(name)
    if len(name) <= most:
        return name
    head = most // 2
    return f"{name[:head]}…{name[head + 1 - most :]}"
