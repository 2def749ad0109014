"""Rules of `jobfeatures check` on names, files and single values. Pure functions.

Each rule checks one directory, and yields a pair of key and message for each violation that it finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from jobfeatures.check.listing import (
    KINDS,
    MAX_SHOWN_NAMES,
    TYPES,
    Case,
    DirectoryKind,
    Entry,
    Remarks,
    Rights,
    Trouble,
    parse_number,
)
from jobfeatures.errors import shown
from jobfeatures.features import keys
from jobfeatures.features.keys import MjfProfile

# 2016 keys as in the WLCG probe; 2014 keys: the same quantities under their older names.
REQUIRED = {
    DirectoryKind.MACHINE: (keys.TOTAL_CPU, keys.LOG_CORES),
    DirectoryKind.JOB: (
        keys.ALLOCATED_CPU, keys.ALLOCATED_CPU_2014, keys.JOBSTART_SECS, keys.JOB_ID, keys.WALL_LIMIT_SECS,
        keys.CPU_LIMIT_SECS,
    ),
}  # fmt: skip
RECOMMENDED = {
    DirectoryKind.MACHINE: (keys.HS06, keys.PHYS_CORES, keys.JOBSLOTS),
    DirectoryKind.JOB: (
        keys.HS06_JOB, keys.MAX_RSS_BYTES, keys.MAX_SWAP_BYTES, keys.SCRATCH_LIMIT_BYTES, keys.MEM_LIMIT_MB,
        keys.DISK_LIMIT_GB,
    ),
}  # fmt: skip
OPTIONAL = {
    DirectoryKind.MACHINE: (keys.SHUTDOWNTIME, keys.GRACE_SECS),
    DirectoryKind.JOB: (keys.SHUTDOWNTIME_JOB, keys.GRACE_SECS_JOB),
}

EPOCHS = tuple(key for key in keys.KEYS if key.unit == keys.JOBSTART_SECS.unit)
DURATIONS = tuple(key for key in keys.KEYS if key.unit == "seconds")
# Keys that must not be 0 if present. (max_swap_bytes may be: 0 means no swap.)
POSITIVE = (
    keys.TOTAL_CPU, keys.HS06, keys.HS23, keys.ALLOCATED_CPU, keys.HS06_JOB, keys.HS23_JOB,
    keys.WALL_LIMIT_SECS, keys.CPU_LIMIT_SECS, keys.MAX_RSS_BYTES, keys.SCRATCH_LIMIT_BYTES,
    keys.CPUFACTOR_LRMS, keys.CPU_LIMIT_SECS_LRMS,
    keys.WALL_LIMIT_SECS_LRMS, keys.DISK_LIMIT_GB, keys.MEM_LIMIT_MB, keys.ALLOCATED_CPU_2014,
)  # fmt: skip

EARLIEST_EPOCH = 946_684_800  # 2000-01-01: earlier than the first of these files
LATEST_EPOCH = 10**10  # in 2286: values in milliseconds are far larger
LONGEST_SECS = 946_684_800  # thirty years: longer than any limit, smaller than any time stamp since 2000
LEAST_BYTES = 2**20
MOST_BYTES = {keys.MAX_RSS_BYTES: 10**15, keys.MAX_SWAP_BYTES: 10**15, keys.SCRATCH_LIMIT_BYTES: 10**18}
MOST_PROCESSORS = 2**16
LONGEST_JOB_ID = 255

_LEGAL_NAME = re.compile(r"[a-z0-9_]+\Z")
_JOB_ID = re.compile(rb"[!-~]+\Z")
_WORDS = (b"unlimited", b"unknown", b"none", b"infinity", b"inf", b"nan", b"n/a", b"null", b"undefined")


# --- the directory ---------------------------------------------------------------


def trailing_slash(case: Case) -> Remarks:
    """Yield a violation if the path in $MACHINEFEATURES, $JOBFEATURES or $JOBSTATUS ends with a slash."""
    if case.listing.location.endswith("/"):
        yield "", "the name of the directory ends with a slash"


def too_many_names(case: Case) -> Remarks:
    """Yield a violation if the directory has more names than are checked."""
    if case.listing.is_cut:
        yield "", f"more than {MAX_SHOWN_NAMES} names; the rest was not checked"


def missing_required(case: Case) -> Remarks:
    """Yield a violation for each missing key that jobs need in order to plan."""
    yield from _missing(case, REQUIRED)


def missing_recommended(case: Case) -> Remarks:
    """Yield a violation for each missing key that a site should be able to provide."""
    yield from _missing(case, RECOMMENDED)


def missing_optional(case: Case) -> Remarks:
    """Yield a violation for each missing key that exists only when there is something to report."""
    yield from _missing(case, OPTIONAL)


def _missing(case: Case, wanted: Mapping[DirectoryKind, tuple[keys.Key, ...]]) -> Remarks:
    for key in wanted[case.listing.kind]:
        if key.is_in(case.listing.profile) and key.name not in case.listing.entries:
            same = next((name for name in case.listing.entries if name.lower() == key.name), "")
            yield key.name, f"is missing; there is {same}" if same else "is missing"


# --- names -------------------------------------------------------------------------


def illegal_name(case: Case) -> Remarks:
    """Yield a violation for each name with characters other than a-z, 0-9 and underscore.

    Names that the 2014 draft defines are excepted.
    """
    for name in case.listing.entries:
        if not _LEGAL_NAME.match(name) and name not in KINDS:
            yield name, "a name may have lower-case letters, digits and underscores only"


def name_of_2014(case: Case) -> Remarks:
    """Yield a violation for each name of the 2014 draft that the 2016 specification does not allow."""
    for name in _own_keys(case) if case.listing.profile is MjfProfile.OF_2016 else ():
        if not _LEGAL_NAME.match(name):
            yield name, "a name of the 2014 draft, which the 2016 specification forbids"


def misplaced_key(case: Case) -> Remarks:
    """Yield a violation for each key that belongs in another kind of directory."""
    for name in case.listing.entries:
        kind = KINDS.get(name)
        if kind is not None and kind is not case.listing.kind:
            yield name, f"belongs in the {kind.value} directory"


def unknown_key(case: Case) -> Remarks:
    """Yield a violation for each key that neither specification defines; it is allowed as an extension."""
    for name in case.listing.entries:
        if name not in KINDS and (_LEGAL_NAME.match(name) or case.listing.kind is DirectoryKind.STATUS):
            yield name, "no specification defines this key"


# --- files ---------------------------------------------------------------------------


def not_a_file(case: Case) -> Remarks:
    """Yield a violation for each entry that is not a regular file: reading it could block forever."""
    yield from _troubled(case, Trouble.NOT_A_FILE)


def too_large(case: Case) -> Remarks:
    """Yield a violation for each file that is larger than any value can be."""
    yield from _troubled(case, Trouble.TOO_LARGE)


def unreadable(case: Case) -> Remarks:
    """Yield a violation for each file that exists but cannot be read."""
    yield from _troubled(case, Trouble.UNREADABLE)


def closed_to_job(case: Case) -> Remarks:
    """Yield a violation for each file or directory whose mode keeps the job's user from reading it.

    The mode is examined because a checker that runs as root can open any file.
    """
    for place, each in enumerate(case.listing.rights):
        needed = 0o005 if not place else 0o001
        if _is_closed(case, each, needed):
            yield "", f"{each.path}: only its owner may enter or list it, mode {each.mode & 0o7777:04o}"
    for name, entry in case.listing.entries.items():
        if entry.rights is not None and _is_closed(case, entry.rights, 0o004):
            yield name, f"only its owner may read it, mode {entry.rights.mode & 0o7777:04o}"


def _is_closed(case: Case, rights: Rights, needed: int) -> bool:
    """Return whether others lack a permission bit and so does a non-root owner (of job or status only)."""
    if rights.mode & needed == needed:
        return False
    owner_bits = needed << 6
    is_user_owned = case.listing.kind is not DirectoryKind.MACHINE and rights.uid != 0
    return not (is_user_owned and rights.mode & owner_bits == owner_bits)


def open_to_all(case: Case) -> Remarks:
    """Yield a violation for the directory, and for each file in it, if anybody may write to it."""
    for each in case.listing.rights[:1]:
        if each.mode & 0o002:
            yield "", f"anybody may write to it, mode {each.mode & 0o7777:04o}"
    for name, entry in case.listing.entries.items():
        if entry.rights is not None and entry.rights.mode & 0o002:
            yield name, f"anybody may write to it, mode {entry.rights.mode & 0o7777:04o}"


def link(case: Case) -> Remarks:
    """Yield a violation for each entry that is a symbolic link; another user's link was not followed."""
    for name, entry in case.listing.entries.items():
        if entry.is_link:
            unread = " of another user: not followed" if entry.trouble is Trouble.FOREIGN_LINK else ""
            yield name, f"a symbolic link{unread}"


