"""A file that blocks whoever reads it: a file system in user space (FUSE) of one file that never answers.

Speaks the kernel's protocol itself, see linux/fuse.h; needs root and /dev/fuse.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading

INIT, GETATTR, OPEN, READ, RELEASE, FLUSH = 26, 3, 14, 15, 18, 25
MNT_FORCE, MNT_DETACH = 1, 2
IN_HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
OUT_HEADER = struct.Struct("<IiQ")  # length, error, unique
ENOSYS = 38


def why_not() -> str | None:
    """Return why there can be no such file here, None where it can be."""
    if os.geteuid() != 0:
        return "mounting a file system of one's own takes root"
    return None if os.access("/dev/fuse", os.R_OK | os.W_OK) else "there is no /dev/fuse"


class BlockingFile:
    """Stands over the file `path` until `let_go`; reading it blocks until then, and fails after."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._device},rootmode=100444,user_id=0,group_id=0"
        if self._libc.mount(b"blocking", path.encode(), b"fuse", 0, options.encode()) != 0:
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "mount", path)
        self.asked = threading.Event()  # somebody waits
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def let_go(self) -> None:
        """Take the file away; readers get an error."""
        self._libc.umount2(self._path.encode(), MNT_FORCE | MNT_DETACH)  # force: whoever waits is let go
        self._thread.join(5)

    def close(self) -> None:
        """Let go, and close the device."""
        self.let_go()
        os.close(self._device)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 2**17)
            except OSError:
                return
            _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
            if opcode == READ:
                self.asked.set()
                continue  # for ever
            answers = {
                INIT: struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0),
                OPEN: struct.pack("<QII", 0, 1, 0),  # direct I/O
                GETATTR: struct.pack(
                    "<QII6Q3I7I", 0, 0, 0, 1, 4096, 1, 0, 0, 0, 0, 0, 0, 0o100444, 1, 0, 0, 0, 4096, 0
                ),
                RELEASE: b"",
                FLUSH: b"",
            }
            body = answers.get(opcode)
            error = 0 if body is not None else -ENOSYS
            body = body or b""
            try:
                os.write(self._device, OUT_HEADER.pack(OUT_HEADER.size + len(body), error, unique) + body)
            except OSError:
                return
