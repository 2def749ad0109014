"""The sampler and the daemon use the monitor, and never wait for it."""

import threading
from dataclasses import replace

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings

PATIENCE_SECS = 30.0


class FakeMonitor:
    readers = ()

    def __init__(self):
        self.jobs = None

    def fill(self, snapshot, jobs):
        self.jobs = jobs
        return replace(snapshot, gpu_drivers={"fake": True}, gpu_unattributed={"GPU-1": len(snapshot.keys)})


def test_a_snapshot_of_the_sampler_has_what_the_monitor_says(node, clock, make_job):
    node.process(10)
    job = make_job("12", gpus=("0",))
    gpus = FakeMonitor()
    sampler = Sampler(
        SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup)),
        clock,
        jobs=lambda: {job.key: job},
        gpus=gpus,
    )
    snapshot = sampler.sample()
    sampler.close()
    assert (snapshot.gpu_drivers, snapshot.gpu_unattributed) == ({"fake": True}, {"GPU-1": 1})
    assert gpus.jobs == {job.key: job}


@pytest.fixture
def make_daemon(tmp_path):
    """Return a function that starts a daemon that asks nobody but drivers of cards."""
    made = []

    def make(drivers, **more):
        flags = {
            "features.root": str(tmp_path / "features"),
            "features.publish": "false",
            "batch.sources": "spool",
            "spool.directory": str(tmp_path),
            "sample.interval": "20ms",
            "gpu.drivers": drivers,
            **more,
        }
        made.append(Daemon(load_config(ExporterConfig, flags=flags, environ={})))
        made[-1].start()
        return made[-1]

    yield make
    for daemon in made:
        daemon.stop()


def page(daemon, wanted):
    """Return the page, as soon as it holds a text."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECS / 0.02)):
        text = daemon.exposition(openmetrics=False).decode()
        if wanted in text:
            return text
        pause.wait(0.02)
    raise AssertionError(f"never told: {wanted}")


def test_a_scrape_has_the_cards(nvml, make_daemon):
    nvml.say(nvml.DRIVER, nvml.A100, "proc gpu=0 pid=999999999 used=5")
    text = page(make_daemon("nvidia"), "batch_gpu_unattributed_processes{")
    assert 'batch_gpu_temperature_celsius{uuid="GPU-1111"} 45' in text
    assert 'batch_gpu_unattributed_processes{uuid="GPU-1111"} 1' in text
    assert 'batch_gpu_driver_up{driver="nvidia"} 1' in text
    assert "batch_gpu_power_watts" in text


DETAIL = "batch_gpu_remap_pending"


def test_details_of_a_card_are_told_where_they_are_asked_for(nvml, make_daemon):
    nvml.say(nvml.DRIVER, f"{nvml.A100} gpm=2:50 rows=0,0,1,0 ecc=0 reasons=4 throttle=4")
    text = page(make_daemon("nvidia", **{"collector.gpudetail": "true"}), "batch_gpu_profiled_seconds_total{")
    assert f'{DETAIL}{{uuid="GPU-1111"}} 1' in text
    assert 'batch_gpu_unit_busy_seconds_total{uuid="GPU-1111",unit="sm"}' in text
    assert 'batch_gpu_ecc_errors_total{uuid="GPU-1111",kind="uncorrected"} 0' in text
    assert 'batch_gpu_clock_held_seconds_total{uuid="GPU-1111",reason="power_cap"}' in text
    assert 'batch_gpu_xids_watched{uuid="GPU-1111"} 1' in text


def test_details_of_a_card_are_not_told_otherwise(nvml, make_daemon):
    nvml.say(nvml.DRIVER, f"{nvml.A100} gpm=2:50 rows=0,0,1,0")
    assert DETAIL not in page(make_daemon("nvidia"), "batch_gpu_temperature_celsius{")


def test_a_driver_that_is_asked_for_and_not_there_is_told_to_be_down(nvml, make_daemon):
    nvml.vanish()
    text = page(make_daemon("nvidia"), "batch_gpu_driver_up{")
    assert 'batch_gpu_driver_up{driver="nvidia"} 0' in text
    assert "batch_gpu_info" not in text
    assert "batch_node_cpu_seconds_total" in text


def test_on_a_node_without_cards_nothing_is_told_of_them(make_daemon):
    assert "batch_gpu" not in page(make_daemon("none"), "batch_node_cpu_seconds_total")


def test_a_driver_that_does_not_exist_is_a_wrong_setting():
    with pytest.raises(ConfigurationError, match=r"gpu\.drivers"):
        load_config(ExporterConfig, flags={"gpu.drivers": "matrox"}, environ={})
