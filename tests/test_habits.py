"""What people who know other exporters and Unix commands expect of every command here."""

import argparse
import fcntl
import io
import json
import os
import pty
import re
import runpy
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from makepackages.source import note_revision

from jobfeatures import __version__, version
from jobfeatures import cli as jobfeatures_cli
from jobfeatures.system.output import has_colours
from jobfeatures_exporter import cli as exporter_cli
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.running import PATIENCE_SECS, readable, started, until

PROGRAMS = {"jobfeatures": jobfeatures_cli, "jobfeatures-exporter": exporter_cli}
MODULES = {"jobfeatures": "jobfeatures", "jobfeatures-exporter": "jobfeatures_exporter"}
COMMANDS = [(program, name) for program, module in PROGRAMS.items() for name in module.COMMANDS]
GOLDEN = Path(__file__).parent / "fixtures/golden"


# --- version ---------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_version_is_said_as_other_exporters_say_it(call, program):
    done = call(program, "--version")
    first, *rest = done.stdout.splitlines()
    assert re.fullmatch(
        rf"{program}, version {re.escape(__version__)} \(revision: ([0-9a-f]{{7,64}}|unknown)\)", first
    )
    assert [line.split(":")[0] for line in rest] == ["  python version", "  platform"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("noted", "revision"),
    [
        (
            '{"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef"}}',
            "0123456789abcdef",
        ),
        ('{"url": "file:///x", "dir_info": {}}', ""),
        ('{"vcs_info": {"commit_id": 7}}', ""),
        ('{"vcs_info": {"commit_id": "x\\n1"}}', ""),
        ('{"vcs_info": null}', ""),
        ("[]", ""),
        ("{", ""),
        (None, ""),
    ],
)
def test_the_revision_is_what_pip_noted(monkeypatch, tmp_path, noted, revision):
    if noted is not None:
        folder = tmp_path / f"jobfeatures_exporter-{__version__}.dist-info"
        folder.mkdir()
        (folder / "direct_url.json").write_text(noted)
    monkeypatch.setattr(version, "HERE", str(tmp_path / "jobfeatures"))
    version.find_revision.cache_clear()
    try:
        assert version.find_revision() == revision
    finally:
        monkeypatch.undo()
        version.find_revision.cache_clear()


