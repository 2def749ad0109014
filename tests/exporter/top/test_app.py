"""`top` on a real pseudo-terminal, looked at through a terminal emulator; and without a terminal."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyte
import pytest
from textual.widgets import Input

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.commands.top import ORDERS
from jobfeatures_exporter.model.snapshot import ProcessSample, Snapshot
from jobfeatures_exporter.top.app import Keys, Top
from jobfeatures_exporter.top.pages import parse_page
from jobfeatures_exporter.top.table import COLUMNS
from tests.running import PATIENCE_SECS, readable, started, until

PAGE = """\
batch_job_info{batch_system="slurm",job_id="11",user="alice",name="busy"} 1
batch_job_info{batch_system="slurm",job_id="12",user="bob",name="large \x1b[2J\x1b]0;owned\x07"} 1
batch_job_allocated_cpus{batch_system="slurm",job_id="11"} 4
batch_job_allocated_cpus{batch_system="slurm",job_id="12"} 2
batch_job_cpu_seconds_total{batch_system="slurm",job_id="11",mode="user"} %(busy)s
batch_job_cpu_seconds_total{batch_system="slurm",job_id="11",mode="system"} 0
batch_job_memory_used_bytes{batch_system="slurm",job_id="11"} 1048576
batch_job_memory_used_bytes{batch_system="slurm",job_id="12"} 1073741824
batch_job_remaining_seconds{batch_system="slurm",job_id="11",basis="minimum"} 7200
batch_job_remaining_seconds{batch_system="slurm",job_id="12",basis="minimum"} 60
batch_job_kill_waste_core_seconds{batch_system="slurm",job_id="12",basis="estimated"} 36000
batch_node_cores 8
batch_node_sample_timestamp_seconds %(taken)s
"""


class Daemon:
    """A constructed page; at each look ten seconds later, and thirty CPU seconds."""

    def __init__(self):
        self.looks, self.status = 0, 200
        self.goes_on = threading.Event()  # after the first look
        self.goes_on.set()
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                daemon.looks += 1
                if daemon.looks > 1:
                    daemon.goes_on.wait(PATIENCE_SECS)
                body = (PAGE % {"taken": 1000 + 10 * daemon.looks, "busy": 30 * daemon.looks}).encode()
                self.send_response(daemon.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/metrics"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture(autouse=True)
def two_looks_follow_each_other(monkeypatch):
    monkeypatch.setattr("jobfeatures_exporter.commands.top.ONCE_SECS", 0.1)


@pytest.fixture
def daemon():
    made = Daemon()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Terminal:
    """A program on a pseudo-terminal, and what its user sees."""

    def __init__(self, *words, columns=80, lines=24, **environ):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.master, slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(slave)
        clean = {
            name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobfeatures_exporter", "top", *words],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**clean, "TERM": "xterm-256color", **environ},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # keys become signals
        )  # fmt: skip
        self.slave = slave

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def press(self, key):
        os.write(self.master, key.encode())

    def until(self, condition, timeout_secs=PATIENCE_SECS):
        deadline = time.monotonic() + timeout_secs
        while not condition(self.screen.display):
            assert time.monotonic() < deadline, "\n".join(self.screen.display)
            if readable(self.master, 0.1):
                data = os.read(self.master, 65536)
                self.raw += data
                self.stream.feed(data)

    def end(self):
        """Return the exit status; what was written last is read, too."""
        status = self.process.wait(60)
        while readable(self.master, 0.1):
            self.raw += os.read(self.master, 65536)
        assert termios.tcgetattr(self.slave) == self.before  # echo and lines are as they were
        return status

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def top(daemon):
    made = []

    def start(*words, **more):
        made.append(Terminal("--url", daemon.url, "--interval", "200ms", *words, **more))
        return made[-1]

    yield start
    for each in made:
        each.close()


def jobs_on(display):
    return [line.split()[0] for line in display if re.match(r"1[12] ", line)]


@pytest.mark.program
def test_on_a_terminal_jobs_are_sorted_and_names_do_no_harm(top):
    terminal = top(columns=130)
    terminal.until(lambda display: "3/4" in "".join(display))  # thirty CPU seconds in ten
    assert "2 jobs" in terminal.screen.display[0]
    assert jobs_on(terminal.screen.display) == ["11", "12"]
    terminal.press("m")
    terminal.until(lambda display: jobs_on(display) == ["12", "11"] and "MEMORY▼" in "".join(display))
    terminal.until(lambda display: "owned" in "".join(display))
    assert b"\x1b[2J\x1b]0;" not in terminal.raw
    assert b"\x1b]0" not in terminal.raw
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.program
def test_a_filter_that_is_typed_fast_is_none_of_the_other_keys(top):
    """The letters of a name are keys that sort, too."""
    terminal = top(columns=130)
    terminal.until(lambda display: jobs_on(display) == ["11", "12"])
    terminal.press("/12/um")  # u and m would sort
    terminal.until(lambda display: any("12/um" in line for line in display[-2:]))
    assert "CPUS▼" in "".join(terminal.screen.display)
    terminal.press("\x03")
    assert terminal.end() in {130, -signal.SIGINT}


@pytest.mark.program
def test_a_terminal_that_changes_its_size_and_a_daemon_that_goes_away(top, daemon):
    terminal = top(columns=100, lines=24)
    terminal.until(lambda display: "busy" in "".join(display))
    terminal.resize(40, 8)
    terminal.until(lambda display: len(display) == 8 and "NAME" not in "".join(display) and jobs_on(display))
    terminal.resize(100, 30)
    terminal.until(lambda display: len(display) == 30 and "NAME" in "".join(display))
    daemon.status = 503
    terminal.until(lambda display: "503" in display[0] and "busy" in "".join(display))
    daemon.status = 200
    terminal.until(lambda display: "2 jobs" in display[0])
    terminal.press("\x03")
    assert terminal.end() in {130, -signal.SIGINT}
    assert terminal.raw.rstrip().endswith(b"interrupted")
    assert b"Traceback" not in terminal.raw


@pytest.mark.program
def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was(top):
    terminal = top()
    terminal.until(lambda display: "busy" in "".join(display))
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == -signal.SIGTERM
    assert b"\x1b[?1049l" in terminal.raw  # the screen that was there before


class Node:
    """Constructed figures of sixty jobs; of the third, processes."""

    name = "here"
    without_processes = "none"

    def __init__(self):
        self.looks = 0

    def read(self):
        self.looks += 1
        lines = [f"batch_node_cores 64\nbatch_node_sample_timestamp_seconds {1000 + self.looks}"]
        for number in range(60):
            job = f'batch_system="slurm",job_id="{number + 1}"'
            user, name = ("alice", "[bold]n[/]") if number % 2 else ("bob", "\x1b[2Jrun\x07")
            lines += [
                f'batch_job_info{{{job},user="{user}",name="{name}"}} 1',
                f"batch_job_allocated_cpus{{{job}}} 4",
                f'batch_job_cpu_seconds_total{{{job},mode="user"}} {self.looks * number / 20}',
                f'batch_job_cpu_seconds_total{{{job},mode="system"}} 0',
                f"batch_job_memory_used_bytes{{{job}}} {(number * 7 % 60 + 1) * 2**20}",
            ]
        return parse_page("\n".join(lines) + "\n")

    def processes(self):
        made = [(70, 1, "bash"), (71, 70, "wor\x1b[31mker")]
        samples = {
            pid: ProcessSample(pid, parent, 70, 70, 5, name, "S", 0, 0, 0, 0, 1, 2**20, 2**30)
            for pid, parent, name in made
        }
        keys = dict.fromkeys(samples, JobKey("slurm", "3"))
        return Snapshot(
            taken_at_secs=0, duration_secs=0, node=None, jobs={}, processes=samples, keys=keys
        )  # fmt: skip

    def close(self):
        pass


def shown(app):
    table = app.query_one("#jobs")
    return [[cell.plain.strip() for cell in table.get_row_at(row)] for row in range(table.row_count)]


async def wait(pilot, condition):
    deadline = time.monotonic() + PATIENCE_SECS
    while not condition():
        assert time.monotonic() < deadline, shown(pilot.app)
        await pilot.pause(0.01)


# A screen takes 0.2 s to begin and each key some hundredths: one test presses them all.
async def test_keys_sort_scroll_filter_and_expand_and_names_are_shown_harmlessly():
    app = Top(Node(), interval_secs=1.0, order="j")  # each look draws sixty rows
    async with app.run_test(size=(120, 24)) as pilot:
        await wait(pilot, lambda: [row[0] for row in shown(app)] == [str(each + 1) for each in range(60)])
        await wait(pilot, lambda: "?" not in shown(app)[9][2])  # two looks
        assert shown(app)[0][-1] == "\ufffd[2Jrun\ufffd"
        assert shown(app)[1][-1] == "[bold]n[/]"
        await pilot.press("i")
        await wait(pilot, lambda: shown(app)[0][0] == "1")  # the idlest
        await pilot.press("r")
        await wait(pilot, lambda: shown(app)[0][0] == "60")
        await pilot.press("j", "end")
        await wait(
            pilot,
            lambda: app.query_one("#jobs").cursor_row == 59 and app.query_one("#jobs").scroll_offset.y > 0,
        )
        await pilot.press("home", "down", "down", "enter")
        await wait(pilot, lambda: [row[0] for row in shown(app)][2:5] == ["3", "└70", "└71"])
        assert shown(app)[4][-1] == "wor\ufffd[31mker"
        await pilot.press("m")  # the cursor stays with its job
        await wait(pilot, lambda: shown(app)[app.query_one("#jobs").cursor_row][0] == "3")
        await pilot.press("enter")
        await wait(pilot, lambda: len(shown(app)) == 60)
        await pilot.press("slash", *"ALICE 4", "enter")
        await wait(pilot, lambda: [row[0] for row in shown(app)] and all("4" in row[0] for row in shown(app)))
        assert {row[1] for row in shown(app)} == {"alice"}
        await pilot.press("escape")
        await wait(pilot, lambda: len(shown(app)) == 60)
        await pilot.press("question_mark")
        await wait(pilot, lambda: isinstance(app.screen, Keys))
        said = app.screen.query_one("Static").visual.plain
        assert all(f" {each.key}  {each.head} " in said for each in COLUMNS)
        await pilot.press("x")
        await wait(pilot, lambda: not isinstance(app.screen, Keys))
        await pilot.press("question_mark")
        await wait(pilot, lambda: isinstance(app.screen, Keys))
        await pilot.press("slash")  # any key closes it: nothing is filtered behind it
        await wait(pilot, lambda: not isinstance(app.screen, Keys))
        assert not app.query_one(Input).has_class("shown")
        await pilot.resize_terminal(46, 12)
        await wait(pilot, lambda: len(shown(app)[0]) < 8 and app.query_one("#jobs").max_scroll_x == 0)
        await pilot.click("#jobs", offset=(1, 0))  # the head of JOB
        await wait(pilot, lambda: shown(app)[0][0] == "1")
        await pilot.press("q")
    assert app.ended_by is None


def test_the_command_names_the_keys_of_all_columns():
    assert tuple(each.key for each in COLUMNS) == ORDERS


COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7])[;m]")


@pytest.mark.program
def test_there_are_colours_unless_they_are_refused(top):
    terminal = top()
    terminal.until(lambda display: "Quit" in display[-1])
    assert COLOUR.search(terminal.raw)
    terminal = top(NO_COLOR="1")
    terminal.until(lambda display: "Quit" in display[-1])
    assert not COLOUR.search(terminal.raw)


@pytest.mark.parametrize("words", [["--once"], []])
def test_once_and_without_a_terminal_there_is_one_table(daemon, capsys, words):
    url = daemon.url.removesuffix("/metrics")
    assert main(["top", "--url", url, "--sort", "m", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 jobs; CPUs ? of 8 busy, 6 of 8 allocated")
    assert jobs_on(lines) == ["12", "11"]
    assert not any("\x1b" in line for line in lines)
    assert "3/4" in lines[-1]


def test_without_a_daemon_it_looks_by_itself_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "j.xml").write_text(
        "<Job><Id>j.1</Id><State>Running</State><User>root</User><Name>own</Name><Processors>1</Processors>"
        f"<StartTime>{int(time.time()) - 60}</StartTime>"
        f"<TaskGroup><Task><Process>{os.getpid()}</Process></Task></TaskGroup></Job>"
    )
    for name, value in {
        "BATCH_SOURCES": "spool",
        "SPOOL_DIRECTORY": str(spool),
        "FEATURES_ROOT": str(tmp_path / "features"),
        "PATH_CGROUP": str(tmp_path),
        "WEB_LISTEN_ADDRESS": "127.0.0.1:1",
    }.items():
        monkeypatch.setenv(f"JOBFEATURES_{name}", value)
    assert main(["top", "--once"]) == 0
    out = capsys.readouterr().out
    assert "sampled here" in out.splitlines()[0]
    assert re.search(r"^j\.1 .*own$", out, re.MULTILINE)
    assert not (tmp_path / "features").exists()


def test_a_page_that_is_no_node_of_ours_is_refused(daemon, monkeypatch, capsys):
    monkeypatch.setattr("tests.exporter.top.test_app.PAGE", "<!DOCTYPE html><title>n1</title>\n")
    assert main(["top", "--once", "--url", daemon.url]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert (
        f"{daemon.url}: not a metrics page of jobfeatures-exporter, but begins with '<!DOCTYPE html>"
        in printed.err
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--url", "http://127.0.0.1:1/metrics"], 1, "refused"),
        (["--url", "http://x", "--local"], 2, "--local"),
        (["--interval", "0"], 2, "--interval"),
        (["--url.user", "ann"], 2, "--url.password-file"),
    ],
)
def test_what_is_wrong_is_one_line(words, status, said, capsys):
    assert main(["top", "--once", *words]) == status
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_daemon_that_does_not_answer_us_is_no_reason_to_look_ourselves(daemon, monkeypatch, capsys):
    monkeypatch.setenv("JOBFEATURES_WEB_LISTEN_ADDRESS", daemon.url.split("/")[2])
    assert main(["top", "--once"]) == 0
    assert daemon.url in capsys.readouterr().out
    daemon.status = 401
    assert main(["top", "--once"]) == 1
    assert "give --url.user and --url.password-file" in capsys.readouterr().err


@pytest.mark.program
def test_without_textual_the_table_is_printed_once_and_it_is_said_what_to_install(daemon):
    code = (
        "import sys; sys.modules['textual'] = None; sys.modules['textual.app'] = None\n"
        "from jobfeatures_exporter.cli import main; import os\n"
        "sys.stdout.isatty = lambda: True; os.get_terminal_size = lambda *_: os.terminal_size((80, 24))\n"
        f"sys.exit(main(['top', '--url', {daemon.url!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "TERM": "xterm"}
    )
    assert done.returncode == 0
    assert "jobfeatures-exporter[top]" in done.stderr
    assert jobs_on(done.stdout.splitlines()) == ["11", "12"]


@pytest.mark.program
def test_ctrl_c_by_a_signal_is_130_too(daemon):
    command = [sys.executable, "-m", "jobfeatures_exporter", "top", "--url", daemon.url]
    daemon.goes_on.clear()  # it cannot be through before the signal
    with started(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        until(lambda: daemon.looks)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_SECS)
    daemon.goes_on.set()
    # Python may end itself by the signal, after the line; a shell says 130 in either case.
    assert process.returncode in {130, -signal.SIGINT}
    assert error == b"jobfeatures-exporter: interrupted\n"
