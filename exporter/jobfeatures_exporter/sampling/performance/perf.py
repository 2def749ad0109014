"""Counters of the kernel's perf subsystem, for one control group on one CPU: perf_event_open(2)."""

from __future__ import annotations

import ctypes
import errno
import os
from struct import Struct

from jobfeatures_exporter.sampling.performance.events import Event

# System call numbers by machine, see syscall(2); other machines are not supported.
_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
# Type, size, config, period, kinds of samples, format, flags, wakeup, breakpoint: PERF_ATTR_SIZE_VER0.
_ATTRIBUTES = Struct("=IIQQQQQIIQ")
_TIMES = 0x1 | 0x2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_USER_ONLY = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv
_PID_CGROUP, _CLOEXEC = 1 << 2, 1 << 3
_READING = Struct("=QQQ")
_LIBC = ctypes.CDLL(None, use_errno=True)


def open_counter(event: Event, cpu: int, cgroup: int | None) -> int:
    """Open a counter of user-mode code on a CPU, in one control group or everywhere. Raises OSError."""
    number = _NUMBERS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"perf_event_open on {os.uname().machine}")
    attributes = _ATTRIBUTES.pack(
        event.type, _ATTRIBUTES.size, event.config, 0, 0, _TIMES, _USER_ONLY, 0, 0, 0
    )
    flags = _CLOEXEC | (0 if cgroup is None else _PID_CGROUP)
    found = _LIBC.syscall(
        ctypes.c_long(number),
        ctypes.create_string_buffer(attributes, _ATTRIBUTES.size),
        ctypes.c_int(-1 if cgroup is None else cgroup),
        ctypes.c_int(cpu),
        ctypes.c_int(-1),
        ctypes.c_ulong(flags),
    )
    if found < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(found)


def read_counter(descriptor: int) -> tuple[int, int, int]:
    """Return the count, and the nanoseconds enabled and running. Raises OSError."""
    data = os.read(descriptor, _READING.size)
    if len(data) != _READING.size:
        raise OSError("the counter is in an error state")
    value, enabled_ns, running_ns = _READING.unpack(data)
    return value, enabled_ns, running_ns
