"""From answers to reports: constructed jobs, asked about in the order in which a server is asked."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.series import Series
from jobfeatures_exporter.jobreport import queries
from jobfeatures_exporter.jobreport import selecting as finding
from jobfeatures_exporter.jobreport.asjson import make_document
from jobfeatures_exporter.jobreport.asking import ReportQuestion, ask_all
from jobfeatures_exporter.jobreport.fromnode import report_page
from jobfeatures_exporter.jobreport.gathering import choose_state, grown
from jobfeatures_exporter.jobreport.selecting import AmbiguousJobError, JobWithoutSamplesError
from jobfeatures_exporter.jobreport.text import format_reports
from jobfeatures_exporter.view.use import DOUBTFUL_CPU_TIME
from tests.exporter.jobreport.server import NOW, FakePrometheus, job_series

pytestmark = pytest.mark.usefixtures("in_utc")

GOLDEN = Path(__file__).parents[2] / "fixtures/golden"
START, END = NOW - 7200, NOW - 3600
QUESTION = ReportQuestion(job="12", at_secs=NOW, since_secs=604_800.0, where="http://p:9090")


def golden(name, text):
    path = GOLDEN / name
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def values_of(
    *, cpus=8, cpu_secs=14_400.0, state="COMPLETED", end=END, wall=86_400, memory=32 * 2**30, start=START
):
    found = [
        ("batch_job_state", {"state": "RUNNING"}, 1),
        ("batch_job_start_time_seconds", {}, start),
        ("batch_job_allocated_cpus", {}, cpus),
        ("batch_job_wall_limit_seconds", {}, wall),
        ("batch_job_allocated_memory_bytes", {}, memory),
        ("batch_job_cpu_seconds_total", {"mode": "user"}, cpu_secs * 0.75),
        ("batch_job_cpu_seconds_total", {"mode": "system"}, cpu_secs * 0.25),
        ("batch_job_pressure_seconds_total", {"resource": "io", "share": "some"}, 1200),
        ("batch_job_energy_joules_total", {"source": "cpu"}, 720_000),
        ("batch_job_io_storage_read_bytes_total", {}, 2**33),
    ]
    if end is not None:
        found += [("batch_job_state", {"state": state}, 1), ("batch_job_end_time_seconds", {}, end)]
    return found


def highest_of(job_id="12", node="n1:9819", anon=2**30, shmem=2**29):
    return job_series(
        job_id,
        node,
        values=[
            ("batch_job_memory_used_bytes", {}, anon + shmem),
            ("batch_job_memory_bytes", {"component": "file"}, 2**40),
            ("batch_job_threads", {}, 20),
        ],
    )[1:]


CARD = [
    ("batch_job_allocated_gpus", {}, 2),
    ("batch_job_gpu_allocated", {"uuid": "GPU-1"}, 1),
    ("batch_job_gpu_allocated", {"uuid": "GPU-2"}, 1),
    ("batch_job_gpu_busy_seconds_total", {"uuid": "GPU-1"}, 1800),
    ("batch_job_energy_joules_total", {"source": "gpu"}, 1_440_000),
]


def cards(node):
    return [
        each
        for uuid in ("GPU-1", "GPU-2")
        for each in job_series(
            "-",
            node,
            values=[
                ("batch_gpu_busy_seconds_total", {"uuid": uuid}, 1e6),
                ("batch_gpu_memory_bytes", {"uuid": uuid}, 80 * 2**30),
                ("batch_gpu_info", {"uuid": uuid, "model": "A100 \x1b[31m"}, 1),
            ],
        )[1:]
    ]


def two_nodes():
    info = {
        "user": "alice",
        "account": "physics",
        "partition": "gpu",
        "name": "train \x1b]0;x\x07\n.sh",
    }
    series = [
        *job_series("12", "n1:9819", values=[*values_of(), *CARD, ("batch_job_restarts", {}, 0)], **info),
        *job_series("12", "n2:9819", values=values_of(cpus=8, cpu_secs=360), **info),
        *cards("n1:9819"),
    ]
    highest = [*highest_of(), *highest_of(node="n2:9819", anon=2**28, shmem=0)]
    return FakePrometheus(series, highest=highest, seen=END, steps=470)


def test_a_job_on_two_nodes_as_text_and_as_json():
    told = ask_all(two_nodes(), QUESTION)
    golden("report.txt", format_reports(told.reports, notes=told.notes))
    golden("report.json", json.dumps(make_document(told.reports, notes=told.notes), indent=2) + "\n")


def test_on_a_terminal_there_are_bars_and_colours_and_else_neither_nor_any_escape_sequence():
    told = ask_all(two_nodes(), QUESTION)
    shown = format_reports(told.reports, is_terminal=True)
    assert "█" in shown
    assert "\x1b[32m" in shown or "\x1b[31m" in shown
    assert "\x1b]" not in shown
    assert "\x07" not in shown
    plain = format_reports(told.reports)
    assert "\x1b" not in plain
    assert "█" not in plain


def test_sums_and_shares_are_over_what_is_known():
    [report] = ask_all(two_nodes(), QUESTION).reports
    assert report.elapsed_secs == 3600
    assert report.cpu_secs == 14_760
    assert report.cpu_share == pytest.approx(14_760 / (16 * 3600))
    assert report.idle_cpu_secs == 16 * 3600 - 14_760
    assert report.memory_peak == 2**30 + 2**29 + 2**28  # page cache is none of it
    assert report.gpu_share == pytest.approx(1800 / 7200)  # the second card has a meter and did nothing
    assert report.gpu_joules == 1_440_000
    assert report.stalled_share("io") == pytest.approx(1 / 3)


def test_time_in_which_a_job_was_suspended_is_told_and_wastes_nothing():
    values = [*values_of(cpu_secs=14_400.0), ("batch_job_state", {"state": "SUSPENDED"}, 1)]
    server = FakePrometheus(job_series(values=values), steps=225)  # every 8 s
    [report] = ask_all(server, QUESTION).reports
    assert (report.suspended_secs, report.idle_cpu_secs, report.cpu_share) == (1800, 0, 1.0)
    lines = format_reports([report]).splitlines()
    assert "Time     1 h of 1 d (4.2 %), suspended for 30 min" in lines
    assert "CPUs     8 of 8 in use on average (100 %)" in lines


def test_a_component_of_a_heterogeneous_job_says_that_there_are_others():
    server = FakePrometheus(job_series(values=values_of(), het_job_id="12"))
    [report] = ask_all(server, QUESTION).reports
    assert "this is one component of heterogeneous job 12: others have ids of their own" in report.notes


def test_a_node_that_is_scraped_twice_counts_once():
    once = two_nodes()
    server = two_nodes()
    for series in (server.series, server.highest):
        series += [Series(each.name, {**each.labels, "job": "again"}, each.value) for each in series]
    assert ask_all(server, QUESTION).reports == ask_all(once, QUESTION).reports


def test_a_card_without_a_meter_is_not_called_idle():
    server = two_nodes()
    server.series = [each for each in server.series if each.name != "batch_gpu_busy_seconds_total"]
    [report] = ask_all(server, QUESTION).reports
    assert report.gpu_secs is None
    assert report.gpu_share is None


def test_figures_are_asked_at_the_end_of_the_job_and_over_its_time_only():
    server = two_nodes()
    ask_all(server, QUESTION)
    of_figures = [(text, at) for text, at in server.asked if at != NOW]
    assert {at for _, at in of_figures} == {END + 120}
    assert all("[3720s" in text for text, _ in of_figures)
    assert len(server.asked) < 25


def test_a_running_job_is_reported_as_far_as_it_was_seen():
    server = FakePrometheus(
        job_series(values=values_of(end=None), user="bob"),
        highest=highest_of(),
        seen=NOW - 8,
        is_current=True,
        steps=500,
    )
    [report] = ask_all(server, QUESTION).reports
    assert (report.is_running, report.state, report.end_secs) == (True, "RUNNING", None)
    assert report.elapsed_secs == 7192
    assert "figures so far" in format_reports([report])


def test_a_job_that_ended_on_one_of_its_nodes_only_still_runs():
    series = [*job_series(values=values_of()), *job_series(node="n2:9819", values=values_of(end=None))]
    [report] = ask_all(FakePrometheus(series, seen=NOW - 5, is_current=True), QUESTION).reports
    assert report.is_running


def test_a_job_whose_end_nobody_saw_ends_with_its_last_sample():
    server = FakePrometheus(job_series(values=values_of(end=None)), seen=END - 30)
    [report] = ask_all(server, QUESTION).reports
    assert report.end_secs == END - 30
    assert any("its end was not seen" in note for note in report.notes)


def test_an_earlier_run_of_the_id_is_told_and_its_cpu_time_taken_off():
    series = job_series(values=[*values_of(), ("batch_job_restarts", {}, 1)])
    server = FakePrometheus(series, seen=END, firsts=START - 9000)
    [report] = ask_all(server, QUESTION).reports
    assert any(f"--at {START - 1:.0f}" in note for note in report.notes)
    assert "run 2" in format_reports([report])
    assert any(at == START and "batch_job_cpu_seconds_total" in text for text, at in server.asked)


def test_an_id_that_somebody_else_had_before_is_the_latter_ones():
    server = FakePrometheus(
        job_series(values=values_of(), user="bob", name="new"), seen=END, firsts=START - 90_000
    )
    server.long_ago = job_series(user="ann", name="old", account="gone")
    [report] = ask_all(server, QUESTION).reports
    assert dict(report.info) == {"user": "bob", "name": "new"}


def test_an_end_before_the_start_is_of_an_earlier_run():
    server = FakePrometheus(job_series(values=values_of(end=START - 60)), seen=NOW - 5, is_current=False)
    [report] = ask_all(server, QUESTION).reports
    assert report.end_secs != START - 60


def test_a_counter_that_began_anew_is_put_together_from_its_increases():
    """Exactly: what accrued before the first sample counts, and nothing is extrapolated."""
    series = job_series(values=values_of())
    cpu = [each for each in series if each.name == "batch_job_cpu_seconds_total"]
    [user] = [each for each in cpu if each.labels["mode"] == "user"]
    server = FakePrometheus(
        series,
        seen=END,
        resets=[replace(each, value=float(each is user)) for each in cpu],
        samples=[replace(user, value=value) for value in (500.0, 12_000.0, 40.0, 8040.0)],
    )
    [report] = ask_all(server, QUESTION).reports
    assert report.cpu_secs == 12_000 + 8040 + 3600
    assert any("began anew" in note for note in report.notes)


def test_a_second_run_whose_counter_began_anew_has_none_of_the_first_one_s():
    """The first run's last value is still on the page when the second one starts (HTCondor: released, another slot)."""
    values = [*values_of(), ("batch_job_start_time_seconds", {}, START)]
    series = job_series(values=values)
    user = next(each for each in series if each.labels.get("mode") == "user")
    server = FakePrometheus(
        series,
        seen=END,
        firsts=START - 1000,
        resets=[replace(user, value=1.0)],
        samples=[replace(user, value=value) for value in (0.461, 0.461, 0.25, 3.25)],
    )
    known = [replace(user, value=0.46)]
    for before, cpu_secs in ((known, 3.25 + 0.001), ([], 3.25)):
        server.before = before
        [report] = ask_all(server, QUESTION).reports
        assert report.cpu_secs == pytest.approx(cpu_secs + 3600)


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=1, max_size=20).map(sorted), min_size=1, max_size=5))
def test_what_runs_of_a_counter_grew_by_is_the_sum_of_their_last_values(lives):
    """Each life begins at 0; one that begins above where the last one ended cannot be told from it."""
    samples, expected, last = [], 0.0, 0.0
    for life in lives:
        expected += life[-1] - (last if life[0] >= last else 0.0)
        samples += life
        last = life[-1]
    assert grown(0.0, samples) == pytest.approx(expected)


