"""What packages hold that follows from the code: configuration, man pages, completions; and what is in the tree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from makepackages.configfile import toml_value, write_config
from makepackages.layout import COPIES, HOOKS
from makepackages.man import escaped
from makepackages.texts import COMPLETIONS, programs, write_texts

import jobfeatures
import jobfeatures.cli
import jobfeatures_exporter.cli
from jobfeatures.errors import ParseError
from jobfeatures.settings.resolve import DEFAULT_FILE, load_config, settings_of, tables_of
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from jobfeatures_exporter.web.configfile.options import parse_web_config

ROOT = Path(__file__).parents[2]
PROGRAMS = programs()
TEXTS = write_texts("2026-01-31")
COPY_OF_WEB = "packaging/etc/web.yml"
HASH = "$2y$10$" + "a" * 53


def every_command():
    return [command for program in PROGRAMS for command in program.walk()]


# --- configuration -----------------------------------------------------------------


def uncommented(text):
    """Return the file with each setting that has a default set to it, as the file shows it."""
    return re.sub(r'(?m)^#(\w+ = (?!"<))', r"\1", text)


def test_the_configuration_file_sets_nothing_as_it_is(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(TEXTS[DEFAULT_FILE])
    config = load_config(ExporterConfig, environ={}, file=str(file))
    assert config.shared.site.origins == {}
    assert config == ExporterConfig()


def test_each_default_in_the_configuration_file_is_the_default(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(uncommented(TEXTS[DEFAULT_FILE]))
    config = load_config(ExporterConfig, environ={}, file=str(file))
    assert config == ExporterConfig()
    assert config.shared.site.origins.keys() == {
        each.key for each in settings_of(ExporterConfig) if each.default is not None
    }


def test_each_setting_stands_in_the_configuration_file_once():
    text = re.sub(r"(?m)^#(?=\w+ = |\[)", "", TEXTS[DEFAULT_FILE])
    found = tomllib.loads(text)
    tables = {each.key: found.pop(each.key) for each in tables_of(ExporterConfig)}

    def flat(table, prefix=""):
        for name, value in table.items():
            yield from flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]

    assert sorted(flat(found)) == sorted(each.key for each in settings_of(ExporterConfig))
    assert {name: set(found["NAME"]) for name, found in tables.items()} == {
        each.key: set(each.values) for each in tables_of(ExporterConfig)
    }


def test_no_line_of_the_configuration_file_is_long_and_all_values_are_commented():
    for name in ("config.toml", "controller.toml"):
        lines = TEXTS[f"/etc/jobfeatures-exporter/{name}"].splitlines()
        assert all(not line or line.startswith(("#", "[")) for line in lines)
        assert [line for line in lines if len(line) > 110 and not line.startswith("#sd_skip")] == []


@pytest.mark.parametrize(
    ("value", "written"),
    [(True, "true"), (5, "5"), (2.5, '"2.5s"'), ('a"b', '"a\\"b"'), ((), "[]"), (("a", "b"), '["a", "b"]')],
)
def test_a_default_is_written_as_toml(value, written):
    assert toml_value(value) == written
    tomllib.loads(f"x = {written}")


def test_a_head_of_several_lines_is_a_comment_in_whole():
    assert write_config(ExporterConfig, "one\ntwo").startswith("# one\n# two\n\n")


def test_the_example_of_a_web_configuration_asks_for_nothing_and_shows_what_is_known():
    text = (ROOT / COPY_OF_WEB).read_text()
    with pytest.raises(ParseError, match="is empty"):
        parse_web_config(text.encode(), "web.yml")
    shown = re.sub(r"(?m)^#(?! )(?=.*:)|^#(?=  )", "", text).replace("$2y$10$...", HASH)
    options = parse_web_config(shown.encode(), "web.yml")
    assert options.users.keys() == {"prometheus"}
    assert options.tls is not None
    assert options.headers


# --- man pages -----------------------------------------------------------------------


def test_there_is_a_page_for_each_command():
    names = {
        f"{command.name.replace(' ', '-')}.1"
        for program in PROGRAMS
        for command in (program, *program.commands)
    }
    assert names == {path.rpartition("/")[2] for path in TEXTS if "/man1/" in path}
    assert {command.word for command in PROGRAMS[0].commands} == set(jobfeatures.cli.COMMANDS)
    assert {command.word for command in PROGRAMS[1].commands} == set(jobfeatures_exporter.cli.COMMANDS)


@pytest.mark.parametrize("command", every_command(), ids=lambda each: each.name)
def test_a_page_tells_each_flag_and_argument(command):
    words = command.name.split()
    page = TEXTS[f"/usr/share/man/man1/{'-'.join(words[:2])}.1"]
    for option in command.options:
        for flag in option.flags:
            assert f"\\fB{escaped(flag)}\\fR" in page
        assert escaped(option.meaning) in page
    for argument in command.arguments:
        assert f".I {escaped(argument.name)}\n" in page
    for each in command.commands:
        assert f".B {escaped(each.word)}\n{escaped(each.summary)}\n" in page


def test_the_grammar_has_all_flags_of_help(capsys):
    """argparse's own help is the other witness; it describes the collectors' flags in a sentence."""
    collectors = {f"--collector.{name}" for name in COLLECTORS}
    for program, main in zip(PROGRAMS, (jobfeatures.cli.main, jobfeatures_exporter.cli.main), strict=True):
        for command in program.commands:
            known = {flag for option in command.options for flag in option.flags}
            with pytest.raises(SystemExit):
                main([command.word, "--help-all" if "--help-all" in known else "--help"])
            told = set(re.findall(r"(?m)^  (?:-\w, )?(--[\w.-]+)", capsys.readouterr().out))
            assert told == {flag for flag in known if flag.startswith("--")} - collectors


def test_pages_say_version_exit_status_and_where_settings_stand():
    page = TEXTS["/usr/share/man/man1/jobfeatures-exporter.1"]
    assert page.startswith(
        f'.TH JOBFEATURES-EXPORTER 1 2026-01-31 "jobfeatures-exporter {jobfeatures.__version__}"\n'
    )
    for word in (
        "0 success",
        escaped(DEFAULT_FILE),
        ".SH ENVIRONMENT",
        "JOBFEATURES_CONFIG_FILE",
        ".BR jobfeatures (1)",
    ):
        assert word in page


@pytest.mark.program
@pytest.mark.parametrize("path", sorted(path for path in TEXTS if "/man1/" in path))
def test_a_page_is_right_for_mandoc(path, tmp_path):
    if not shutil.which("mandoc"):
        pytest.skip("needs mandoc")
    page = tmp_path / "page.1"
    page.write_text(TEXTS[path])
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("a -- b", "a \\-\\- b"),
        (".x", "\\&.x"),
        ("'x", "\\&'x"),
        ("a\\b", "a\\eb"),
        ("one\n  two", "one two"),
    ],
)
def test_text_is_no_request_to_roff(text, page):
    assert escaped(text) == page


# --- completions --------------------------------------------------------------------


def completion(shell, name):
    return TEXTS[f"/usr/share/{COMPLETIONS[shell].format(name)}"]


def test_what_completions_know_changes_no_parser(capsys):
    """TEXTS has been written in this process: argparse would refuse a value that it is told not to know."""
    assert jobfeatures_exporter.cli.main(["check-config", "--role", "controler"]) == 2
    assert "did you mean controller?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", COMPLETIONS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_completions_name_each_command_and_flag(shell, program):
    text = completion(shell, program.name)
    for command in program.walk():
        for each in command.commands:
            assert re.search(rf"\b{re.escape(each.word)}\b", text)
        for option in command.options:
            for flag in option.flags:
                written = f"-l {flag[2:]} " if shell == "fish" and flag.startswith("--") else flag
                written = f"-s {flag[1:]} " if shell == "fish" and not flag.startswith("--") else written
                assert written in text


def complete_in_bash(line, folder):
    """Return what a real bash offers for the last word of a line."""
    words = line.split(" ")
    script = "source completion; COMP_WORDS=(%s); COMP_CWORD=%d; COMP_LINE=%s\n%s; printf '%%s\\n' \"${COMPREPLY[@]}\""
    quoted = " ".join(f"'{word}'" for word in words)
    (folder / "completion").write_text(completion("bash", words[0]))
    function = "_shtab_" + words[0].replace("-", "_") + "_joined"
    done = subprocess.run(
        ["bash", "--norc", "-c", script % (quoted, len(words) - 1, f"'{line}'", function)],
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


@pytest.mark.program
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("jobfeatures pub", {"publish"}),
        ("jobfeatures --log.level ", {"debug", "info", "warning", "error"}),
        ("jobfeatures --log.level = w", {"warning"}),
        ("jobfeatures --log.level info dra", {"drain"}),
        ("jobfeatures drain ", {"set", "cancel", "expire", "show", "plan"}),
        ("jobfeatures drain s", {"set", "show"}),
        ("jobfeatures drain plan --features.for", {"--features.form"}),
        ("jobfeatures publish --features.form ", {"local", "http", "both"}),
        ("jobfeatures publish --config.file con", {"config.toml"}),
        ("jobfeatures-exporter check", {"check-config"}),
        ("jobfeatures-exporter serve --role ", {"node", "controller"}),
        ("jobfeatures-exporter serve --web.listen-address ", set()),
        ("jobfeatures-exporter serve --path.s", {"--path.sysfs"}),
    ],
)
def test_a_real_bash_completes(line, offered, tmp_path):
    (tmp_path / "config.toml").write_text("")
    assert complete_in_bash(line, tmp_path) == offered


@pytest.mark.program
def test_a_real_bash_offers_every_command_and_flag(tmp_path):
    for command in every_command():
        offered = complete_in_bash(f"{command.name} ", tmp_path)
        assert offered >= {each.word for each in command.commands}
        flags = complete_in_bash(f"{command.name} -", tmp_path)
        assert flags == {flag for option in command.options for flag in option.flags}


@pytest.mark.program
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("jobfeatures rem", {"remaining", "remove"}),
        ("jobfeatures drain s", {"set", "show"}),
        ("jobfeatures publish --features.form ", {"local", "http", "both"}),
        ("jobfeatures-exporter serve --web.listen-a", {"--web.listen-address"}),
    ],
)
def test_a_real_fish_completes(line, offered, tmp_path):
    if not shutil.which("fish"):
        pytest.skip("needs fish")
    file = tmp_path / "completion.fish"
    file.write_text(completion("fish", line.split()[0]))
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {file}; complete -C '{line}'"],
        capture_output=True, text=True, check=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert {each.split("\t")[0] for each in done.stdout.splitlines()} == offered


@pytest.mark.program
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_zsh_takes_its_function(program, tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    (tmp_path / f"_{program.name}").write_text(completion("zsh", program.name))
    script = f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump; autoload +X _{program.name}"
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert program.name in (tmp_path / "dump").read_text()


# --- what packages take from the tree ------------------------------------------------


def test_what_packages_take_from_the_tree_is_there():
    missing = {name for name in COPIES if not (ROOT / name).exists()}
    assert missing <= {"grafana/dashboards", "grafana/rules"}  # of which there may be none
    folders = {each.name for each in (ROOT / "packaging").iterdir() if (each / "README.md").is_file()}
    assert folders | {"common"} == set(HOOKS)


def test_links_of_hooks_lead_to_what_is_packed_too():
    for system in HOOKS:
        for path in (ROOT / "packaging" / system).iterdir():
            assert path.resolve().parent.name in HOOKS


def test_the_project_says_what_packages_need_to_know():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == jobfeatures.__version__
    assert project["license"] == "Apache-2.0"
    assert project["scripts"].keys() == {"jobfeatures", "jobfeatures-exporter"}
    summary = (ROOT / "packaging/etc/description").read_text().splitlines()[0]
    assert len(summary) < 80
    assert not summary.endswith(".")


def test_the_containers_file_copies_what_is_there_and_starts_what_exists():
    text = (ROOT / "packaging/Containerfile").read_text().replace("\\\n", " ")
    for sources in re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", text):
        assert all((ROOT / source).exists() for source in sources.split())
    program, *arguments = json.loads(re.search(r"(?m)^ENTRYPOINT (.+)$", text)[1])
    assert program == "jobfeatures-exporter"
    parser = jobfeatures_exporter.cli.build_parser(arguments[0])
    assert parser.parse_args(arguments).command == "serve"
    assert {each.key for each in settings_of(ExporterConfig)} >= {"path.procfs", "path.sysfs", "path.cgroup"}
