"""Output of ``sdiag``, ``sshare`` and ``scontrol show`` for administrators."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.administration import (
    parse_all_reservations,
    parse_licences,
    parse_sdiag,
    parse_shares,
)
from jobfeatures.errors import ParseError
from jobfeatures.records.administration import Cycles, FairShare, Licence, Reservation, UserRequests

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"
NOW = 1795395781.0


def sdiag(text: str):
    return parse_sdiag(text, taken_at_secs=NOW)


@pytest.fixture
def captured() -> str:
    return (FIXTURES / "sdiag.txt").read_text()


def test_a_captured_answer_of_sdiag_is_read_whole(captured):
    found = sdiag(captured)
    assert (found.threads, found.backfilled_jobs) == (3, 2)
    assert found.queued == {"agent": 0, "accounting": 0}
    assert found.jobs == {"submitted": 4, "started": 2, "completed": 1, "canceled": 0, "failed": 0}
    assert asdict(found.cycles["main"]) == pytest.approx(
        asdict(
            Cycles(count=3, last_secs=12e-6, mean_secs=16e-6, max_secs=24e-6, mean_depth_jobs=0, queue_jobs=0)
        )
    )
    backfill = found.cycles["backfill"]
    assert (backfill.count, backfill.mean_depth_jobs, backfill.queue_jobs) == (1, 2, 2)
    assert len(found.types) == captured.count("(", captured.index("by message type")) - len(found.users)
    assert [each.name for each in found.users] == ["root", "alice", "bob"]


def test_requests_are_counted_with_their_time(captured):
    alice = next(line.split() for line in captured.splitlines() if line.startswith("\talice "))
    count, total = (int(alice[at].partition(":")[2]) for at in (-3, -1))
    assert sdiag(captured).users[1] == UserRequests("alice", count, total * 1e-6)


def test_a_warning_behind_a_title_and_unknown_sections_change_nothing(captured):
    newer = captured.replace(
        "Backfilling stats",
        "Backfilling stats (WARNING: data obtained in the middle of backfilling execution.)",
    ).replace("Latency for", "Main scheduler exit:\n\tEnd of job queue: 9\n\tTotal cycles: 7\n\nLatency for")
    assert sdiag(newer) == sdiag(captured)


def test_a_controller_without_cycles_has_no_mean(captured):
    text = "\n".join(line for line in captured.splitlines() if "Mean cycle" not in line)
    assert sdiag(text).cycles["main"].mean_secs is None


@pytest.mark.parametrize("text", ["", "slurm_load_stats error: Access denied", "Server thread count: many"])
def test_something_else_is_no_answer(text):
    with pytest.raises(ParseError, match="sdiag"):
        sdiag(text)


@given(st.text())
def test_whatever_stands_there_is_read_or_refused(text):
    for parse in (parse_shares, lambda text, **when: parse_licences(text.splitlines(), **when)):
        parse(text, taken_at_secs=NOW)
    sdiag(f"Server thread count:  3\n{text}")


def test_licences_of_older_and_newer_versions_are_read():
    lines = [
        "LicenseName=matlab@flexhost Total=20 Used=3 Free=17 Reserved=0 Remote=yes",
        "LicenseName=old Total=5 Used=2 Remote=no",
        "LicenseName=newer Total=5 Used=1 Free=4 Reserved=2 Remote=yes LastConsumed=0 LastDeficit=0",
    ]
    assert parse_licences(lines, taken_at_secs=NOW).licences == (
        Licence(name="matlab@flexhost", total=20, used=3, free=17, reserved=0),
        Licence(name="old", total=5, used=2),
        Licence(name="newer", total=5, used=1, free=4, reserved=2),
    )


def test_no_licences_are_an_answer_and_a_bad_one_costs_itself_only():
    assert parse_licences(["No licenses configured in Slurm."], taken_at_secs=NOW).licences == ()
    found = parse_licences(["LicenseName=x Total=lots", "LicenseName=y Total=1 Used=0"], taken_at_secs=NOW)
    assert [each.name for each in found.licences] == ["y"]
    assert len(found.rejected) == 1


def test_a_repeated_licence_counts_once_and_is_reported():
    found = parse_licences(
        ["LicenseName=x Total=1 Used=0", "LicenseName=x Total=2 Used=0"], taken_at_secs=NOW
    )
    assert found.licences == (Licence(name="x", total=1, used=0),)
    assert [each.reason for each in found.rejected] == ["licence occurs twice"]


def test_shares_have_accounts_and_their_users():
    text = (
        "root|||0|0.000000|\n physics||0.500000|7500|0.750000|\n  physics|alice|1.0|7500|1.000000|0.250000\n"
    )
    text += "  physics|alice|1.0|10|1.000000|0.250000\n parents|bob|parent|0||inf\n"
    found = parse_shares(text, taken_at_secs=NOW)
    assert found.shares == (
        FairShare(account="root", usage_secs=0, usage_ratio=0.0),
        FairShare(account="physics", shares_ratio=0.5, usage_secs=7500, usage_ratio=0.75),
        FairShare(
            account="physics", user="alice", shares_ratio=1.0, usage_secs=7500, usage_ratio=1.0, factor=0.25
        ),
    )
    assert [each.field for each in found.rejected] == ["FairShare"]


def test_captured_reservations_are_read_until_they_are_over():
    lines = (FIXTURES / "reservations.txt").read_text().splitlines()
    found = parse_all_reservations(lines, taken_at_secs=NOW)
    assert found.reservations == (
        Reservation(
            name="maint", start_secs=1795402975, end_secs=1795406575, nodes=2, cores=8, is_maintenance=True
        ),
        Reservation(name="course", start_secs=1795395775, end_secs=1795399375, nodes=1, cores=1),
    )
    later = parse_all_reservations(lines, taken_at_secs=1795399375)
    assert [each.name for each in later.reservations] == ["maint"]


def test_a_reservation_whose_name_imitates_fields_is_rejected():
    line = (FIXTURES / "reservations.txt").read_text().splitlines()[0]
    hostile = line.replace(
        "=maint ", "=x StartTime=1 EndTime=2 Duration=1 Nodes=n1 NodeCnt=1 Flags=MAINT ", 1
    )
    found = parse_all_reservations([hostile], taken_at_secs=NOW)
    assert found.reservations == ()
    assert [each.reason for each in found.rejected] == ["field occurs twice"]


def test_users_that_slurm_calls_nobody_are_added_up(captured):
    """sdiag calls each user so whose uid has no name on slurmctld's host."""
    nobodies = "".join(
        f"\tnobody          ({uid:10}) count:{count:<6} ave_time:1      total_time:{count}000000\n"
        for uid, count in ((7001, 5), (7002, 6))
    )
    head, title, rest = captured.partition("Remote Procedure Call statistics by user\n")
    found = sdiag(f"{head}{title}{nobodies}{rest}")
    assert found.users == (UserRequests("nobody", 11, 11.0), *sdiag(captured).users)
