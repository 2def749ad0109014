"""The pages of a job that has left the node, and of one that nobody knows."""

from __future__ import annotations

from dataclasses import replace

from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.ended import EndedJob
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample
from jobfeatures_exporter.state.history import History
from jobfeatures_exporter.web.pages.job import render_gone, render_unknown
from tests.exporter.state.test_history import NOW, look, sample
from tests.exporter.web.pages.reading import read_page

KEY = JobKey("slurm", "1")
HOSTILE = "<script>alert(1)</script>"


def page_of(**known) -> str:
    history = History()
    job = Job(key=KEY, start_secs=int(NOW) - 600, state=JobState.TIMEOUT, allocated_cpus=4, **known)
    for minute in range(4):
        history.update(look(60 * minute, sample(cpu_secs=90.0 * minute)), {KEY: job}, {})
    ended = {KEY: EndedJob(sample(cpu_secs=1440.0, memory=3 * 2**30), job, NOW + 200)}
    history.update(look(210), {}, ended)
    span, past = history.ended("1")
    return render_gone(span, past, history.job(KEY), NOW + 1500, "n1")


def tiles_of(text: str) -> dict[str, list[str]]:
    found = read_page(text).all("dl", class_="tiles")[0]
    said = zip(found.all("dt"), found.all("dd"), strict=True)
    return {
        title.text: [each.text.replace("\u202f", " ") for each in value.all("div")] for title, value in said
    }


def test_it_says_who_the_job_was_and_its_last_figures():
    text = page_of(user="ann", name="wrf")
    head = read_page(text).all("header")[0].text.replace("\u202f", " ")
    assert "ann · wrf · slurm · timeout" in head
    assert "21 min 40 s ago" in head
    assert tiles_of(text) == {
        "Ran for": ["13 min 20 s", "ended 21 min 40 s ago"],
        "CPU time": ["24 core min", "on average 1.8 of 4 CPUs"],
        "Memory": ["3 GiB", "when last sampled"],
    }


def test_its_last_hour_is_told_over_the_minutes_that_are_known():
    words = read_page(page_of()).all("dl", class_="courses")[0].text.replace("\u202f", " ")
    assert words.startswith("CPUs: 1.5 in 3 minutes")


def test_names_are_text():
    text = page_of(user=HOSTILE, name=HOSTILE) + render_unknown(HOSTILE)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_what_is_not_known_of_it_is_left_out_or_a_dash():
    history = History()
    history.update(look(0), {}, {})
    history.update(look(20), {}, {KEY: EndedJob(sample(), Job(key=KEY), NOW + 17)})
    span, past = history.ended("1", "slurm")
    unknown = replace(past, sample=JobSample(key=KEY, accounting=FigureSource.CGROUP))
    tiles = tiles_of(render_gone(span, unknown, history.job(KEY), NOW + 60, ""))
    assert (tiles["CPU time"][0], tiles["Memory"][0]) == ("–", "–")
    assert tiles_of(render_gone(span, None, None, NOW + 60, "")).keys() == {"Ran for"}
