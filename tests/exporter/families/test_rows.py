"""Rows of jobs kept from one page to the next: the text is always that of rows made anew."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from jobfeatures.records.metrics import JOB, Metric
from jobfeatures_exporter.families.exposition import LabelTexts, render
from jobfeatures_exporter.families.rows import KeptRows
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import ProcessIo
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.exporter.scrape.test_pagetext import node

ONE = Metric("one", "gauge", "One.", JOB)
MANY = Metric("many", "counter", "Many.", (*JOB, "name"))


made: list = []  # the jobs whose rows were made, in turn


@pytest.fixture(autouse=True)
def nothing_made():
    made.clear()


def text(kept, jobs, texts=None):
    families = kept.families((ONE, MANY), jobs.items(), _samples)
    return render(families, openmetrics=False, texts=texts).decode()


def _samples(job, found):
    made.append(job)
    yield ((job, found["one"]),)
    yield [((*job, name), value) for name, value in found.items()]


def test_only_what_has_changed_is_made_again():
    kept, jobs = KeptRows(), {("slurm", str(number)): {"one": number} for number in range(3)}
    text(kept, jobs)
    assert len(made) == 3
    jobs["slurm", "1"] = {"one": 7}
    assert 'one{batch_system="slurm",job_id="1"} 7\n' in text(kept, jobs)
    assert made[3:] == [("slurm", "1")]


def test_a_job_that_has_gone_is_not_shown_and_made_anew_when_it_is_back():
    kept, jobs = KeptRows(), {("slurm", "1"): {"one": 1}, ("slurm", "2"): {"one": 2}}
    text(kept, jobs)
    gone = jobs.pop(("slurm", "2"))
    assert 'job_id="2"' not in text(kept, jobs)
    assert len(made) == 2
    text(kept, {**jobs, ("slurm", "2"): gone})
    assert len(made) == 3


@pytest.mark.parametrize(
    ("value", "said"), [(float("inf"), "+Inf"), (float("nan"), "NaN"), (10**400, "1" + "0" * 400)]
)
def test_numbers_that_are_none_of_the_usual_are_written_as_both_formats_ask(value, said):
    assert f'job_id="1"}} {said}\n' in text(KeptRows(), {("slurm", "1"): {"one": value}})


def test_a_family_says_what_is_in_it():
    kept = KeptRows()
    one, many = kept.families((ONE, MANY), [(("pbs", "1"), {"one": 1, "two": 2})], _samples)
    assert (len(one.samples), len(many.samples)) == (1, 2)
    assert list(many.samples) == [(("pbs", "1", "one"), 1), (("pbs", "1", "two"), 2)]
    assert many.samples[1] == (("pbs", "1", "two"), 2)
    assert many.samples[:1] == [(("pbs", "1", "one"), 1)]
    assert [len(each.samples) for each in kept.families((ONE, MANY), [], _samples)] == [0, 0]


def test_pages_of_many_looks_are_those_that_are_made_of_nothing_kept():
    choose = random.Random(1)
    kept, texts = KeptRows(), LabelTexts()
    context = node(12)
    for look in range(1, 60):
        snapshot = context.snapshot
        jobs = dict(snapshot.jobs)
        for key in choose.sample(sorted(jobs), 3):
            changes = {
                "user_cpu_secs": float(look),
                "processes": choose.randrange(9),
                "memory": MemoryBytes(anon=look, peak=choose.choice([None, 7])),
                "process_io": choose.choice([None, ProcessIo(look, 2, 3, 4, 5)]),
                "uid": choose.choice([None, 1000]),
                "pressure_secs": choose.choice([{}, {("cpu", "some"): 0.5}]),
            }
            jobs[key] = replace(jobs[key], **dict([choose.choice(list(changes.items()))]))
        shown = {key: jobs[key] for key in choose.sample(sorted(jobs), 11)}
        context = replace(context, snapshot=replace(snapshot, jobs=jobs))
        seen = replace(
            context, snapshot=replace(snapshot, jobs=shown), jobs={} if look % 5 == 0 else context.jobs
        )
        pages = []
        for rows, those in ((kept, texts), (KeptRows(), LabelTexts())):
            page = replace(seen, rows=rows)
            families = [
                each for name in ("jobs", "kernel", "allocation") for each in COLLECTORS[name].families(page)
            ]
            pages.append(render(families, openmetrics=look % 2 == 0, texts=those))
        assert pages[0] == pages[1]
