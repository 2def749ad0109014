"""Serving in this process for a moment."""

from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.scrape import collectors
from jobfeatures_exporter.startup.serve import serve
from tests.running import free_port, until


def test_a_collector_that_is_damaged_is_told_at_the_start_and_not_only_at_a_scrape(
    tmp_path, monkeypatch, caplog
):
    (tmp_path / "damaged.py").write_text("def families(:\n")
    monkeypatch.setattr(collectors, "__path__", [*collectors.__path__, str(tmp_path)])
    monkeypatch.setitem(collectors.COLLECTORS, "waste", collectors.Collector("damaged", ""))
    flags = {
        "batch.sources": "",
        "features.root": str(tmp_path / "features"),
        "path.cgroup": str(tmp_path),
        "web.listen-address": f"127.0.0.1:{free_port()}",
    }
    serve(load_config(ExporterConfig, flags=flags, environ={}), duration_secs=0.01)
    [told] = until(lambda: [each for each in caplog.records if each.levelname == "ERROR"])
    assert (told.message, told.collector) == ("collector cannot be loaded", "waste")
    assert "invalid syntax" in caplog.text
