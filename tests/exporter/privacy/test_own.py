"""One user's view of a node: nothing of others is in it, whatever is known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.families.exposition import render
from jobfeatures_exporter.model.measured import BoardSample
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.privacy.own import COLLECTORS as SHOWN
from jobfeatures_exporter.privacy.own import make_own_context
from jobfeatures_exporter.scrape.collectors import COLLECTORS, collect

OWN = JobKey("slurm", "12")


def page(context, uid, user=None):
    return render(collect(make_own_context(context, uid, user), SHOWN), openmetrics=False).decode()


def jobs_in(text):
    return set(re.findall(r'[{,]job_id="((?:[^"\\]|\\.)*)"', text))


@pytest.fixture
def uid(context):
    assert context.jobs[OWN].uid is not None
    return context.jobs[OWN].uid


def test_the_own_job_is_shown_with_its_figures_and_no_other(context, uid):
    others = {key: replace(job, uid=uid + 1) for key, job in context.jobs.items() if key != OWN}
    ended = {key: replace(each, job=replace(each.job, uid=uid + 1)) for key, each in context.ended.items()}
    samples = {
        key: replace(each, uid=uid if key == OWN else uid + 1) for key, each in context.snapshot.jobs.items()
    }
    snapshot = replace(context.snapshot, jobs=samples)
    context = replace(context, jobs={**context.jobs, **others}, ended=ended, snapshot=snapshot)
    text = page(context, uid)
    assert jobs_in(text) == {"12"}
    assert 'batch_job_cpu_seconds_total{batch_system="slurm",job_id="12",mode="user"} 1234.5' in text
    assert "batch_node_" in text  # what /proc tells everybody


def test_somebody_without_jobs_sees_none_and_no_cards(context, uid):
    text = page(context, uid + 77_777, "nobody-here")
    assert jobs_in(text) == set()
    assert "batch_gpu_" not in text
    own = make_own_context(context, uid + 77_777, None)
    assert (own.jobs, own.statuses, own.ended, own.findings, own.cpu_rates) == ({}, {}, {}, {}, {})
    assert (own.snapshot.jobs, own.snapshot.processes, own.snapshot.keys, own.snapshot.job_gpus) == (
        {},
        {},
        {},
        (),
    )
    assert (own.sources, own.drains, own.publisher, own.sinks, own.kinds) == (
        (), None, None, (), frozenset({Kind.BATCH})
    )  # fmt: skip


def test_no_name_of_another_user_is_on_a_strangers_page(context, uid):
    text = page(context, uid + 77_777)
    for job in context.jobs.values():
        for name in (job.user, job.account):
            assert not name or f'"{name}"' not in text


def test_what_the_node_draws_is_for_root_and_the_jobs_share_for_its_owner(context, uid):
    sample = replace(context.snapshot.jobs[OWN], energy_joules=7.0, board_joules={"dcmi": 8.0})
    board = BoardSample(watts={"dcmi": 300.0}, joules={"dcmi": 9.0}, up={"dcmi": True})
    node = replace(context.snapshot.node, energy_joules={"package-0": 10.0}, board=board)
    snapshot = replace(context.snapshot, jobs={**context.snapshot.jobs, OWN: sample}, node=node)
    text = page(replace(context, snapshot=snapshot), uid)
    assert 'batch_job_energy_joules_total{batch_system="slurm",job_id="12",source="cpu"} 7.0' in text
    assert 'batch_job_board_energy_joules_total{batch_system="slurm",job_id="12",sensor="dcmi"} 8.0' in text
    assert re.findall(r"(?m)^batch_node_(?:energy|power|board)_\w+[ {].*", text) == []


@pytest.mark.parametrize(
    ("changes", "sample_uid", "is_shown"),
    [
        ({"uid": 6001, "user": "mallory"}, 9, True),  # the batch system's number counts first
        ({"uid": 9, "user": "alice"}, 6001, False),
        ({"uid": None, "user": "alice"}, 9, True),
        ({"uid": None, "user": "bob"}, 6001, False),
        ({"uid": None, "user": None}, 6001, True),
        ({"uid": None, "user": None}, 9, False),
        ({"uid": None, "user": None}, None, False),
    ],
)
def test_whose_a_job_is_the_batch_system_says_else_its_control_group(context, changes, sample_uid, is_shown):
    snapshot = context.snapshot
    samples = {**snapshot.jobs, OWN: replace(snapshot.jobs[OWN], uid=sample_uid)}
    context = replace(
        context,
        jobs={OWN: replace(context.jobs[OWN], **changes)},
        ended={},
        snapshot=replace(snapshot, jobs=samples),
    )
    assert (OWN in make_own_context(context, 6001, "alice").jobs) is is_shown


def test_no_collector_is_shown_that_tells_of_all_jobs():
    assert COLLECTORS.keys() >= SHOWN
    assert not SHOWN & {
        "sources",
        "process",
        "processes",
        "features",
        "web",
        "sinks",
        "kernel",
        "drains",
    }
