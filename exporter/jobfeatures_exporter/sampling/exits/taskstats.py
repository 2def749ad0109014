"""Receives the kernel's exit records by netlink. Needs CAP_NET_ADMIN in the initial namespaces."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Mapping

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import Unreadable, read_file
from jobfeatures_exporter.sampling.exits.exitcounts import ExitAccount
from jobfeatures_exporter.sampling.exits.exitrecords import (
    CTRL,
    CTRL_ATTR_FAMILY_NAME,
    CTRL_GET_FAMILY,
    ERROR,
    GET,
    REGISTER_CPUMASK,
    ExitRecord,
    make_message,
    parse_error_code,
    parse_exits,
    parse_family,
    split_messages,
)
from jobfeatures_exporter.sampling.processes.accumulate import CpuTicks
from jobfeatures_exporter.sampling.processes.attributor import Key
from jobfeatures_exporter.snapshot import ProcessSample

log = logging.getLogger(__name__)

NETLINK_GENERIC = 16
SO_RCVBUFFORCE = 33  # may exceed net.core.rmem_max, with the same capability
BUFFER_BYTES = 16 * 2**20  # the kernel doubles it, and allocates memory only for waiting records
ANSWER_SECS = 2.0
_READ_BYTES = 65536


class ExitRecords:
    """Exits on all processors: fetched before the processes are sampled, and counted afterwards.

    For use by one thread. The last tick of a process is in no record.
    """

    def __init__(self, unreadable: Unreadable) -> None:
        """Subscribe. Raises OSError if the kernel does not support or allow it, ParseError."""
        self._unreadable = unreadable
        self._account: ExitAccount[Key] = ExitAccount()
        self._records: list[ExitRecord] = []
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_GENERIC
        )
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
            self._socket.bind((0, 0))
            self._socket.settimeout(ANSWER_SECS)
            answer = self._ask(make_message(CTRL, CTRL_GET_FAMILY, CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0"))
            self._family = parse_family(answer)
            processors = read_file("/sys/devices/system/cpu/possible").strip()
            self._ask(make_message(self._family, GET, REGISTER_CPUMASK, processors + b"\0"))
            self._socket.setblocking(False)
        except BaseException:
            self._socket.close()
            raise

    def close(self) -> None:
        """Unsubscribe."""
        self._socket.close()

    def drain(self) -> list[ExitRecord]:
        """Return the records since the last call. Overflows and garbled messages are counted."""
        records: list[ExitRecord] = []
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return records
            except OSError as error:
                self._unreadable.add("exit_records", error)
                if error.errno != errno.ENOBUFS:  # ENOBUFS: some records were lost, others are waiting
                    return records
                continue
            try:
                for message_type, content in split_messages(data):
                    if message_type == self._family:
                        records += parse_exits(content)
            except ParseError as error:
                self._unreadable.add("exit_records", error)

    @property
    def results(self) -> Mapping[str, int]:
        """Return the number of records since our start, by result."""
        return self._account.results

    def take(self) -> None:
        """Fetch the records of processes that have ended before the coming sample."""
        self._records = self.drain()

    def update(
        self,
        processes: Mapping[int, ProcessSample],
        keys: Mapping[int, Key],
        ticks: Mapping[Key, CpuTicks],
        *,
        boot_time_secs: float | None,
    ) -> Mapping[Key, CpuTicks]:
        """Return `ticks`, raised where the records show more; see `ExitAccount.update`."""
        if not self._account.has_started:
            self.drain()  # processes that ended during the first sample are in it already
        of_jobs = set(keys.values())
        reported = self._account.update(
            self._records,
            processes,
            keys,
            {key: each for key, each in ticks.items() if key in of_jobs},
            boot_time_secs=boot_time_secs,
        )
        return {**ticks, **reported}

    def _ask(self, message: bytes) -> bytes:
        """Return the content of the reply, empty if there is only an acknowledgement."""
        self._socket.send(message)
        answer = b""
        while True:
            for message_type, content in split_messages(self._socket.recv(_READ_BYTES)):
                if message_type != ERROR:
                    answer = answer or content
                    continue
                if code := parse_error_code(content):
                    raise OSError(code, os.strerror(code), "TASKSTATS")
                return answer


def subscribe(unreadable: Unreadable) -> ExitRecords | None:
    """Return the records; None if the kernel does not support or allow it, which is logged and counted."""
    try:
        return ExitRecords(unreadable)
    except (OSError, ParseError) as error:
        unreadable.add("exit_records", error)
        log.warning("no exit records of processes: %s", error)
        return None
