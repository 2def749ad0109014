"""The rules for a directory: one table; each rule is a pure function of what was read.

Sources: both specifications, the WLCG probe, and programs that read the files and fail on violations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jobfeatures.check import consistency, forms, transport
from jobfeatures.check.listing import Case, Finding, Kind, Said, Severity

_2016 = "HSF-TN-2016-02"
_2014 = "draft 0.99"


class Rule(NamedTuple):
    """One rule: the directories it applies to, its severity and source, and the function that checks it."""

    kinds: frozenset[Kind]
    severity: Severity
    source: str
    judge: Callable[[Case], Said]

    @property
    def name(self) -> str:
        """Return the rule's name in the output."""
        return self.judge.__name__


_ALL = frozenset(Kind)
_FEATURES = frozenset({Kind.MACHINE, Kind.JOB})
_MACHINE, _JOB, _STATUS = (frozenset({kind}) for kind in Kind)
_ERROR, _WARNING, _INFORMATION = Severity

RULES = (
    Rule(_ALL, _WARNING, f"{_2016}, Directories", forms.trailing_slash),
    Rule(_ALL, _ERROR, "nothing but keys", forms.too_many_names),
    Rule(_FEATURES, _ERROR, "WLCG probe", forms.missing_required),
    Rule(_FEATURES, _WARNING, "WLCG probe", forms.missing_recommended),
    Rule(_FEATURES, _INFORMATION, "WLCG probe", forms.missing_optional),
    Rule(_ALL, _ERROR, f"{_2016}, Directories", forms.not_a_file),
    Rule(_ALL, _ERROR, "one line", forms.too_large),
    Rule(_ALL, _ERROR, f"{_2016}, Directories: readable by the user", forms.unreadable),
    Rule(_ALL, _ERROR, f"{_2016}, Directories: readable by the user", forms.closed_to_job),
    Rule(_ALL, _ERROR, "what a job reads is the site's word", forms.open_to_all),
    Rule(_ALL, _WARNING, "a link may lead anywhere", forms.link),
    Rule(_FEATURES, _ERROR, f"{_2016}, Directories", forms.illegal_name),
    Rule(_FEATURES, _INFORMATION, f"{_2016}, Directories", forms.name_of_2014),
    Rule(_ALL, _WARNING, f"{_2016}, Summary; {_2014}, requirements", forms.misplaced_key),
    Rule(_ALL, _INFORMATION, f"{_2016}, Summary", forms.unknown_key),
    Rule(_ALL, _ERROR, "glideinWMS: an empty file breaks it", forms.empty),
    Rule(_ALL, _ERROR, "readers decode it", forms.not_text),
    Rule(_ALL, _ERROR, "glideinWMS: a second line breaks it", forms.several_lines),
    Rule(_FEATURES, _WARNING, "one line, one newline: shells' read", forms.no_newline),
    Rule(_ALL, _ERROR, "glideinWMS: a leading blank breaks it", forms.blanks),
    Rule(_FEATURES, _ERROR, "ATLAS pilot: int(); glideinWMS", forms.not_an_integer),
    Rule(_FEATURES, _ERROR, "CMS WMCore, ATLAS pilot: float()", forms.not_a_decimal),
    Rule(_JOB, _ERROR, f"{_2016}, job_id", forms.bad_job_id),
    Rule(_MACHINE, _ERROR, f"{_2014}, 2.6: a path", forms.bad_command),
    Rule(_FEATURES, _ERROR, f"{_2016}: absent unless known", forms.stand_in),
    Rule(_FEATURES, _ERROR, f"{_2016}: UNIX time stamp in seconds", forms.not_an_epoch),
    Rule(_FEATURES, _ERROR, f"{_2016}: a limit counts from the start", forms.not_a_duration),
    Rule(_JOB, _WARNING, f"{_2016}: in bytes", forms.small_size),
    Rule(_JOB, _WARNING, "plausible range", forms.large_size),
    Rule(_FEATURES, _WARNING, "plausible range", forms.many_processors),
    Rule(_JOB, _ERROR, f"{_2016}, total_cpu", consistency.allocated_exceeds_total),
    Rule(_JOB, _WARNING, f"{_2016}, hs06_job", consistency.hs06_share),
    Rule(_JOB, _WARNING, f"{_2016}, cpu_limit_secs", consistency.cpu_limit_unreachable),
    Rule(_JOB, _INFORMATION, f"{_2016}, cpu_limit_secs", consistency.cpu_limit_not_total),
    Rule(_FEATURES, _WARNING, "plausible range", consistency.rating_range),
    Rule(_MACHINE, _ERROR, f"{_2014}, 2.4 and 2.5", consistency.more_physical_cores),
    Rule(_JOB, _WARNING, f"{_2014}, 1.1 to 1.3", consistency.normalized_without_factor),
    Rule(_JOB, _WARNING, f"{_2016}, wall_limit_secs", consistency.limit_passed),
    Rule(_JOB, _ERROR, f"{_2016}, jobstart_secs", consistency.start_in_future),
    Rule(_FEATURES, _WARNING, f"{_2016}, grace_secs", consistency.shutdown_without_grace),
    Rule(_FEATURES, _WARNING, f"{_2016}, grace_secs", consistency.short_notice),
    Rule(
        _FEATURES,
        _INFORMATION,
        f"{_2014}, 2.2: to be removed; glideinWMS: to stay",
        consistency.shutdown_passed,
    ),
    Rule(_JOB, _ERROR, f"{_2014}, 1.4, 1.6, 1.7; {_2016}", consistency.twins_differ),
    Rule(_JOB, _WARNING, f"{_2014}, 1.1 to 1.3", consistency.normalized_differs),
    Rule(_STATUS, _ERROR, f"{_2014}, 3.1 to 3.9", consistency.status_rejected),
    Rule(_STATUS, _INFORMATION, f"{_2014}: initially empty", consistency.status_empty),
    Rule(_ALL, _ERROR, "naive readers take error pages for values", transport.http_missing_key),
    Rule(_ALL, _WARNING, "naive readers take error pages for values", transport.http_missing_body),
    Rule(_ALL, _WARNING, "text/plain", transport.http_content_type),
    Rule(_ALL, _WARNING, "a cut answer is not noticed without", transport.http_content_length),
    Rule(_ALL, _ERROR, "client.py and others refuse it", transport.http_cut),
    Rule(_ALL, _INFORMATION, f"{_2016}, Directories: cache control", transport.http_no_cache_headers),
)


def judge(case: Case) -> tuple[Finding, ...]:
    """Return all findings about a directory, the most severe first."""
    found = [
        Finding(rule.severity, rule.name, key, text, rule.source)
        for rule in RULES
        if case.listing.kind in rule.kinds
        for key, text in rule.judge(case)
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))
