"""One view: the page, `top` and the report show the same figures of the same moment, whatever is known of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.features.machine import Machine
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, JobTable, Limits
from jobfeatures.records.series import Series, parse_lines
from jobfeatures.status.board import StatusView
from jobfeatures.status.jobstatus import JobStatus
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.jobreport.gathering import ReportedRun, SeriesOfJobs, gather_report
from jobfeatures_exporter.jobreport.selecting import SelectedJobs
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import CpuSecs, FigureSource, JobGpu, JobSample, NodeSample, Snapshot
from jobfeatures_exporter.scrape.collectors import COLLECTORS, collect
from jobfeatures_exporter.state.cpurates import CpuRates
from jobfeatures_exporter.top.pages import parse_page
from jobfeatures_exporter.view.node import NodeView, view_page
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.web.pages.node import view_context

NOW = 1_800_000_000.0
APART_SECS = 8.0
ENABLED = [name for name in COLLECTORS if name != "process"]

sizes = st.none() | st.integers(0, 2**40)
secs = st.integers(int(NOW) - 10**6, int(NOW) + 10**6)
names = st.none() | st.text(max_size=8)

samples = st.builds(
    JobSample,
    key=st.just(JobKey("", "")),
    accounting=st.sampled_from(FigureSource),
    user_cpu_secs=st.none() | st.floats(0, 1e6),
    system_cpu_secs=st.none() | st.floats(0, 1e6),
    memory=st.builds(MemoryBytes, **dict.fromkeys(MemoryBytes._fields, sizes)),
    processes=st.integers(0, 500),
    threads=st.integers(0, 500),
    uid=st.none() | st.integers(0, 2**31),
)  # fmt: skip
jobs = st.builds(
    Job,
    key=st.just(JobKey("", "")),
    state=st.sampled_from([JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETED, JobState.UNKNOWN]),
    user=names,
    name=names,
    uid=st.none() | st.integers(0, 2**31),
    start_secs=st.none() | st.integers(int(NOW) - 10**6, int(NOW) - 100),
    allocated_cpus=st.none() | st.integers(0, 256),
    allocated_gpus=st.none() | st.integers(0, 8),
    limits=st.builds(
        Limits,
        wall_secs=st.none() | st.just(UNLIMITED) | st.integers(0, 10**6),
        cpu_secs=st.none() | st.integers(0, 10**7),
        memory_bytes=sizes,
    ),
)
statuses = st.builds(
    JobStatus,
    used_cpu=st.integers(0, 256),
    last_job_start=st.none() | secs,
    first_exp_job_end=st.none() | secs,
    last_exp_job_end=st.none() | secs,
    last_max_job_end=st.none() | secs,
    add_uncom_time=st.none() | st.integers(0, 10**6),
    add_final_exp_waste=st.none() | st.integers(0, 10**6),
    can_postpone_last_job=st.none() | st.booleans(),
    priority_factor=st.none() | st.integers(0, 9),
)
# What is known of one job: its sample, its record, what it reports, how it goes on, whether it has ended.
works = st.tuples(
    st.none() | samples,
    st.none() | jobs,
    st.none() | statuses,
    st.floats(0, 100),
    st.sampled_from([0, 0, 0, 30]),
)
keys = st.builds(JobKey, st.sampled_from(["slurm", "spool"]), st.text(min_size=1, max_size=6))


@st.composite
def contexts(draw) -> tuple[Context, Context]:
    """Return what a daemon knew at two times, some seconds apart."""
    found = draw(st.dictionaries(keys, works, max_size=5))
    before, now, known, told, ended = {}, {}, {}, {}, {}
    for key, (any_sample, any_job, status, more_secs, ended_secs_ago) in found.items():
        job = None if any_job is None else replace(any_job, key=key)
        if status is not None:
            told[key] = StatusView(status, NOW - 20)
        if any_sample is not None:
            sample = replace(any_sample, key=key)
            later = sample.user_cpu_secs
            later = replace(sample, user_cpu_secs=None if later is None else later + more_secs)
            if ended_secs_ago:
                ended[key] = EndedJob(later, job or Job(key=key), NOW - ended_secs_ago)
                continue
            before[key], now[key] = sample, later
        if job is not None:
            known[key] = job
    table = JobTable(source="slurm", jobs=known, taken_at_secs=NOW - 5, complete=True)
    cpus = draw(st.integers(1, 256))
    busy, idle = draw(st.floats(0, APART_SECS)), draw(st.floats(0, APART_SECS))
    rates = CpuRates()
    made = []
    for sampled, at, share in ((before, NOW - APART_SECS, 0.0), (now, NOW, 1.0)):
        cpu = CpuSecs(1000 + busy * share, 10, 20, 5000 + idle * share, 3, 2, 1, 0)
        snapshot = Snapshot(
            taken_at_secs=at,
            read_at_secs=at,
            duration_secs=0.01,
            node=NodeSample(cpu=cpu, cores=dict.fromkeys(range(cpus), cpu), memory_bytes={"MemTotal": 2**36, "MemAvailable": 2**35}),
            jobs=sampled,
        )  # fmt: skip
        made.append(
            Context(
                now_secs=at,
                snapshot=snapshot,
                jobs=known,
                statuses=told,
                ended=ended,
                machine=Machine(total_cpus=cpus),
                sources=(draw(st.sampled_from([KeeperStatus("slurm", table), KeeperStatus("slurm")])),),
                cpu_rates=rates.update(snapshot),
                node_busy_cpus=rates.node_busy_cpus,
            )
        )
    return made[0], made[1]


def page_of(context: Context) -> NodeView:
    return view_context(context, Numbers(collect(context, ENABLED)))


def text_of(context: Context) -> str:
    return render(collect(context, ENABLED), openmetrics=False).decode()


def near(one: float | None, other: float | None) -> bool:
    """Return whether two figures are the same but for rounding."""
    return one == other or (
        one is not None and other is not None and abs(one - other) <= 1e-6 * max(1.0, abs(one))
    )


@given(contexts(), st.booleans())
def test_page_and_top_show_the_same_of_the_same_moment(both, jobs_have_ended):
    before, now = both
    if jobs_have_ended:
        now = replace(now, leftovers=dict.fromkeys(now.snapshot.jobs, NOW - 60))
    page, top = page_of(now), view_page(parse_page(text_of(now)), parse_page(text_of(before)))
    assert [each.key for each in page.jobs] == [each.key for each in top.jobs]
    assert set(page.leftovers) == now.leftovers.keys()
    for mine, theirs in zip(page.jobs, top.jobs, strict=True):
        assert near(mine.cpus_now, theirs.cpus_now)
        assert replace(mine, cpus_now=None) == replace(theirs, cpus_now=None)
    assert near(page.busy_cpus, top.busy_cpus)
    assert page.busy_cpus is None or page.busy_cpus <= now.machine.total_cpus
    assert replace(page, jobs=(), busy_cpus=None) == replace(top, jobs=(), busy_cpus=None)


@given(contexts())
def test_the_report_of_that_moment_has_the_figures_of_the_page(both):
    _, now = both
    names = {
        line.split("{")[0].split(" ")[0] for line in text_of(now).split("\n") if line[:1] not in {"", "#"}
    }
    series = [replace_labels(each) for each in parse_lines(text_of(now), names)]
    for job in page_of(now).jobs:
        start = now.shown_jobs[job.key].start_secs
        until = job.ended_at_secs if job.ended_at_secs is not None else NOW
        mine = [
            each
            for each in series
            if (each.labels.get("batch_system"), each.labels.get("job_id"))
            == (job.key.batch_system, job.key.job_id)
        ]
        report = gather_report(
            SelectedJobs(job.key.batch_system, "", (job.key.job_id,)),
            job.key.job_id,
            ReportedRun(start, None if job.is_running else until, until),
            SeriesOfJobs(last=tuple(mine), highest=highest_of(mine)),
        )
        assert report.memory_peak == job.memory
        assert report.allocated_memory == job.memory_limit
        assert report.allocated_cpus == job.allocated_cpus
        assert near(report.cpus_used, job.cpus_mean)
        assert near(report.memory_share, job.memory_share)


def replace_labels(series: Series) -> Series:
    return Series(series.name, {**series.labels, "instance": "n1:9819"}, series.value)


def highest_of(series: list[Series]) -> dict:
    """Return what max_over_time over this one moment gives."""
    from jobfeatures_exporter.jobreport import queries

    return {
        metric: tuple(
            Series("", each.labels, each.value) for each in series if each.name == metric.sample_name
        )
        for metric in queries.HIGHEST
    }


def test_jobs_that_share_a_gpu_have_equal_parts_of_it(context):
    first, second = JobKey("slurm", "12"), JobKey("spool", 'pilot "7"\\\n')
    uses = ((first, "GPU-1111"), (second, "GPU-1111"), (second, "MIG-2222"))
    shared = tuple(JobGpu(key=key, uuid=uuid, allocated=True) for key, uuid in uses)
    view = page_of(replace(context, snapshot=replace(context.snapshot, job_gpus=shared)))
    parts = {(job.key, use.uuid): use.part for job in view.jobs for use in job.gpus}
    assert parts == {uses[0]: 0.5, uses[1]: 0.5, uses[2]: 1.0}
