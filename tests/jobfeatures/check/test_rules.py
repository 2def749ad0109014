"""Every rule: one directory that breaks it, and a good one that breaks none."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.check.listing import (
    KINDS,
    Case,
    DirectoryKind,
    Entry,
    Listing,
    ResponseHead,
    Rights,
    Severity,
    Trouble,
    guess_kind,
)
from jobfeatures.check.rules import RULES, judge
from jobfeatures.features.job import Terms, job_features
from jobfeatures.features.keys import KEYS, Area, MjfProfile
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.records.model import Job, JobKey, Limits
from jobfeatures.status.jobstatus import STATUS_KEYS

NOW = 1_800_000_000.0
MACHINE = {"total_cpu": "16", "hs06": "171.04", "shutdowntime": "1800090000", "grace_secs": "86400"}
JOB = {
    "allocated_cpu": "4",
    "hs06_job": "42.76",
    "jobstart_secs": "1799990000",
    "job_id": "slurm-7",
    "wall_limit_secs": "86400",
    "cpu_limit_secs": "345600",
    "max_rss_bytes": "4000000000",
    "max_swap_bytes": "0",
    "scratch_limit_bytes": "20000000000",
    "shutdowntime_job": "1800090000",
    "grace_secs_job": "3600",
    "cpufactor_lrms": "1.2",
    "cpu_limit_secs_lrms": "414720",
    "wall_limit_secs_lrms": "103680",
    "disk_limit_GB": "20",
    "mem_limit_MB": "4000",
    "allocated_CPU": "4",
}
STATUS = {"used_CPU": "3", "first_exp_job_end": "1800000100", "last_exp_job_end": "1800000200"}
GOOD = {DirectoryKind.MACHINE: MACHINE, DirectoryKind.JOB: JOB, DirectoryKind.STATUS: STATUS}
ANSWER = ResponseHead(
    status=200,
    headers={
        "content-type": "text/plain; charset=utf-8",
        "content-length": "3",
        "cache-control": "max-age=10",
    },
    body_bytes=3,
)


def listing(kind, values=None, location="", **rest):
    """Return a directory with these files; text is a value of one line, an Entry stands as it is."""
    entries = {}
    for name, value in (GOOD[kind] if values is None else values).items():
        content = f"{value}\n".encode() if isinstance(value, str) else value
        entry = Entry(content=content, written_at_secs=NOW - 100) if isinstance(content, bytes) else content
        if entry is not None:
            entries[name] = entry
    return Listing(location or f"/somewhere/{kind.value}", entries, kind, **rest)


def breaches(kind, changes=None, **rest):
    """Return the rules that a directory breaks, beside a good machine and job."""
    case = Case(
        listing(kind, {**GOOD[kind], **(changes or {})}, **rest),
        NOW,
        listing(DirectoryKind.MACHINE),
        listing(DirectoryKind.JOB),
    )
    return judge(case)


def served(kind, missing=None, **changes):
    """Return a directory on a server, with one key's headers changed; None: without that header."""
    changed = ANSWER.headers | {name.replace("_", "-"): value for name, value in changes.items()}
    headers = {name: value for name, value in changed.items() if value is not None}
    answer = replace(ANSWER, headers=headers)
    entries = {name: Entry(content=b"16\n", answer=ANSWER) for name in ("total_cpu",)}
    entries["hs06"] = Entry(content=b"20\n", answer=answer)
    return judge(Case(Listing("http://server/machinefeatures", entries, kind, missing=missing), NOW))


M, J, S = DirectoryKind


def mode(bits, uid=0):
    return Entry(content=b"7\n", rights=Rights("job_id", 0o100000 | bits, uid))


