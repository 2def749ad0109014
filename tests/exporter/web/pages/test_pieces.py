"""Pages are bounded, and safe from names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from jobfeatures.drains.drain import Announced, Drain, Drains
from jobfeatures.publish.drainbook import DrainView
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.web.asked import AskedPage
from jobfeatures_exporter.web.pages.node import render_node
from jobfeatures_exporter.web.pages.pieces import MAX_ROWS
from tests.exporter.web.pages import showcase
from tests.exporter.web.pages.drawn import node_page, rows_of, text_of, with_job
from tests.exporter.web.pages.reading import read_page
from tests.exporter.web.pages.test_markup import HOSTILE


@given(name=HOSTILE, user=HOSTILE, job_id=HOSTILE)
def test_no_name_of_a_job_changes_the_page_around_it(name, user, job_id):
    plain = read_page(node_page(with_job(showcase.make_idle_node(), name="x", user="y")))
    made = with_job(
        showcase.make_idle_node(), name=name or "x", user=user or "y", key=JobKey("slurm", job_id)
    )
    page = read_page(node_page(made))
    assert [each.tag for each in page.within] == [each.tag for each in plain.within]


@given(word=HOSTILE)
def test_no_word_of_others_changes_the_page_around_it(word):
    def make(text: str) -> list[str]:
        context = showcase.make_draining_node()
        key = JobKey("spool", "pilot-77")
        context = replace(
            context,
            node_name=f"n{text}",
            drains=DrainView(
                Drains(Drain(int(showcase.NOW) + 60, 0, f"r{text}")), Announced({}, {}), f"problem {text}"
            ),
            statuses={key: replace(context.statuses[key], problem=f"bad {text}")},
            sources=tuple(replace(each, last_error=f"no {text}") for each in context.sources),
        )
        return [each.tag for each in read_page(node_page(context)).within]

    assert make(word) == make("")


def test_a_name_of_ten_thousand_letters_is_shortened_everywhere():
    context = with_job(
        showcase.make_idle_node(), name="n" * 10_000, user="u" * 10_000, key=JobKey("slurm", "7" * 10_000)
    )
    assert len(node_page(context)) < len(node_page(with_job(showcase.make_idle_node()))) + 2500


def test_of_thousands_of_jobs_as_many_as_make_a_page_are_shown_and_the_others_counted():
    jobs = {
        JobKey("slurm", str(number)): Job(
            key=JobKey("slurm", str(number)),
            state=JobState.RUNNING,
            allocated_cpus=2 if number == 4321 else 1,
        )
        for number in range(5000)
    }
    text = node_page(replace(showcase.make_idle_node(), jobs=jobs))
    rows = rows_of(read_page(text), "jobs-table")
    assert len(rows) == MAX_ROWS
    assert next(iter(rows)) == "4321"  # the largest first
    assert "4,500 more are not shown" in text
    assert len(text) < 1_500_000


def make_many(count: int) -> Context:
    """Return the busy node with so many jobs, each with two CPUs of which it uses none."""
    context = showcase.make_busy_node()
    sample, job = (known[JobKey("slurm", "48307")] for known in (context.snapshot.jobs, context.jobs))
    keys = [JobKey("slurm", str(50_000 + number)) for number in range(count)]
    samples = {key: replace(sample, key=key, user_cpu_secs=1.0, system_cpu_secs=0.0) for key in keys}
    return replace(
        context,
        snapshot=replace(context.snapshot, jobs=samples, gpus=(), job_gpus=(), gpu_drivers={}),
        jobs={key: replace(job, key=key, allocated_cpus=2, allocated_gpus=None) for key in keys},
        statuses={},
        ended={},
        cpu_rates=dict.fromkeys(keys, 0.0),
    )


def page_with(count: int, asked: AskedPage) -> str:
    context = make_many(count)
    return render_node(context, showcase.families_of(context), asked=asked)


@pytest.mark.parametrize(
    ("count", "asked", "are_lines"),
    [
        (24, AskedPage(), False),
        (25, AskedPage(), True),
        (25, AskedPage(view="full"), False),
        (24, AskedPage(view="full"), False),
        (2, AskedPage(view="dense"), True),
    ],
)
def test_many_jobs_have_a_line_each_unless_all_is_asked_for(count, asked, are_lines):
    text = page_with(count, asked)
    assert ("one line each" in text) == are_lines
    assert ('href="./?view=full"' in text) == (are_lines and count > 24)
    assert ("This exporter" in text) == (asked.view != "dense")  # what follows the jobs is there


def test_the_head_of_the_page_counts_what_is_wrong_with_jobs():
    tiles = page_with(64, AskedPage()).partition("<section")[0]
    assert "64 × CPUs idle" in tiles
    assert "1 × memory near its limit" in text_of("node-busy").partition("<section")[0]
    assert "×" not in text_of("node-idle").partition("<section")[0]
