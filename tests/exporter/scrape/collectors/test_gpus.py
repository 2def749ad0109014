"""Cards of the common context: one of which everything is known, and an instance of which little is."""

from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import GpuCard, GpuSample, GroupKey, JobGpu, Kind
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.exporter.seriestext import labelled

CARD = 'uuid="GPU-1111"'
JOB = f'batch_system="slurm",job_id="12",{CARD}'


def series(context, name):
    families = COLLECTORS["gpus"].families(context)
    return {
        text: value
        for family in families
        if family.metric.sample_name == name
        for text, value in labelled(family)
    }


def test_what_an_instance_does_not_tell_has_no_series(context):
    assert series(context, "batch_gpu_power_watts") == {CARD: 250.5}
    assert series(context, "batch_gpu_failing") == {CARD: 0, 'uuid="MIG-2222"': 15}
    assert series(context, "batch_gpu_age_seconds") == {CARD: 2.0, 'uuid="MIG-2222"': 20.0}


def test_units_are_base_units(context):
    assert series(context, "batch_gpu_utilization_ratio") == {CARD: 0.5}
    assert series(context, "batch_gpu_clock_hertz") == {CARD: 1_410_000_000}
    assert series(context, "batch_gpu_fan_ratio") == {CARD: 0.3}


def test_an_allocated_idle_card_shows_and_has_no_busy_seconds(context):
    assert len(series(context, "batch_job_gpu_allocated")) == 2
    assert series(context, "batch_job_gpu_busy_seconds_total") == {JOB: 6.25}


def test_a_job_that_uses_a_card_which_it_was_not_given_has_no_allocation(context):
    use = JobGpu(key=JobKey("slurm", "99"), uuid="GPU-1111", busy_secs=0.0)
    found = replace(context, snapshot=replace(context.snapshot, job_gpus=(use,)))
    assert series(found, "batch_job_gpu_allocated") == {}
    assert series(found, "batch_job_gpu_busy_seconds_total") == {
        f'batch_system="slurm",job_id="99",{CARD}': 0.0
    }


@pytest.mark.parametrize("shown", [True, False])
def test_other_kinds_are_shown_where_asked_for(context, shown):
    use = JobGpu(key=GroupKey(321, 5), uuid="GPU-1111", busy_secs=1.0)
    kinds = frozenset({Kind.BATCH, Kind.GROUP} if shown else {Kind.BATCH})
    found = replace(context, kinds=kinds, snapshot=replace(context.snapshot, job_gpus=(use,)))
    assert len(series(found, "batch_job_gpu_busy_seconds_total")) == shown


def test_a_node_without_a_driver_has_no_series_of_cards(context):
    bare = replace(context, snapshot=replace(context.snapshot, gpu_drivers={}, gpus=(), job_gpus=()))
    assert list(COLLECTORS["gpus"].families(bare)) == []
    assert list(COLLECTORS["gpus"].families(replace(context, snapshot=None))) == []


def test_a_driver_that_is_down_says_so_without_any_card(context):
    down = replace(context, snapshot=replace(context.snapshot, gpu_drivers={"nvidia": False}, gpus=()))
    assert series(down, "batch_gpu_driver_up") == {'driver="nvidia"': 0}
    assert series(down, "batch_gpu_info") == {}


def test_an_age_is_never_below_zero(context):
    early = GpuSample(card=GpuCard(uuid="GPU-1111"), taken_at_secs=context.now_secs + 5)
    found = replace(context, snapshot=replace(context.snapshot, gpus=(early,)))
    assert series(found, "batch_gpu_age_seconds") == {CARD: 0.0}


def test_what_a_card_says_of_itself_is_escaped(context):
    strange = GpuSample(card=GpuCard(uuid='GPU-"1"', model='A "card"\n\\'), taken_at_secs=0)
    found = replace(context, snapshot=replace(context.snapshot, gpus=(strange,)))
    [text] = series(found, "batch_gpu_info")
    assert 'uuid="GPU-\\"1\\""' in text
    assert 'model="A \\"card\\"\\n\\\\"' in text
