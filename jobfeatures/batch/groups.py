"""How a batch system names its control groups, and what a control group's path tells about a job: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a control group's path tells. Exactly one of `job_id`, `sluid` and `slot` is known."""

    batch_system: str
    job_id: str | None = None
    sluid: str | None = None  # Slurm's own unique id; the job's number is found elsewhere
    slot: str | None = None  # HTCondor's; the job that runs in it is found elsewhere
    step: str | None = None
    node: str | None = None  # only where several emulated nodes share the host
    uid: int | None = None  # only in paths of Slurm on cgroup v1 and of OAR on v2

    @property
    def name(self) -> str:
        """Return the identifier that stands for the job until a better one is known."""
        return self.job_id or self.sluid or self.slot or ""


class BatchHierarchy(NamedTuple):
    """How one batch system names control groups.

    `paths` match paths relative to the hierarchy's root; their named groups are fields of `Membership`.
    `job_directories` match the directories of whole jobs, with one fnmatch pattern per path component.
    """

    name: str
    paths: tuple[re.Pattern[str], ...]
    job_directories: tuple[tuple[str, ...], ...]

    def match(self, path: str) -> Membership | None:
        """Return what a path tells, None if it does not belong to this batch system."""
        for pattern in self.paths:
            if found := pattern.match(path):
                values: dict[str, Any] = {
                    name: text and unescape(text) for name, text in found.groupdict().items()
                }
                if "uid" in values:
                    values["uid"] = int(values["uid"])
                return Membership(batch_system=self.name, **values)
        return None


_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def unescape(name: str) -> str:
    r"""Undo systemd's escaping of a name, ``a\x2db`` → ``a-b``; see systemd.unit(5).

    Bytes outside ASCII stay escaped, because a name may be cut within a multi-byte sequence.
    """

    def byte(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return chr(value) if 0x20 <= value < 0x7F and value != 0x2F else match[0]

    return _ESCAPE.sub(byte, name)
