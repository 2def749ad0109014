"""Drops the capabilities needed to load programs into the kernel: CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection
from struct import Struct

CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF = 12, 38, 39
_HEADER, _DATA = Struct("=Ii"), Struct("=6I")
_VERSION = 0x20080522
_PR_CAPBSET_DROP = 24


def give_up_rights(use: Callable[[], object], also: Collection[int] = (), keep: Collection[int] = ()) -> None:
    """Drop CAP_BPF, CAP_PERFMON and the capabilities in `also`, except those in `keep`.

    They are dropped in the calling thread, and for all threads and programs that it starts later. `use` is
    then called to check that reading still works. If it fails, CAP_BPF is kept: kernels before 5.19 may
    require it for reading too (kernel.unprivileged_bpf_disabled). Raises OSError if the capabilities cannot
    be changed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    effective, permitted, inheritable = _get(libc)
    rights = {CAP_PERFMON, CAP_BPF, *also} - set(keep)
    every = dropped = sum(1 << number for number in rights)
    if not permitted & every:
        return
    _set(libc, effective & ~every, permitted, inheritable)
    try:
        use()
    except PermissionError:
        dropped &= ~(1 << CAP_BPF)
    for number in rights:
        if dropped >> number & 1:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # needs CAP_SETPCAP; without it the rest suffices
    _set(libc, effective & ~dropped, permitted & ~dropped, inheritable & ~dropped)
    if dropped != every:
        use()


def _get(libc: ctypes.CDLL) -> tuple[int, int, int]:
    data = ctypes.create_string_buffer(_DATA.size)
    _check(libc.capget(_HEADER.pack(_VERSION, 0), data))
    words = _DATA.unpack(data.raw)
    effective, permitted, inheritable = (words[each] | words[each + 3] << 32 for each in range(3))
    return effective, permitted, inheritable


def _set(libc: ctypes.CDLL, *sets: int) -> None:
    words = [each & 0xFFFFFFFF for each in sets] + [each >> 32 for each in sets]
    _check(libc.capset(_HEADER.pack(_VERSION, 0), _DATA.pack(*words)))


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
