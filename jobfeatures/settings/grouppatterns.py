"""The kind of value for settings that list paths of control groups, as patterns.

A pattern that can match nothing, or that matches all groups, is refused.
"""

from __future__ import annotations

import re
from typing import Any

from jobfeatures.settings.declare import ValueKind

MOUNT = "/sys/fs/cgroup"


def _group_patterns(value: Any) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ValueError("must be a list of paths")
    found = [each.rstrip("/") or each for each in map(str.strip, given) if each]
    for each in found:
        names = each.split("/")
        if (
            len(names) < 2
            or names[0]
            or {"", ".", "..", "**"} & {*names[1:]}
            or re.search(r"[\0-\x1f]", each)
        ):
            raise ValueError(f"must be paths of control groups from their root, such as /a.slice, not {each}")
        if each.startswith(MOUNT):
            raise ValueError(f"must be paths from the root of control groups: leave out {MOUNT} from {each}")
        if names[1] == "user.slice":
            raise ValueError(f"must not name groups of users, such as {each}: jobs have none there")
        if {*names[1:]} == {"*"}:
            raise ValueError(f"must contain a name besides wildcards, unlike {each}")
    return tuple(dict.fromkeys(found))


GROUP_PATTERNS = ValueKind("list of paths", _group_patterns)
