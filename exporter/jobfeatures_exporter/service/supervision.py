"""Notifies the service manager of the daemon's state: ready, reloading, alive, stopping. See sd_notify(3).

Standard library only. Without a service manager nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from typing import Any, Protocol

from jobfeatures.batch.source import KeeperStatus
from jobfeatures_exporter.web.sockets import KEPT

log = logging.getLogger(__name__)

SOCKET = "NOTIFY_SOCKET"
WATCHDOG = "WATCHDOG_USEC"
WATCHDOG_PID = "WATCHDOG_PID"
KEEP_SECS = 1.0  # for the service manager to accept a descriptor
TELL_SECS = 30.0  # between two self-checks, unless a watchdog needs them more often


class Supervised(Protocol):
    """A daemon that the service manager supervises."""

    def stalled(self) -> Collection[str]:
        """Return the names of the threads that have died or hang.

        A thread that waits for another program does not hang.
        """

    def summary(self) -> str:
        """Return a one-line status for the administrator."""


class Notifier:
    """Sends messages to the service manager (systemd); none are sent if `address` is None."""

    def __init__(self, address: str | None, watchdog_secs: float | None = None) -> None:
        self._address = address
        self._complained = False
        self.watchdog_secs = watchdog_secs if address is not None else None

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] = os.environ) -> Notifier:
        """Return a notifier for the service manager that systemd's variables in `environ` name, if any.

        The variables are removed, so that child processes cannot notify in our name.
        """
        address = environ.pop(SOCKET, None)
        pid, usecs = environ.pop(WATCHDOG_PID, None), environ.pop(WATCHDOG, "")
        watchdog_secs = None
        if usecs.isascii() and usecs.isdigit() and int(usecs) > 0 and pid in {None, str(os.getpid())}:
            watchdog_secs = int(usecs) / 1e6
        if address is not None and address[:1] not in {"/", "@"}:
            log.warning(
                "the environment variable NOTIFY_SOCKET is invalid, so the service manager is not notified"
            )
            address = None
        return cls(address, watchdog_secs)

    def ready(self, status: str) -> None:
        """Report that the start, or a reload of the settings, is complete.

        `status` is the text that systemctl status shows.
        """
        self._send("READY=1", _status(status))

    def reloading(self) -> None:
        """Report that a reload of the settings has begun; `ready` has to follow."""
        now_usecs = time.monotonic_ns() // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now_usecs}", _status("reading the settings again"))

    def stopping(self) -> None:
        """Report that shutdown has begun."""
        self._send("STOPPING=1", _status("stopping"))

    def alive(self) -> None:
        """Reset the watchdog timer."""
        self._send("WATCHDOG=1")

    def keep(self, descriptors: Mapping[str, int]) -> None:
        """Have the service manager store descriptors, by name, for the next start of the service."""
        for name, number in descriptors.items():
            self._send("FDSTORE=1", f"FDNAME={KEPT}{name}", "FDPOLL=0", descriptor=number)

    def drop(self, names: Iterable[str]) -> None:
        """Have the service manager close the descriptors that it stores by these names."""
        for name in names:
            self._send("FDSTOREREMOVE=1", f"FDNAME={KEPT}{name}")

    def status(self, text: str) -> None:
        """Send the status text that systemctl status shows."""
        self._send(_status(text))

    def _send(self, *lines: str, descriptor: int | None = None) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                # A service manager that does not read must not block us; but storing descriptors takes time.
                sender.settimeout(0.0 if descriptor is None else KEEP_SECS)
                text = "\n".join(lines).encode(errors="replace")
                rights = [] if descriptor is None else [array("i", [descriptor])]
                sender.sendmsg(
                    [text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, each) for each in rights], 0, address
                )
        except OSError as error:
            if not self._complained:  # log only the first failure
                log.warning("cannot send %s to the service manager: %s", lines[0], error)
            self._complained = True
        else:
            self._complained = False


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())


def describe_sources(statuses: Iterable[KeeperStatus[Any]]) -> str:
    """Return the state of each batch source as text."""
    texts = [f"{each.name} {_condition(each)}" for each in statuses]
    return "sources: " + ", ".join(texts) if texts else "no batch system is queried"


def _condition(status: KeeperStatus[Any]) -> str:
    if status.last_error:
        return "fails"
    return "answers" if status.table is not None else "has not answered yet"


def describe_problems(statuses: Iterable[KeeperStatus[Any]], now_secs: float) -> list[str]:
    """Return a line for each source not polled yet, or failing: since when, and its error message."""
    found = []
    for each in statuses:
        failing_secs = each.failing_secs(now_secs)
        if each.last_error:
            since = "" if failing_secs is None else f" for {failing_secs:.0f} s"
            found.append(f"{each.name} has failed{since}: {each.last_error}")
        elif each.table is None:
            found.append(f"{each.name} has not answered yet")
    return found


async def keep_telling(notifier: Notifier, served: Supervised, prefix: Callable[[], str]) -> None:
    """Reset the service manager's watchdog periodically while all threads are alive.

    It runs in the event loop that answers scrapes. If that loop hangs, or a thread has died or hangs, the
    watchdog is not reset, and the service manager restarts the daemon. `prefix` returns the beginning of the
    status line.
    """
    every_secs = min(TELL_SECS, (notifier.watchdog_secs or 2 * TELL_SECS) / 2)
    sent = ""
    complained: tuple[str, ...] = ()
    while True:
        stalled = tuple(sorted(served.stalled()))
        if not stalled:
            if notifier.watchdog_secs is not None:
                notifier.alive()
        elif stalled != complained:
            log.error("threads have died or hang: %s", ", ".join(stalled))
        complained = stalled
        text = f"{prefix()}: {', '.join(stalled)} hangs" if stalled else f"{prefix()}: {served.summary()}"
        if text != sent:
            notifier.status(text)
            sent = text
        await asyncio.sleep(every_secs)
