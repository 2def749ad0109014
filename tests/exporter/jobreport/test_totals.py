"""Sums by user and account over the jobs that ended within a time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jobfeatures.records.metrics import OTHERS
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.jobreport.totals import ask_totals, format_totals, make_totals_document
from tests.exporter.jobreport.server import NOW, FakePrometheus, job_series
from tests.exporter.jobreport.test_report import CARD, END, QUESTION, START, cards, highest_of, values_of
from tests.exporter.jobreport.test_report_command import StandIn

DAY = replace(QUESTION, job="", since_secs=86_400.0)


def job(job_id, user="alice", account="physics", node="n1:9819", **values):
    return job_series(job_id, node, values=values_of(**values), user=user, account=account)


def totals(series, by="user", *, highest=(), question=DAY):
    return ask_totals(FakePrometheus(series, highest=highest), question, by)


def test_used_and_requested_are_summed_by_user_and_by_account():
    series = [
        *job("1"),  # an hour of 8 CPUs, of which 4 were used
        *job("2", cpus=4, cpu_secs=3600.0),
        *job("3", user="bob", cpus=1, cpu_secs=3600.0),
    ]
    alice, bob = totals(series).totals
    assert (alice.name, alice.jobs, alice.core_hours, alice.used_core_hours) == ("alice", 2, 12.0, 5.0)
    assert (bob.name, bob.wasted_core_hours) == ("bob", 0.0)
    [physics] = totals(series, "account").totals
    assert (physics.name, physics.jobs, physics.core_hours, physics.wasted_core_hours) == (
        "physics",
        3,
        13.0,
        7.0,
    )


def test_a_job_on_two_nodes_counts_once_with_both():
    [alice] = totals([*job("1"), *job("1", node="n2:9819")]).totals
    assert (alice.jobs, alice.core_hours, alice.used_core_hours) == (1, 16.0, 8.0)


def test_memory_is_what_was_given_and_the_highest_use_over_the_jobs_time():
    [alice] = totals(job("12"), highest=highest_of()).totals
    assert alice.gibibyte_hours == 32.0
    assert alice.used_gibibyte_hours == 1.5


@pytest.mark.parametrize("values", [{"end": None}, {"end": NOW - 86_400}, {"end": START - 1}])
def test_jobs_that_run_or_ended_before_do_not_count(values):
    assert totals(job("1", **values)).totals == ()


def test_what_is_not_known_is_told_and_counts_on_neither_side():
    series = [each for each in job("1") if each.name != "batch_job_cpu_seconds_total"]
    found = totals([*series, *job("2")])
    assert [(each.jobs, each.core_hours, each.jobs_without_cpu) for each in found.totals] == [(2, 8.0, 1)]
    assert any("without nodes of 1 jobs whose CPU time" in each for each in found.notes)


def test_of_a_job_on_two_nodes_one_without_cpu_time_is_left_out_and_told():
    other = [each for each in job("1", node="n2:9819") if each.name != "batch_job_cpu_seconds_total"]
    [alice] = totals([*job("1"), *other]).totals
    assert (alice.core_hours, alice.used_core_hours, alice.jobs_without_cpu) == (8.0, 4.0, 1)


def test_cpu_time_of_more_than_cpus_times_run_time_is_summed_and_told():
    found = totals([*job("1", cpu_secs=8 * 3600.0 * 46), *job("2")])
    assert [(each.used_core_hours, each.jobs_with_implausible_cpu_time) for each in found.totals] == [
        (8 * 46 + 4, 1)
    ]
    assert any(note.startswith("sums include 1 jobs with CPU time of more than CPUs") for note in found.notes)


def test_a_job_that_was_requeued_onto_another_node_has_its_last_run_only():
    again = job("1", node="n2:9819")
    for end in (START - 3600, None):  # None: its first node crashed
        earlier = job("1", start=START - 7200, end=end)
        [alice] = totals([*earlier, *again]).totals
        assert (alice.jobs, alice.core_hours, alice.used_core_hours) == (1, 8.0, 4.0)


def test_a_job_whose_cards_idled_counts_with_their_hours():
    series = job_series("1", values=[*values_of(), *CARD], user="alice")
    idle = [each for each in series if each.name != "batch_job_gpu_busy_seconds_total"]
    [alice] = totals([*series, *cards("n1:9819")]).totals  # one of its two cards idled
    assert (alice.gpu_hours, alice.used_gpu_hours) == (2.0, 0.5)
    [alice] = totals([*idle, *cards("n1:9819")]).totals
    assert (alice.gpu_hours, alice.used_gpu_hours) == (2.0, 0.0)
    found = totals(idle)  # nothing is known of the cards
    assert [(each.gpu_hours, each.jobs_without_gpu) for each in found.totals] == [(0.0, 1)]
    assert "sums are without nodes of 1 jobs whose GPU time or allocation is not known" in found.notes


def test_hours_in_which_a_job_was_suspended_are_not_wasted():
    values = [*values_of(cpu_secs=7200.0), ("batch_job_state", {"state": "SUSPENDED"}, 1)]
    series = job_series("12", values=values, user="alice")
    prometheus = FakePrometheus(series, highest=highest_of(), steps=45)  # minutes of an hour
    [alice] = ask_totals(prometheus, DAY, "user").totals
    assert (alice.core_hours, alice.used_core_hours, alice.gibibyte_hours) == (2.0, 2.0, 32.0)


def test_cpu_time_that_began_anew_is_unknown_unless_it_is_that_of_another_run():
    series = job("1")
    resets = [replace(each, value=1.0) for each in series if each.name == "batch_job_cpu_seconds_total"]
    for first, known in ((START, 0), (START - 7200, 1)):
        server = FakePrometheus(series, resets=resets, firsts=first)
        [alice] = ask_totals(server, DAY, "user").totals
        assert (alice.jobs_without_cpu, alice.core_hours) == (1 - known, 8.0 * known)


def test_jobs_whose_end_was_not_seen_are_counted_apart():
    found = totals([*job("1", end=None), *job("2")])
    assert [each.jobs for each in found.totals] == [1]
    assert "sums are without 1 jobs without samples now whose end was not seen" in found.notes
    running = FakePrometheus(job("1", end=None), seen=NOW, is_current=True)
    assert ask_totals(running, DAY, "user").notes == ()


def test_what_is_no_number_is_unknown():
    found = totals(job("1", cpu_secs=float("nan")))
    assert [(each.core_hours, each.jobs_without_cpu) for each in found.totals] == [(0.0, 1)]


def test_services_and_sums_of_others_are_no_jobs():
    series = [*job("1"), *job_series("ssh", system="service", values=values_of()), *job(OTHERS, user="bob")]
    assert [each.name for each in totals(series).totals] == ["alice"]


def test_the_table_has_those_who_wasted_most_first():
    found = totals([*job("1", user="bob", cpus=1, cpu_secs=3600.0), *job("2", user="\x1b[2Jx")])
    text = format_totals(found)
    assert text.splitlines()[0].split() == [
        "user",
        "jobs",
        "core",
        "h",
        "used",
        "wasted",
        "core",
        "h",
        "GiB",
        "h",
        "used",
        "at",
        "most",
        "GPU",
        "h",
        "GPU",
        "used",
    ]
    assert "\x1b" not in text
    assert text.splitlines()[2].startswith("bob ")
    document = make_totals_document(found)
    assert [each["wasted_core_hours"] for each in document["totals"]] == [4.0, 0.0]


def test_the_command_prints_either(capsys):
    server = StandIn()
    try:
        at = ["--at", f"{NOW:.0f}", "--prometheus", server.url]
        assert main(["report", "--by", "account", *at]) == 0
        assert capsys.readouterr().out.startswith("account")
        assert main(["report", "--by", "user", "--format", "json", *at]) == 0
        assert json.loads(capsys.readouterr().out)["by"] == "user"
        assert main(["report", "--by", "user", *at, "--since", "1s"]) == 0
        assert "no job ended in the last 1s on " in capsys.readouterr().err
        assert main(["report", "12", "--by", "user", *at]) == 2
        assert main(["report", *at]) == 2
    finally:
        server.server.shutdown()
        server.server.server_close()
    assert END < NOW
