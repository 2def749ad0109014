"""The table of all rules for directories; each rule is a pure function of what was read from a directory.

Sources: both specifications, the WLCG probe, and programs that read the files and fail on violations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jobfeatures.check import consistency, forms, transport
from jobfeatures.check.listing import Case, DirectoryKind, Remarks, Severity, Violation

_2016 = "HSF-TN-2016-02"
_2014 = "draft 0.99"


class CheckRule(NamedTuple):
    """One rule: the directories it applies to, its severity and source, and the function that checks it."""

    kinds: frozenset[DirectoryKind]
    severity: Severity
    source: str
    judge: Callable[[Case], Remarks]

    @property
    def name(self) -> str:
        """Return the rule's name in the output."""
        return self.judge.__name__


_ALL = frozenset(DirectoryKind)
_FEATURES = frozenset({DirectoryKind.MACHINE, DirectoryKind.JOB})
_MACHINE, _JOB, _STATUS = (frozenset({kind}) for kind in DirectoryKind)
_ERROR, _WARNING, _INFORMATION = Severity

RULES = (
    CheckRule(_ALL, _WARNING, f"{_2016}, Directories", forms.trailing_slash),
    CheckRule(_ALL, _ERROR, "nothing but keys", forms.too_many_names),
    CheckRule(_FEATURES, _ERROR, "WLCG probe", forms.missing_required),
    CheckRule(_FEATURES, _WARNING, "WLCG probe", forms.missing_recommended),
    CheckRule(_FEATURES, _INFORMATION, "WLCG probe", forms.missing_optional),
    CheckRule(_ALL, _ERROR, f"{_2016}, Directories", forms.not_a_file),
    CheckRule(_ALL, _ERROR, "one line", forms.too_large),
    CheckRule(_ALL, _ERROR, f"{_2016}, Directories: readable by the user", forms.unreadable),
    CheckRule(_ALL, _ERROR, f"{_2016}, Directories: readable by the user", forms.closed_to_job),
    CheckRule(_ALL, _ERROR, "what a job reads is the site's word", forms.open_to_all),
    CheckRule(_ALL, _WARNING, "a link may lead anywhere", forms.link),
    CheckRule(_FEATURES, _ERROR, f"{_2016}, Directories", forms.illegal_name),
    CheckRule(_FEATURES, _INFORMATION, f"{_2016}, Directories", forms.name_of_2014),
    CheckRule(_ALL, _WARNING, f"{_2016}, Summary; {_2014}, requirements", forms.misplaced_key),
    CheckRule(_ALL, _INFORMATION, f"{_2016}, Summary", forms.unknown_key),
    CheckRule(_ALL, _ERROR, "glideinWMS: an empty file breaks it", forms.empty),
    CheckRule(_ALL, _ERROR, "readers decode it", forms.not_text),
    CheckRule(_ALL, _ERROR, "glideinWMS: a second line breaks it", forms.several_lines),
    CheckRule(_FEATURES, _WARNING, "one line, one newline: shells' read", forms.no_newline),
    CheckRule(_ALL, _ERROR, "glideinWMS: a leading blank breaks it", forms.blanks),
    CheckRule(_FEATURES, _ERROR, "ATLAS pilot: int(); glideinWMS", forms.not_an_integer),
    CheckRule(_FEATURES, _ERROR, "CMS WMCore, ATLAS pilot: float()", forms.not_a_decimal),
    CheckRule(_JOB, _ERROR, f"{_2016}, job_id", forms.bad_job_id),
    CheckRule(_MACHINE, _ERROR, f"{_2014}, 2.6: a path", forms.bad_command),
    CheckRule(_FEATURES, _ERROR, f"{_2016}: absent unless known", forms.stand_in),
    CheckRule(_FEATURES, _ERROR, f"{_2016}: UNIX time stamp in seconds", forms.not_an_epoch),
    CheckRule(_FEATURES, _ERROR, f"{_2016}: a limit counts from the start", forms.not_a_duration),
    CheckRule(_JOB, _WARNING, f"{_2016}: in bytes", forms.small_size),
    CheckRule(_JOB, _WARNING, "plausible range", forms.large_size),
    CheckRule(_FEATURES, _WARNING, "plausible range", forms.many_processors),
    CheckRule(_JOB, _ERROR, f"{_2016}, total_cpu", consistency.allocated_exceeds_total),
    CheckRule(_JOB, _WARNING, f"{_2016}, hs06_job", consistency.hs06_share),
    CheckRule(_JOB, _WARNING, f"{_2016}, cpu_limit_secs", consistency.cpu_limit_unreachable),
    CheckRule(_JOB, _INFORMATION, f"{_2016}, cpu_limit_secs", consistency.cpu_limit_not_total),
    CheckRule(_FEATURES, _WARNING, "plausible range", consistency.rating_range),
    CheckRule(_MACHINE, _ERROR, f"{_2014}, 2.4 and 2.5", consistency.more_physical_cores),
    CheckRule(_JOB, _WARNING, f"{_2014}, 1.1 to 1.3", consistency.normalized_without_factor),
    CheckRule(_JOB, _WARNING, f"{_2016}, wall_limit_secs", consistency.limit_passed),
    CheckRule(_JOB, _ERROR, f"{_2016}, jobstart_secs", consistency.start_in_future),
    CheckRule(_FEATURES, _WARNING, f"{_2016}, grace_secs", consistency.shutdown_without_grace),
    CheckRule(_FEATURES, _WARNING, f"{_2016}, grace_secs", consistency.short_notice),
    CheckRule(
        _FEATURES,
        _INFORMATION,
        f"{_2014}, 2.2: to be removed; glideinWMS: to stay",
        consistency.shutdown_passed,
    ),
    CheckRule(_JOB, _ERROR, f"{_2014}, 1.4, 1.6, 1.7; {_2016}", consistency.twins_differ),
    CheckRule(_JOB, _WARNING, f"{_2014}, 1.1 to 1.3", consistency.normalized_differs),
    CheckRule(_STATUS, _ERROR, f"{_2014}, 3.1 to 3.9", consistency.status_rejected),
    CheckRule(_STATUS, _INFORMATION, f"{_2014}: initially empty", consistency.status_empty),
    CheckRule(_ALL, _ERROR, "naive readers take error pages for values", transport.http_missing_key),
    CheckRule(_ALL, _WARNING, "naive readers take error pages for values", transport.http_missing_body),
    CheckRule(_ALL, _WARNING, "text/plain", transport.http_content_type),
    CheckRule(_ALL, _WARNING, "a cut answer is not noticed without", transport.http_content_length),
    CheckRule(_ALL, _ERROR, "client.py and others refuse it", transport.http_cut),
    CheckRule(_ALL, _INFORMATION, f"{_2016}, Directories: cache control", transport.http_no_cache_headers),
)


def judge(case: Case) -> tuple[Violation, ...]:
    """Check a directory by all rules that apply to it; return all violations, the most severe first."""
    found = [
        Violation(rule.severity, rule.name, key, text, rule.source)
        for rule in RULES
        if case.listing.kind in rule.kinds
        for key, text in rule.judge(case)
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))
