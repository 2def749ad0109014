"""Serving in this process for a moment."""

import os
import signal
import threading

import pytest

from jobfeatures.errors import JobfeaturesError
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.scrape import collectors
from jobfeatures_exporter.startup import serve as starting
from jobfeatures_exporter.startup.serve import serve
from tests.running import free_port, until


@pytest.fixture(autouse=True)
def hook_of_threads(monkeypatch):
    """Have the hook of threads that the daemon sets taken back."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)


def make_config(tmp_path):
    flags = {
        "batch.sources": "",
        "features.root": str(tmp_path / "features"),
        "path.cgroup": str(tmp_path),
        "web.listen-address": f"127.0.0.1:{free_port()}",
    }
    return load_config(ExporterConfig, flags=flags, environ={})


def end(_address):
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_daemon_one_of_whose_threads_has_ended_ends_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Daemon, "dead", lambda _daemon: ["publishing"])
    with pytest.raises(JobfeaturesError, match=r"^threads have ended unexpectedly: publishing"):
        serve(make_config(tmp_path))


def test_a_daemon_that_may_open_too_few_files_does_not_start_and_few_are_told(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(starting, "raise_limit", lambda: 64)
    with pytest.raises(
        JobfeaturesError, match=r"^the limit of open files is 64, but 128 are needed: raise LimitNOFILE="
    ):
        serve(make_config(tmp_path), on_listening=end)
    monkeypatch.setattr(starting, "raise_limit", lambda: 256)
    serve(make_config(tmp_path), on_listening=end)
    [told] = [each for each in caplog.records if each.levelname == "WARNING"]
    assert (told.getMessage().partition(",")[0], told.limit) == ("few files can be open", 256)


def test_a_collector_that_is_damaged_is_told_at_the_start_and_not_only_at_a_scrape(
    tmp_path, monkeypatch, caplog
):
    (tmp_path / "damaged.py").write_text("def families(:\n")
    monkeypatch.setattr(collectors, "__path__", [*collectors.__path__, str(tmp_path)])
    monkeypatch.setitem(collectors.COLLECTORS, "waste", collectors.Collector("damaged", ""))
    serve(make_config(tmp_path), on_listening=end)
    [told] = until(lambda: [each for each in caplog.records if each.levelname == "ERROR"])
    assert (told.message, told.collector) == ("unexpected error: this collector cannot be loaded", "waste")
    assert "invalid syntax" in caplog.text