@pytest.mark.program
def test_packages_note_the_revision_where_the_programs_look_for_it(tmp_path, monkeypatch):
    checkout, target = tmp_path / "checkout", tmp_path / "target"
    (target / "jobfeatures").mkdir(parents=True)
    note_revision(tmp_path / "no-checkout", target)
    assert list((target / "jobfeatures").iterdir()) == []
    git = ["git", "-C", str(checkout), "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    note_revision(checkout, target)
    monkeypatch.setattr(version, "HERE", str(target / "jobfeatures"))
    version.find_revision.cache_clear()
    try:
        assert re.fullmatch(r"[0-9a-f]{40}", version.find_revision())
    finally:
        version.find_revision.cache_clear()


@pytest.mark.program
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_that_is_used_in_place_knows_its_commit(tmp_path, monkeypatch):
    checkout, beside = tmp_path / "checkout", tmp_path / "beside"
    git = ["git", "-C", str(checkout), "-c", "user.name=x", "-c", "user.email=x@example.invalid"]

    def done(*words):
        return subprocess.run([*git, *words], check=True, capture_output=True, text=True).stdout.strip()

    def known(folder):
        monkeypatch.setattr(version, "HERE", str(folder / "jobfeatures"))
        version.find_revision.cache_clear()
        try:
            return version.find_revision()
        finally:
            version.find_revision.cache_clear()

    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    assert known(checkout) == ""  # nothing is committed yet
    done("commit", "-q", "--allow-empty", "-m", "x")
    head = done("rev-parse", "HEAD")
    done("worktree", "add", "-q", "-b", "other/branch", str(beside))
    assert (known(checkout), known(beside), known(tmp_path)) == (head, head, "")
    done("pack-refs", "--all")
    assert (known(checkout), known(beside)) == (head, head)
    done("checkout", "-q", "--detach")
    assert known(checkout) == head


def test_the_build_has_a_series_of_value_1():
    [line] = re.findall(
        r"^batch_exporter_build_info\{.*\} .*$", (GOLDEN / "metrics.txt").read_text(), re.MULTILINE
    )
    names = re.findall(r'(\w+)="', line)
    assert names == ["version", "revision", "python"]
    assert line.endswith("} 1")


# --- pages -----------------------------------------------------------------------------


def test_there_are_no_exemplars():
    assert not re.search(r" # \{", (GOLDEN / "openmetrics.txt").read_text())
    assert all(not metric.name.endswith("_total") for each in COLLECTORS.values() for metric in each.metrics)


# --- help ------------------------------------------------------------------------------


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_help_fits_80_columns_and_needs_no_terminal(call, program, name):
    done = call(program, name, "--help", environ={"COLUMNS": "80"})
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert "\x1b" not in done.stdout


def options_of(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from options_of(each)
        elif action.option_strings and action.help is not argparse.SUPPRESS:
            yield action


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_help_tells_every_default(program, name):
    silent = [
        action.option_strings
        for action in options_of(PROGRAMS[program].build_parser(name))
        if action.default not in (None, False, "", [], argparse.SUPPRESS)
        and "default" not in (action.help or "")
    ]
    assert silent == []


# --- exit statuses -----------------------------------------------------------------------


def test_exit_statuses_are_of_commands_that_there_are():
    exits = runpy.run_path(str(Path(__file__).parents[1] / "docs/exitstatuses.py"))["EXITS"]
    assert {program: table.keys() for program, table in exits.items()} == {
        program: module.COMMANDS.keys() for program, module in PROGRAMS.items()
    }


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_a_wrong_flag_is_status_2_and_one_line(call, program, name):
    done = call(program, name, "--no-such-flag")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(program)


def swf_line(number):
    return f"{number} 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n"


READERS = [
    ("jobfeatures", ["convert", "-", "/dev/null", "--from", "swf", "--to", "swf"]),
    ("jobfeatures", ["check", "--as", "swf", "-"]),
    ("jobfeatures", ["schedule", "-"]),
    ("jobfeatures", ["simulate", "-", "--policy", "fifo"]),
    ("jobfeatures", ["check", "--as", "sonar", "-"]),
]


def as_a_shell_says(status):
    """Python ends itself by the signal where it came while a text was executed, as dataclasses do at import."""
    return 128 - status if status < 0 else status


@pytest.mark.program
@pytest.mark.parametrize(("program", "words"), READERS)
def test_ctrl_c_ends_what_reads_with_one_line_and_130(program, words):
    reading, writing = os.pipe()
    command = [sys.executable, "-m", MODULES[program], *words]
    try:
        with started(command, stdin=reading, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            os.write(writing, "".join(swf_line(number) for number in range(1, 600)).encode())

            def has_read():
                assert process.poll() is None
                return not struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, b"\0" * 4))[0]

            until(has_read)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=PATIENCE_SECS)
    finally:
        os.close(writing)
        os.close(reading)
    assert (as_a_shell_says(process.returncode), error.decode()) == (130, f"{program}: interrupted\n")


# --- logs ----------------------------------------------------------------------------------

LOGFMT = re.compile(r'([A-Za-z_][A-Za-z0-9_.]*)=("(?:[^"\\\x00-\x1f\x7f]|\\.)*"|[^\s"=]+)(?: |$)')


def parse_logfmt(line):
    found, at = {}, 0
    while at < len(line):
        match = LOGFMT.match(line, at)
        assert match, line
        found[match[1]] = json.loads(match[2]) if match[2].startswith('"') else match[2]
        at = match.end()
    return found