def _troubled(case: Case, trouble: Trouble) -> Remarks:
    for name, entry in case.listing.entries.items():
        if entry.trouble is trouble:
            yield name, entry.detail


# --- the form of a value ---------------------------------------------------------------


def empty(case: Case) -> Remarks:
    """Yield a violation for each file that is empty or holds only a newline."""
    for name, content in _contents(case):
        if content in {b"", b"\n"}:
            yield name, "is empty; an unknown value has no file"


def not_text(case: Case) -> Remarks:
    """Yield a violation for each file whose content is not UTF-8 or has control characters."""
    for name, content in _contents(case):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            yield name, f"is not text: {_shown(content)}"
            continue
        if any(ord(character) < 32 and character not in "\t\r\n" for character in text) or "\x7f" in text:
            yield name, f"has control characters: {_shown(content)}"


def several_lines(case: Case) -> Remarks:
    """Yield a violation for each value that has more than one line."""
    for name, content in _contents(case):
        if b"\n" in content[:-1]:
            yield name, f"has more than one line: {_shown(content)}"


def no_newline(case: Case) -> Remarks:
    """Yield a violation for each file without a final newline, which a shell's `read` needs."""
    for name, content in _contents(case):
        if content and not content.endswith(b"\n"):
            yield name, f"has no newline at the end: {_shown(content)}"


