import subprocess
import sys

import pytest

from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.cli import COMMANDS, main
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.configured import changed


@pytest.fixture
def config_file(tmp_path):
    def write(text):
        path = tmp_path / "config.toml"
        path.write_text(text)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--web.listen-address", "nowhere"], "--web.listen-address"),
        (["--sample.interval", "0"], "--sample.interval"),
        (["--batch.sources", "torque9"], "--batch.sources"),
        (["--log.level", "loud"], "--log.level"),
        (["--batch.sources", "spool"], "spool.directory"),
        (["--config.file", "/no/such/file"], "/no/such/file"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "check-config"])
def test_a_wrong_setting_ends_the_program_with_status_2_and_its_name(command, arguments, named, capsys):
    assert main([command, *arguments]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[web]\nlisten_addres = ':1'", "web.listen_addres"),
        ("[collector]\nnode = 'x'", "collector.node"),
        ("][", "TOML"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(text, named, config_file, capsys):
    assert main(["check-config", "--config.file", config_file(text)]) == 2
    assert named in capsys.readouterr().err


def test_check_config_prints_what_would_be_used(config_file, tmp_path, capsys):
    file = config_file(f"[features]\nroot = '{tmp_path}/f'\n[collector]\nnode = false\n")
    assert (
        main(["check-config", "--config.file", file, "--no-collector.waste", "--sample.interval", "3s"]) == 0
    )
    printed = capsys.readouterr().out.splitlines()
    assert f"features.root = {tmp_path}/f" in printed
    assert "collector.node = False" in printed
    assert "collector.waste = False" in printed
    assert "collector.jobs = True" in printed
    assert "sample.interval = 3.0" in printed


def test_collectors_are_switched_by_flag_and_file(config_file):
    flags = {"collector.node": "false"}
    config = load_config(ExporterConfig, flags=flags, environ={"JOBFEATURES_COLLECTOR_WASTE": "no"})
    usual = {name for name, each in COLLECTORS.items() if each.enabled and config.role in each.roles}
    assert {"node", "waste"} < usual
    assert config.enabled_collectors() == usual - {"node", "waste"}
    assert not config.wants("reads_cores")
    assert changed(config, collector_cores=True).wants("reads_cores")
    assert changed(config, metrics_profile=("slurm-job-exporter",)).wants("reads_cores")


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_is_everywhere(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


@pytest.mark.program
def test_the_command_also_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "jobfeatures_exporter", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("jobfeatures-exporter, version ")
