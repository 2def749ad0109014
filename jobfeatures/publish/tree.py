"""Writes and reads the published directories, atomically and without following links.

    ROOT/machinefeatures/KEY
    ROOT/jobfeatures/slurm-1234/KEY
    ROOT/jobstatus/slurm-1234/          owned by the job's user, who fills it
    ROOT/jobfeatures/starter.4711       a link to such a folder, also in jobstatus; see `link_starters`
    ROOT/exports/slurm-1234             lines for a task prolog
    ROOT/exports/slurm-1234@CLUSTER     no features for this job: another cluster's job has its number
    ROOT/origins/slurm-1234             where the values come from; ROOT/origins/machine
    ROOT/drains/                        requests to shut down (private); see drainstore.py
    ROOT/records/slurm-1234.json        what a prolog knew of the job (private)
    ROOT/known/slurm-1234.json          what the daemon knew when it published the job (private)
    ROOT/locks/00 …                     see `locked` (private)
    ROOT/tokens/slurm-1234              the secret in the job's URLs (private)
    ROOT/urls/slurm-1234                export lines with the URLs, for the job's user alone
    ROOT/intake/slurm-1234.publish      a prolog's request to the daemon (private); see hooks/request.py
    ROOT/intake/slurm-1234.asked        its prolog waits for the batch system's answer (private)
    ROOT/failures/publish.timeout       one byte per hook failure of this kind (private); see failures.py
    ROOT/staging/                       half-created and half-removed entries (private)

A job's directory appears at once with all its keys, a changed key is replaced by a rename from `staging`, and
a removed directory is renamed into `staging` before it is emptied: a reader never sees a temporary or an
empty file. Everything but `jobstatus/*` belongs to the publisher, unless a job's directory is given to its
user, as the draft of 2014 asks. Then the user may replace anything in it between two calls of ours. So its
entries are accessed relative to its descriptor, links are never followed, only regular files are read,
files are replaced by rename, and whatever is in the way is moved into `staging`.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Mapping

from jobfeatures.errors import UnsafePathError
from jobfeatures.publish.files import (
    DIRECTORY,
    Owner,
    create_file,
    empty_directory,
    exists,
    is_directory,
    is_untouched,
    link_target,
    must_be_ours,
    owner_of,
    read_private,
    replace_file,
    unique_name,
    update_directory,
    write_if_changed,
)
from jobfeatures.publish.folders import (
    EXPORTS,
    FAILURES,
    INTAKE,
    JOBS,
    KNOWN,
    MACHINE,
    ORIGINS,
    RECORDS,
    STAGING,
    STATUS,
    TOKENS,
    URLS,
    Folders,
    origins_name,
)
from jobfeatures.publish.tokens import new_token, parse_token
from jobfeatures.records.jsontext import is_of_later_version
from jobfeatures.records.model import JobKey, Version
from jobfeatures.system.privatefile import closing, opened, version_of

SWEEP_ENTRIES = 10_000
MAX_NOTE_BYTES = 64 * 1024
STARTER = "starter."  # no job's directory has such a name: they contain a dash


class FeatureTree(Folders):
    """Reads and writes the directories below one root.

    It keeps no descriptors; several processes may use the same root.
    """

    # --- writing ----------------------------------------------------------------

    def write_machine(self, values: Mapping[str, str]) -> None:
        """Make $MACHINEFEATURES hold exactly these keys. Raises OSError, e.g. on a full disk."""
        with self.writing(MACHINE) as (folder, staging):
            update_directory(folder, staging, values)

    def write_job(self, key: JobKey, values: Mapping[str, str], owner: Owner | None = None) -> None:
        """Make $JOBFEATURES of a job hold exactly these keys; only what changed is written.

        Directory and files are given to `owner`, if there is one and this process runs as root. A directory
        of the wrong owner, as after a change of the setting features.profile, is created anew.
        """
        if owner is not None and os.geteuid() != 0:
            owner = None
        with self.writing(JOBS) as (folder, staging):
            self._write_directory(folder, staging, key.directory_name, values, owner)

    def make_status(self, key: JobKey, uid: int | None, gid: int = -1) -> None:
        """Create the job's empty $JOBSTATUS, owned by its user, unless the user has it already.

        Another user's directory was left by an earlier job of this id: it is removed, and so is the token,
        which that user may know. If this process is not root, the directory belongs to its user, which is
        right where the daemon and its jobs belong to the same user. `uid` None: the user is unknown.
        """
        name = key.directory_name
        with self.writing(STATUS) as (folder, staging):
            found_uid = owner_of(folder, name)
            if found_uid is not None:
                if uid is None or os.geteuid() != 0 or found_uid == uid:
                    return
                self._drop_token(name)
                os.rename(name, unique_name(name), src_dir_fd=folder, dst_dir_fd=staging)
            owner = Owner(uid, gid) if uid and os.geteuid() == 0 else None
            self._make_directory(folder, staging, name, {}, owner)

    def link_starters(self, key: JobKey, starters: Collection[int]) -> None:
        """Make links ``starter.PID`` to an HTCondor job's directories, for each process id in `starters`.

        Other such links to these directories are removed. The links are needed since HTCondor's configuration
        can set a job's environment by the process id of the job's starter, but not by the job's id.
        """
        target, wanted = key.directory_name, {f"{STARTER}{pid}" for pid in starters}
        for each in (JOBS, STATUS):
            with self.writing(each) as (folder, staging):
                missing = {name for name in wanted if link_target(folder, name) != target}
                if not missing and wanted:
                    continue  # as nearly always; so none is left of another starter
                links = [name for name in os.listdir(folder) if name.startswith(STARTER)]
                for name in links:
                    if name not in wanted and link_target(folder, name) == target:
                        os.unlink(name, dir_fd=folder)
                for name in missing:
                    temporary = unique_name(name)
                    os.symlink(target, temporary, dir_fd=staging)
                    os.rename(temporary, name, src_dir_fd=staging, dst_dir_fd=folder)

    def make_token(self, key: JobKey) -> str:
        """Return the secret token in a job's URLs; the first call for a job creates it."""
        name = key.directory_name
        with self.writing(TOKENS) as (folder, staging):
            for _ in range(2):
                token = parse_token(read_private(folder, name))
                if token is not None:
                    return token
                temporary = unique_name(name)
                create_file(staging, temporary, f"{new_token()}\n".encode(), 0o600)
                try:
                    # Prolog and daemon may both get here: only one of them succeeds in making the link.
                    os.link(temporary, name, src_dir_fd=staging, dst_dir_fd=folder)
                except FileExistsError:
                    if parse_token(read_private(folder, name)) is None:
                        os.rename(temporary, name, src_dir_fd=staging, dst_dir_fd=folder)
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=staging)
        raise UnsafePathError(f"{self.tokens_path}/{name}: another process keeps replacing it")

    def write_lines(self, folder_name: str, key: JobKey, text: str, reader: Owner | None = None) -> None:
        """Write a job's export lines into the folder `exports` or `urls`.

        They are readable only by `reader`, by everybody if None.
        """
        mode, owner = (0o644, None) if reader is None else (0o400, reader if os.geteuid() == 0 else None)
        with self.writing(folder_name) as (folder, staging):
            write_if_changed(folder, staging, key.directory_name, text.encode(), mode, owner)

    def refuse(self, key: JobKey, cluster: str) -> None:
        """Mark that a job of `cluster` gets no features, since a job of another cluster has the same id here.

        Only `accept` removes the mark.
        """
        with self.writing(EXPORTS) as (folder, staging):
            write_if_changed(folder, staging, _refusal_name(key, cluster), b"")

    def accept(self, key: JobKey, cluster: str) -> None:
        """Remove the mark that `refuse` has made for a job of `cluster`, if any."""
        with self.folder(EXPORTS) as folder, contextlib.suppress(FileNotFoundError):
            os.unlink(_refusal_name(key, cluster), dir_fd=folder)

    def write_origins(self, key: JobKey | None, text: str) -> None:
        """Write the file that says where a job's, or (`key` None) the machine's, values come from."""
        with self.writing(ORIGINS) as (folder, staging):
            write_if_changed(folder, staging, origins_name(key), text.encode())

    def put_machine_value(self, name: str, value: str | None) -> None:
        """Write one key of $MACHINEFEATURES, or remove it (None); the others stay."""
        with self.writing(MACHINE) as (folder, staging):
            _put(folder, staging, name, value, None)

    def put_job_value(self, key: JobKey, name: str, value: str | None) -> None:
        """Write one key of a job, or remove it (None). Raises FileNotFoundError if it has no directory."""
        with (
            self.writing(JOBS) as (folder, staging),
            opened(key.directory_name, DIRECTORY, folder) as directory,
        ):
            found = os.fstat(directory)
            owner = Owner(found.st_uid, found.st_gid) if os.geteuid() == 0 else None
            _put(directory, staging, name, value, owner)

    def write_record(self, key: JobKey, text: str) -> None:
        """Write what a prolog knows about the job, for the daemon."""
        with self.writing(RECORDS) as (folder, staging):
            replace_file(folder, staging, f"{key.directory_name}.json", text.encode(), 0o600)

    def write_known(self, key: JobKey, text: str) -> None:
        """Write the daemon's private note on a published job: what it knew of the job.

        A note that a later version has written is not replaced.
        """
        name = f"{key.directory_name}.json"
        with self.writing(KNOWN) as (folder, staging):
            if not is_of_later_version(read_private(folder, name, MAX_NOTE_BYTES) or b""):
                write_if_changed(folder, staging, name, text.encode(), 0o600)

    def hold_prolog(self, key: JobKey) -> None:
        """Make the job's prolog wait for the batch system, until `release_prolog` or its time limit."""
        with (
            self.folder(INTAKE) as folder,
            opened(
                f"{key.directory_name}.asked", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, folder, 0o600
            ) as file,
        ):
            os.utime(file)

    def release_prolog(self, key: JobKey, at_secs: float = math.inf) -> None:
        """Let the job's prolog, which has waited since `hold_prolog`, go on.

        A prolog that began to wait after `at_secs` (epoch) still waits.
        """
        name = f"{key.directory_name}.asked"
        with self.folder(INTAKE) as folder, contextlib.suppress(FileNotFoundError):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime <= at_secs:
                os.unlink(name, dir_fd=folder)

    # --- removing ----------------------------------------------------------------

    def remove_job(self, key: JobKey, *, keep_record: bool = False) -> bool:
        """Remove everything about a job; return whether there was anything.

        Its directories are only moved to `staging`, which `sweep` empties. With `keep_record`, the prolog's
        record stays: without it the daemon would conclude that the job's epilog has run.
        """
        name, found = key.directory_name, False
        self._drop_token(name)
        self.release_prolog(key)
        self.link_starters(key, ())
        with self.folder(STAGING) as staging:
            for each in (EXPORTS, URLS, JOBS, STATUS, ORIGINS):
                with self.folder(each) as folder, contextlib.suppress(FileNotFoundError):
                    os.rename(name, unique_name(name), src_dir_fd=folder, dst_dir_fd=staging)
                    found = True
        for each in (KNOWN,) if keep_record else (KNOWN, RECORDS):
            with self.folder(each) as folder, contextlib.suppress(FileNotFoundError):
                os.unlink(f"{name}.json", dir_fd=folder)
                found = True
        return found

    def _drop_token(self, name: str) -> None:
        with self.folder(TOKENS) as folder, contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)

    def sweep(self, max_entries: int = SWEEP_ENTRIES, before_secs: float | None = None) -> bool:
        """Empty `staging` with at most `max_entries` deletions; return whether it is empty afterwards.

        A user may have nested directories too deeply for recursion, or filled one with a million files:
        nested ones are moved up and handled in turn, and the rest is left to the next call. With
        `before_secs` (epoch), entries changed since then are spared: another process may be creating them.
        """
        budget = max_entries
        with self.folder(STAGING) as staging:
            names = [name for name in os.listdir(staging) if is_untouched(staging, name, before_secs)]
            while names and budget > 0:
                name = names.pop()
                budget -= 1
                with contextlib.suppress(OSError):
                    if not is_directory(staging, name):
                        os.unlink(name, dir_fd=staging)
                        continue
                    left, moved = empty_directory(staging, name, budget)
                    budget = left
                    names += moved
                    if budget > 0:
                        os.rmdir(name, dir_fd=staging)
            return not os.listdir(staging)

    # --- reading ------------------------------------------------------------------

    def published(self) -> dict[JobKey, float]:
        """Return the jobs that have a directory, with the time (epoch seconds) of its last change."""
        found: dict[JobKey, float] = {}
        try:
            folder = os.open(f"{self.root}/{JOBS}", DIRECTORY)
        except FileNotFoundError:
            return found
        with closing(folder), os.scandir(folder) as entries:
            for entry in entries:
                key = JobKey.from_directory_name(entry.name)
                if key is not None and entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):  # its epilog was faster
                        found[key] = entry.stat(follow_symlinks=False).st_mtime
        return found

    def record_version(self, key: JobKey) -> Version | None:
        """Return a version that changes with each change of the prolog's record, None without one."""
        with self.folder(RECORDS) as folder:
            try:
                found = os.stat(f"{key.directory_name}.json", dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
        return version_of(found)

    def has_note(self, key: JobKey) -> bool:
        """Return whether a published job has the daemon's private note."""
        with self.folder(KNOWN) as folder:
            return exists(folder, f"{key.directory_name}.json")

    def read_notes(self, key: JobKey) -> tuple[str, str]:
        """Return two texts about a job: the daemon's note and the prolog's record, each "" if absent."""
        found = []
        for each in (KNOWN, RECORDS):
            with self.folder(each) as folder:
                content = read_private(folder, f"{key.directory_name}.json", MAX_NOTE_BYTES)
            found.append((content or b"").decode("utf-8", "replace"))
        return found[0], found[1]

    def read_all_notes(self) -> list[str]:
        """Return the texts of the daemon's private notes on all published jobs.

        Raises OSError, and UnsafePathError as `Folders.folder` does.
        """
        with self.folder(KNOWN) as folder:
            names = [name for name in os.listdir(folder) if name.endswith(".json")]
            contents = (read_private(folder, name, MAX_NOTE_BYTES) for name in sorted(names))
            return [each.decode("utf-8", "replace") for each in contents if each is not None]

    def hook_failures(self) -> dict[tuple[str, str], int]:
        """Return how often hooks have failed, by action and reason. Raises as `Folders.folder` does."""
        from jobfeatures.publish.failures import read_failures  # hooks do not need it

        with self.folder(FAILURES) as folder:
            return read_failures(folder)

    # --- internals -----------------------------------------------------------------

    def _write_directory(
        self, folder: int, staging: int, name: str, values: Mapping[str, str], owner: Owner | None
    ) -> None:
        wanted_uid = owner.uid if owner else os.geteuid()
        found_uid = owner_of(folder, name)
        if found_uid is not None and found_uid not in ({wanted_uid} if owner else {wanted_uid, 0}):
            os.rename(name, unique_name(name), src_dir_fd=folder, dst_dir_fd=staging)
            found_uid = None
        if found_uid is None and self._make_directory(folder, staging, name, values, owner):
            return
        with opened(name, DIRECTORY, folder) as directory:
            if not owner:
                must_be_ours(directory, f"{self.root}/{JOBS}/{name}")
            update_directory(directory, staging, values, owner)

    @staticmethod
    def _make_directory(
        folder: int, staging: int, name: str, values: Mapping[str, str], owner: Owner | None
    ) -> bool:
        """Rename a directory to its place once it holds these keys; False if another process was faster."""
        temporary = unique_name(name)
        os.mkdir(temporary, 0o700, dir_fd=staging)
        with opened(temporary, DIRECTORY, staging) as made:
            for key, value in values.items():
                create_file(made, key, f"{value}\n".encode(), 0o644, owner)
            os.fchmod(made, 0o755)
            if owner:
                os.fchown(made, owner.uid, owner.gid)
        try:
            os.rename(temporary, name, src_dir_fd=staging, dst_dir_fd=folder)
        except OSError:
            if not exists(folder, name):
                raise
            return False  # ours stays in staging until the next sweep
        return True


def _put(directory: int, staging: int, name: str, value: str | None, owner: Owner | None) -> None:
    if value is not None:
        replace_file(directory, staging, name, f"{value}\n".encode(), 0o644, owner)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _refusal_name(key: JobKey, cluster: str) -> str:
    """Return the name of the file that taskprolog.sh looks for; Slurm lets clusters have any name."""
    shown = os.fsencode(cluster.replace("/", "%2F"))[:200]
    return os.fsdecode(key.directory_name.encode() + b"@" + shown)
