"""What help shows, and how settings may be given on the command line."""

import re

import pytest

import jobfeatures.cli
import jobfeatures_exporter.cli
from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.resolve import settings_of
from jobfeatures.settings.usage import complain, need
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.scrape.collectors import COLLECTORS

COMMANDS = [
    (program, command)
    for program, cli in (("jobfeatures", jobfeatures.cli), ("jobfeatures-exporter", jobfeatures_exporter.cli))
    for command in cli.COMMANDS
]
HELP = {}


def flags_in(text):
    return set(re.findall(r"^ {2,}(?:-\w, )?(--[\w.-]+)", text, re.MULTILINE))


@pytest.mark.parametrize(("program", "command"), COMMANDS)
def test_help_shows_what_a_person_needs_and_leaves_the_rest_to_help_all(call, program, command):
    short = call(program, command, "--help").stdout
    if "--help-all" in flags_in(short):
        assert len(flags_in(short)) <= 22
        everything = call(program, command, "--help-all").stdout
        assert flags_in(short) < flags_in(everything)
        assert len(everything) > len(short)


def test_of_the_daemon_every_setting_is_shown_by_help_all_which_stays_short_enough_to_be_read(call):
    text = call("jobfeatures-exporter", "serve", "--help-all").stdout
    _, _, settings = text.partition("\nsettings:\n")
    known = {each.flag for each in settings_of(ExporterConfig)}
    collectors = {f"--collector.{name}" for name in COLLECTORS}
    assert collectors < known
    assert flags_in(settings) == known - collectors | {"--config.file", "--set"}
    assert set(COLLECTORS) <= set(re.findall(r"\w+", text.partition("--[no-]collector.NAME")[2]))
    assert len(flags_in(settings)) + 1 <= 144


def test_usage_names_the_flags_of_the_command_alone(call):
    usage = call("jobfeatures", "drain", "plan", "--help").stdout.partition("\n\n")[0]
    assert "--before TIME" in usage
    assert "--features.root" not in usage
    assert "--metrics.ca-file" not in usage


def test_a_flag_that_help_leaves_out_works(call):
    done = call("jobfeatures-exporter", "check-config", "--scrape.deadline", "never")
    assert "--scrape.deadline: must be a duration" in done.stderr


def test_any_setting_may_stand_behind_set(call, tmp_path):
    (tmp_path / "machinefeatures").mkdir()
    (tmp_path / "machinefeatures" / "total_cpu").write_text("4")
    for words in (
        ["--set", f"features.root={tmp_path}"],
        [f"--set=features.root={tmp_path}", "--set", "node.name=n1"],
    ):
        done = call("jobfeatures", "show", *words)
        assert (done.returncode, "total_cpu" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("node.nme=n1", "--set: there is no setting 'node.nme'; did you mean node.name?"),
        ("node.name", "--set: must be KEY=VALUE, not 'node.name'"),
        ("help=1", "--set: there is no setting 'help'"),
    ],
)
def test_a_word_behind_set_that_is_no_setting_is_refused(call, word, said):
    done = call("jobfeatures-exporter", "check-config", "--set", word)
    assert done.returncode == 2
    assert said in done.stderr


def test_what_is_wrong_with_a_value_behind_set_is_told_as_of_its_flag(call):
    done = call("jobfeatures-exporter", "check-config", "--set", "scrape.deadline=never")
    assert done.returncode == 2
    assert (
        "--scrape.deadline: must be a duration such as 500ms, 10s, 2m, or a number of seconds, not 'never'"
        in done.stderr
    )


def test_an_error_is_one_line_and_moves_no_cursor(capsys):
    complain("gpu\x1b[2J: refused\nby a\u202eb")
    complain(OSError("Müller: no such file"), "jobfeatures-exporter")
    assert capsys.readouterr().err.split("\n") == [
        r"jobfeatures: gpu\x1b[2J: refused\nby a\u202eb",
        "jobfeatures-exporter: Müller: no such file",
        "",
    ]


def test_a_library_that_is_there_and_fails_is_not_called_missing(tmp_path, monkeypatch):
    """As numpy of another Python, which an environment module has put on $PYTHONPATH."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_another").mkdir()
    (tmp_path / "of_another/__init__.py").write_text("raise ImportError('PLEASE READ\\n\\nno C extension')\n")
    with pytest.raises(ConfigurationError) as raised:
        need("of_another.part", "schedule", "it")
    assert str(raised.value) == (
        f"schedule: needs it, but {tmp_path}/of_another/__init__.py cannot be loaded "
        "(is it for this Python, see $PYTHONPATH?): no C extension"
    )
    with pytest.raises(ConfigurationError, match=r"needs it: pip install 'jobfeatures-exporter\[analysis\]'"):
        need("nowhere_at_all", "schedule", "it")
