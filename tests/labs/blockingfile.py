"""Files that block whoever reads them, or make him wait: file systems in user space (FUSE) of one file.

Speaks the kernel's protocol itself, see linux/fuse.h; needs root and /dev/fuse.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time

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

    OPENED = struct.pack("<QII", 0, 1, 0)  # direct I/O
    SIZE = 4096
    FLAGS = 0

    def __init__(self, path: str) -> None:
        self.path = path
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
        self._libc.umount2(self.path.encode(), MNT_FORCE | MNT_DETACH)  # force: whoever waits is let go
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
                self._answer_read(unique, struct.unpack_from("<I", request, IN_HEADER.size + 16)[0])
                continue
            answers = {
                INIT: struct.pack("<IIIIHHIIHHI28x", 7, 31, 4096, self.FLAGS, 1, 1, 4096, 1, 0, 0, 0),
                OPEN: self.OPENED,
                GETATTR: struct.pack(
                    "<QII6Q3I7I", 0, 0, 0, 1, self.SIZE, 1, 0, 0, 0, 0, 0, 0, 0o100444, 1, 0, 0, 0, 4096, 0
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

    def _answer_read(self, unique: int, size: int) -> None:
        """Never answer."""


class SlowFile(BlockingFile):
    """Answers each read after a while, through the page cache: what a busy file server does to its users."""

    OPENED = struct.pack("<QII", 0, 0, 0)
    SIZE = 2**30
    FLAGS = 1  # reads do not wait for each other: readers wait for the page cache, as with other file systems
    DELAY_SECS = 0.02

    def _answer_read(self, unique: int, size: int) -> None:
        time.sleep(self.DELAY_SECS)
        os.write(self._device, OUT_HEADER.pack(OUT_HEADER.size + size, 0, unique) + bytes(size))