def test_gaps_and_what_the_server_says_are_told():
    server = FakePrometheus(
        job_series(values=values_of()), seen=END, steps=100, warnings=("store n7 is away",)
    )
    told = ask_all(server, QUESTION)
    assert any("22% of the job's time" in note for note in told.reports[0].notes)
    assert told.notes == ("the server says: store n7 is away",)
    assert "store n7 is away" in format_reports(told.reports, notes=told.notes)


@pytest.mark.parametrize(("cpu_secs", "is_told"), [(8 * 3700, False), (8 * 3600 * 46, True)])
def test_cpu_time_of_more_than_cpus_times_run_time_is_told(cpu_secs, is_told):
    [report] = ask_all(FakePrometheus(job_series(values=values_of(cpu_secs=cpu_secs))), QUESTION).reports
    assert (DOUBTFUL_CPU_TIME in report.notes) is is_told
    assert report.cpu_secs == cpu_secs


def test_what_is_not_known_is_no_zero():
    server = FakePrometheus(job_series(), seen=NOW - 5000, first_seen=NOW - 9000)
    [report] = ask_all(server, QUESTION).reports
    assert report.start_secs == NOW - 9000
    assert (report.cpu_secs, report.cpu_share, report.memory_peak, report.gpu_count) == (None,) * 4
    text = format_reports([report])
    assert "CPUs" not in text
    assert "its start is not known" in text


