"""Stores requests and announcements of shutdowns below the features' root, readable by root alone.

    ROOT/drains/operator.json     the requests made by `jobfeatures drain`
    ROOT/drains/announced.json    what the batch systems announced, for prologs and the daemon's next start

Both are replaced by rename. A lock on the folder serialises commands.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace

from jobfeatures.drains.drain import (
    MAX_DOCUMENT_BYTES,
    NO_DRAINS,
    NOT_ANNOUNCED,
    Announced,
    Drains,
    format_announced,
    format_drains,
    machine_shutdowns,
    parse_announced,
    parse_drains,
)
from jobfeatures.errors import JobfeaturesError, LockTimeoutError, ParseError, UnsafePathError
from jobfeatures.features import keys
from jobfeatures.features.job import compute_share
from jobfeatures.features.machine import PER_CORE, Machine
from jobfeatures.publish.files import DIRECTORY, has_locked, must_be_ours, read_private, replace_file
from jobfeatures.publish.folders import DRAINS
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.jsontext import is_of_later_version
from jobfeatures.system.privatefile import READ_UNFOLLOWED, opened

log = logging.getLogger(__name__)

OPERATOR_FILE = "operator.json"
MACHINE_FEATURES = "machinefeatures"  # the key of a cloud's metadata that holds their location
ANNOUNCED_FILE = "announced.json"
LOCK_TIMEOUT_SECS = 5.0


class DrainStore:
    """Reads and writes the two documents on drains below a root.

    It has no state; several processes may use the same root. All methods raise OSError, and UnsafePathError
    if another user could have written the document; reading a broken document raises ParseError.
    """

    def __init__(self, tree: FeatureTree) -> None:
        self._tree = tree

    def read(self) -> Drains:
        """Return the operators' requests."""
        text = self._read(OPERATOR_FILE)
        return NO_DRAINS if text is None else parse_drains(text, source=self._path(OPERATOR_FILE))

    def read_announced(self) -> Announced:
        """Return what batch systems announced at the daemon's last poll."""
        text = self._read(ANNOUNCED_FILE)
        return NOT_ANNOUNCED if text is None else parse_announced(text, source=self._path(ANNOUNCED_FILE))

    def read_cloud_location(self) -> str | None:
        """Return the location of machine features that a cloud's metadata gave; None if unknown."""
        try:
            return self.read_announced().features.get(MACHINE_FEATURES)
        except (JobfeaturesError, OSError):
            return None

    def change(self, change: Callable[[Drains], Drains]) -> Drains:
        """Replace the operators' requests with what `change` makes of them, under the lock.

        If `change` raises, nothing is changed. Raises LockTimeoutError if another process holds the lock for
        too long.
        """
        with self._tree.writing(DRAINS) as (folder, staging):
            if not has_locked(folder, LOCK_TIMEOUT_SECS):
                path = self._tree.drains_path
                raise LockTimeoutError(f"{path}: locked by another process for {LOCK_TIMEOUT_SECS:g} s")
            old = self.read()
            new = change(old)
            if new != old:
                _replace(folder, staging, OPERATOR_FILE, format_drains(new) if new != NO_DRAINS else None)
            return new

    def write_announced(self, announced: Announced) -> None:
        """Store what batch systems announce."""
        with self._tree.writing(DRAINS) as (folder, staging):
            has_any = any((announced.shutdowns, announced.job_slots, announced.features))
            has_any = has_any or any(announced.draining.values())
            _replace(folder, staging, ANNOUNCED_FILE, format_announced(announced) if has_any else None)

    def _path(self, name: str) -> str:
        return f"{self._tree.drains_path}/{name}"

    def _read(self, name: str) -> str | None:
        """Return a document, None if there is none. Creates no folder."""
        try:
            with opened(self._tree.root, DIRECTORY) as root:
                must_be_ours(root, self._tree.root)
                with opened(DRAINS, DIRECTORY, root) as folder:
                    must_be_ours(folder, self._tree.drains_path)
                    with opened(name, READ_UNFOLLOWED, folder) as file:
                        return _read_private(file, self._path(name))
        except FileNotFoundError:
            return None


