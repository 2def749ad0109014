"""Appends documents to files in a tree of folders, as Sonar and its consumers lay it out.

    yyyy/mm/dd/0+sample-NODE.json    0+sysinfo-NODE.json    0+job-slurm.json    0+cluzter-slurm.json

The day is the UTC day on which the document was made, 0 is the format's version, and documents are appended,
one per line. Trees of several nodes can be merged by copying.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import UTC, datetime

from jobfeatures.errors import ConfigurationError, SinkError
from jobfeatures.formats.sonar.envelopes import CLUSTER, JOBS, SAMPLE, SYSINFO
from jobfeatures.publish.files import DIRECTORY
from jobfeatures.system.privatefile import closing, opened
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sinks.message import Message, Sink

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\Z")


class TreeSink(Sink):
    """Appends documents to files below one folder, where it follows no link."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def send(self, message: Message) -> None:
        """Append one line, in one write if possible: several nodes may share the folder."""
        try:
            self._append(message)
        except OSError as error:
            raise SinkError(f"{self._directory}: cannot be written: {error.strerror}") from error

    def _append(self, message: Message) -> None:
        day = datetime.fromtimestamp(message.made_at_secs, UTC)
        os.makedirs(self._directory, mode=0o755, exist_ok=True)
        folder = os.open(self._directory, DIRECTORY)
        for name in (f"{day:%Y}", f"{day:%m}", f"{day:%d}"):
            with closing(folder):
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
                below = os.open(name, DIRECTORY, dir_fd=folder)
            folder = below
        with closing(folder), opened(file_name(message.kind, message.node), _APPEND, folder, 0o644) as file:
            size = os.fstat(file).st_size
            data = message.body + b"\n"
            written = os.write(file, data)
            if written < len(data):  # disk full: half a document would also break the next one
                os.ftruncate(file, size)
                raise SinkError(f"{self._directory}: only {written} of {len(data)} bytes could be written")


def file_name(kind: str, node: str) -> str:
    """Return the name of the file for documents of a kind about a node, such as ``0+sample-c1.json``.

    Documents about the cluster share one name, such as ``0+job-slurm.json``.
    """
    names = {SAMPLE: "sample", SYSINFO: "sysinfo", JOBS: "job", CLUSTER: "cluzter"}
    if kind in {JOBS, CLUSTER}:
        return f"0+{names[kind]}-slurm.json"
    if not _NODE.match(node):
        raise SinkError(f"node name {node!r} cannot be part of a file name", is_final=True)
    return f"0+{names[kind]}-{node}.json"


def make_sink(config: SinksSettings) -> TreeSink:
    """Return the sink. Raises ConfigurationError without a folder."""
    if config.tree_directory is None:
        raise ConfigurationError("sonar.tree_directory", "must be set, because sonar.sinks names tree")
    return TreeSink(config.tree_directory)
