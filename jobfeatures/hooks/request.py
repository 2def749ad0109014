"""Defines a hook's request to the daemon: one file of NUL-terminated fields. Pure.

    jobfeatures 1
    publish
    slurm
    SLURM_JOB_ID=1234
    SLURM_JOB_NAME=anything but NUL
    end

A hook is a prolog or epilog that the batch system runs. It writes the file in place, without renaming it: so
the file is complete once it ends with the field ``end``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from jobfeatures.errors import ParseError
from jobfeatures.publish.hookreasons import ACTIONS

MAX_REQUEST_BYTES = 2**20
MAX_VARIABLES = 64
FORMAT = b"jobfeatures 1"
END = b"end"

_VARIABLE = re.compile(rb"([A-Z_][A-Z0-9_]{0,63})=")
_SYSTEM = re.compile(r"[a-z]{1,32}\Z")


class Request(NamedTuple):
    """What a hook asks the daemon to do: `action` is publish or remove.

    `batch_system` is the hook's batch system, such as slurm. `environ` holds the variables that the hook
    passed on from its environment. `reported_at_secs` is when the hook wrote the request, in epoch seconds.
    """

    action: str
    batch_system: str
    environ: Mapping[str, str]
    reported_at_secs: float


def is_finished(data: bytes) -> bool:
    """Return whether `data`, the content of a request's file, ends with the field ``end``."""
    return data.endswith(b"\0" + END + b"\0")


def parse_request(data: bytes, *, reported_at_secs: float, source: str = "") -> Request:
    """Return the request of a hook that `data`, the content of its file, holds.

    `reported_at_secs` is when the hook wrote the file, in epoch seconds. `source` names the file in errors.
    Raises ParseError if the content is malformed, too large, or does not end with the field ``end``.
    """
    head, *fields = data.split(b"\0")
    if len(data) > MAX_REQUEST_BYTES or not is_finished(data):
        raise ParseError("the request is too large or cut off", source=source)
    if head != FORMAT or len(fields) < 4:
        raise ParseError(f"not a request of {FORMAT.decode()}", source=source, text=_text(head[:80]))
    action, batch_system = _text(fields[0]), _text(fields[1])
    if action not in ACTIONS or not _SYSTEM.match(batch_system):
        raise ParseError(
            "must begin with an action and a batch system", source=source, text=f"{action} {batch_system}"
        )
    variables = fields[2:-2]
    if len(variables) > MAX_VARIABLES:
        raise ParseError(f"more than {MAX_VARIABLES} variables", source=source)
    environ: dict[str, str] = {}
    for each in variables:
        name = _VARIABLE.match(each)
        if name is None:
            raise ParseError("not NAME=VALUE", source=source, text=_text(each[:80]))
        environ[name[1].decode("ascii")] = _text(each[name.end() :])
    return Request(action, batch_system, environ, reported_at_secs)


def _text(value: bytes) -> str:
    """Return a field as text, decoded like `os.environ`."""
    return value.decode("utf-8", "surrogateescape")
