"""Runs the commands of a batch system: the one that a setting names, and others in the same directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobfeatures.errors import Rejected
from jobfeatures.system.command import CommandOutput, ask_command, checked, first_line, run_command

MAX_ANSWER_BYTES = 512 * 2**20  # about a whole cluster: a queue of a million jobs is about 300 MB


class Programs:
    """Runs the commands of one batch system: one process per query, all with the same timeout and limits."""

    def __init__(
        self,
        setting: str,
        command: str,
        timeout_secs: float,
        *,
        kept: Sequence[str] = (),
        prefix: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """`command` is the value of a `setting`, such as ``slurm.scontrol``: scontrol's name or path.

        Commands get our environment variables `kept`; `prefix` begins each command line.
        """
        self._command = command
        self._name = setting.partition(".")[2]
        self._prefix = prefix
        bounds = {"timeout_secs": timeout_secs, "max_bytes": MAX_ANSWER_BYTES, "kept": kept}
        self._bounds = {**bounds, **more}

    def path(self, name: str) -> str:
        """Return the path of the command `name`, in the directory of the configured command.

        It is `name` itself if the configured command has no directory, so that PATH is searched.
        """
        return self._command if name == self._name else f"{self._command.removesuffix(self._name)}{name}"

    def run(self, name: str, *arguments: str, **more: Any) -> CommandOutput:
        """Run the command `name` and return its output, whatever its exit status.

        `more` are options of `run_command`, such as `timeout_secs`. Raises CommandError if it does not start,
        takes too long or prints too much.
        """
        return run_command([*self._prefix, self.path(name), *arguments], **{**self._bounds, **more})

    def ask(self, name: str, *arguments: str, **more: Any) -> str:
        """Return what the command `name` prints on standard output. Raises SourceError if it fails.

        `more` are options of `run_command`, such as `timeout_secs`.
        """
        return ask_command([*self._prefix, self.path(name), *arguments], **{**self._bounds, **more})

    def run_with_complaints(
        self, name: str, *arguments: str, **more: Any
    ) -> tuple[str, tuple[Rejected, ...]]:
        """Run the command `name`; return its standard output, and a Rejected if it wrote to standard error.

        In that case a part of the output may be missing. Raises SourceError if the command fails.
        """
        output = checked(self.path(name), self.run(name, *arguments, **more))
        complaints = (
            (Rejected(name, f"standard error says {first_line(output.stderr)}"),)
            if output.stderr.strip()
            else ()
        )
        return output.stdout.decode("utf-8", "replace"), complaints