BROKEN = {
    "trailing_slash": lambda: breaches(M, location="/somewhere/"),
    "too_many_names": lambda: breaches(M, is_cut=True),
    "missing_required": lambda: breaches(J, {"job_id": None}),
    "missing_recommended": lambda: breaches(M, {"hs06": None}),
    "missing_optional": lambda: breaches(J, {"grace_secs_job": None}),
    "not_a_file": lambda: breaches(J, {"job_id": Entry(trouble=Trouble.NOT_A_FILE, detail="is a FIFO")}),
    "too_large": lambda: breaches(J, {"job_id": Entry(trouble=Trouble.TOO_LARGE, detail="has 5000 bytes")}),
    "unreadable": lambda: breaches(S, {"used_CPU": Entry(trouble=Trouble.UNREADABLE, detail="denied")}),
    "closed_to_job": lambda: breaches(J, {"job_id": mode(0o600)}),
    "open_to_all": lambda: breaches(J, rights=(Rights("/x", 0o40777, 0),)),
    "link": lambda: breaches(J, {"job_id": Entry(trouble=Trouble.FOREIGN_LINK, is_link=True)}),
    "illegal_name": lambda: breaches(M, {".hs06.tmp": "1"}),
    "name_of_2014": lambda: breaches(J, reported_profile=MjfProfile.OF_2016),
    "misplaced_key": lambda: breaches(M, {"job_id": "1"}),
    "unknown_key": lambda: breaches(S, {"Mine": "1"}),
    "empty": lambda: breaches(J, {"max_rss_bytes": b""}),
    "not_text": lambda: breaches(J, {"job_id": b"\xff\xfe\n"}),
    "several_lines": lambda: breaches(M, {"total_cpu": b"16\n17\n"}),
    "no_newline": lambda: breaches(M, {"total_cpu": b"16"}),
    "blanks": lambda: breaches(M, {"total_cpu": b" 16\n"}),
    "not_an_integer": lambda: breaches(J, {"wall_limit_secs": "86400.0"}),
    "not_a_decimal": lambda: breaches(M, {"hs06": "1.7e2"}),
    "bad_job_id": lambda: breaches(J, {"job_id": "7 of 9"}),
    "bad_command": lambda: breaches(M, {"shutdown_command": "sbin/off"}),
    "stand_in": lambda: breaches(J, {"wall_limit_secs": "0"}),
    "not_an_epoch": lambda: breaches(J, {"jobstart_secs": "3600"}),
    "not_a_duration": lambda: breaches(J, {"wall_limit_secs": "1800003600"}),
    "small_size": lambda: breaches(J, {"max_rss_bytes": "4000"}),
    "large_size": lambda: breaches(J, {"max_rss_bytes": str(2**63)}),
    "many_processors": lambda: breaches(M, {"total_cpu": "100000"}),
    "allocated_exceeds_total": lambda: breaches(J, {"allocated_cpu": "17"}),
    "hs06_share": lambda: breaches(J, {"hs06_job": "171.04"}),
    "cpu_limit_unreachable": lambda: breaches(J, {"cpu_limit_secs": "345601"}),
    "cpu_limit_not_total": lambda: breaches(J, {"cpu_limit_secs": "86400"}),
    "rating_range": lambda: breaches(M, {"hs06": "10.69"}),
    "more_physical_cores": lambda: breaches(M, {"phys_cores": "32", "log_cores": "16"}),
    "normalized_without_factor": lambda: breaches(J, {"cpufactor_lrms": None}),
    "limit_passed": lambda: breaches(J, {"jobstart_secs": "1799900000"}),
    "start_in_future": lambda: breaches(J, {"jobstart_secs": "1800000061"}),
    "shutdown_without_grace": lambda: breaches(J, {"grace_secs_job": None}),
    "short_notice": lambda: breaches(M, {"shutdowntime": "1800000000"}),
    "shutdown_passed": lambda: breaches(M, {"shutdowntime": "1800000000"}),
    "twins_differ": lambda: breaches(J, {"mem_limit_MB": "3814"}),
    "normalized_differs": lambda: breaches(J, {"wall_limit_secs": "103680", "cpu_limit_secs": "345600"}),
    "status_rejected": lambda: breaches(S, {"used_CPU": "5"}),
    "status_empty": lambda: judge(Case(listing(S, {}), NOW)),
    "http_missing_key": lambda: served(M, missing=ResponseHead(status=200, body_bytes=40)),
    "http_missing_body": lambda: served(M, missing=ResponseHead(status=404, body_bytes=40)),
    "http_content_type": lambda: served(M, content_type="text/html"),
    "http_content_length": lambda: served(M, content_length=None),
    "http_cut": lambda: served(M, content_length="5"),
    "http_no_cache_headers": lambda: served(M, cache_control=None),
}  # fmt: skip


