"""Hides personal data: names of users, accounts, jobs and commands, and user ids.

Everything that leaves the exporter passes through a `Privacy`: the data of pages and metrics (`Context`)
before it is rendered, documents before they are sent. `Privacy.name` alone decides how a name is shown.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.records.model import Job
from jobfeatures.system.privatefile import read_private
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import CommandSample, JobSample, Kind, Snapshot, UnitKey
from jobfeatures_exporter.privacy.config import HASH, SHOWN, WITHHOLD, PrivacySettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from jobfeatures.records.administration import AdministrationAnswer

HASH_BYTES: Final = 6  # 12 hex digits: among 100,000 names, a collision has a chance of 1 in 56,000
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 4096
OTHER: Final = "other"  # commands that are not distinguished
UNKNOWN_USER: Final = "_user_unknown"  # in Sonar's format, where a user is required
WITHHELD: Final = "_withheld"

# Kinds of names; a name's hash begins with its kind.
USER, ACCOUNT, NAME, COMMAND, UNIT, RESERVATION = "user", "account", "job", "command", "unit", "reservation"

# Members of documents in Sonar's format, and their values where names are withheld.
_MEMBERS: Final = {
    "user": (USER, UNKNOWN_USER),
    "user_name": (USER, ""),
    "account": (ACCOUNT, ""),
    "job_name": (NAME, ""),
    "reservation": (RESERVATION, ""),
    "cmd": (COMMAND, WITHHELD),
}
_FAULT: Final = "detail"  # an error message, which may quote its input
Key = TypeVar("Key")  # identifies work, or the owner of a process
Record = TypeVar("Record", bound="DataclassInstance")
_UID_IN_PATH: Final = re.compile(r"(uid_|user-|user@)[0-9]+")


@dataclass(frozen=True, slots=True)
class Privacy:
    """Shows, hashes or withholds names in all that leaves the exporter.

    `mode` says which of the three, as the setting privacy has it; `key` is the secret of hashes.
    """

    mode: str = SHOWN
    key: bytes = field(default=b"", repr=False)

    def name(self, kind: str, text: str | None) -> str | None:
        """Return a name as it is to be shown, None if names are withheld; None and "" stay as they are.

        `kind` says what it names, such as "user": it is the beginning of a hashed name.
        """
        if self.mode == SHOWN or not text:
            return text
        if self.mode == WITHHOLD:
            return None
        content = text.encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(
            content, key=hashlib.blake2b(self.key).digest(), person=kind.encode(), digest_size=HASH_BYTES
        )
        return f"{kind}-{digest.hexdigest()}"

    def job(self, job: Job) -> Job:
        """Return a job with its names hidden; its id and other numbers stay."""
        if self.mode == SHOWN:
            return job
        return replace(
            job,
            user=self.name(USER, job.user),
            uid=None,
            account=self.name(ACCOUNT, job.account),
            name=self.name(NAME, job.name),
            reservation=self.name(RESERVATION, job.reservation),
        )

    def context(self, context: Context) -> Context:
        """Return a `Context`, the data that pages and metrics are made of, with names hidden."""
        if self.mode == SHOWN:
            return context
        drains = context.drains
        if drains is not None:
            machine = drains.drains.machine
            hidden = replace(
                drains.drains,
                machine=None if machine is None else self._renamed(machine, set_by=USER),
                jobs={key: self._renamed(each, set_by=USER) for key, each in drains.drains.jobs.items()},
            )
            # A problem with the drains document may quote who requested a drain.
            drains = replace(drains, drains=hidden, problem=WITHHELD if drains.problem else "")
        return replace(
            context,
            jobs={key: self.job(job) for key, job in context.jobs.items()},
            findings={
                key: each
                if each.known is None
                else replace(each, known=replace(each.known, job=self.job(each.known.job)))
                for key, each in context.findings.items()
            },
            ended={
                key: replace(each, job=self.job(each.job), sample=self._sample(each.sample))
                for key, each in context.ended.items()
            },
            snapshot=None if context.snapshot is None else self._snapshot(context.snapshot),
            kinds=context.kinds & {Kind.BATCH, Kind.GROUP} if self.mode == WITHHOLD else context.kinds,
            drains=drains,
            # A problem with a status may name a user id.
            statuses={
                key: replace(each, problem=WITHHELD) if each.problem else each
                for key, each in context.statuses.items()
            },
            schedules=tuple(
                replace(each, top_users=self._all_renamed(each.top_users, user=USER))
                for each in context.schedules
            ),
            administration=tuple(map(self._reported, context.administration)),
        )

    def document(self, document: Any) -> Any:
        """Return a document in Sonar's format with names hidden."""
        if self.mode == SHOWN:
            return document
        if isinstance(document, dict):
            return {name: self._member(name, value) for name, value in document.items()}
        if isinstance(document, list):
            return [self.document(each) for each in document]
        return document

    def _member(self, name: str, value: Any) -> Any:
        if name == _FAULT and isinstance(value, str):
            return WITHHELD
        if name not in _MEMBERS or not isinstance(value, str):
            return self.document(value)
        kind, instead = _MEMBERS[name]
        if not value or value == UNKNOWN_USER:
            return value
        return self.name(kind, value) or instead

    def _reported(self, reported: AdministrationAnswer) -> AdministrationAnswer:
        """Return an answer on scheduler, shares or reservations with names hidden."""
        from jobfeatures.records.administration import (  # of the controller role
            FairShares,
            Reservations,
            Scheduler,
        )

        if isinstance(reported, Scheduler):
            return replace(reported, users=self._all_renamed(reported.users, name=USER))
        if isinstance(reported, FairShares):
            return replace(reported, shares=self._all_renamed(reported.shares, account=ACCOUNT, user=USER))
        if isinstance(reported, Reservations):
            return replace(reported, reservations=self._all_renamed(reported.reservations, name=RESERVATION))
        return reported

    def _all_renamed(self, records: tuple[Record, ...], **kinds: str) -> tuple[Record, ...]:
        """Return records with names hidden; none if names are withheld, since only names identify them."""
        return () if self.mode == WITHHOLD else tuple(self._renamed(each, **kinds) for each in records)

    def _renamed(self, record: Record, **kinds: str) -> Record:
        """Return a record with the names in some fields hidden, empty where withheld: `kinds` by field."""
        shown = {field: self.name(kind, getattr(record, field)) or "" for field, kind in kinds.items()}
        return replace(record, **shown)

    # --- parts of a context -------------------------------------------------------

    def _sample(self, sample: JobSample) -> JobSample:
        path = sample.cgroup
        return replace(
            sample,
            key=self._key(sample.key),
            uid=None,
            cgroup=None if path is None else _UID_IN_PATH.sub(r"\1" + WITHHELD, path),
        )

    def _key(self, key: Key) -> Key:
        """Return the key of a job or other work; a systemd unit's name is hidden: it may contain a user's."""
        if not isinstance(key, UnitKey):
            return key
        hidden: Any = key._replace(name=self.name(UNIT, key.name) or WITHHELD)
        return hidden  # type: ignore[no-any-return]

    def _snapshot(self, snapshot: Snapshot) -> Snapshot:
        samples = [self._sample(each) for each in snapshot.jobs.values()]
        has_units = any(isinstance(key, UnitKey) for key in snapshot.jobs)
        return replace(
            snapshot,
            jobs={each.key: each for each in samples},
            final={key: self._sample(each) for key, each in snapshot.final.items()},
            keys={pid: self._key(key) for pid, key in snapshot.keys.items()} if has_units else snapshot.keys,
            job_gpus=tuple(replace(each, key=self._key(each.key)) for each in snapshot.job_gpus),
            programs={},  # paths have names of users
            commands={key: self._commands(found) for key, found in snapshot.commands.items()},
        )

    def _commands(self, commands: tuple[CommandSample, ...]) -> tuple[CommandSample, ...]:
        """Return commands with hashed names, or their sum as one command if names are withheld."""
        if self.mode == HASH:
            return tuple(
                each if each.command == OTHER else self._renamed(each, command=COMMAND) for each in commands
            )
        if not commands:
            return ()
        return (
            CommandSample(
                command=OTHER,
                cpu_secs=sum(each.cpu_secs for each in commands),
                resident_bytes=sum(each.resident_bytes for each in commands),
                processes=sum(each.processes for each in commands),
            ),
        )


NO_PRIVACY: Final = Privacy()


def make_privacy(config: PrivacySettings) -> Privacy:
    """Return the `Privacy` that the settings describe, with the key read from its file.

    Raises ConfigurationError if names are to be hashed and there is no valid key.
    """
    if config.names != HASH:
        return Privacy(config.names)
    if config.key_file is None:
        raise ConfigurationError(
            "privacy", "hash needs privacy_key_file, such as one made by: head -c 32 /dev/urandom | base64"
        )
    try:
        key = read_private(config.key_file, MAX_KEY_BYTES).strip()
    except (OSError, JobfeaturesError) as error:
        reason = f"{config.key_file}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise ConfigurationError("privacy_key_file", reason) from error
    if len(key) < MIN_KEY_BYTES:
        raise ConfigurationError("privacy_key_file", f"needs {MIN_KEY_BYTES} bytes or more, not {len(key)}")
    return Privacy(HASH, key)
