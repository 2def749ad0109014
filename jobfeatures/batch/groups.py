"""What a path of control groups may say, and how a batch system is described: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a control group's path says. Exactly one of `job_id`, `sluid` and `slot` is known."""

    batch_system: str
    job_id: str | None = None
    sluid: str | None = None  # Slurm's own unique id; the job's number is found elsewhere
    slot: str | None = None  # HTCondor's; which job runs in it is found elsewhere
    step: str | None = None
    node: str | None = None  # only where several emulated nodes share the host
    uid: int | None = None  # only in v1 paths of Slurm

    @property
    def name(self) -> str:
        """Return what stands for the job as long as nothing better is known."""
        return self.job_id or self.sluid or self.slot or ""


class BatchHierarchy(NamedTuple):
    """How one batch system names control groups.

    `paths` are patterns of paths from the hierarchy's root; their groups are named as what `Membership` has.
    `job_directories` are the shapes, one pattern a level (fnmatch), of the directories of whole jobs.
    """

    name: str
    paths: tuple[re.Pattern[str], ...]
    job_directories: tuple[tuple[str, ...], ...]

    def match(self, path: str) -> Membership | None:
        """Return what a path says, None where it is none of this batch system's."""
        for pattern in self.paths:
            if found := pattern.match(path):
                said: dict[str, Any] = {
                    name: text and unescape(text) for name, text in found.groupdict().items()
                }
                if "uid" in said:
                    said["uid"] = int(said["uid"])
                return Membership(batch_system=self.name, **said)
        return None


_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def unescape(name: str) -> str:
    r"""Return a name as it was before systemd escaped it, ``a\x2db`` → ``a-b``; see systemd.unit(5).

    Bytes that are not ASCII stay escaped: they come in sequences that a name may cut.
    """

    def byte(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return chr(value) if 0x20 <= value < 0x7F and value != 0x2F else match[0]

    return _ESCAPE.sub(byte, name)
