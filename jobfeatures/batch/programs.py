"""The commands of a batch system: the one that a setting names, and others in the same directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobfeatures.system.command import CommandOutput, ask_command, run_command

MAX_ANSWER_BYTES = 512 * 2**20  # about a whole cluster: a queue of a million jobs is about 300 MB


class Programs:
    """Runs a batch system's commands, one process per query, all with the same limits; see `run_command`."""

    def __init__(self, command: str, name: str, *, prefix: Sequence[str] = (), **bounds: Any) -> None:
        """`command` is how the site calls the command `name`; `prefix` is put before every command line."""
        self._command = command
        self._name = name
        self._prefix = prefix
        self._bounds = {"max_bytes": MAX_ANSWER_BYTES, **bounds}

    def path(self, name: str) -> str:
        """Return a command's path, or its name where PATH is searched."""
        return self._command if name == self._name else f"{self._command.removesuffix(self._name)}{name}"

    def run(self, name: str, *arguments: str, **more: Any) -> CommandOutput:
        """Run a command; checking its exit status is up to the caller. Raises CommandError."""
        return run_command([*self._prefix, self.path(name), *arguments], **{**self._bounds, **more})

    def ask(self, name: str, *arguments: str, **more: Any) -> str:
        """Return the output of a command that has to succeed. Raises SourceError."""
        return ask_command([*self._prefix, self.path(name), *arguments], **{**self._bounds, **more})
