"""What a reload takes over, what it leaves for a restart, and a real daemon that is told to."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.model.statuses import LastReload
from jobfeatures_exporter.node import daemon as node
from jobfeatures_exporter.node import sources as sources_module
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.scrape.collectors import CONTROLLER, NODE
from jobfeatures_exporter.service.reload import SettingsChange, compute_change, live_roles
from jobfeatures_exporter.service.supervision import Notifier
from jobfeatures_exporter.startup.reloader import Reloader
from jobfeatures_exporter.startup.serve import _at_work
from tests.configured import changed, configured
from tests.running import readable, started, until

ROOT = Path(__file__).parents[3]


def test_live_settings_are_taken_and_the_others_wait():
    running = configured(sample_interval_secs=1.0)
    wanted = changed(running, machine_hs06="10", sample_interval_secs=2.0, web_listen_address=":1")
    change = compute_change(running, wanted)
    assert change.taken == ("machine.hs06",)
    assert set(change.waiting) == {"sample.interval", "web.listen_address"}
    assert change.config == changed(running, machine_hs06="10")
    assert not change.concerns_sources


def test_a_role_is_not_changed_by_a_reload():
    change = compute_change(ExporterConfig(), configured(role=CONTROLLER))
    assert (change.config.role, change.waiting) == (NODE, ("role",))


def test_nothing_new_changes_nothing():
    change = compute_change(ExporterConfig(), ExporterConfig())
    assert (change.taken, change.waiting, change.config) == ((), (), ExporterConfig())


def test_tables_of_the_file_are_taken_over(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("[partition.long]\ngrace_secs = 7200\n")
    wanted = load_config(ExporterConfig, environ={}, file=str(file))
    change = compute_change(ExporterConfig(), wanted)
    assert change.taken == ("partition",)
    assert change.config.shared.site.partition[0].values == {"grace_secs": 7200}


def test_how_a_batch_system_is_asked_concerns_the_sources():
    assert compute_change(ExporterConfig(), configured(batch_refresh_secs=1.0)).concerns_sources


def test_each_role_that_takes_a_setting_over_is_one():
    assert {role for roles in live_roles().values() for role in roles} == {NODE, CONTROLLER}


def test_the_page_marks_what_a_reload_takes_over():
    page = (ROOT / "docs/reference/settings.md").read_text()
    marked = dict(re.findall(r"^- `([^`]+)`(↻?) ", page, re.MULTILINE))
    assert len(marked) > 100
    for key, mark in marked.items():
        assert bool(mark) == bool(live_roles()[key]), key


def test_what_the_controller_role_takes_over_is_named():
    found = {key for key, roles in live_roles().items() if CONTROLLER in roles}
    assert {key for key in found if not key.startswith(("log.", "controller.sd_", "collector."))} == set()
    assert {"log.level", "controller.sd_port"} <= found


class Served:
    """What takes settings over, as a test wants it."""

    def __init__(self):
        self.board = SimpleNamespace(reload=LastReload(successful=True, success_secs=1.0))
        self.changes, self.fault = [], None

    def stalled(self):
        return []

    def summary(self):
        return "fine"

    def reconfigure(self, change):
        if self.fault is not None:
            raise self.fault
        self.changes.append(change)


def make_reloader(served, wanted):
    def reread():
        if isinstance(wanted, Exception):
            raise wanted
        return wanted

    return Reloader(ExporterConfig(), served, Notifier(None), reread, lambda: "serving")


def test_a_good_reload_is_dated():
    served = Served()
    before = time.time()
    make_reloader(served, configured(machine_hs06="1")).reload()
    assert served.board.reload.successful
    assert before <= served.board.reload.success_secs <= time.time()
    assert [change.taken for change in served.changes] == [("machine.hs06",)]


@pytest.mark.parametrize(
    "wanted",
    [
        ConfigurationError("/etc/x.toml: web.x", "there is no such setting"),
        configured(features_form="http"),  # contradicts another setting
        RuntimeError("a fault of ours"),
    ],
)
def test_a_bad_reload_leaves_all_as_it_was_and_says_why_each_time(wanted, capsys):
    served = Served()
    reloader = make_reloader(served, wanted)
    for _ in range(2):  # within the minute in which other messages are not repeated
        reloader.reload()
        assert "the settings cannot be reloaded, so the previous ones stay in use" in capsys.readouterr().err
    assert served.board.reload == LastReload(successful=False, success_secs=1.0)
    assert served.changes == []


def test_settings_that_fit_only_after_a_restart_are_no_fault_of_the_reload_before_it():
    served = Served()
    wanted = configured(features_form="http", features_listen_address="127.0.0.1:9820", machine_hs06="1")
    make_reloader(served, wanted).reload()
    assert served.board.reload.successful
    assert served.changes[0].waiting == ("features.listen_address", "features.form")


def test_bad_files_of_a_listener_stop_the_reload():
    served = Served()
    reloader = make_reloader(served, configured(machine_hs06="1"))

    def read_again():
        raise ConfigurationError("web.config_file", "is no good")

    reloader.files.append(read_again)
    reloader.reload()
    assert served.changes == []
    assert not served.board.reload.successful


# --- a daemon ------------------------------------------------------------------------


def test_what_a_source_knew_and_counted_goes_on_when_it_is_replaced(tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "bad.xml").write_text("<Job><Id>")
    (spool / "7.xml").write_text("<Job><Id>7</Id><State>Running</State></Job>")
    flags = {
        "features.root": str(tmp_path / "features"), "batch.sources": "spool", "spool.directory": str(spool),
        "batch.interval": "1h",
    }  # fmt: skip
    running = load_config(ExporterConfig, flags=flags, environ={})
    daemon = Daemon(running)
    daemon.start()
    try:
        until(lambda: daemon.is_ready)
        rejected = [each.rejected for each in daemon.context().sources]
        assert sum(rejected) >= 1
        daemon.reconfigure(
            compute_change(running, changed(running, batch_interval_secs=1800.0, machine_hs06="10"))
        )
        context = daemon.context()
        assert [each.name for each in context.sources] == ["hooks", "spool"]
        assert all(now.rejected >= before for now, before in zip(context.sources, rejected, strict=True))
        assert [key.job_id for key in context.jobs] == ["7"]
        assert daemon.stalled() == []
        until((tmp_path / "features/machinefeatures/hs06").exists)
        assert "1 jobs here" in daemon.summary()
    finally:
        daemon.stop()
    assert "sampling" in daemon.stalled()


def test_what_a_source_counts_until_it_stops_is_not_lost(tmp_path, note_made):
    config = configured(features_root=str(tmp_path / "features"), batch_sources=())
    made, keepers = note_made(node, "NodeSources"), note_made(sources_module, "Keeper")
    board = Daemon(config).board
    [sources], [keeper] = made, keepers
    stop = keeper.stop

    def fail_at_last(timeout_secs):
        keeper.status = replace(keeper.status, failures=7)
        stop(timeout_secs)

    keeper.stop = fail_at_last
    sources.prepare(config)()
    try:
        [status] = board.sources
        assert status.failures >= 7
    finally:
        sources.stop()


def test_a_reload_that_fails_in_the_daemon_changes_nothing(tmp_path, monkeypatch):
    running = configured(features_root=str(tmp_path / "features"), batch_sources=())
    daemon = Daemon(running)

    def fail(_config):
        raise ConfigurationError("machine.hs06", "of no use")

    monkeypatch.setattr("jobfeatures_exporter.node.nodeboard.make_site", fail)
    wanted = changed(running, machine_hs06="10", jobs_kinds=tuple(Kind))
    with pytest.raises(ConfigurationError):
        daemon.reconfigure(SettingsChange(wanted, ("machine.hs06", "jobs.kinds"), ()))
    assert daemon.known().kinds == frozenset(map(Kind, running.jobs.kinds))


async def test_work_beside_the_listeners_that_ends_is_told(caplog):
    async def fail():
        raise KeyError("n1")

    async with _at_work(fail(), asyncio.sleep(60)):
        await asyncio.sleep(0)
    assert [record.exc_info[0] for record in caplog.records] == [KeyError]


@pytest.fixture
def service(tmp_path, sockets):
    """The real command on a file of settings, and the service manager's end of its socket."""
    file = tmp_path / "config.toml"
    log = tmp_path / "log"

    class Service:
        def write(self, text):
            file.write_text(text)

        def told(self, word):
            """Return the next message with this word; a service that has ended sends none."""
            while True:
                until(lambda: readable(notify, 0.1) or self.process.poll() is not None)
                assert readable(notify, 0), log.read_text()
                lines = notify.recv(4096).decode().split("\n")
                if word in lines:
                    return lines

        def log(self):
            return [json.loads(line) for line in log.read_text().splitlines()]

        def get(self, path="/metrics"):
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=60) as response:
                return response.read().decode()

        def value(self, name):
            return float(re.search(rf"^{name} (\S+)$", self.get(), re.MULTILINE)[1])

    made = Service()
    made.write(f"[features]\nroot = '{tmp_path}/features'\n[log]\nformat = 'json'\n")
    made.base = file.read_text()
    command = [
        sys.executable,
        "-m",
        "jobfeatures_exporter",
        "serve",
        "--config.file",
        file,
        "--batch.sources",
        "",
    ]
    command += ["--web.listen-address", "127.0.0.1:0"]
    environ = {**os.environ, "NOTIFY_SOCKET": str(sockets / "notify"), "WATCHDOG_USEC": "2000000"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, log.open("wb") as output:
        notify.bind(str(sockets / "notify"))
        with started(command, stderr=output, cwd=ROOT, env=environ) as made.process:
            made.address = re.search(r"serving on (\S+):", "\n".join(made.told("READY=1")))[1]
            yield made


@pytest.mark.program
def test_a_signal_takes_new_settings_over_and_bad_ones_change_nothing(service, tmp_path):
    assert service.value("batch_exporter_config_last_reload_successful") == 1
    service.write(service.base + "[machine]\nhs06 = 77\n[sample]\ninterval = '3s'\n")
    service.process.send_signal(signal.SIGHUP)
    service.told("RELOADING=1")
    service.told("READY=1")
    until((tmp_path / "features/machinefeatures/hs06").exists)
    assert "this setting needs a restart: sample.interval" in [each["msg"] for each in service.log()]
    service.write(service.base + "[machin]\nhs06 = 78\n")
    service.process.send_signal(signal.SIGHUP)
    service.told("RELOADING=1")
    service.told("READY=1")
    assert service.value("batch_exporter_config_last_reload_successful") == 0
    assert "did you mean machine.hs06?" in service.log()[-1]["msg"]
    assert (tmp_path / "features/machinefeatures/hs06").read_text() == "77\n"
    assert service.told("WATCHDOG=1")


@pytest.mark.program
def test_it_says_that_it_stops_and_leaves_the_features(service, tmp_path):
    until((tmp_path / "features/machinefeatures/total_cpu").exists)
    service.process.send_signal(signal.SIGTERM)
    assert service.told("STOPPING=1")
    assert service.process.wait(60) == 0
    assert (tmp_path / "features/machinefeatures/total_cpu").exists()
    assert service.log()[-1]["msg"] == "stopped"


@pytest.mark.program
def test_it_ends_though_a_client_never_ends_its_request(service):
    host, _, port = service.address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0


@pytest.mark.program
def test_a_second_signal_ends_it_at_once(service):
    """The first finds a client that holds its connection; nobody waits for that after the second."""
    host, _, port = service.address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")  # and no end of it
        service.process.send_signal(signal.SIGTERM)
        service.told("STOPPING=1")
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) in {-signal.SIGTERM, 0}
