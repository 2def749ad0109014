"""Rules of `jobfeatures check` on values that must agree with each other or with the clock. Pure functions.

Each rule checks one directory, and yields a pair of key and message for each violation that it finds.
"""

from __future__ import annotations

from decimal import Decimal

from jobfeatures.check.listing import Case, DirectoryKind, Remarks
from jobfeatures.errors import shown
from jobfeatures.features import keys
from jobfeatures.features.keys import MjfProfile
from jobfeatures.status.jobstatus import STATUS_NAMES, StatusViolation, is_unwritten, parse_job_status

CLOCK_SKEW_SECS = 60
SHARE_TOLERANCE = Decimal("0.001")
NORMALIZED_TOLERANCE = Decimal("0.01")
LEAST_RATING, MOST_RATING = 1, 200  # HS06 of one processor: about 8 in 2006, 10 to 40 today

# Two names for one value: 2014, 2016, and how many units of the latter make one of the former.
TWINS = (
    (keys.MEM_LIMIT_MB, keys.MAX_RSS_BYTES, 10**6),
    (keys.DISK_LIMIT_GB, keys.SCRATCH_LIMIT_BYTES, 10**9),
    (keys.ALLOCATED_CPU_2014, keys.ALLOCATED_CPU, 1),
)
NORMALIZED = (
    (keys.CPU_LIMIT_SECS_LRMS, keys.CPU_LIMIT_SECS),
    (keys.WALL_LIMIT_SECS_LRMS, keys.WALL_LIMIT_SECS),
)
SHUTDOWNS = {
    DirectoryKind.MACHINE: (keys.SHUTDOWNTIME, keys.GRACE_SECS),
    DirectoryKind.JOB: (keys.SHUTDOWNTIME_JOB, keys.GRACE_SECS_JOB),
}


def allocated_exceeds_total(case: Case) -> Remarks:
    """Yield a violation if the job has more processors than its machine offers to jobs."""
    total = case.number(keys.TOTAL_CPU)
    for key in (keys.ALLOCATED_CPU, keys.ALLOCATED_CPU_2014):
        allocated = case.own(key)
        if allocated is not None and total is not None and allocated > total:
            yield key.name, f"{allocated} is more than {keys.TOTAL_CPU.name} {total}"


def hs06_share(case: Case) -> Remarks:
    """Yield a violation if hs06_job is not hs06 × allocated_cpu ÷ total_cpu.

    Differences of 0.1 %, or of one in the last digit, are allowed.
    """
    share, allocated = case.own(keys.HS06_JOB), case.own(keys.ALLOCATED_CPU)
    whole, total = case.number(keys.HS06), case.number(keys.TOTAL_CPU)
    if share is None or allocated is None or whole is None or not total:
        return
    expected = whole * allocated / total
    exponent = share.as_tuple().exponent
    last_digit = Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
    if abs(share - expected) > max(last_digit, expected * SHARE_TOLERANCE):
        yield keys.HS06_JOB.name, f"{share} is not {whole} × {allocated} ÷ {total} = {expected:.4f}"


def cpu_limit_unreachable(case: Case) -> Remarks:
    """Yield a violation if the CPU limit is above what all processors can use within the wall limit."""
    cpu, wall, processors = _limits(case)
    if cpu is not None and wall and processors and cpu > wall * processors:
        yield keys.CPU_LIMIT_SECS.name, f"{cpu} is more than {wall} s on {processors} processors can use"


def cpu_limit_not_total(case: Case) -> Remarks:
    """Yield a violation if the CPU limit of several processors is at most the wall limit.

    A CPU limit is for all processors together; such a low limit was probably meant for one processor.
    """
    cpu, wall, processors = _limits(case)
    if cpu is not None and wall and processors and processors > 1 and cpu <= wall:
        text = f"{cpu} is the total of {processors} processors over {wall} s: is it meant for one?"
        yield keys.CPU_LIMIT_SECS.name, text


def _limits(case: Case) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    processors = case.own(keys.ALLOCATED_CPU)
    if processors is None:
        processors = case.own(keys.ALLOCATED_CPU_2014)
    return case.own(keys.CPU_LIMIT_SECS), case.own(keys.WALL_LIMIT_SECS), processors


def rating_range(case: Case) -> Remarks:
    """Yield a violation if the HS06 or HS23 rating per processor is implausible.

    It may be the rating of a single core, or in another unit.
    """
    for key, processors in (
        (keys.HS06, (keys.TOTAL_CPU, keys.LOG_CORES)),
        (keys.HS23, (keys.TOTAL_CPU, keys.LOG_CORES)),
        (keys.HS06_JOB, (keys.ALLOCATED_CPU, keys.ALLOCATED_CPU_2014)),
        (keys.HS23_JOB, (keys.ALLOCATED_CPU, keys.ALLOCATED_CPU_2014)),
    ):
        rating = case.own(key)
        count = next(filter(None, map(case.number, processors)), None)
        if not rating or count is None:
            continue
        each = rating / count
        if not LEAST_RATING <= each <= MOST_RATING:
            also = "; is it a core's?" if each < LEAST_RATING else ""
            yield key.name, f"{rating} on {count} processors is {each:.3g} for each{also}"


