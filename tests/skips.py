"""Why tests are skipped: each reason is of one kind of need, or nobody has thought of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

# Need, and the words of reasons that tell it; the first that fits counts.
NEEDS = {
    "private data": r"JOBFEATURES_DATA|^/\S* is not there$",
    "an ordinary user": r"root (can|may)? ?reads? everything|this user may read everything",
    "root": r"\bonly root\b|needs root|takes root|this root may not|(no|the) right to mount|CAP_NET_ADMIN"
    r"|mounting is not allowed|devices cannot be made",
    "hardware or a kernel's feature": r"this machine has no|this machine tells|the kernel has no|no /dev/"
    r"|grants no leases|may listen on port 80",
    "history": r"^no history",
    "a program of the system": r"is not installed|is not here|needs (mandoc|fish|zsh)|no C compiler"
    r"|no setpriv|no POSIX shell|bash scripts",
}
UNEXPECTED = "what nobody has thought of"
EXCUSED_IN_CI = frozenset(NEEDS) - {"a program of the system"}


def need_of(reason: str) -> str:
    """Return what a skipped test lacks."""
    return next((need for need, words in NEEDS.items() if re.search(words, reason)), UNEXPECTED)


def reason_of(report) -> str:
    """Return the reason of a skipped test's report."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


def summary(reasons: Iterable[str]) -> Iterator[str]:
    """Yield the lines that stand at the end of a run: skipped tests by need, then by reason."""
    counts = Counter(reasons)
    by_need: dict[str, list[str]] = {}
    for reason in sorted(counts):
        by_need.setdefault(need_of(reason), []).append(reason)
    for need, found in sorted(by_need.items()):
        yield f"{sum(counts[each] for each in found)} skipped, for lack of {need}:"
        yield from (f"    {counts[each]} × {each}" for each in found)
