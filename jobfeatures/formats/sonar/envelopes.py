"""Makes the parts that all envelopes in Sonar's format have: producer, time and errors.

Source: Sonar, NEW-FORMAT.md, and what Sonar sends. `current` is the format of Sonar 0.18, `seed` that of
0.13.

`meta.version` is the version of the format, not of this exporter: consumers compare it with Sonar's versions
to tell formats apart, and treat any below 0.7 as an old format. The exporter's version is the attribute
`exporter_version`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

from jobfeatures import __version__
from jobfeatures.formats.sonar import CURRENT, SEED

PRODUCER = "jobfeatures-exporter"
FORMAT_VERSIONS = {CURRENT: "0.18.0", SEED: "0.13.0"}
SAMPLE, SYSINFO, JOBS, CLUSTER = "sample", "sysinfo", "job", "cluster"
TYPES = (SAMPLE, SYSINFO, JOBS, CLUSTER)
MAX_DETAIL_CHARACTERS = 1000

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The values that all documents of one exporter have in common: its cluster, its node, and options.

    `profile` is the version of the format. `token` is a secret that proves that the producer may report for
    the cluster. `zone` is the time zone of timestamps (None: local). `attributes` say how the data were
    collected.
    """

    cluster: str
    node: str
    profile: str = CURRENT
    token: str = field(default="", repr=False)  # proves that the producer may report for the cluster
    zone: tzinfo | None = None  # of timestamps; None: the local zone
    attributes: Mapping[str, str] = field(default_factory=dict)  # how the data were collected


def timestamp(secs: float, zone: tzinfo | None = None) -> str:
    """Format seconds since the epoch as ``2026-01-31T13:00:00+01:00``, with ``Z`` for UTC."""
    text = datetime.fromtimestamp(int(secs), UTC).astimezone(zone).isoformat(timespec="seconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def extended(value: int | None) -> int:
    """Return a number or None as Sonar's specification encodes it: 0 for None (unset), else the number + 2.

    Sonar itself adds only 1 to a GPU's performance state.
    """
    return 0 if value is None else value + 2


def without_defaults(fields: Mapping[str, Any]) -> Document:
    """Return the fields whose values are not None, zero, empty or false; Sonar does not send those either."""
    return {name: value for name, value in fields.items() if value}


def data_envelope(origin: Origin, data_type: str, attributes: Document) -> Document:
    """Return an envelope around `attributes`, which are data of the type `data_type`, such as ``sysinfo``."""
    return {"meta": _meta(origin), "data": {"type": data_type, "attributes": attributes}}


def error_envelope(origin: Origin, detail: str, now_secs: float) -> Document:
    """Return an envelope that holds an error, described by `detail`, instead of data."""
    return {"meta": _meta(origin), "errors": [error(origin, detail, now_secs)]}


def error(origin: Origin, detail: str, now_secs: float) -> Document:
    """Return one error object, as it is in an error envelope; `detail` is its text.

    Data that are valid but incomplete may hold such objects among their attributes.
    """
    return {
        "time": timestamp(now_secs, origin.zone),
        "detail": unicode_text(detail)[:MAX_DETAIL_CHARACTERS] or "unknown error",
        "cluster": origin.cluster,
        "node": origin.node,
    }


def unicode_text(text: str) -> str:
    """Return a text in which undecodable bytes (surrogate escapes), as in names, are replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _meta(origin: Origin) -> Document:
    attributes = {"exporter_version": __version__, **origin.attributes}
    meta = {
        "producer": PRODUCER,
        "version": FORMAT_VERSIONS[origin.profile],
        "attrs": [{"key": key, "value": value} for key, value in attributes.items()],
    }
    return {**meta, "token": origin.token} if origin.token else meta
