"""Giving up the rights that loading programs into the kernel takes: CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN."""

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
    """Give up CAP_BPF, CAP_PERFMON and `also` these for good, but `keep` what is needed while we run.

    Of this thread and those that it starts, and of programs that they start.
    `use` tries what has to go on working; kernels before 5.19 may want CAP_BPF for reading too
    (kernel.unprivileged_bpf_disabled), which then is kept. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    effective, permitted, inheritable = _get(libc)
    rights = {CAP_PERFMON, CAP_BPF, *also} - set(keep)
    every = gone = sum(1 << number for number in rights)
    if not permitted & every:
        return
    _set(libc, effective & ~every, permitted, inheritable)
    try:
        use()
    except PermissionError:
        gone &= ~(1 << CAP_BPF)
    for number in rights:
        if gone >> number & 1:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # takes CAP_SETPCAP: it is more than is needed
    _set(libc, effective & ~gone, permitted & ~gone, inheritable & ~gone)
    if gone != every:
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