def test_every_rule_has_a_breach_here():
    assert set(BROKEN) == {rule.name for rule in RULES}
    assert len(BROKEN) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_breach_is_found_with_the_severity_of_its_rule(rule):
    found = [finding for finding in BROKEN[rule.name]() if finding.rule == rule.name]
    assert found
    assert {finding.severity for finding in found} == {rule.severity}
    assert all(finding.source == rule.source for finding in found)


@pytest.mark.parametrize("kind", DirectoryKind)
def test_a_good_directory_has_no_error_and_no_warning(kind):
    serious = [finding for finding in breaches(kind) if finding.severity is not Severity.INFORMATION]
    assert serious == []


def test_a_good_server_has_nothing_to_remark_about_its_answers():
    found = served(M, missing=ResponseHead(status=404, headers={"content-length": "0"}))
    assert [finding for finding in found if finding.rule.startswith("http")] == []


@pytest.mark.parametrize(
    "name", ["total_cpu", "allocated_cpu", "jobstart_secs", "job_id", "wall_limit_secs", "cpu_limit_secs"]
)
def test_what_the_probe_of_wlcg_calls_an_error(name):
    assert absent(name) == Severity.ERROR


@pytest.mark.parametrize(
    "name", ["hs06", "hs06_job", "max_rss_bytes", "max_swap_bytes", "scratch_limit_bytes"]
)
def test_what_the_probe_of_wlcg_calls_a_warning(name):
    assert absent(name) == Severity.WARNING


@pytest.mark.parametrize("name", ["shutdowntime", "grace_secs", "shutdowntime_job", "grace_secs_job"])
def test_what_the_probe_of_wlcg_calls_information(name):
    assert absent(name) == Severity.INFORMATION


def absent(name):
    [severity] = {
        finding.severity
        for finding in judge(Case(listing(KINDS[name], {}), NOW))
        if finding.key == name and finding.rule.startswith("missing")
    }
    return severity


@pytest.mark.parametrize(
    "value", ["UNLIMITED", "-1", "1e6", "0x10", "1_000", "1,000", "+5", "٣", "5 s", "inf"]
)
def test_what_stands_for_an_integer_and_is_none_is_found(value):
    assert "not_an_integer" in {finding.rule for finding in breaches(J, {"max_rss_bytes": value})}


@pytest.mark.parametrize("value", ["nan", "-20", "1e3", "20.", ".5", "1,5", "inf"])
def test_what_stands_for_a_decimal_and_is_none_is_found(value):
    assert "not_a_decimal" in {finding.rule for finding in breaches(M, {"hs06": value})}


@pytest.mark.parametrize("value", ["42.76", "42.8", "43", "42.7600"])
def test_a_share_may_be_rounded(value):
    assert "hs06_share" not in {finding.rule for finding in breaches(J, {"hs06_job": value})}


def test_a_missing_newline_is_no_reason_to_call_a_value_malformed():
    assert {finding.rule for finding in breaches(M, {"total_cpu": b"16"})} == {"no_newline"}


def rules_of(*findings):
    return {finding.rule for finding in findings}


