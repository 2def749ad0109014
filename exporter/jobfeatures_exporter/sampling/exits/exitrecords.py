"""The kernel's records of exits, in the generic netlink format: pure.

Source: include/uapi/linux/taskstats.h, genetlink.h and netlink.h; Documentation/accounting/taskstats.rst.
All numbers are in native byte order. A record describes one thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from jobfeatures.errors import ParseError

ERROR = 2  # a message type: nlmsgerr, whose code is 0 for an acknowledgement
CTRL, CTRL_GET_FAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 0x10, 3, 1, 2
GET, REGISTER_CPUMASK = 1, 3  # of TASKSTATS
REQUEST, ACKNOWLEDGE = 1, 4

_MESSAGE = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_GENERIC = struct.Struct("=BBH")  # command, version
_ATTRIBUTE = struct.Struct("=HH")  # length with this header, type
_AGGREGATE_PID, _STATS = 4, 3
_TYPE_MASK = 0x3FFF

_VERSION = struct.Struct("=H")
_RUN_NS = struct.Struct("=Q")  # cpu_run_virtual_total
_IDENTITY = struct.Struct("=IIII")  # ac_uid ac_gid ac_pid ac_ppid
_TIMES = struct.Struct("=QQQ")  # ac_etime ac_utime ac_stime, microseconds
_U64 = struct.Struct("=Q")
_U32 = struct.Struct("=I")
MIN_VERSION = 12  # the first with the thread group
DISORDERED_VERSION = 15  # inserted new fields among the old ones
MIN_BYTES = 384


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """One thread that has ended. `ppid` is the thread group's parent at that time."""

    pid: int  # of the thread group: what /proc calls a process
    ppid: int
    start_secs: float  # of the thread group, since the epoch, to a second or so
    user_usecs: int
    system_usecs: int


def make_message(message_type: int, command: int, attribute: int, payload: bytes) -> bytes:
    """Return a request with one attribute that asks for an acknowledgement."""
    padded = payload + b"\0" * (-len(payload) % 4)
    body = _GENERIC.pack(command, 1, 0) + _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), attribute) + padded
    return _MESSAGE.pack(_MESSAGE.size + len(body), message_type, REQUEST | ACKNOWLEDGE, 1, 0) + body


def split_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each message. Raises ParseError if one is truncated."""
    offset = 0
    while offset < len(data):
        if len(data) - offset < _MESSAGE.size:
            raise ParseError("a netlink message is cut off")
        length, message_type, *_ = _MESSAGE.unpack_from(data, offset)
        if not _MESSAGE.size <= length <= len(data) - offset:
            raise ParseError("a netlink message of a wrong length", text=str(length))
        yield message_type, data[offset + _MESSAGE.size : offset + length]
        offset += (length + 3) & ~3


def split_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each attribute. Raises ParseError if one is truncated."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, attribute = _ATTRIBUTE.unpack_from(data, offset)
        if not _ATTRIBUTE.size <= length <= len(data) - offset:
            raise ParseError("a netlink attribute of a wrong length", text=str(length))
        yield attribute & _TYPE_MASK, data[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def parse_error_code(content: bytes) -> int:
    """Return the error number of an ERROR message, 0 for an acknowledgement. Raises ParseError."""
    if len(content) < 4:
        raise ParseError("a netlink error is cut off")
    return -int(struct.unpack_from("=i", content)[0])


def parse_family(content: bytes) -> int:
    """Return a generic netlink family's id from the reply to CTRL_GET_FAMILY. Raises ParseError."""
    for attribute, value in split_attributes(content[_GENERIC.size :]):
        if attribute == CTRL_ATTR_FAMILY_ID and len(value) >= 2:
            return int(_VERSION.unpack_from(value)[0])
    raise ParseError("no number of the family")


def parse_exits(content: bytes) -> list[ExitRecord]:
    """Return the threads' records in a TASKSTATS message, without the thread group's. Raises ParseError."""
    return [
        parse_taskstats(stats)
        for kind, aggregate in split_attributes(content[_GENERIC.size :])
        if kind == _AGGREGATE_PID
        for attribute, stats in split_attributes(aggregate)
        if attribute == _STATS
    ]


def parse_taskstats(data: bytes) -> ExitRecord:
    """Parse a `struct taskstats` of version 12 or later; fields appended by later versions are ignored.

    The scheduler's exact time is split in the ratio of the ticks, as in /proc/PID/stat. Raises ParseError.
    """
    version = _VERSION.unpack_from(data)[0] if len(data) >= 2 else 0
    if version < MIN_VERSION or version == DISORDERED_VERSION or len(data) < MIN_BYTES:
        raise ParseError("not a usable version of taskstats", text=str(version))
    _uid, _gid, _tid, ppid = _IDENTITY.unpack_from(data, 120)
    elapsed_usecs, user_usecs, system_usecs = _TIMES.unpack_from(data, 144)
    total_usecs = _RUN_NS.unpack_from(data, 72)[0] // 1000
    ticks_usecs = user_usecs + system_usecs
    if total_usecs:
        user_usecs = total_usecs * user_usecs // ticks_usecs if ticks_usecs else total_usecs
        system_usecs = total_usecs - user_usecs
    begin_secs = _U64.unpack_from(data, 344)[0]
    group_usecs = _U64.unpack_from(data, 376)[0]
    return ExitRecord(
        pid=_U32.unpack_from(data, 368)[0],
        ppid=ppid,
        start_secs=begin_secs + (elapsed_usecs - group_usecs) / 1e6,
        user_usecs=user_usecs,
        system_usecs=system_usecs,
    )
