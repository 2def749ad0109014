"""What the card of the common context told on request, and the job that held it alone."""

from dataclasses import replace

from jobfeatures_exporter.sampling import gpu
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.exporter.seriestext import labelled

CARD = 'uuid="GPU-1111"'
JOB = f'batch_system="slurm",job_id="12",{CARD}'


def series(context, name):
    families = COLLECTORS["gpudetail"].families(context)
    return {
        text: value
        for family in families
        if family.metric.sample_name == name
        for text, value in labelled(family)
    }


def test_units_and_kinds_are_labels(context):
    assert series(context, "batch_gpu_unit_busy_seconds_total") == {
        f'{CARD},unit="sm"': 300.25,
        f'{CARD},unit="tensor"': 120.5,
    }
    assert series(context, "batch_job_gpu_link_bytes_total") == {
        f'{JOB},link="pcie",direction="receive"': 2**31
    }


def test_zero_is_told_and_what_an_instance_does_not_tell_has_no_series(context):
    assert series(context, "batch_gpu_remap_failed") == {CARD: 0}
    assert series(context, "batch_gpu_clock_held_seconds_total")[f'{CARD},reason="hardware_thermal"'] == 0
    every = {text for family in COLLECTORS["gpudetail"].families(context) for text, _ in labelled(family)}
    assert not {text for text in every if "MIG-2222" in text}


def test_errors_of_a_cards_life_are_no_jobs(context):
    assert series(context, "batch_gpu_lifetime_ecc_errors_total") == {f'{CARD},kind="corrected"': 17}
    names = {metric.name for metric in COLLECTORS["gpudetail"].metrics}
    assert "batch_job_gpu_lifetime_ecc_errors" not in names


def test_a_node_without_a_driver_has_none_of_it(context):
    bare = replace(context, snapshot=replace(context.snapshot, gpu_drivers={}))
    assert list(COLLECTORS["gpudetail"].families(bare)) == []
    assert list(COLLECTORS["gpudetail"].families(replace(context, snapshot=None))) == []


def test_every_count_that_a_driver_makes_has_a_metric(context):
    made = {gpu.PROFILED[0], gpu.BUSY, gpu.LINK, gpu.ECC, gpu.LIFETIME_ECC}
    made |= {gpu.REMAPPED, gpu.XID, gpu.XIDS[0], gpu.CLOCK_REASON}
    names = {metric.name for metric in COLLECTORS["gpudetail"].metrics if metric.kind == "counter"}
    assert len({name for name in names if name.startswith("batch_gpu_")}) == len(made)
    shown = {count[0] for count in context.snapshot.gpus[0].counts}
    assert shown == made