def test_tasks_of_an_array_are_one_table():
    series, highest = [], []
    for task in range(3):
        job_id = str(100 + task)
        series += job_series(
            job_id,
            values=values_of(cpu_secs=1000.0 * task),
            user="alice",
            array_job_id="102",
            array_task_id=str(task),
        )
        highest += highest_of(job_id)
    told = ask_all(FakePrometheus(series, highest=highest, seen=END, steps=500), replace(QUESTION, job="102"))
    assert [report.job_id for report in told.reports] == ["100", "101", "102"]
    golden("report-array.txt", format_reports(told.reports, notes=told.notes))
    [one] = ask_all(FakePrometheus(series, seen=END), replace(QUESTION, job="102_1")).reports
    assert one.job_id == "101"


def test_an_array_may_be_larger_than_a_report(monkeypatch):
    monkeypatch.setattr(finding, "MAX_JOBS", 60)
    series = [
        each
        for task in range(65)
        for each in job_series(str(task), values=values_of(), array_job_id="7", array_task_id=str(task))
    ]
    told = ask_all(FakePrometheus(series, seen=END), replace(QUESTION, job="7"))
    assert len(told.reports) == 60
    assert any("5 tasks" in note for note in told.notes)
    assert "more (--format json" in format_reports(told.reports)


