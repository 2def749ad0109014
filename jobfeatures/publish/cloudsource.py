"""Reads the machine features that a cloud provider publishes, found through its metadata service.

Sources: HSF-TN-2016-02, "Environment variables": "the virtual machine may discover the values to set for the
environment variables from 'machinefeatures' and 'jobfeatures' metadata keys … These metadata keys should only
be accessed once in the lifetime of each virtual machine"; draft 0.99 of 2014 has the same.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection
from typing import Final
from urllib.parse import urlsplit

from jobfeatures.batch.source import PolledSource
from jobfeatures.client import MACHINE, Features, FeaturesError
from jobfeatures.errors import ConfigurationError, Rejected, SourceError
from jobfeatures.features import keys
from jobfeatures.publish.drainstore import MACHINE_FEATURES
from jobfeatures.records.model import JobKey, JobTable, NodeNotice
from jobfeatures.system.clock import Clock
from jobfeatures.system.httpget import Server

NAME: Final = "cloud"
TIMEOUT_SECS: Final = 2.0
MAX_BYTES: Final = 4096
_DECIMAL: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?\Z")
_FORMS: Final = {
    keys.TOTAL_CPU.name: re.compile(r"[1-9][0-9]{0,5}\Z"),
    keys.HS06.name: _DECIMAL,
    keys.GRACE_SECS.name: re.compile(r"[0-9]{1,9}\Z"),
    keys.SHUTDOWNTIME.name: re.compile(r"[0-9]{1,12}\Z"),
}


def checked_address(url: str) -> str:
    """Return a URL unchanged if its host is a link-local IP address, else raise ConfigurationError."""
    parts = urlsplit(url)
    try:
        is_local = ipaddress.ip_address(parts.hostname or "").is_link_local
    except ValueError:
        is_local = False
    if parts.scheme != "http" or not is_local:
        raise ConfigurationError(
            "machine.metadata_url", "must be http:// and a link-local address, such as 169.254.169.254"
        )
    return url


class CloudSource(PolledSource):
    """Polls the cloud provider's machine features. It is used like a source of jobs, but reports none."""

    name = NAME
    is_local = False

    def __init__(self, url: str, clock: Clock, *, location: Callable[[], str | None]) -> None:
        """`location` returns what the metadata said last, even to an earlier daemon; None: never queried."""
        self._server = Server(checked_address(url), max_bytes=MAX_BYTES)
        self._clock = clock
        self._known = location
        self._location: str | None = None

    def poll_jobs(self, seen: Collection[JobKey], claimed: Collection[JobKey] = ()) -> JobTable:
        """Return a table without jobs, with the provider's machine features.

        The arguments, which other sources need, are ignored. Raises SourceError if the provider does not
        answer.
        """
        del seen, claimed
        taken_at_secs = self._clock.now_secs()
        if self._location is None:
            self._location = self._known()
        is_new = self._location is None
        if self._location is None:
            self._location = self._ask()
        try:
            reported, rejected = self._read(self._location) if self._location else ({}, [])
        except SourceError as error:
            if not is_new:
                raise
            reported, rejected = {}, [Rejected(NAME, str(error))]  # the location has to reach the store
        shutdown = reported.pop(keys.SHUTDOWNTIME.name, None)
        notice = NodeNotice(
            shutdowns=() if shutdown is None else (int(shutdown),),
            features={**reported, MACHINE_FEATURES: self._location},
        )
        return JobTable(
            source=NAME,
            jobs={},
            taken_at_secs=taken_at_secs,
            complete=True,
            rejected=tuple(rejected),
            node=notice,
            gone={},
        )

    def _ask(self) -> str:
        """Return the value of the metadata key, empty if the cloud has none."""
        answer = self._server.get(f"/{MACHINE_FEATURES}", timeout_secs=TIMEOUT_SECS)
        text = answer.body.decode("utf-8", "replace").strip()
        if answer.status == 404 or (answer.status == 200 and not text):
            return ""
        if (
            answer.status != 200
            or not text.startswith(("/", "http://", "https://"))
            or not text.isprintable()
        ):
            raise SourceError(
                f"{self._server.name}: HTTP {answer.status}: not a location of machine features"
            )
        return text

    @staticmethod
    def _read(location: str) -> tuple[dict[str, str], list[Rejected]]:
        features = Features(machine=location)
        reported: dict[str, str] = {}
        rejected: list[Rejected] = []
        for name, form in _FORMS.items():
            try:
                text = features.get(MACHINE, name)
            except FeaturesError as error:
                raise SourceError(str(error)) from None
            if text is not None and form.match(text.strip()):
                reported[name] = text.strip()
            elif text is not None:
                rejected.append(Rejected(NAME, "not a value of this key", field=name, text=text[:80]))
        return reported, rejected
