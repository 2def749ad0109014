"""What is asked of a directory: one table of rules, each a pure function over what was seen.

Who asks: the two texts, the probe of WLCG, and programs that read the files
and break where this is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from jobfeatures.check import consistency, forms, transport
from jobfeatures.check.listing import Case, Finding, Kind, Severity

Said = Iterator[tuple[str, str]]  # key ("" for the directory) and text

_2016 = "HSF-TN-2016-02"
_2014 = "draft 0.99"


class Rule(NamedTuple):
    """One rule: its name in the output, for which directories, how bad a breach is, and who asks for it."""

    name: str
    kinds: frozenset[Kind]
    severity: Severity
    source: str
    judge: Callable[[Case], Said]


_ALL = frozenset(Kind)
_FEATURES = frozenset({Kind.MACHINE, Kind.JOB})
_MACHINE, _JOB, _STATUS = (frozenset({kind}) for kind in Kind)
_ERROR, _WARNING, _INFORMATION = Severity

RULES = (
    Rule("trailing_slash", _ALL, _WARNING, f"{_2016}, Directories", forms.trailing_slash),
    Rule("too_many_names", _ALL, _ERROR, "nothing but keys", forms.too_many_names),
    Rule("missing_required", _FEATURES, _ERROR, "WLCG probe", forms.missing_required),
    Rule("missing_recommended", _FEATURES, _WARNING, "WLCG probe", forms.missing_recommended),
    Rule("missing_optional", _FEATURES, _INFORMATION, "WLCG probe", forms.missing_optional),
    Rule("not_a_file", _ALL, _ERROR, f"{_2016}, Directories", forms.not_a_file),
    Rule("too_large", _ALL, _ERROR, "one line", forms.too_large),
    Rule("unreadable", _ALL, _ERROR, f"{_2016}, Directories: readable by the user", forms.unreadable),
    Rule("closed_to_job", _ALL, _ERROR, f"{_2016}, Directories: readable by the user", forms.closed_to_job),
    Rule("open_to_all", _ALL, _ERROR, "what a job reads is the site's word", forms.open_to_all),
    Rule("link", _ALL, _WARNING, "a link may lead anywhere", forms.link),
    Rule("illegal_name", _FEATURES, _ERROR, f"{_2016}, Directories", forms.illegal_name),
    Rule("name_of_2014", _FEATURES, _INFORMATION, f"{_2016}, Directories", forms.name_of_2014),
    Rule("misplaced_key", _ALL, _WARNING, f"{_2016}, Summary; {_2014}, requirements", forms.misplaced_key),
    Rule("unknown_key", _ALL, _INFORMATION, f"{_2016}, Summary", forms.unknown_key),
    Rule("empty", _ALL, _ERROR, "glideinWMS: an empty file breaks it", forms.empty),
    Rule("not_text", _ALL, _ERROR, "readers decode it", forms.not_text),
    Rule("several_lines", _ALL, _ERROR, "glideinWMS: a second line breaks it", forms.several_lines),
    Rule("no_newline", _FEATURES, _WARNING, "one line, one newline: shells' read", forms.no_newline),
    Rule("blanks", _ALL, _ERROR, "glideinWMS: a leading blank breaks it", forms.blanks),
    Rule("not_an_integer", _FEATURES, _ERROR, "ATLAS pilot: int(); glideinWMS", forms.not_an_integer),
    Rule("not_a_decimal", _FEATURES, _ERROR, "CMS WMCore, ATLAS pilot: float()", forms.not_a_decimal),
    Rule("bad_job_id", _JOB, _ERROR, f"{_2016}, job_id", forms.bad_job_id),
    Rule("bad_command", _MACHINE, _ERROR, f"{_2014}, 2.6: a path", forms.bad_command),
    Rule("stand_in", _FEATURES, _ERROR, f"{_2016}: absent unless known", forms.stand_in),
    Rule("not_an_epoch", _FEATURES, _ERROR, f"{_2016}: UNIX time stamp in seconds", forms.not_an_epoch),
    Rule(
        "not_a_duration", _FEATURES, _ERROR, f"{_2016}: a limit counts from the start", forms.not_a_duration
    ),
    Rule("small_size", _JOB, _WARNING, f"{_2016}: in bytes", forms.small_size),
    Rule("large_size", _JOB, _WARNING, "plausible range", forms.large_size),
    Rule("many_processors", _FEATURES, _WARNING, "plausible range", forms.many_processors),
    Rule("allocated_exceeds_total", _JOB, _ERROR, f"{_2016}, total_cpu", consistency.allocated_exceeds_total),
    Rule("hs06_share", _JOB, _WARNING, f"{_2016}, hs06_job", consistency.hs06_share),
    Rule(
        "cpu_limit_unreachable", _JOB, _WARNING, f"{_2016}, cpu_limit_secs", consistency.cpu_limit_unreachable
    ),
    Rule(
        "cpu_limit_not_total", _JOB, _INFORMATION, f"{_2016}, cpu_limit_secs", consistency.cpu_limit_not_total
    ),
    Rule("rating_range", _FEATURES, _WARNING, "plausible range", consistency.rating_range),
    Rule("more_physical_cores", _MACHINE, _ERROR, f"{_2014}, 2.4 and 2.5", consistency.more_physical_cores),
    Rule(
        "normalized_without_factor",
        _JOB,
        _WARNING,
        f"{_2014}, 1.1 to 1.3",
        consistency.normalized_without_factor,
    ),
    Rule("limit_passed", _JOB, _WARNING, f"{_2016}, wall_limit_secs", consistency.limit_passed),
    Rule("start_in_future", _JOB, _ERROR, f"{_2016}, jobstart_secs", consistency.start_in_future),
    Rule(
        "shutdown_without_grace",
        _FEATURES,
        _WARNING,
        f"{_2016}, grace_secs",
        consistency.shutdown_without_grace,
    ),
    Rule("short_notice", _FEATURES, _WARNING, f"{_2016}, grace_secs", consistency.short_notice),
    Rule(
        "shutdown_passed",
        _FEATURES,
        _INFORMATION,
        f"{_2014}, 2.2: to be removed; glideinWMS: to stay",
        consistency.shutdown_passed,
    ),
    Rule("twins_differ", _JOB, _ERROR, f"{_2014}, 1.4, 1.6, 1.7; {_2016}", consistency.twins_differ),
    Rule("normalized_differs", _JOB, _WARNING, f"{_2014}, 1.1 to 1.3", consistency.normalized_differs),
    Rule("status_rejected", _STATUS, _ERROR, f"{_2014}, 3.1 to 3.9", consistency.status_rejected),
    Rule("status_empty", _STATUS, _INFORMATION, f"{_2014}: initially empty", consistency.status_empty),
    Rule(
        "http_missing_key", _ALL, _ERROR, "naive readers take error pages for values", transport.missing_key
    ),
    Rule(
        "http_missing_body",
        _ALL,
        _WARNING,
        "naive readers take error pages for values",
        transport.missing_body,
    ),
    Rule("http_content_type", _ALL, _WARNING, "text/plain", transport.content_type),
    Rule(
        "http_content_length", _ALL, _WARNING, "a cut answer is not noticed without", transport.content_length
    ),
    Rule("http_cut", _ALL, _ERROR, "client.py and others refuse it", transport.cut),
    Rule(
        "http_no_cache_headers",
        _ALL,
        _INFORMATION,
        f"{_2016}, Directories: cache control",
        transport.no_cache_headers,
    ),
)


def judge(case: Case) -> tuple[Finding, ...]:
    """Return all findings about a directory, the worst first."""
    found = [
        Finding(rule.severity, rule.name, key, text, rule.source)
        for rule in RULES
        if case.listing.kind in rule.kinds
        for key, text in rule.judge(case)
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))
