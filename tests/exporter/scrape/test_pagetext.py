import threading
from dataclasses import replace

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.families.exposition import SPARE_TEXTS
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample, Snapshot
from jobfeatures_exporter.scrape import pagetext
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.scrape.profiles import PROFILES
from tests.held import things_held


def node(jobs, *, at=1.0, first=0):
    """Return a context of some jobs that use more and more."""
    keys = [JobKey("slurm", str(first + number)) for number in range(jobs)]
    samples = {
        key: JobSample(
            key=key,
            accounting=FigureSource.CGROUP,
            user_cpu_secs=at * number,
            system_cpu_secs=at,
            memory=MemoryBytes(anon=number),
            cgroup=f"/slurm/uid_1/job_{key.job_id}",
        )
        for number, key in enumerate(keys)
    }
    known = {key: Job(key=key, state=JobState.RUNNING, user="alice", allocated_cpus=1) for key in keys}
    return Context(
        now_secs=at, snapshot=Snapshot(taken_at_secs=at, duration_secs=0, node=None, jobs=samples), jobs=known
    )


def counters(page, *, openmetrics):
    parse = parse_openmetrics if openmetrics else parse_text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse(page.decode())
        for sample in family.samples
        if sample.name.startswith("batch_job_") and sample.name.endswith("_total")
    }


def test_a_page_stays_within_its_budget_and_says_what_it_left_out():
    pages, context = PageMaker({"jobs", "allocation"}, PROFILES, 500), node(200)
    families = pages.families(context)
    assert 400 < sum(len(family.samples) for family in families) <= 500
    values = {family.metric.sample_name: family.samples for family in families}
    assert values["batch_exporter_series_over_budget"][0][1] > 1000
    shown = {family.metric.sample_name: family.samples for family in pages.collected(context)}
    assert shown["batch_exporter_series_over_budget"] == values["batch_exporter_series_over_budget"]
    others = [labels for labels, _ in values["batch_job_cpu_seconds_total"] if labels[1] == "other"]
    assert len(others) == 2


def test_a_page_with_room_has_every_series_of_its_collectors(context):
    pages = PageMaker(COLLECTORS.keys(), (), 20_000)
    names = [family.metric.name for family in pages.families(context)]
    assert len(names) == len(set(names))
    assert {"batch_job_cpu_seconds", "batch_exporter_series_over_budget"} <= set(names)


def test_scrapers_in_both_formats_at_once_never_see_anything_fall():
    pages = PageMaker({"jobs"}, (), 120)
    looks = [node(60, at=float(at)) for at in range(1, 12)]
    failures = []

    def scrape(openmetrics):
        told = {}
        for look in looks:
            now = counters(pages.render(look, openmetrics=openmetrics), openmetrics=openmetrics)
            others = {key: value for key, value in now.items() if ("job_id", "other") in key[1]}
            failures.extend(key for key, value in others.items() if value < told.get(key, 0))
            failures.extend(key for key in told if key not in others)
            told.update(others)

    threads = [threading.Thread(target=scrape, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_two_scrapes_of_one_look_say_the_same():
    pages = PageMaker({"jobs"}, (), 60)
    pages.render(node(50), openmetrics=False)
    look = node(50, at=2.0)
    first = counters(pages.render(look, openmetrics=False), openmetrics=False)
    assert counters(pages.render(look, openmetrics=True), openmetrics=True) == first
    assert counters(pages.render(look, openmetrics=False), openmetrics=False) == first


def test_labels_of_jobs_that_ended_are_forgotten(note_made):
    made = note_made(pagetext, "LabelTexts")
    pages = PageMaker({"jobs", "allocation"}, PROFILES, 300)
    look = node(200)
    series = sum(len(family.samples) for family in PageMaker({"jobs", "allocation"}, (), 0).families(look))
    for generation in range(40):
        pages.render(node(200, at=1.0 + generation, first=1000 * generation), openmetrics=False)
    assert kept_texts(made) <= 2 * series + SPARE_TEXTS + series < 40 * 200


def kept_texts(made):
    return sum(isinstance(each, str) and each.startswith("{") for each in things_held(*made))


def test_labels_of_jobs_that_live_are_kept(note_made):
    made = note_made(pagetext, "LabelTexts")
    pages = PageMaker({"jobs"}, (), 0)
    pages.render(node(100), openmetrics=False)
    [texts], names = made, ("batch_system", "job_id", "mode")
    text = texts.of(names)[("slurm", "7", "user")]
    kept = kept_texts(made)
    assert kept > 200
    pages.render(node(100, at=2.0), openmetrics=True)
    assert kept_texts(made) == kept
    assert texts.of(names)[("slurm", "7", "user")] is text


def test_jobs_that_use_gpus_or_are_large_are_the_ones_that_stay():
    look = node(100)
    large, with_gpus = JobKey("slurm", "17"), JobKey("slurm", "18")
    jobs = {
        **look.jobs,
        large: replace(look.jobs[large], allocated_cpus=64),
        with_gpus: replace(look.jobs[with_gpus], allocated_gpus=1),
    }
    families = PageMaker({"jobs"}, (), 30).families(replace(look, jobs=jobs))
    shown = {labels[1] for metric, samples in families if metric.is_of_jobs for labels, _ in samples}
    assert {"17", "18"} <= shown
    assert "0" not in shown