def blanks(case: Case) -> Remarks:
    """Yield a violation for each value with a blank, tab or carriage return before or after it."""
    for name, content in _contents(case):
        line = content.split(b"\n", 1)[0]
        if line != line.strip(b" \t\r\v\f"):
            yield name, f"has blanks around its value: {_shown(content)}"


def not_an_integer(case: Case) -> Remarks:
    """Yield a violation for each integer key whose value has characters other than ASCII digits."""
    yield from _malformed(case, "integer", "not a non-negative integer")


def not_a_decimal(case: Case) -> Remarks:
    """Yield a violation for each decimal key whose value is not a plain decimal.

    Exponents, signs and commas are not allowed.
    """
    yield from _malformed(case, "decimal", "not a plain decimal")


def _malformed(case: Case, value_type: str, text: str) -> Remarks:
    for name, entry in _own_keys(case).items():
        content = entry.content
        if TYPES[name] != value_type or not content or content == b"\n" or b"\n" in content[:-1]:
            continue  # other rules report empty values and several lines
        if parse_number(content.strip(), value_type) is None:
            word = content.strip().lower()
            hint = "; an unlimited or unknown value has no file" if word in _WORDS or word[:1] == b"-" else ""
            yield name, f"{text}: {_shown(content)}{hint}"


def bad_job_id(case: Case) -> Remarks:
    """Yield a violation if the job id is not one word of printable ASCII, or is too long for a file name."""
    content = dict(_contents(case)).get(keys.JOB_ID.name, b"")
    if job_id := content.removesuffix(b"\n"):
        if not _JOB_ID.match(job_id):
            yield keys.JOB_ID.name, f"not printable ASCII without blanks: {_shown(content)}"
        elif len(job_id) > LONGEST_JOB_ID:
            yield keys.JOB_ID.name, f"has {len(job_id)} characters: {_shown(job_id[:40])}"


def bad_command(case: Case) -> Remarks:
    """Yield a violation if the shutdown command is not an absolute path: a job might run another one."""
    content = dict(_contents(case)).get(keys.SHUTDOWN_COMMAND.name, b"")
    if content and not content.startswith(b"/"):
        yield keys.SHUTDOWN_COMMAND.name, f"is not an absolute path: {_shown(content)}"


# --- plausible values --------------------------------------------------------------------


def stand_in(case: Case) -> Remarks:
    """Yield a violation for each key whose value 0 stands for "unknown" or "unlimited".

    Such a key should have no file.
    """
    for key, value in _numbers(case, POSITIVE):
        if value == 0:
            yield key.name, "is 0; an unlimited or unknown value has no file"


def not_an_epoch(case: Case) -> Remarks:
    """Yield a violation for each time stamp before 2000 or after 2286: it is not in seconds since 1970."""
    for key, value in _numbers(case, EPOCHS):
        if not EARLIEST_EPOCH <= value < LATEST_EPOCH:
            yield key.name, f"not a time since the epoch in seconds: {value}"


def not_a_duration(case: Case) -> Remarks:
    """Yield a violation for each limit of thirty years or more: it is a time stamp, or in another unit."""
    for key, value in _numbers(case, DURATIONS):
        if value >= LONGEST_SECS:
            yield key.name, f"not a number of seconds, but a time or another unit: {value}"


def small_size(case: Case) -> Remarks:
    """Yield a violation for each size of less than a mebibyte: it is probably in another unit."""
    for key, value in _numbers(case, MOST_BYTES):
        if 0 < value < LEAST_BYTES:
            yield key.name, f"less than a mebibyte: {value}; the unit is bytes"


def large_size(case: Case) -> Remarks:
    """Yield a violation for each size that is more than any machine has.

    It is in another unit, or stands for "no limit".
    """
    for key, value in _numbers(case, MOST_BYTES):
        if value > MOST_BYTES[key]:
            yield key.name, f"more than any machine has: {value}; an unlimited value has no file"


def many_processors(case: Case) -> Remarks:
    """Yield a violation for each number of processors that is more than any machine has."""
    for key, value in _numbers(
        case, (keys.TOTAL_CPU, keys.ALLOCATED_CPU, keys.ALLOCATED_CPU_2014, keys.JOBSLOTS)
    ):
        if value > MOST_PROCESSORS:
            yield key.name, f"more than any machine has: {value}"


def _numbers(case: Case, among: Iterable[keys.Key]) -> Iterator[tuple[keys.Key, Decimal]]:
    """Yield those of some keys that have a well-formed number."""
    return ((key, value) for key in among if (value := case.own(key)) is not None)


def _own_keys(case: Case) -> dict[str, Entry]:
    entries = case.listing.entries
    return {name: entries[name] for name in entries if KINDS.get(name) is case.listing.kind}


def _contents(case: Case) -> Iterator[tuple[str, bytes]]:
    for name, entry in case.listing.entries.items():
        if entry.content is not None:
            yield name, entry.content


def _shown(content: bytes) -> str:
    return shown(content.decode("utf-8", "backslashreplace"))
