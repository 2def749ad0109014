"""Opens a listener on an address or on inherited sockets."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Sequence

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.http.connections import Connections

Where = str | Sequence[socket.socket]  # HOST:PORT, or sockets that listen already
BACKLOG = 1024
AT_ONCE = 32  # connections accepted per turn, before one can be closed: bounds a flood's use of descriptors
END_SECS = 5.0  # for clients that have just connected: on a loaded node their request may take that long
ANY = "::"
HINTS = {
    errno.EAFNOSUPPORT: "; has this machine IPv6? :PORT is for all its addresses",
    errno.EADDRINUSE: "; stop what listens there, or choose another port with {flag}",
    errno.EACCES: "; ports below 1024 need root or CAP_NET_BIND_SERVICE",
    errno.EADDRNOTAVAIL: "; it is not an address of this machine",
}


@contextlib.asynccontextmanager
async def accepting(connections: Connections, where: Where, *, key: str) -> AsyncIterator[str]:
    """Accept connections during the `with` block; yield the first address that is listened on.

    `where` is an address, or sockets that listen already; `key` is the setting that errors name. Raises
    ConfigurationError if the address cannot be bound.
    """
    listeners: list[asyncio.Server] = []
    watching = asyncio.create_task(connections.table.watch())
    try:
        try:
            await _open(connections, where, listeners)
        except OSError as error:
            reported = where if isinstance(where, str) else "an inherited socket"
            raise ConfigurationError(key, f"cannot listen on {reported}: {_reason(error, key)}") from error
        yield address_of(listeners[0].sockets[0])
    finally:
        watching.cancel()
        loop = asyncio.get_running_loop()
        for bound in _sockets_of(listeners):
            loop.remove_reader(bound.fileno())
        await asyncio.sleep(0)  # asyncio resets connections accepted in the turn in which the server closes
        for each in listeners:
            each.close()
        await connections.shutdown(END_SECS)
        await asyncio.gather(watching, return_exceptions=True)


async def _open(connections: Connections, where: Where, listeners: list[asyncio.Server]) -> None:
    loop = asyncio.get_running_loop()
    at_once = min(AT_ONCE, connections.table.most)
    if isinstance(where, str):
        host, _, port = where.rpartition(":")
        host = host.strip("[]")
        if host == ANY:
            where = [_open_any(int(port))]
        else:
            listeners.append(await loop.create_server(connections, host or None, int(port), backlog=at_once))
    for each in where if not isinstance(where, str) else ():
        listeners.append(await loop.create_server(connections, sock=each, backlog=at_once))
    if not any(_sockets_of(listeners)):  # asyncio skips a family that the kernel does not have
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    for bound in _sockets_of(listeners):
        with socket.fromfd(bound.fileno(), bound.family, bound.type) as same:
            same.listen(BACKLOG)


def _open_any(port: int) -> socket.socket:
    """Return a socket for all addresses of both families, as other programs mean ``[::]``. Raises OSError."""
    both = socket.has_dualstack_ipv6()
    return socket.create_server((ANY, port), family=socket.AF_INET6, dualstack_ipv6=both)


def _sockets_of(listeners: list[asyncio.Server]) -> list[socket.socket]:
    return [each for listener in listeners for each in listener.sockets]


def _reason(error: OSError, key: str) -> str:
    """Return what is wrong and what to do about it."""
    if isinstance(error, socket.gaierror):
        return f"no such host: {error.strerror}"
    # Since Python 3.13 asyncio sets no errno if none of a host's addresses belongs to this machine.
    code = error.errno or errno.EADDRNOTAVAIL
    return os.strerror(code) + HINTS.get(code, "").format(flag=f"--{key.replace('_', '-')}")


def address_of(opened: socket.socket) -> str:
    """Return HOST:PORT of a socket, or the path of a Unix socket."""
    bound = opened.getsockname()
    if not isinstance(bound, tuple):
        return str(bound)
    return f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
