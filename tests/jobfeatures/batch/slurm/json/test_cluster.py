"""slurmrestd's answers about load, licences and reservations, in the shapes of its versions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jobfeatures.batch.slurm.json.cluster import (
    parse_json_diag,
    parse_json_licences,
    parse_json_reservations,
)
from jobfeatures.batch.slurm.json.values import JsonRecord
from jobfeatures.errors import ParseError
from jobfeatures.records.administration import Cycles, Licence, Requests, Reservation, UserRequests

FIXTURES = Path(__file__).parents[4] / "fixtures/slurm/json"
ABOUT = {"source": "slurmrestd", "taken_at_secs": 1795270000.0}
STATISTICS = {
    "req_time_start": {"set": True, "infinite": False, "number": 1795260000},
    "server_thread_count": 3,
    "dbd_agent_queue_size": 5,
    "jobs_submitted": 7,
    "schedule_cycle_total": 10,
    "schedule_cycle_last": 500,
    "schedule_cycle_mean": 250,
    "schedule_cycle_max": 2_000_000,
    "schedule_cycle_mean_depth": 4,
    "schedule_queue_length": 9,
    "bf_cycle_counter": 0,
    "bf_backfilled_jobs": 2,
    "rpcs_by_message_type": [{"message_type": "REQUEST_PING", "count": 2, "total_time": 1_000_000}],
    "rpcs_by_user": [{"user": "alice", "user_id": 6001, "count": 4, "total_time": 500_000}, {"user_id": 7}],
}


def test_statistics_are_read_with_numbers_of_either_shape():
    found = parse_json_diag(JsonRecord({"statistics": STATISTICS}), **ABOUT)
    assert (found.threads, found.backfilled_jobs) == (3, 2)
    assert (found.queued, found.jobs) == ({"accounting": 5}, {"submitted": 7})
    assert found.cycles["main"] == Cycles(
        count=10, last_secs=0.0005, mean_secs=0.00025, max_secs=2.0, mean_depth_jobs=4, queue_jobs=9
    )
    assert found.cycles["backfill"] == Cycles(count=0)
    assert found.types == (Requests("REQUEST_PING", 2, 1.0),)
    assert found.users == (UserRequests("alice", 4, 0.5),)
    assert [each.reason for each in found.rejected] == ["fields user, count and total_time are required"]


def test_an_answer_without_statistics_is_none():
    with pytest.raises(ParseError, match="no statistics"):
        parse_json_diag(JsonRecord({"errors": []}), **ABOUT)


def test_licences_are_read_and_a_bad_one_costs_itself_only():
    found = parse_json_licences(
        JsonRecord({"licenses": [{"LicenseName": "x", "Total": 5, "Used": 1, "Free": 4}, {"Total": 1}]}),
        **ABOUT,
    )
    assert found.licences == (Licence(name="x", total=5, used=1, free=4),)
    assert len(found.rejected) == 1


def test_captured_reservations_are_read():
    document = JsonRecord(json.loads((FIXTURES / "reservations-v0.0.38.json").read_text()))
    assert parse_json_reservations(document, **ABOUT).reservations[0] == Reservation(
        name="maintE", start_secs=1795271348, end_secs=1795274948, nodes=1, cores=4, is_maintenance=True
    )


def public(name):
    folder = os.environ.get("JOBFEATURES_DATA")
    if not folder:
        pytest.skip("JOBFEATURES_DATA names no folder")
    path = Path(folder) / "batch/rivos-slurm-exporter/exporter/fixtures" / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return JsonRecord(json.loads(path.read_text()))


@pytest.mark.parametrize(("name", "types", "users"), [("sdiag.json", 3, 2), ("sdiag_2405.json", None, 1)])
def test_captured_statistics_of_newer_versions_are_read(name, types, users):
    document = public(name)
    found = parse_json_diag(document, **ABOUT)
    assert len(found.users) == users
    assert types in {None, len(found.types)}
    raw = document.get("statistics")
    assert {each.name: each.count for each in found.users} == {
        each["user"]: each["count"] for each in raw["rpcs_by_user"]
    }
    assert found.jobs["submitted"] == raw["jobs_submitted"]
    assert found.cycles["main"].max_secs == pytest.approx(raw["schedule_cycle_max"] / 1e6)


def test_captured_licences_of_a_newer_version_are_read():
    [found] = parse_json_licences(public("license_out.json"), **ABOUT).licences
    assert (found.total, found.used, found.free, found.reserved) == (420, 213, 205, 357)


def test_a_repeated_name_counts_once_and_is_reported():
    licence = {"LicenseName": "x", "Total": 5, "Used": 1}
    found = parse_json_licences(JsonRecord({"licenses": [licence, {**licence, "Used": 4}]}), **ABOUT)
    assert [each.used for each in found.licences] == [1]
    assert [(each.reason, each.text) for each in found.rejected] == [("licence occurs twice", "x")]
    reservation = {"name": "r", "start_time": 1, "end_time": 2_000_000_000}
    document = JsonRecord({"reservations": [reservation, reservation, {"name": "without times"}]})
    kept = parse_json_reservations(document, **ABOUT)
    assert [(each.name, each.nodes) for each in kept.reservations] == [("r", None)]  # unknown, not 0
    assert sorted((each.reason, each.text) for each in kept.rejected) == [
        ("not a reservation: name, start_time and end_time are required", "without times"),
        ("reservation occurs twice", "r"),
    ]


def test_requests_of_users_whom_slurm_cannot_name_are_added_up():
    told = [
        {"user": name, "user_id": uid, "count": count, "total_time": 10**6 * count}
        for name, uid, count in (
            ("nobody", 7001, 5),
            ("alice", 6001, 1),
            ("nobody", 7002, 6),
            ("(null)", 7003, 2),
        )
    ]
    found = parse_json_diag(
        JsonRecord({"statistics": {"server_thread_count": 3, "rpcs_by_user": told}}),
        source="x",
        taken_at_secs=1.0,
    )
    assert found.rejected == ()
    assert [(each.name, each.count, each.total_secs) for each in found.users] == [
        ("nobody", 11, 11.0),
        ("alice", 1, 1.0),
        ("(null)", 2, 2.0),
    ]
