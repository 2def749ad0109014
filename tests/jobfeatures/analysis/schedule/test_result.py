"""One small log, of which everything was computed by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.choosing import Filter, ScheduleError
from jobfeatures.analysis.schedule.document import compare, make_document
from jobfeatures.analysis.schedule.eet import Mode
from jobfeatures.analysis.schedule.jobarrays import from_records
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.shares import ShareRules
from jobfeatures.analysis.schedule.tables import format_comparison, format_csv, format_text
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.evaluated import evaluate, summarise

# Two users of six processors. User 1 has the jobs of Table 1 of the paper, the second of which had to
# wait. User 2 asks for four processors at once, and has a share of three.
SMALL = (
    "; MaxProcs: 6",
    "; UnixStartTime: 1000000000",
    "; Queue: 1 short",
    "1 0  0  4 2 -1 -1 -1 -1 -1 1 1 7 -1  1 -1 -1 -1",
    "2 1  3  1 2 -1 -1 -1 -1 -1 1 1 7 -1 -1 -1 -1 -1",
    "3 2  0  2 4 -1 -1 -1 -1 -1 1 2 8 -1  1 -1 -1 -1",
    "4 3  2  3 1 -1 -1 -1 -1 -1 1 2 8 -1  1 -1 -1 -1",
    "5 4 10 -1 1 -1 -1 -1 -1 -1 5 2 8 -1  1 -1 -1 -1",
    "6 5 -1  3 1 -1 -1 -1 -1 -1 1 2 8 -1  1 -1 -1 -1",
)


def document_of(log, by=(), **options):
    return make_document(summarise(log.name, [log], Options(**options), by), by)


def job(job_id="1", **fields):
    given = {"user": "ann", "submit_secs": 0, "start_secs": 0, "end_secs": 10, "total_cpus": 1} | fields
    return JobRecord(batch_system="slurm", job_id=job_id, **given)


def test_a_small_log_by_hand(read_swf, monkeypatch):
    monkeypatch.setattr("jobfeatures.analysis.schedule.whole.INTERVALS", 4)
    found = document_of(read_swf(*SMALL))
    top = {
        "log": "log",
        "jobs": 4,
        "filtered": 0,
        "users": 2,
        "mode": "literal",
        "arrival": "submit",
        "resources": ["cpu"],
        "share": 3,
        "sum_eet": 4 + 3 + 5 + 8,
        "violated": 1,
        "violated_percent": 25,
        "total_tardiness": 2,
        "total_weighted_tardiness": 4,
        "veet": {"1": 50, "2": 0},
        "weighted_tardiness": {"1": 4, "2": 0},
        "mean_wait": 5 / 4,
        "mean_response": 15 / 4,
        "mean_slowdown": pytest.approx((1 + 4 + 1 + 5 / 3) / 4),
        "mean_bounded_slowdown": 1,
        "warnings": [],
    }
    assert {name: found[name] for name in top} == top
    assert {reason: count for reason, count in found["skipped"].items() if count} == {
        "never_started": 1,
        "no_start_time": 1,
    }
    assert found["shares"] == {
        "cpu": {
            "default": 3, "default_from": "total / users", "total": 6, "total_from": "log", "unit": "cpu",
            "users": {}, "groups": {}, "unknown_requests": 0,
        }
    }  # fmt: skip
    assert found["wait"] == pytest.approx(
        {"count": 4, "mean": 1.25, "min": 0, "p25": 0, "p50": 1, "p75": 2.25, "p90": 2.7, "p95": 2.85, "p99": 2.97,
         "max": 3}
    )  # fmt: skip
    # In use: 2 up to 2, 6 up to 4, 2 in the fifth second, 1 from then on (job 4 from 5 to 8).
    assert found["utilisation"] == {
        "cpu": {
            "total": 6, "total_from": "log", "mean": 21 / 48, "most_in_use": 6,
            "over_time": pytest.approx([2 / 6, 6 / 6, 1.5 / 6, 1 / 6]),
        }
    }  # fmt: skip
    assert found["queue_length"] == {"mean": 5 / 8, "most": 2, "over_time": pytest.approx([0.5, 1.5, 0.5, 0])}
    assert found["over_time"] == {"start_secs": 0, "interval_secs": 2, "intervals": 4}
    assert found["over_users"]["veet"]["p75"] == 37.5
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("mode", "sum_eet", "violated", "tardiness", "weighted"),
    [
        (Mode.LITERAL, 20, 1, 2, 4),
        (Mode.EXACT, 19, 2, 3, 5),  # job 3 leaves a processor second to job 4
        (Mode.FLUID, 4 + 3 + (2 + 8 / 3) + (5 + 8 / 3), 2, 2 + 1 / 3, 4 + 1 / 3),
    ],
)
def test_the_modes_of_that_log(read_swf, mode, sum_eet, violated, tardiness, weighted):
    found = document_of(read_swf(*SMALL), mode=mode)
    assert found["mode"] == mode.value
    assert (
        found["sum_eet"],
        found["violated"],
        found["total_tardiness"],
        found["total_weighted_tardiness"],
    ) == pytest.approx((sum_eet, violated, tardiness, weighted))


def test_shares_by_user_and_by_group(read_swf):
    rules = ShareRules(
        default={"cpu": 1000},
        users={"1": {"cpu": 2500}, "nobody": {"cpu": 1000}},
        groups={"8": {"cpu": 4000}},
    )
    found = document_of(read_swf(*SMALL), rules=rules)
    assert found["share"] == 1
    assert found["shares"]["cpu"]["users"] == {"1": 2.5, "2": 4}
    assert found["shares"]["cpu"]["groups"] == {"8": 4}
    # User 1: lanes of thousandths, 2,000 free again at 4, 500 are not taken: job 2 has 500 in 1 … 4, then 2000.
    # User 2: job 3 up to 4, job 4 behind it.
    assert found["sum_eet"] == 4 + 5 + 4 + 7
    assert found["warnings"] == ["shares of users who are not in the log: nobody"]


def test_groups_of_jobs_add_up_to_the_log(read_swf):
    found = document_of(read_swf(*SMALL), by=("user", "group", "queue", "partition"))
    assert {field: list(groups) for field, groups in found["by"].items()} == {
        "user": ["1", "2"],
        "group": ["7", "8"],
        "queue": ["short"],
        "partition": [],
    }
    first, second = found["by"]["user"].values()
    assert {key: first[key] for key in ("jobs", "violated", "veet", "tardiness", "weighted_tardiness", "cpu_secs")} == {
        "jobs": 2, "violated": 1, "veet": 50, "tardiness": 2, "weighted_tardiness": 4, "cpu_secs": 10,
    }  # fmt: skip
    assert (second["cpu_secs"], second["mean_queue_length"]) == (11, 2 / 8)
    assert first["mean_utilisation"] + second["mean_utilisation"] == pytest.approx(21 / 48)
    assert (first["wait"]["mean"], second["slowdown"]["max"]) == (1.5, pytest.approx(5 / 3))
    short = found["by"]["queue"]["short"]
    assert (short["jobs"], short["violated"], short["cpu_secs"]) == (3, 0, 19)


def test_a_filter_leaves_the_share_of_the_whole_log(read_swf):
    found = document_of(read_swf(*SMALL), filters=(Filter("user", frozenset("2")),))
    assert (found["jobs"], found["filtered"], found["users"], found["share"]) == (2, 2, 1, 3)
    assert found["sum_eet"] == 5 + 8
    bare = document_of(read_swf(*SMALL[1:]), filters=(Filter("user", frozenset("2")),))
    assert bare["shares"]["cpu"]["total_from"] == "most in use"
    assert bare["share"] == 3


# A user with two processors: the job in queue 2 starts when the one in queue 1 ends, which is in time.
QUEUES = (
    "; MaxProcs: 4",
    "1 0 0   100 2 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1",
    "2 0 100 100 2 -1 -1 -1 -1 -1 1 1 8 -1 2 -1 -1 -1",
    "3 0 0   100 2 -1 -1 -1 -1 -1 1 2 7 -1 1 -1 -1 -1",
)


def test_a_filter_views_the_expected_ends_of_the_whole_log_and_says_so(read_swf):
    """ "we can filter out specific users (e.g., system administrators) and queues (high/low priority)" """
    filters = (Filter("queue", frozenset("2")),)
    found = document_of(read_swf(*QUEUES), filters=filters)
    assert (found["jobs"], found["filtered"], found["share"]) == (1, 2, 2)
    assert (found["sum_eet"], found["violated"]) == (200, 0)
    text = format_text([found])
    assert [
        line.split("  ")[-1].strip() for line in text.splitlines() if line.startswith("expected ends")
    ] == ["of the whole log"]


def test_a_group_that_a_filter_hides_still_gives_its_share(read_swf):
    rules = ShareRules(default={"cpu": 1000}, groups={"7": {"cpu": 4000}})
    filters = (Filter("queue", frozenset("2")),)
    log = read_swf(*QUEUES)
    assert document_of(log, rules=rules, filters=filters)["shares"]["cpu"]["users"] == {"1": 4}


@given(st.data(), st.sampled_from(["user", "group", "queue"]), st.booleans())
def test_each_job_that_a_filter_shows_has_the_expected_end_that_it_has_unfiltered(data, field, is_not):
    few = st.integers(1, 3)
    jobs = [
        job(
            str(number), user=str(data.draw(few)), group=str(data.draw(few)), queue=str(data.draw(few)),
            submit_secs=(submitted := data.draw(st.integers(0, 9))), start_secs=submitted + data.draw(few),
            end_secs=submitted + 4 + data.draw(st.integers(0, 9)), total_cpus=data.draw(few),
        )
        for number in range(data.draw(st.integers(1, 12)))
    ]  # fmt: skip
    log = from_records(jobs, "log")
    whole = evaluate(log, Options())
    ends = dict(zip(whole.chosen.position.tolist(), whole.expected.tolist(), strict=True))
    try:
        shown = evaluate(log, Options(filters=(Filter(field, frozenset("1"), is_not),)))
    except ScheduleError:
        return  # no job passes
    assert shown.expected.tolist() == [ends[place] for place in shown.chosen.position.tolist()]


def test_several_resources_each_have_a_share_and_the_latest_end_counts():
    jobs = [
        job("1", end_secs=3, total_cpus=1, requested_memory_bytes=4096),
        job("2", end_secs=2, total_cpus=1, requested_memory_bytes=2048, total_gpus=0),
        job("3", end_secs=1, total_cpus=2),
    ]
    log = from_records(jobs, "log")
    rules = ShareRules(default={"cpu": 2000, "memory": 4}, totals={"memory": 8})
    found = document_of(log, resources=("cpu", "memory"), rules=rules)
    assert (found["sum_eet"], found["share"]) == (3 + 5 + 4, 2)
    assert found["shares"]["memory"] == {
        "default": 4, "default_from": "given", "total": 8, "total_from": "given", "unit": "KiB",
        "users": {}, "groups": {}, "unknown_requests": 1,
    }  # fmt: skip
    assert found["warnings"] == ["1 jobs do not say what memory they asked for: taken as none"]
    assert found["utilisation"]["memory"]["mean"] == pytest.approx((4 * 3 + 2 * 2) / (8 * 3))
    assert found["utilisation"]["gpu"]["mean"] is None  # none was ever in use
    with pytest.raises(ScheduleError, match="log: the log does not report the gpu that jobs requested"):
        document_of(from_records(jobs[:1], "log"), resources=("gpu",))


def test_a_job_that_was_swapped_out_holds_nothing_meanwhile():
    log = from_records([job(start_secs=0, end_secs=10, suspended_secs=6, total_cpus=5)], "log")
    found = document_of(log, rules=ShareRules(totals={"cpu": 10_000}), by=("user",))
    assert found["utilisation"]["cpu"]["mean"] == pytest.approx(0.2)
    assert found["by"]["user"]["ann"]["mean_utilisation"] == pytest.approx(0.2)
    assert (found["sum_eet"], found["violated"], found["mean_slowdown"]) == (4, 1, 2.5)


def test_a_single_job_that_never_waited_is_not_late():
    for mode in Mode:
        found = document_of(from_records([job(submit_secs=5, start_secs=5, end_secs=15.5)], "log"), mode=mode)
        assert (found["violated"], found["veet"], found["share"]) == (0, {"ann": 0}, 1)


def test_a_job_of_no_length_at_one_moment_has_a_result():
    found = document_of(from_records([job(end_secs=0, total_cpus=0)], "log"), by=("user",))
    assert (found["jobs"], found["mean_slowdown"], found["mean_wait"], found["violated"]) == (1, None, 0, 0)
    assert found["slowdown"]["count"] == 0
    assert format_text([found])
    assert format_csv([found])


def test_sums_of_huge_jobs_are_whole_numbers():
    big = 2**40
    jobs = [job(str(n), submit_secs=0, start_secs=big, end_secs=2 * big, total_cpus=big) for n in range(3)]
    found = document_of(from_records(jobs, "log"), rules=ShareRules(default={"cpu": big * 1000}))
    assert found["sum_eet"] == (1 + 2 + 3) * big
    assert found["total_weighted_tardiness"] == big * big
    wide = document_of(
        from_records(jobs, "log"), rules=ShareRules(default={"cpu": 3 * big * 1000}), by=("user",)
    )
    assert wide["weighted_tardiness"] == {"ann": 3 * big * big}
    assert wide["by"]["user"]["ann"]["cpu_secs"] == 3 * big * big


def test_text_tells_every_share_and_the_mode(read_swf, monkeypatch):
    monkeypatch.setattr("jobfeatures.analysis.schedule.tables.TOP", 1)
    rules = ShareRules(users={"1": {"cpu": 2500}}, groups={"8": {"cpu": 4000}})
    text = format_text([document_of(read_swf(*SMALL), by=("user",), rules=rules)])
    lines = {line.split("  ")[0]: line.split()[-1] for line in text.splitlines() if "  " in line}
    assert "3 (6 log / users)" in text
    assert (lines["share: cpu, user 1"], lines["share: cpu, user 2"]) == ("2.500", "4")
    assert (lines["share: cpu, group 8"], lines["mode"]) == ("4", "literal")
    assert "… and 1 more" in text


def test_names_from_a_log_cannot_write_on_the_terminal():
    log = from_records([job(user="\x1b[31mred", group="g\n")], "log\x07")
    text = format_text([document_of(log, by=("user", "group"))])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "'g\\n'" in text


def test_csv_has_a_row_for_the_log_and_for_each_group(read_swf):
    rows = [row.split(",") for row in format_csv([document_of(read_swf(*SMALL), by=("user",))]).splitlines()]
    table = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    assert [(row["scope"], row["name"], row["jobs"], row["wait_mean"]) for row in table] == [
        ("log", "", "4", "1.25"),
        ("user", "1", "2", "1.5"),
        ("user", "2", "2", "1.0"),
    ]
    assert (table[0]["sum_eet"], table[1]["sum_eet"], table[0]["skipped"]) == ("20", "", "2")


def test_logs_are_compared_with_the_first_user_by_user(read_swf):
    rules = ShareRules(default={"cpu": 3000})
    base = document_of(read_swf(*SMALL, name="base"), rules=rules)
    sooner = document_of(
        read_swf(*(line.replace("2 1  3", "2 1  1") for line in SMALL), name="sooner"), rules=rules
    )
    worse = document_of(
        read_swf(*(line.replace("4 3  2", "4 3  9") for line in SMALL), name="worse"), rules=rules
    )
    found = compare([base, sooner, worse])
    assert found["base"] == "base"
    assert [
        (each["log"], each["users_in_both"], each["lower_veet"], each["equal_veet"], each["higher_veet"])
        for each in found["others"]
    ] == [("sooner", 2, 1, 1, 0), ("worse", 2, 0, 1, 1)]
    assert found["others"][0]["violated_ratio"] == 0
    assert found["others"][1]["mean_wait_ratio"] == pytest.approx(12 / 5)
    assert compare([sooner, base])["others"][0]["violated_ratio"] is None
    text = format_comparison(found)
    assert text.splitlines()[0].split() == ["against", "base", "sooner", "worse"]
