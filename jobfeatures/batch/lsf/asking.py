"""Runs LSF's commands: one process per query, with bounds on time and size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from jobfeatures.batch.lsf import COMMAND, VARIABLES, LsfSettings
from jobfeatures.batch.lsf.answers import Record, complaints, is_nothing_found, parse_records, unknown_jobs
from jobfeatures.batch.lsf.jobs import BJOBS, FURTHER_FIELDS, PLAIN_FIELDS
from jobfeatures.batch.lsf.limits import parse_limit_unit
from jobfeatures.batch.programs import Programs
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.errors import CommandError, ParseError, Rejected, SourceError, shown
from jobfeatures.system.clock import Clock
from jobfeatures.system.command import first_line
from jobfeatures.system.privatefile import opened

MAX_ANSWER_BYTES = 64 * 2**20
MAX_CONFIGURATION_BYTES = 2**20


class Output(NamedTuple):
    """A command's standard output, the messages on its standard error, and its exit status."""

    stdout: str
    complaints: tuple[str, ...]
    status: int


class LsfCommands:
    """Runs LSF's commands as they are installed at a site.

    If `lsf.user` is set, they run as that user: newer fix packs of 10.1 deny root most of them unless
    LSF_ROOT_USER=Y. `timeout_secs` limits each command.

    bjobs is asked for PLAIN_FIELDS and FURTHER_FIELDS. If that fails, it is asked only for PLAIN_FIELDS until
    `batch.refresh` has passed.
    """

    def __init__(
        self,
        config: SystemSettings[LsfSettings],
        clock: Clock,
        timeout_secs: float,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._clock = clock
        self._refresh_secs = config.common.refresh_secs
        self._plain_until_secs = 0.0  # monotonic: until then only plain fields are requested
        user = config.own.user
        self._programs = Programs(
            COMMAND,
            config.own.bjobs,
            timeout_secs,
            kept=VARIABLES,
            prefix=() if user is None else ("runuser", "-u", user, "--"),
            max_bytes=max_bytes,
            # The first overrides lsf.conf: limits with their host. bjobs prints times in its own zone.
            environment={"LSB_HMS_TIME_FORMAT": "N", "TZ": "UTC0"},
        )

    def run(self, name: str, *arguments: str) -> Output:
        """Run a command and return its output, whatever its exit status.

        Raises CommandError if it cannot be started, takes too long or prints too much.
        """
        output = self._programs.run(name, *arguments)
        return Output(
            output.stdout.decode("utf-8", "replace"),
            tuple(complaints(output.stderr.decode("utf-8", "replace"))),
            output.status,
        )

    def text(self, name: str, *arguments: str) -> str:
        """Return a command's output. Raises SourceError if it fails or prints nothing."""
        output = self.run(name, *arguments)
        if output.status != 0 or not output.stdout.strip():
            raise SourceError(_refusal(name, output))
        return output.stdout

    def records(
        self, name: str, fields: Sequence[str], *arguments: str, remarks: list[Rejected] | None = None
    ) -> list[Record]:
        """Return the records that the command `name` prints with ``-o FIELDS -json``.

        If the command also wrote to standard error, records may be missing: a Rejected that says so is
        appended to `remarks`. Raises SourceError if the command prints no records.
        """
        output = self.run(name, "-o", " ".join(fields), "-json", *arguments)
        try:
            found = parse_records(output.stdout, source=name)
        except ParseError as error:
            if not output.stdout.strip():
                raise SourceError(_refusal(name, output)) from None
            raise SourceError(str(error)) from error
        _add_complaint(remarks, name, output)
        return found

    def jobs(
        self, *arguments: str, is_proof: bool = False, remarks: list[Rejected] | None = None
    ) -> list[Record]:
        """Return the records that bjobs prints. Raises SourceError if it does not print records.

        If bjobs also writes to standard error something other than that a job is unknown, jobs may be
        missing: a Rejected that says so is appended to `remarks`. With `is_proof`, for callers that take a
        missing job as ended, this raises SourceError instead.
        """
        now_secs = self._clock.monotonic_secs()
        if now_secs >= self._plain_until_secs:
            try:
                return self._jobs((*PLAIN_FIELDS, *FURTHER_FIELDS), arguments, remarks, is_proof=is_proof)
            except CommandError:
                raise
            except SourceError:
                # A field unknown to this version, or a user's text that breaks the JSON.
                records = self._jobs(PLAIN_FIELDS, arguments, remarks, is_proof=is_proof)
                self._plain_until_secs = now_secs + self._refresh_secs
                return records
        return self._jobs(PLAIN_FIELDS, arguments, remarks, is_proof=is_proof)

    def _jobs(
        self,
        fields: Sequence[str],
        arguments: Sequence[str],
        remarks: list[Rejected] | None,
        *,
        is_proof: bool,
    ) -> list[Record]:
        output = self.run(BJOBS, "-o", " ".join(fields), "-json", *arguments)
        try:
            records = parse_records(output.stdout, source=BJOBS)
        except ParseError as error:
            if is_nothing_found(output.stdout, output.complaints):
                return []
            if not output.stdout.strip() and unknown_jobs(output.complaints):
                return []
            why = f": {output.complaints[0]}" if output.complaints else ""
            raise SourceError(f"{error} (exit status {output.status}){why[:200]}") from error
        is_foreign = unknown_jobs(output.complaints) is None and not is_nothing_found("", output.complaints)
        if is_proof and is_foreign:
            raise SourceError(f"{BJOBS}: {output.complaints[0][:200]}")
        if is_foreign:
            _add_complaint(remarks, BJOBS, output)
        return records


def _add_complaint(remarks: list[Rejected] | None, name: str, output: Output) -> None:
    if remarks is not None and output.complaints:
        remarks.append(Rejected(name, f"standard error says {shown(output.complaints[0])}"))


def _refusal(name: str, output: Output) -> str:
    remarks = shown(output.complaints[0]) if output.complaints else first_line(output.stdout.encode())
    return f"{name}: no answer (exit status {output.status}): {remarks}"


def read_limit_unit() -> str:
    """Return LSF_UNIT_FOR_LIMITS of lsf.conf, such as MB; K, LSF's default, if the file is unreadable."""
    path = os.path.join(os.environ.get("LSF_ENVDIR", "/etc"), "lsf.conf")
    try:
        with opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) as file:
            content = os.read(file, MAX_CONFIGURATION_BYTES)
    except OSError:
        return "K"
    return parse_limit_unit(content.decode("utf-8", "replace"))
