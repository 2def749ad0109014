"""Takes the sockets passed by systemd (socket activation), and descriptors from its file descriptor store.

Source: sd_listen_fds(3), systemd.socket(5), sd_pid_notify_with_fds(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping

from jobfeatures.errors import ConfigurationError

KEY = "web.systemd_socket"
FIRST = 3  # the first descriptor passed
MAX = 64
KEPT = "kept-"  # prefix of the names of stored descriptors
NAMES = ("metrics", "features", "sonar")


def take_sockets(environ: MutableMapping[str, str] | None = None) -> dict[str, list[socket.socket]]:
    """Return the sockets that systemd has passed to this process, by the listener's name.

    The name is that of FileDescriptorName= in the socket unit; an unknown name stands for metrics. Child
    processes inherit neither the sockets nor systemd's environment variables. Raises ConfigurationError if no
    socket is for metrics, or one is not a listening stream socket.
    """
    environ = os.environ if environ is None else environ
    pid, count = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    environ.pop("LISTEN_PIDFDID", None)
    if pid != str(os.getpid()) or not (count.isascii() and count.isdigit()) or not 0 < int(count) <= MAX:
        raise ConfigurationError(
            KEY, "systemd passed no socket: start the .socket unit, or remove this setting"
        )
    found: dict[str, list[socket.socket]] = {}
    for number in range(int(count)):
        name = names[number] if number < len(names) else ""
        if name.startswith(KEPT):
            continue
        taken = _take(FIRST + number, name)
        found.setdefault(name if name in NAMES else NAMES[0], []).append(taken)
    if NAMES[0] not in found:
        raise ConfigurationError(KEY, "systemd passed no socket for metrics, only for other listeners")
    return found


def find_kept(environ: Mapping[str, str] = os.environ) -> dict[str, int]:
    """Return descriptors from systemd's descriptor store by name; child processes do not inherit them."""
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not (count.isascii() and count.isdigit()):
        return {}
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    found = {}
    for number, name in enumerate(names[: min(int(count), MAX)], FIRST):
        if name.startswith(KEPT):
            with contextlib.suppress(OSError):
                os.set_inheritable(number, False)
                found[name.removeprefix(KEPT)] = number
    return found


def _take(descriptor: int, name: str) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)
        taken = socket.socket(fileno=descriptor)
        listens = taken.type == socket.SOCK_STREAM and taken.getsockopt(
            socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        )
    except OSError as error:
        raise ConfigurationError(KEY, f"descriptor {descriptor} ({name}): {error.strerror}") from error
    if not listens:
        taken.detach()
        raise ConfigurationError(
            KEY, f"descriptor {descriptor} ({name}) is not a listening stream socket: use ListenStream="
        )
    taken.setblocking(False)
    return taken