def more_physical_cores(case: Case) -> Remarks:
    """Yield a violation if there are more physical than logical cores.

    0 logical cores are allowed: the specification uses that for hyperthreading switched off.
    """
    physical, logical = case.own(keys.PHYS_CORES), case.own(keys.LOG_CORES)
    if physical is not None and logical and physical > logical:
        yield keys.PHYS_CORES.name, f"{physical} is more than {keys.LOG_CORES.name} {logical}"


def normalized_without_factor(case: Case) -> Remarks:
    """Yield a violation if there is a normalized limit, but no factor by which to divide it."""
    for normalized, _ in NORMALIZED:
        if normalized.name in case.listing.entries and keys.CPUFACTOR_LRMS.name not in case.listing.entries:
            yield normalized.name, f"is useless without {keys.CPUFACTOR_LRMS.name}"


def limit_passed(case: Case) -> Remarks:
    """Yield a violation if the job is past its wall limit.

    Then its directory was left over, or its start or its limit is wrong.
    """
    start, wall = case.own(keys.JOBSTART_SECS), case.own(keys.WALL_LIMIT_SECS)
    if start is not None and wall is not None and start + wall + CLOCK_SKEW_SECS < case.now_secs:
        over = int(Decimal(case.now_secs) - start - wall)
        yield keys.WALL_LIMIT_SECS.name, f"was exceeded {over} s ago"


def start_in_future(case: Case) -> Remarks:
    """Yield a violation if the start of the job is in the future."""
    start = case.own(keys.JOBSTART_SECS)
    if start is not None and start > case.now_secs + CLOCK_SKEW_SECS:
        yield keys.JOBSTART_SECS.name, f"{start} is in the future"


def shutdown_without_grace(case: Case) -> Remarks:
    """Yield a violation if a shutdown is announced, but the key with the notice period is missing."""
    shutdown, grace = SHUTDOWNS[case.listing.kind]
    entries = case.listing.entries
    if (
        case.listing.profile is not MjfProfile.OF_2014
        and shutdown.name in entries
        and grace.name not in entries
    ):
        yield grace.name, f"is required if {shutdown.name} may be set"


def short_notice(case: Case) -> Remarks:
    """Yield a violation if the shutdown was announced with less notice than promised.

    The site may have been forced to do so.
    """
    shutdown, grace = SHUTDOWNS[case.listing.kind]
    when, notice = case.own(shutdown), case.own(grace)
    written_at = case.listing.entries[shutdown.name].written_at_secs if when is not None else None
    if when is not None and notice is not None and written_at is not None and when < int(written_at) + notice:
        given = int(when - int(written_at))
        yield shutdown.name, f"was announced {given} s ahead, but {grace.name} promises {notice}"


def shutdown_passed(case: Case) -> Remarks:
    """Yield a violation if the announced shutdown time has passed.

    Readers of the specifications disagree on whether such a value may remain in the file.
    """
    shutdown, _ = SHUTDOWNS[case.listing.kind]
    when = case.own(shutdown)
    if when is not None and when <= case.now_secs:
        yield shutdown.name, f"{when} has passed"


def twins_differ(case: Case) -> Remarks:
    """Yield a violation if a quantity has different values under its 2014 and its 2016 name.

    The 2014 value, in a larger unit, may be rounded.
    """
    for old, new, scale in TWINS:
        mine, other = case.own(old), case.own(new)
        if mine is not None and other is not None and abs(mine - other / scale) >= 1:
            yield old.name, f"{mine} is not {new.name} {other}{f' ÷ {scale}' if scale > 1 else ''}"


def normalized_differs(case: Case) -> Remarks:
    """Yield a violation if a limit differs from the normalized limit divided by the factor.

    Differences of a second or of 1 % are allowed.
    """
    factor = case.own(keys.CPUFACTOR_LRMS)
    for normalized, real in NORMALIZED:
        mine, other = case.own(normalized), case.own(real)
        if not factor or mine is None or other is None:
            continue
        expected = mine / factor
        if abs(expected - other) > max(Decimal(1), expected * NORMALIZED_TOLERANCE):
            yield real.name, f"{other} is not {normalized.name} {mine} ÷ {keys.CPUFACTOR_LRMS.name} {factor}"


def status_rejected(case: Case) -> Remarks:
    """Yield a violation if values in $JOBSTATUS are malformed or contradict each other.

    Readers then reject all of them.
    """
    values = {
        name: entry.content
        for name, entry in case.listing.entries.items()
        if name in STATUS_NAMES and entry.content is not None
    }
    has_unread = bool(STATUS_NAMES & case.listing.entries.keys() - values.keys())
    if is_unwritten(values) or has_unread:
        return
    allocated = case.number(keys.ALLOCATED_CPU)
    if allocated is None:
        allocated = case.number(keys.ALLOCATED_CPU_2014)
    try:
        parse_job_status(values, allocated_cpus=None if allocated is None else int(allocated))
    except StatusViolation as violation:
        reported = f": {shown(violation.text)}" if violation.text else ""
        yield violation.field, f"{violation.reason}{reported}"


def status_empty(case: Case) -> Remarks:
    """Yield a violation if the job has not yet written anything into its $JOBSTATUS directory."""
    if not case.listing.entries:
        yield "", "the job has not reported anything"
