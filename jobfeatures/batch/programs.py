"""The commands of a batch system: the one that a setting names, and those that lie beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobfeatures.command import CommandOutput, ask_command, run_command


class Programs:
    """Runs them, one process a question, all within the same bounds: see `run_command`."""

    def __init__(self, command: str, name: str, *, prefix: Sequence[str] = (), **bounds: Any) -> None:
        """`command` is how a site calls the one of this name; `prefix` stands before all of them."""
        self._command = command
        self._name = name
        self._prefix = prefix
        self._bounds = bounds

    def path(self, name: str) -> str:
        """Return how a command is called."""
        return self._command if name == self._name else f"{self._command.removesuffix(self._name)}{name}"

    def run(self, name: str, *arguments: str, **more: Any) -> CommandOutput:
        """Run a command; a bad exit status is the caller's to judge. Raises CommandError."""
        return run_command([*self._prefix, self.path(name), *arguments], **{**self._bounds, **more})

    def ask(self, name: str, *arguments: str, **more: Any) -> str:
        """Return what a command prints that has to end well. Raises SourceError."""
        return ask_command([*self._prefix, self.path(name), *arguments], **{**self._bounds, **more})