def _replace(folder: int, staging: int, name: str, text: str | None) -> None:
    """Write a document or (None) remove it. Raises ParseError rather than overwrite a later version's."""
    if is_of_later_version(read_private(folder, name, MAX_DOCUMENT_BYTES) or b""):
        raise ParseError(
            "written by a later version of this program: upgrade it", source=name, field="format"
        )
    if text is not None:
        replace_file(folder, staging, name, text.encode(), 0o600)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _read_private(file: int, path: str) -> str:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise UnsafePathError(f"{path}: must be a regular file")
    if found.st_uid not in (0, os.geteuid()) or found.st_nlink != 1:
        raise UnsafePathError(
            f"{path}: belongs to uid {found.st_uid} and has {found.st_nlink} hard links; "
            f"it must have one and belong to root or uid {os.geteuid()}"
        )
    if found.st_mode & 0o022:
        raise UnsafePathError(
            f"{path}: writable by others (mode {stat.S_IMODE(found.st_mode):o}); chmod go-w"
        )
    content = os.read(file, MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ParseError(f"is larger than {MAX_DOCUMENT_BYTES} bytes", source=path)
    return content.decode("utf-8", "replace")


def with_announced(machine: Machine, drains: Drains, announced: Announced) -> Machine:
    """Return the machine with the shutdown time, job slots and features that drains and announcements set.

    Its `origins` say where each comes from.
    """
    shutdowns = machine_shutdowns(drains, announced)
    if shutdowns:
        source = min(shutdowns, key=lambda name: (shutdowns[name], name))
        origins = {**machine.origins, keys.SHUTDOWNTIME.name: f"drain: {source}"}
        machine = replace(machine, shutdown_secs=shutdowns[source], origins=origins)
    if announced.job_slots:
        slots = max(announced.job_slots.values())
        origins = {**machine.origins, keys.JOBSLOTS.name: ", ".join(sorted(announced.job_slots))}
        machine = replace(machine, jobslots=slots, origins=origins)
    return _with_ratings(_with_features(machine, announced.features), announced.features)


def _with_ratings(machine: Machine, reported: Mapping[str, str]) -> Machine:
    """Return the machine with ratings computed from those per core, where the site states none."""
    for key in (keys.HS06.name, keys.HS23.name):
        rating = reported.get(PER_CORE.format(key))
        if rating is not None and getattr(machine, key) is None:
            whole = compute_share(rating, 1, machine.total_cpus)
            origins = {**machine.origins, key: "the machine's ads * total_cpu"}
            machine = replace(machine, **{key: whole}, origins=origins)  # type: ignore[arg-type]
    return machine


def _with_features(machine: Machine, reported: Mapping[str, str]) -> Machine:
    """Return the machine with the cloud provider's values for what the site does not state."""
    fields: dict[str, int | str] = {}
    if keys.TOTAL_CPU.name in reported and keys.TOTAL_CPU.name not in machine.origins:
        fields["total_cpus"] = int(reported[keys.TOTAL_CPU.name])
    if keys.HS06.name in reported and machine.hs06 is None:
        fields["hs06"] = reported[keys.HS06.name]
    if keys.GRACE_SECS.name in reported and machine.grace_secs is None:
        fields["grace_secs"] = int(reported[keys.GRACE_SECS.name])
    if not fields:
        return machine
    names = {"total_cpus": keys.TOTAL_CPU.name}
    origins = {names.get(name, name): "the cloud's machine features" for name in fields}
    return replace(machine, **fields, origins={**machine.origins, **origins})  # type: ignore[arg-type]


def read_for_hook(tree: FeatureTree, machine: Machine) -> tuple[Machine, Drains]:
    """Return the machine with its shutdown time, and the requests for shutdowns of jobs. Never raises.

    If the stored requests cannot be read, none are returned, and the machine keeps the shutdown time that is
    published: a hook rewrites all keys of the machine.
    """
    store = DrainStore(tree)
    try:
        drains = store.read()
        return with_announced(machine, drains, store.read_announced()), drains
    except (JobfeaturesError, OSError) as error:
        log.warning("the announced shutdowns cannot be read and are left to the daemon: %s", error)
    try:
        with opened(f"{tree.machine_path}/{keys.SHUTDOWNTIME.name}", READ_UNFOLLOWED) as file:
            return replace(machine, shutdown_secs=int(os.read(file, 32))), NO_DRAINS
    except (OSError, ValueError):
        return machine, NO_DRAINS