@pytest.mark.program
@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_every_line_of_a_run_is_a_record(form, tmp_path):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "bad \x1b[31m ü 😀 \\ .xml").write_text("<Job><Id>\x7f</Id>")
    (spool / "odd\n line.xml").write_text("<Job><Id>a b</Id><State>Running</State></Job>")
    command = [
        sys.executable, "-m", "jobfeatures_exporter", "serve", "--batch.sources", "spool", "--spool.directory", str(spool),
        "--features.root", str(tmp_path / "f"), "--path.cgroup", str(tmp_path), "--web.listen-address", "127.0.0.1:0",
        "--log.format", form, "--log.level", "debug",
    ]  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as output, started(command, stderr=output) as process:
        until(lambda: log.read_bytes().count(b"skipped") >= 2)
        process.terminate()
        assert process.wait(PATIENCE_SECS) == 0
    lines = log.read_text(encoding="ascii").splitlines()  # nothing but printable ASCII, so no escape sequence
    records = [parse_logfmt(line) if form == "logfmt" else json.loads(line) for line in lines]
    for record in records:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["ts"])
        assert record["level"] in {"debug", "info", "warning", "error"}
        assert record["msg"]
        assert record["logger"].startswith(("jobfeatures", "asyncio", "aiohttp", "watchdog"))
    assert any("😀" in record["msg"] or "\\U0001f600" in record["msg"] for record in records)


# --- progress and colours --------------------------------------------------------------------

LONG = [
    ("jobfeatures", ["convert", "LOG", "/dev/null", "--to", "swf", "--from", "swf"]),
    ("jobfeatures", ["check", "--as", "swf", "LOG"]),
    ("jobfeatures", ["schedule", "LOG", "--total", "8"]),
    ("jobfeatures", ["simulate", "LOG", "--policy", "fifo"]),
    ("jobfeatures", ["expect", "3", "--log", "LOG"]),
]


@pytest.mark.program
@pytest.mark.parametrize(
    ("program", "words"), LONG, ids=lambda value: value[0] if isinstance(value, list) else None
)
def test_long_commands_show_progress_on_a_terminal_and_nowhere_else(program, words, tmp_path):
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 8\n" + "".join(swf_line(number) for number in range(1, 20)))
    command = [
        sys.executable,
        "-m",
        MODULES[program],
        *(log.name if word == "LOG" else word for word in words),
    ]
    quiet = subprocess.run(command, capture_output=True, cwd=tmp_path)  # a bar is as wide as a terminal
    assert b"\r" not in quiet.stderr + quiet.stdout
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        loud = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, cwd=tmp_path)
        written = b""
        while readable(master, 0.1):
            written += os.read(master, 65536)
    finally:
        os.close(master)
        os.close(slave)
    assert log.name.encode() in written
    assert b"\r" in written
    assert (loud.returncode, loud.stdout) == (quiet.returncode, quiet.stdout)


