"""The sensors at work: what a look has of them, and what one that fails or hangs costs."""

import logging
import threading
from dataclasses import replace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.snapshot import CpuSecs, FigureSource, JobSample, NodeSample, Snapshot
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.sampling.power import PowerError, dcmi, hwmon
from jobfeatures_exporter.sampling.power.monitor import PowerMonitor
from tests.running import until

A = JobKey("slurm", "1")


@pytest.fixture
def sensors(monkeypatch):
    """Return what the sensors say, by name: watts, or an exception to raise."""
    said = {"hwmon": 100.0, "dcmi": 200.0}

    def make(name):
        def read():
            if isinstance(said[name], Exception):
                raise said[name]
            return said[name]

        return lambda _config, _sysfs: read

    for module, name in ((hwmon, "hwmon"), (dcmi, "dcmi")):
        monkeypatch.setattr(module, "make", make(name))
    return said


def monitor_of(config, clock):
    return PowerMonitor(
        config.power, clock, sysfs=config.path.sysfs, sample_interval_secs=config.sample_interval_secs
    )


@pytest.fixture
def monitor(clock, sensors):
    """Return a function that makes a monitor whose sensors are read when the test says so."""

    def make(**flags):
        flags = {"power.sources": "hwmon,dcmi", "power.interval": "10s", **flags}
        flags = {name.replace("__", "."): value for name, value in flags.items()}
        return monitor_of(load_config(ExporterConfig, flags=flags, environ={}), clock)

    return make


def look(monitor, cpu_secs, used_secs, **more):
    node = NodeSample(cpu=CpuSecs(cpu_secs, 0, 0, 0, 0, 0, 0, 0))
    sample = JobSample(key=A, accounting=FigureSource.CGROUP, user_cpu_secs=used_secs, system_cpu_secs=0.0)
    return monitor.fill(Snapshot(taken_at_secs=0, duration_secs=0, node=node, jobs={A: sample}, **more))


def read(monitor):
    for reader in monitor.readers:
        reader.read_once()


def test_each_sensor_is_integrated_and_shared(monitor, clock):
    made = monitor(power__pdu_factor="1.5")
    read(made)
    look(made, 0.0, 0.0)
    clock.advance(10)
    snapshot = look(made, 10.0, 5.0)
    assert snapshot.node.board.watts == {"dcmi": 200, "hwmon": 100, "pdu": 300}
    assert snapshot.node.board.joules == {"dcmi": 2000, "hwmon": 1000, "pdu": 3000}
    assert snapshot.jobs[A].board_joules == {"dcmi": 1000, "hwmon": 500, "pdu": 1500}


def test_without_the_controller_s_the_factor_is_of_the_board_s(monitor, sensors):
    sensors["dcmi"] = PowerError("no such device")
    made = monitor(power__pdu_factor="1.5")
    read(made)
    assert look(made, 0.0, 0.0).node.board.watts == {"hwmon": 100, "pdu": 150}


def test_a_sensor_that_fails_has_no_watts_stands_still_and_is_told_once(monitor, clock, sensors, caplog):
    made = monitor()
    read(made)
    look(made, 0.0, 0.0)
    sensors["dcmi"] = PowerError("no such device")
    with caplog.at_level(logging.INFO):
        for secs in (10.0, 20.0):
            clock.advance(10)
            read(made)
            snapshot = look(made, secs, secs)
        assert [record.getMessage() for record in caplog.records] == [
            "sensor of power failed: no such device"
        ]
        assert snapshot.node.board.watts == {"hwmon": 100}
        assert snapshot.node.board.up == {"dcmi": False, "hwmon": True}
        assert snapshot.node.board.joules == {"dcmi": 0, "hwmon": 2000}
        sensors["dcmi"] = 200.0
        read(made)
        clock.advance(10)
        assert look(made, 30.0, 30.0).node.board.joules == {"dcmi": 2000, "hwmon": 3000}
        assert caplog.records[-1].getMessage() == "sensor of power answers again"


def test_a_fault_in_a_sensor_s_code_costs_that_sensor_alone(monitor, sensors):
    sensors["dcmi"] = ZeroDivisionError("none")
    made = monitor()
    read(made)
    assert look(made, 0.0, 0.0).node.board.up == {"dcmi": False, "hwmon": True}


def test_a_reading_grows_stale_and_a_long_gap_counts_nothing(monitor, clock):
    made = monitor()
    read(made)
    look(made, 0.0, 0.0)
    clock.advance(30.5)
    assert look(made, 10.0, 5.0).node.board.watts == {}
    read(made)
    clock.advance(30.5)
    read(made)
    snapshot = look(made, 20.0, 10.0)
    assert snapshot.node.board.watts == {"dcmi": 200, "hwmon": 100}
    assert snapshot.node.board.joules == {"dcmi": 0, "hwmon": 0}


def test_a_job_s_last_record_has_what_it_had_drawn(monitor, clock):
    made = monitor(power__sources="hwmon")
    read(made)
    look(made, 0.0, 0.0)
    clock.advance(10)
    before = look(made, 10.0, 10.0)
    gone = replace(before, jobs={}, final={A: replace(before.jobs[A], board_joules={})})
    assert made.fill(gone).final[A].board_joules == {"hwmon": 1000}


def test_without_the_setting_nothing_is_read_and_nothing_changes(clock):
    made = monitor_of(ExporterConfig(), clock)
    snapshot = Snapshot(taken_at_secs=0, duration_secs=0, node=NodeSample(), jobs={})
    assert made.readers == []
    assert made.fill(snapshot) is snapshot


def test_a_scrape_has_the_power_and_waits_for_no_sensor_that_hangs(tmp_path, monkeypatch):
    hangs = threading.Event()
    folder = tmp_path / "sys/class/hwmon/hwmon0"
    folder.mkdir(parents=True)
    (folder / "name").write_text("power_meter\n")
    (folder / "power1_average").write_text("345500000\n")
    monkeypatch.setattr(dcmi, "make", lambda config: lambda: hangs.wait(60) and 1.0)
    flags = {
        "features.publish": "false",
        "batch.sources": "spool",
        "spool.directory": str(tmp_path),
        "path.sysfs": str(tmp_path / "sys"),
        "gpu.drivers": "none",
        "power.sources": "hwmon,dcmi",
        "sample.interval": "50ms",
    }
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}))
    daemon.start()
    try:
        until(lambda: b'batch_node_power_watts{sensor="hwmon"} 345.5' in daemon.exposition(openmetrics=False))
        page = daemon.exposition(openmetrics=False).decode()
    finally:
        hangs.set()
        daemon.stop()
    assert 'batch_node_power_sensor_up{sensor="dcmi"} 0' in page
    assert 'batch_node_board_energy_joules_total{sensor="hwmon"}' in page
