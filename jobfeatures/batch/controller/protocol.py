"""What nodes and the controller role exchange: a node's token, and a `JobTable` as JSON lines. Pure.

A token can only be made with the site's secret: it is base64url(HMAC-SHA256(secret, label + name)), RFC 2104,
RFC 4648 section 5. So no list of nodes has to be stored, and a leaked token gives access to the answers for
that one node only.

The first line of an answer describes the answer and the node; each further line is a job, in the same format
as the record that a prolog stores (`jobfeatures.jobs.jobrecords`). HTTP headers carry the times: ``Age`` is
the age of the answer in seconds, as the clocks of the two machines may differ. ``Batch-Clock`` (epoch
seconds) is the batch system's time when the answer is made, as job start and end times follow that clock.
Sample::

    {"batch_system": "slurm", "complete": true, "problem": "", "node": {"draining": false,
     "shutdowns": [1795257191], "cpus": 128}, "node_problem": ""}
    {"batch_system": "slurm", "job_id": "12", "state": "RUNNING", …}
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from jobfeatures.errors import ParseError
from jobfeatures.jobs.jobrecords import format_record, parse_record
from jobfeatures.records.jsontext import parse_object
from jobfeatures.records.model import Job, JobKey, JobTable, NodeNotice

_SOURCE = "controller role"
MAX_PROBLEM_CHARACTERS = 300
CLOCK_HEADER = "Batch-Clock"
CLOCK_RESOLUTION_SECS = 0.001
_CLOCK = re.compile(r"[0-9]{1,11}\.[0-9]{3}", re.ASCII)

MIN_SECRET_BYTES = 32
MAX_SECRETS = 4
MAX_FILE_BYTES = 4096
_LABEL = b"jobfeatures node token 1\n"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def format_answer(table: JobTable, problem: str = "") -> str:
    """Return the text of an answer to a node: `table` as JSON lines.

    `problem` says why the batch system could not be queried since `table` was made; "" if it could. With a
    problem, the answer is marked incomplete.
    """
    notice = table.node
    head = {
        "batch_system": table.source,
        "complete": table.complete and not problem,
        "problem": problem[:MAX_PROBLEM_CHARACTERS],
        "node": None
        if notice is None
        else {"draining": notice.draining, "shutdowns": notice.shutdowns, "cpus": notice.cpus},
        "node_problem": table.node_problem[:MAX_PROBLEM_CHARACTERS],
    }
    jobs = sorted(table.jobs.values(), key=lambda job: job.key)
    return json.dumps(head) + "\n" + "".join(map(format_record, jobs))


def parse_answer(text: str, *, taken_at_secs: float) -> tuple[JobTable, str]:
    """Return the job table in an answer of the controller role, and the answer's problem ("" if none).

    `taken_at_secs` is the epoch time of the batch system's query. Raises ParseError if any line is malformed,
    as jobs would be missing.
    """
    first, _, rest = text.partition("\n")
    if not text.endswith("\n"):
        raise ParseError("answer is cut off", source=_SOURCE, text=text[-80:])
    head = parse_object(first, source=_SOURCE, line=1)
    jobs: dict[JobKey, Job] = {}
    system = _typed(head, "batch_system", str)
    for line in rest.splitlines():
        job = parse_record(line, source=_SOURCE).job
        if job.key.batch_system != system or job.key in jobs:
            raise ParseError("the job is of another batch system or occurs twice", source=_SOURCE, text=line)
        jobs[job.key] = job
    table = JobTable(
        source=system,
        jobs=jobs,
        taken_at_secs=taken_at_secs,
        complete=_typed(head, "complete", bool),
        node=_notice(head.get("node")),
        node_problem=_typed(head, "node_problem", str),
    )
    return table, _typed(head, "problem", str)


def format_clock(clock_secs: float) -> str:
    """Return the value of the ``Batch-Clock`` header: epoch seconds, rounded down."""
    return f"{math.floor(clock_secs * 1000) / 1000:.3f}"


def parse_clock(text: str | None) -> float | None:
    """Return the epoch time in the ``Batch-Clock`` header; None if it is missing or malformed."""
    return float(text) if text is not None and _CLOCK.fullmatch(text) else None


def _typed(document: dict[str, Any], name: str, kind: type) -> Any:
    value = document.get(name)
    if type(value) is not kind:
        raise ParseError(f"must be of type {kind.__name__}", source=_SOURCE, field=name, text=str(value))
    return value


def _notice(found: Any) -> NodeNotice | None:
    if found is None:
        return None
    shutdowns, cpus = (found.get("shutdowns"), found.get("cpus")) if isinstance(found, dict) else (None, None)
    if not isinstance(shutdowns, list) or not all(
        type(each) is int for each in (*shutdowns, 0 if cpus is None else cpus)
    ):
        raise ParseError("malformed description of a node", source=_SOURCE, field="node", text=str(found))
    return NodeNotice(_typed(found, "draining", bool), tuple(shutdowns), cpus)


def parse_secrets(content: bytes, source: str) -> tuple[bytes, ...]:
    """Return the 1 to 4 secrets in a file, one per line, each of at least 32 bytes; the first signs tokens.

    `source` names the file in errors. Raises ParseError for any other content.
    """
    found = [line.strip() for line in content.splitlines() if line.strip()]
    for number, secret in enumerate(found, 1):
        if len(secret) < MIN_SECRET_BYTES:
            raise ParseError(
                f"a secret needs at least {MIN_SECRET_BYTES} bytes; make one by: openssl rand -hex 32",
                source=source,
                line=number,
            )
    if not 0 < len(found) <= MAX_SECRETS:
        raise ParseError(f"must have 1 to {MAX_SECRETS} secrets, not {len(found)}", source=source)
    return tuple(found)


def parse_token(content: bytes, source: str) -> str:
    """Return the token in a node's token file. Raises ParseError, whose message omits the content."""
    token = content.decode("ascii", "replace").strip()
    if _TOKEN.fullmatch(token) is None:
        raise ParseError("must be a token as printed by jobfeatures-exporter node-token", source=source)
    return token


def make_token(secret: bytes, node_name: str) -> str:
    """Return the token of a node, made with a secret of the site."""
    made = hmac.digest(secret, _LABEL + node_name.encode("ascii"), hashlib.sha256)
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode("ascii")


def is_token(given: str, node_name: str, secrets: Iterable[bytes]) -> bool:
    """Return whether the token `given` is valid for this node under any of the secrets, in constant time."""
    text = given.encode("utf-8", "replace")
    right = [hmac.compare_digest(text, make_token(each, node_name).encode("ascii")) for each in secrets]
    return any(right)