@pytest.mark.parametrize(
    ("terminal", "environ", "colours"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),  # the convention: set and not empty
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals(terminal, environ, colours):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    assert has_colours(Stream(), environ) is colours


def test_nobody_else_writes_escape_sequences():
    roots = [Path(__file__).parents[1] / each for each in ("exporter/jobfeatures_exporter", "jobfeatures")]
    writers = {path.name for root in roots for path in root.rglob("*.py") if "\\x1b[" in path.read_text()}
    assert writers == {"text.py"}


ASKERS = [
    ("jobfeatures-exporter", ["report", "1", "--prometheus", "URL"]),
    ("jobfeatures-exporter", ["top", "--once", "--url", "URL/metrics"]),
    ("jobfeatures", ["drain", "plan", "--prometheus", "URL"]),
    ("jobfeatures", ["victims", "--cores", "1", "--metrics", "URL/metrics"]),
]


@pytest.mark.program
@pytest.mark.parametrize(
    ("program", "words"), ASKERS, ids=lambda value: value[0] if isinstance(value, list) else None
)
def test_ctrl_c_ends_what_waits_for_an_answer_with_one_line_and_130(program, words):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = [sys.executable, "-m", MODULES[program], *(word.replace("URL", url) for word in words)]
        with started(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(65536).startswith(b"GET ")
                process.send_signal(signal.SIGINT)
                _, error = process.communicate(timeout=PATIENCE_SECS)
    assert (as_a_shell_says(process.returncode), error.decode()) == (130, f"{program}: interrupted\n")


STATUSES = [
    ("jobfeatures", ["get", "total_cpu"], 3),
    ("jobfeatures", ["remaining"], 3),
    ("jobfeatures", ["show", "999"], 1),
    ("jobfeatures", ["drain", "show"], 0),
    ("jobfeatures", ["drain", "cancel"], 1),
    ("jobfeatures", ["victims", "--cores", "1", "--metrics", "http://127.0.0.1:1/metrics"], 1),
    ("jobfeatures", ["report", "--used-cpu", "1"], 2),
    ("jobfeatures", ["check", "/no/such/folder"], 2),
    ("jobfeatures", ["check", "--as", "swf", "GOOD"], 0),
    ("jobfeatures", ["check", "--as", "swf", "BAD"], 1),
    ("jobfeatures", ["check", "--as", "swf", "/no/such/log"], 2),
    ("jobfeatures", ["check", "--as", "sss", "/no/such/document"], 2),
    ("jobfeatures", ["convert", "GOOD", "/dev/null", "--to", "swf"], 0),
    ("jobfeatures", ["convert", "/no/such/log", "/dev/null", "--to", "swf"], 2),
    ("jobfeatures", ["schedule", "/no/such/log"], 2),
    ("jobfeatures", ["expect", "77", "--log", "GOOD"], 1),
    ("jobfeatures", ["simulate", "/no/such/log", "--policy", "fifo"], 2),
    ("jobfeatures-exporter", ["check-config"], 0),
    ("jobfeatures-exporter", ["check-config", "--config.file", "BAD"], 2),
    ("jobfeatures-exporter", ["serve", "--config.file", "BAD"], 2),
    ("jobfeatures-exporter", ["demo", "--sample.interval", "soon"], 2),
    ("jobfeatures", ["check", "--as", "sonar", "BAD"], 1),
    ("jobfeatures", ["check", "--as", "sonar", "/no/such/file"], 2),
    ("jobfeatures-exporter", ["report", "1", "--prometheus", "http://127.0.0.1:1"], 1),
    ("jobfeatures-exporter", ["top", "--once", "--url", "http://127.0.0.1:1/metrics"], 1),
    ("jobfeatures-exporter", ["sample", "--cluster", "c.example.org", "--sample.interval", "never"], 2),
]


@pytest.mark.parametrize(
    ("program", "words", "status"),
    STATUSES,
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_ends_with_the_status_that_is_documented(call, program, words, status, tmp_path):
    good, bad = tmp_path / "good.swf", tmp_path / "bad.swf"
    header = "; Version: 2.2\n; MaxProcs: 8\n; MaxNodes: 8\n; UnixStartTime: 0\n; TimeZoneString: UTC\n"
    good.write_text(header + "".join(swf_line(number) for number in range(1, 5)))
    bad.write_text("neither settings nor a log\n")
    environ = {
        "JOBFEATURES_FEATURES_ROOT": str(tmp_path / "features"),
        "JOBFEATURES_CONFIG_FILE": os.devnull,
    }
    given = [{"GOOD": str(good), "BAD": str(bad)}.get(word, word) for word in words]
    done = call(program, *given, environ=environ, cwd=Path(__file__).parents[1])
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if status == 2:
        assert done.stderr.startswith(f"{program}: ") or "check" in words
