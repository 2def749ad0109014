"""The settings file while the daemon runs: kept for hooks while it is good, told where it is broken."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from jobfeatures.publish.tree import FeatureTree
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.statuses import LastReload
from jobfeatures_exporter.node.hookrequests import HookServer
from jobfeatures_exporter.startup.keptsettings import KeptSettings
from tests.running import own_folder

GOOD = "machine.hs06 = 160\n[web]\nlisten_address = ':1'\n"
BROKEN = GOOD + "[web]\nlisten_address = ':2'\n"  # what appending the documentation's snippet makes


class Served:
    def __init__(self, tree: FeatureTree) -> None:
        self.reload = LastReload(successful=True, success_secs=5.0)
        self.hooks = HookServer(tree, ExporterConfig(), lambda _names: None)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(FeatureTree(str(tmp_path / "root")))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def kept(served: Served, file: Path) -> KeptSettings:
    def read() -> object:
        return load_config(ExporterConfig, environ={}, file=str(file))

    return KeptSettings(str(file), read, served)


def test_a_good_file_is_kept_for_root_alone(kept, served, file, tmp_path):
    kept.look()
    copy = tmp_path / "root/intake/config.toml"
    assert copy.read_text() == GOOD
    assert copy.stat().st_mode & 0o777 == 0o600
    file.write_text("# other\n" + GOOD)
    kept.look()
    assert copy.read_text() == "# other\n" + GOOD
    assert served.reload.successful


def test_a_broken_file_is_told_once_and_the_good_one_stays(kept, served, file, tmp_path, caplog):
    kept.look()
    file.write_text(BROKEN)
    for _ in range(3):
        kept.look()
    assert (tmp_path / "root/intake/config.toml").read_text() == GOOD
    assert served.reload == LastReload(successful=False, success_secs=5.0)
    said = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert len(said) == 1
    assert str(file) in said[0]
    file.write_text(GOOD)
    kept.look()
    assert served.reload.successful


def test_a_file_that_has_gone_is_broken_and_only_the_default_one_may_be_absent(
    kept, served, file, monkeypatch
):
    file.unlink()
    kept.look()
    assert not served.reload.successful
    served.reload = LastReload(successful=True, success_secs=5.0)
    monkeypatch.setattr("jobfeatures_exporter.startup.keptsettings.DEFAULT_FILE", str(file))
    KeptSettings(str(file), lambda: None, served).look()
    assert served.reload.successful


def test_a_reload_that_failed_stays_told_though_the_file_is_good_again(kept, served, file):
    kept.look()
    file.write_text(BROKEN)
    served.reload = LastReload(successful=False, success_secs=5.0)  # SIGHUP came first
    kept.look()
    file.write_text(GOOD)
    kept.look()
    assert not served.reload.successful, "older settings are in use until the next reload"


def test_a_file_that_cannot_be_kept_is_tried_again(kept, served, file, tmp_path):
    own_folder(tmp_path / "root")
    (tmp_path / "root/intake").write_text("in the way")
    with pytest.raises(Exception, match="intake"):
        kept.look()
    os.unlink(tmp_path / "root/intake")
    kept.look()
    assert (tmp_path / "root/intake/config.toml").read_text() == GOOD


def test_drop_ins_are_kept_with_the_file_and_a_broken_one_is_told(kept, served, file, tmp_path, caplog):
    kept.look()
    (tmp_path / "conf.d").mkdir()
    drop_in = tmp_path / "conf.d/50-site.toml"
    drop_in.write_text("machine.hs06 = 170\n")
    kept.look()
    copy = tmp_path / "root/intake/config.toml"
    config = load_config(ExporterConfig, environ={}, file=str(copy))
    assert (config.machine_hs06, config.web_listen_address) == ("170", ":1")
    drop_in.write_text("\nmachine.hs6 = 180\n")
    kept.look()
    assert not served.reload.successful
    assert f"{drop_in}:2: machine.hs6: there is no such setting" in caplog.text
    drop_in.unlink()
    kept.look()
    assert copy.read_text() == GOOD
    assert served.reload.successful
