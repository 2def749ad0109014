"""Tells dcgm-exporter, by files in its `--hpc-job-mapping-dir`, which jobs use each GPU.

A file is named after NVML's index of a card, or the index and GPU instance of a MIG instance (``0.2``), and
has one job id per line; a GPU without jobs has no file. Releases of dcgm-exporter without support for MIG
instances ignore the latter files. Source: its README, "How to include HPC jobs in metric labels".
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Mapping

from jobfeatures.errors import UnsafePathError
from jobfeatures.publish.files import DIRECTORY, create_file, must_be_ours
from jobfeatures.records.model import JobKey
from jobfeatures.system.privatefile import opened
from jobfeatures_exporter.model.snapshot import GpuCard, JobGpu

_TEMPORARY = ".new"
_NAME = re.compile(r"[0-9]+(\.[0-9]+)?")

log = logging.getLogger(__name__)


def map_jobs(cards: Iterable[GpuCard], uses: Iterable[JobGpu]) -> dict[str, str]:
    """Return the content of each file to write, by the file's name, which stands for a GPU.

    A file lists the ids of the jobs that use the GPU or have it allocated.
    """
    by_uuid = {card.uuid: card for card in cards}
    found: dict[str, set[str]] = {}
    for use in uses:
        name = _name(use.uuid, by_uuid)
        if name is not None and isinstance(use.key, JobKey):
            found.setdefault(name, set()).add(use.key.job_id)
    return {name: "".join(f"{job_id}\n" for job_id in sorted(ids)) for name, ids in found.items()}


def _name(uuid: str, cards: Mapping[str, GpuCard]) -> str | None:
    card = cards.get(uuid)
    if card is None or card.parent_uuid is None:
        return None if card is None or card.index is None else str(card.index)
    parent = cards.get(card.parent_uuid)
    if parent is None or parent.index is None or card.instance_id is None:
        return None
    return f"{parent.index}.{card.instance_id}"


class JobMap:
    """Keeps dcgm-exporter's job files in a directory of our own; an unchanged file is not rewritten."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written: dict[str, str] | None = None  # None: the directory's content is unknown
        self._complaint = ""

    def write(self, wanted: Mapping[str, str]) -> None:
        """Make the directory contain the files in `wanted` (content by name), and no others.

        A failure is logged once; the next call tries again.
        """
        if wanted == self._written:
            return
        try:
            with opened(self._path, DIRECTORY) as folder:
                must_be_ours(folder, self._path)
                self._write(folder, wanted)
        except (OSError, UnsafePathError) as error:
            self._written = None
            reason = f"{self._path}: {error.strerror}" if isinstance(error, OSError) else str(error)
            if reason != self._complaint:
                log.error("cannot write which job is on which GPU: %s", reason)
            self._complaint = reason
        else:
            self._written, self._complaint = dict(wanted), ""

    def _write(self, folder: int, wanted: Mapping[str, str]) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_TEMPORARY, dir_fd=folder)  # left by a daemon that was killed
        known = self._written or {}
        for name in os.listdir(folder):
            if name not in wanted and _NAME.fullmatch(name):
                os.unlink(name, dir_fd=folder)
        for name, text in wanted.items():
            if known.get(name) != text:
                create_file(folder, _TEMPORARY, text.encode(), 0o644)
                os.rename(_TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)