@pytest.mark.parametrize("profile", MjfProfile)
def test_what_we_publish_in_each_profile_has_no_error(profile):
    machine = Machine(
        total_cpus=16, hs06="171.04", grace_secs=60, jobslots=4, physical_cores=8, logical_cores=16
    )
    job = Job(
        key=JobKey("slurm", "7"), start_secs=int(NOW) - 100, allocated_cpus=4,
        limits=Limits(wall_secs=3600, cpu_secs=14_400, memory_bytes=4 * 10**9, scratch_bytes=10**10),
    )  # fmt: skip
    made = {
        M: machine_features(machine, profile=profile, now_secs=0),
        J: job_features(job, machine, terms=Terms(profile=profile)),
    }
    for kind, values in made.items():
        case = Case(listing(kind, values), NOW, listing(M, made[M]), listing(J, made[J]))
        assert case.listing.profile is profile
        assert [each for each in judge(case) if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize(
    ("bits", "uid", "kind", "is_closed"),
    [(0o600, 0, J, True), (0o600, 1000, J, False), (0o600, 1000, M, True), (0o644, 0, M, False), (0o060, 1000, J, True)],
)  # fmt: skip
def test_whether_a_jobs_user_may_read_follows_from_the_mode_whoever_checks(bits, uid, kind, is_closed):
    name = "total_cpu" if kind is M else "job_id"
    assert ("closed_to_job" in rules_of(*breaches(kind, {name: mode(bits, uid)}))) == is_closed


def test_a_folder_above_that_nobody_may_enter_is_found():
    def rules(*modes):
        rights = tuple(Rights(f"/{at}", 0o40000 | bits, 0) for at, bits in enumerate(modes))
        return rules_of(*breaches(J, rights=rights))

    assert "closed_to_job" not in rules(0o755, 0o711)
    assert "closed_to_job" in rules(0o711)  # nobody can list it
    assert "closed_to_job" in rules(0o755, 0o700)
    assert "open_to_all" not in rules(0o755, 0o1777)


@pytest.mark.parametrize(
    ("kind", "changes", "rule"),
    [
        (M, {"hs06": "17104000"}, "rating_range"),
        (J, {"job_id": "x" * 3000}, "bad_job_id"),
        (J, {"scratch_limit_bytes": str(2**63)}, "large_size"),
    ],
)
def test_what_no_machine_has_is_found(kind, changes, rule):
    assert rule in rules_of(*breaches(kind, changes))


def test_the_worst_comes_first():
    severities = [finding.severity for finding in judge(Case(listing(J, {"job_id": " x"}), NOW))]
    assert severities == sorted(severities, key=list(Severity).index)
    assert len(set(severities)) == 3


def test_a_status_is_judged_by_the_parser_that_the_daemon_uses():
    [finding] = [
        each for each in breaches(S, {"can_postpone_last_job": "true"}) if each.severity is Severity.ERROR
    ]
    assert (finding.rule, finding.key) == ("status_rejected", "can_postpone_last_job")


def test_the_page_about_the_checker_has_every_rule():
    page = (Path(__file__).parents[3] / "docs/check.md").read_text()
    _, _, listed = page.partition("## Rules")
    sections = re.findall(r"(?ms)^### (\w+?)s?$(.*?)(?=^#|\Z)", listed)
    shown = {
        (kind.lower(), name)
        for kind, text in sections
        for name in re.findall(r"(?m)(?:^|, )(?:- )?`(\w+)`", text)
    }
    assert shown == {(rule.severity.value, rule.name) for rule in RULES}


def test_every_key_is_known_in_its_directory():
    areas = {Area.MACHINE: M, Area.JOB: J}
    assert {key.name: areas[key.area] for key in KEYS}.items() <= KINDS.items()
    assert {key.name: S for key in STATUS_KEYS}.items() <= KINDS.items()
    assert len(KINDS) == len(KEYS) + len(STATUS_KEYS)


@pytest.mark.parametrize(
    ("location", "names", "kind"),
    [
        ("/x", ["total_cpu"], M),
        ("/x", ["job_id", "hs06"], None),
        ("/x", ["job_id", "allocated_cpu", "hs06"], J),
        ("/x/jobstatus/slurm-1", [], S),
        ("/x/jobfeatures/jobstatus", [], S),
        ("http://x/MachineFeatures/", ["odd"], M),
        ("/x", [], None),
    ],
)
def test_a_directory_is_known_by_its_keys_or_its_path(location, names, kind):
    assert guess_kind(location, dict.fromkeys(names)) is kind


@given(
    st.sampled_from(list(DirectoryKind)),
    st.dictionaries(
        st.sampled_from(sorted(KINDS)) | st.text(max_size=5),
        st.binary(max_size=30) | st.from_regex(rb"[0-9.]{1,40}\n", fullmatch=True),
    ),
)
def test_any_content_gives_findings_and_no_exception(kind, contents):
    entries = {name: Entry(content=content, written_at_secs=NOW) for name, content in contents.items()}
    case = Case(Listing("/x", entries, kind), NOW, listing(DirectoryKind.MACHINE), listing(DirectoryKind.JOB))
    for finding in judge(case):
        assert "\n" not in finding.text


def test_no_logical_cores_mean_that_hyperthreading_is_off():
    """Source: draft 0.99, 2.5: "can be zero if hyperthreading is off"."""
    assert "more_physical_cores" not in str(breaches(M, {"phys_cores": "8", "log_cores": "0"}))
