"""The metrics as a file: whole at every moment, gone when nobody renews them."""

import os
import signal
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.records.metrics import NODE_CPUS
from jobfeatures_exporter.cli import main
from tests.running import own_folder, started, until

FLAGS = ("--batch.sources=spool", "--no-features.publish")


@pytest.fixture
def spool(tmp_path):
    (tmp_path / "spool").mkdir()
    return f"--spool.directory={tmp_path}/spool"


def written(directory):
    [path] = directory.iterdir()
    assert path.name == "jobfeatures.prom"
    return {family.name for family in parse_text(path.read_text())}


def test_it_is_written_once(tmp_path, spool, capsys):
    directory = tmp_path / "textfile"
    own_folder(directory)
    assert main(["textfile", str(directory), *FLAGS, spool]) == 0, capsys.readouterr().err
    assert NODE_CPUS.name in written(directory)
    assert (directory / "jobfeatures.prom").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("mode", "reason"), [(None, "No such file or directory"), (0o777, "writable by others (mode 777)")]
)
def test_a_directory_that_is_not_there_or_that_others_write_is_refused(tmp_path, capsys, mode, reason):
    directory = tmp_path / "textfile"
    if mode is not None:
        own_folder(directory)
        directory.chmod(mode)
    assert main(["textfile", str(directory)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("jobfeatures-exporter: DIRECTORY: ")
    assert reason in error


@pytest.mark.parametrize("words", [["--interval", "soon"], ["--role", "controller"]])
def test_what_cannot_be_is_refused(tmp_path, capsys, words):
    assert main(["textfile", str(tmp_path), *words]) == 2
    assert words[0].lstrip("-") in capsys.readouterr().err


def test_a_file_that_cannot_be_replaced_is_named(tmp_path, spool, capsys):
    (tmp_path / "jobfeatures.prom").mkdir()
    assert main(["textfile", str(tmp_path), *FLAGS, spool]) == 1
    assert f"{tmp_path}/jobfeatures.prom: cannot write" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["jobfeatures.prom", "spool"]


@pytest.mark.program
def test_it_is_renewed_until_the_end_and_then_goes(tmp_path, spool):
    directory = tmp_path / "textfile"
    own_folder(directory)
    path = directory / "jobfeatures.prom"
    command = ["-m", "jobfeatures_exporter", "textfile", str(directory), "--interval=200ms"]
    with started([sys.executable, *command, *FLAGS, spool]) as process:
        until(path.exists)
        first = path.stat().st_ino
        until(lambda: path.stat().st_ino != first)
        assert path.read_text().endswith("\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not list(directory.iterdir())