def test_several_clusters_or_batch_systems_are_asked_about():
    series = [
        *job_series(cluster="fox", values=values_of()),
        *job_series(cluster="owl", values=values_of()),
        *job_series(cluster="owl", system="pbs"),
    ]
    with pytest.raises(AmbiguousJobError) as raised:
        ask_all(FakePrometheus(series, seen=END), QUESTION)
    assert str(raised.value).split("\n")[1:] == [
        "  --batch-system pbs --cluster 'owl'",
        "  --batch-system slurm --cluster 'fox'",
        "  --batch-system slurm --cluster 'owl'",
    ]
    server = FakePrometheus(series, seen=END)
    [report] = ask_all(server, replace(QUESTION, cluster="owl", batch_system="slurm")).reports
    assert report.cluster == "owl"
    assert all('cluster="owl"' in text for text, _ in server.asked)


CONDOR = [
    *job_series("17.0@a", system="htcondor", values=values_of(), schedd="a", array_job_id="17", array_task_id="0"),
    *job_series("17.1@a", system="htcondor", values=values_of(), schedd="a", array_job_id="17", array_task_id="1"),
    *job_series("17.0@b@a", system="htcondor", values=values_of(), schedd="b@a"),
    *job_series("18.0@a", system="htcondor", values=values_of(), schedd="a"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("called", "found"),
    [
        ("18.0", ["18.0@a"]),
        ("18.0@a", ["18.0@a"]),
        ("17.1", ["17.1@a"]),
        ("17.0@b@a", ["17.0@b@a"]),
        ("17", ["17.0@a", "17.1@a"]),
        ("17@a", ["17.0@a", "17.1@a"]),
    ],
)
def test_a_job_is_found_by_the_number_that_its_schedd_gave_it(called, found):
    asked = replace(QUESTION, job=called)
    assert [each.job_id for each in ask_all(FakePrometheus(CONDOR, seen=END), asked).reports] == found
    page = "".join(
        f"{each.name}{{{','.join(f'{name}=%s' % json.dumps(text) for name, text in each.labels.items())}}} 1\n"
        for each in CONDOR
    )
    assert [each.job_id for each in report_page(page, called, node="n", now_secs=NOW).reports] == found


@pytest.mark.parametrize(("called", "found"), [("80.head.example.org", "80"), ("81[3].head", "81[3]")])
def test_a_job_of_pbs_is_found_by_the_id_that_qsub_prints(called, found):
    series = [*job_series("80", system="pbs", values=values_of()), *job_series("81[3]", system="torque")]
    series += [*job_series("80", values=values_of())]
    [report] = ask_all(FakePrometheus(series, seen=END), replace(QUESTION, job=called)).reports
    assert (report.job_id, report.batch_system != "slurm") == (found, True)


def test_of_two_schedds_jobs_with_one_number_one_has_to_be_named():
    with pytest.raises(AmbiguousJobError) as raised:
        ask_all(FakePrometheus(CONDOR, seen=END), replace(QUESTION, job="17.0"))
    assert str(raised.value).split("\n")[1:] == ["  '17.0@a'", "  '17.0@b@a'"]


@pytest.mark.parametrize("series", [[], job_series("other"), job_series("12", system="service")])
def test_a_job_that_is_not_there_is_named(series):
    with pytest.raises(
        JobWithoutSamplesError, match=r"^http://p:9090 has no samples of job '12' in the last 7 d: "
    ):
        ask_all(FakePrometheus(series), QUESTION)


@pytest.mark.parametrize(
    ("states", "is_running", "state"),
    [
        (["RUNNING", "COMPLETED"], False, "COMPLETED"),
        (["RUNNING", "COMPLETED", "TIMEOUT"], False, "TIMEOUT"),
        (["RUNNING", "COMPLETING"], True, "RUNNING"),
        (["SUSPENDED"], True, "SUSPENDED"),
        (["RUNNING", "UNKNOWN"], False, ""),
        (["nonsense"], True, ""),
    ],
)
def test_the_state_that_counts(states, is_running, state):
    assert choose_state(states, is_running=is_running) == state


names = st.sampled_from([metric.sample_name for metric in (*queries.LAST, *queries.OF_CARDS)])
odd_labels = st.dictionaries(
    st.sampled_from(["user", "name", "node", "mode", "state", "uuid", "source", "resource", "share", "component", "restarts", "array_task_id", "cluster"]),
    st.text(max_size=8) | st.sampled_from(["user", "system", "RUNNING", "COMPLETED", "cpu", "gpu", "io", "some", "anon", "9" * 5000, "\x1b[2J"]),
    max_size=4,
)  # fmt: skip
odd_values = st.floats() | st.sampled_from([0.0, START, END, NOW, -1.0, 1e308])
odd_series = st.builds(
    lambda name, value, more, node: Series(name, {"batch_system": "slurm", "job_id": "12", "instance": node, **more}, value),
    names, odd_values, odd_labels, st.sampled_from(["a", "b", "\n"]),
)  # fmt: skip


@given(st.lists(odd_series, max_size=25), st.none() | odd_values, st.booleans())
def test_whatever_is_stored_there_is_a_report_or_words(series, seen, is_current):
    found = [*job_series("12"), *series]
    server = FakePrometheus(
        found,
        highest=found,
        seen=seen,
        first_seen=seen,
        is_current=is_current and seen is not None,
        resets=found,
        samples=found,
        steps=7,
    )
    try:
        told = ask_all(server, QUESTION)
    except AmbiguousJobError:
        return
    json.loads(json.dumps(make_document(told.reports, notes=told.notes), allow_nan=False))
    text = format_reports(told.reports, notes=told.notes)
    assert all(line.isprintable() for line in text.split("\n"))
    for _, at in server.asked:
        assert 0 < at <= NOW
