"""The settings file while the daemon runs: kept for hooks while it is good, told where it is broken."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.statuses import LastReload
from jobfeatures_exporter.node.keptsettings import KeptSettings, WatchedSettings
from jobfeatures_exporter.node.nodeboard import NodeBoard
from tests.configured import configured
from tests.running import HandClock, own_folder

GOOD = "machine.hs06 = 160\n[web]\nlisten_address = ':1'\n"
BROKEN = GOOD + "[web]\nlisten_address = ':2'\n"  # what appending the documentation's snippet makes


@pytest.fixture
def board(tmp_path: Path) -> NodeBoard:
    return NodeBoard(configured(features_root=str(tmp_path / "root")), HandClock(5.0))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def kept(board: NodeBoard, file: Path) -> KeptSettings:
    def read() -> object:
        return load_config(ExporterConfig, environ={}, file=str(file))

    return KeptSettings(WatchedSettings(str(file), read), board)


def test_a_good_file_is_kept_for_root_alone(kept, board, file, tmp_path):
    kept.check()
    copy = tmp_path / "root/intake/config.toml"
    assert copy.read_text() == GOOD
    assert copy.stat().st_mode & 0o777 == 0o600
    file.write_text("# other\n" + GOOD)
    kept.check()
    assert copy.read_text() == "# other\n" + GOOD
    assert board.reload.successful


def test_a_broken_file_is_told_once_and_the_good_one_stays(kept, board, file, tmp_path, caplog):
    kept.check()
    file.write_text(BROKEN)
    for _ in range(3):
        kept.check()
    assert (tmp_path / "root/intake/config.toml").read_text() == GOOD
    assert board.reload == LastReload(successful=False, success_secs=5.0)
    said = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert len(said) == 1
    assert str(file) in said[0]
    file.write_text(GOOD)
    kept.check()
    assert board.reload.successful


def test_a_copy_that_somebody_has_removed_is_made_again(kept, tmp_path):
    kept.check()
    shutil.rmtree(tmp_path / "root")
    kept.check()
    assert (tmp_path / "root/intake/config.toml").read_text() == GOOD


def test_a_file_that_has_gone_is_broken_and_only_the_default_one_may_be_absent(
    kept, board, file, monkeypatch
):
    file.unlink()
    kept.check()
    assert not board.reload.successful
    board.reload = LastReload(successful=True, success_secs=5.0)
    monkeypatch.setattr("jobfeatures_exporter.node.keptsettings.DEFAULT_FILE", str(file))
    KeptSettings(WatchedSettings(str(file), lambda: None), board).check()
    assert board.reload.successful


def test_a_reload_that_failed_stays_told_though_the_file_is_good_again(kept, board, file):
    kept.check()
    file.write_text(BROKEN)
    board.reload = LastReload(successful=False, success_secs=5.0)  # SIGHUP came first
    kept.check()
    file.write_text(GOOD)
    kept.check()
    assert not board.reload.successful, "older settings are in use until the next reload"


def test_a_file_that_cannot_be_kept_is_tried_again(kept, board, file, tmp_path):
    own_folder(tmp_path / "root")
    (tmp_path / "root/intake").write_text("in the way")
    with pytest.raises(Exception, match="intake"):
        kept.check()
    os.unlink(tmp_path / "root/intake")
    kept.check()
    assert (tmp_path / "root/intake/config.toml").read_text() == GOOD


def test_drop_ins_are_kept_with_the_file_and_a_broken_one_is_told(kept, board, file, tmp_path, caplog):
    kept.check()
    (tmp_path / "conf.d").mkdir()
    drop_in = tmp_path / "conf.d/50-site.toml"
    drop_in.write_text("machine.hs06 = 170\n")
    kept.check()
    copy = tmp_path / "root/intake/config.toml"
    config = load_config(ExporterConfig, environ={}, file=str(copy))
    assert (config.shared.site.machine.hs06, config.web_listen_address) == ("170", ":1")
    drop_in.write_text("\nmachine.hs6 = 180\n")
    kept.check()
    assert not board.reload.successful
    assert f"{drop_in}:2: machine.hs6: there is no such setting" in caplog.text
    drop_in.unlink()
    kept.check()
    assert copy.read_text() == GOOD
    assert board.reload.successful
