"""`top` on a real pseudo-terminal, looked at through a terminal emulator; and without a terminal."""

import fcntl
import os
import pty
import re
import select
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

from jobfeatures_exporter.cli import main
from tests.running import PATIENCE_SECS, started, until

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
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                daemon.looks += 1
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
            if select.select([self.master], [], [], 0.1)[0]:
                data = os.read(self.master, 65536)
                self.raw += data
                self.stream.feed(data)

    def end(self):
        """Return the exit status; what was written last is read, too."""
        status = self.process.wait(60)
        while select.select([self.master], [], [], 0.1)[0]:
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
def test_jobs_are_shown_and_sorted_by_keys_until_q(top):
    terminal = top()
    terminal.until(lambda display: "3/4" in display[2])  # thirty CPU seconds in ten
    assert "2 jobs" in terminal.screen.display[0]
    assert jobs_on(terminal.screen.display) == ["11", "12"]
    terminal.press("m")
    terminal.until(lambda display: jobs_on(display) == ["12", "11"] and "[m memory]" in "".join(display))
    terminal.press("t")
    terminal.until(lambda display: "[t time left]" in "".join(display))
    assert jobs_on(terminal.screen.display) == ["12", "11"]
    terminal.press("c")
    terminal.until(lambda display: jobs_on(display) == ["11", "12"])
    terminal.press("g")
    terminal.press("w")
    terminal.until(lambda display: "[w waste]" in "".join(display) and jobs_on(display) == ["12", "11"])
    terminal.press("x")  # means nothing
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.program
def test_a_hostile_name_does_not_touch_the_terminal(top):
    terminal = top()
    terminal.until(lambda display: any("large" in line for line in display))
    assert b"\x1b[2J\x1b]0;" not in terminal.raw
    assert b"\x1b]0" not in terminal.raw
    assert "owned" in "".join(terminal.screen.display)
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.program
def test_it_fits_a_terminal_that_changes_its_size(top):
    terminal = top(columns=80, lines=24)
    terminal.until(lambda display: "busy" in "".join(display))
    terminal.resize(40, 5)
    terminal.until(lambda display: len(display) == 5 and "more" in "".join(display))
    assert "NAME" not in "".join(terminal.screen.display)
    terminal.resize(100, 30)
    terminal.until(lambda display: len(display) == 30 and "busy" in "".join(display))
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.program
def test_ctrl_c_ends_it_with_130_and_one_line(top):
    terminal = top()
    terminal.until(lambda display: "busy" in "".join(display))
    terminal.press("\x03")
    assert terminal.end() in {130, -signal.SIGINT}
    assert terminal.raw.rstrip().endswith(b"interrupted")
    assert b"Traceback" not in terminal.raw


COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-7][;m]")


@pytest.mark.program
def test_there_are_colours_unless_they_are_refused(top):
    terminal = top()
    terminal.until(lambda display: "busy" in "".join(display))
    assert COLOUR.search(terminal.raw)
    terminal = top(NO_COLOR="1")
    terminal.until(lambda display: "busy" in "".join(display))
    assert not COLOUR.search(terminal.raw)


@pytest.mark.program
def test_a_daemon_that_goes_away_is_told_and_waited_for(top, daemon):
    terminal = top()
    terminal.until(lambda display: "busy" in "".join(display))
    daemon.status = 503
    terminal.until(lambda display: "503" in display[0] and "busy" in "".join(display))
    daemon.status = 200
    terminal.until(lambda display: "2 jobs" in display[0])
    terminal.press("q")
    assert terminal.end() == 0


@pytest.mark.parametrize("words", [["--once"], []])
def test_once_and_without_a_terminal_there_is_one_table(daemon, capsys, words):
    url = daemon.url.removesuffix("/metrics")
    assert main(["top", "--url", url, "--sort", "m", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 jobs; CPUs ? of 8 busy, 6 of 8 allocated")
    assert jobs_on(lines) == ["12", "11"]
    assert not any("\x1b" in line for line in lines)
    assert "3/4" in lines[3]


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
    assert "own look" in out.splitlines()[0]
    assert re.search(r"^j\.1 .*own$", out, re.MULTILINE)
    assert not (tmp_path / "features").exists()


def test_a_page_that_is_no_node_of_ours_is_refused(daemon, monkeypatch, capsys):
    monkeypatch.setattr("tests.exporter.top.test_live.PAGE", "<!DOCTYPE html><title>n1</title>\n")
    assert main(["top", "--once", "--url", daemon.url]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{daemon.url}: no metrics of a jobfeatures-exporter, but '<!DOCTYPE html>" in printed.err


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
    assert "say --url https://" in capsys.readouterr().err


@pytest.mark.program
def test_without_rich_the_table_is_printed_once_and_it_is_said_what_to_install(daemon):
    code = (
        "import sys; sys.modules['rich'] = None; sys.modules['rich.console'] = None\n"
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
    with started(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        until(lambda: daemon.looks)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE_SECS)
    # Python may end itself by the signal, after the line; a shell says 130 in either case.
    assert process.returncode in {130, -signal.SIGINT}
    assert error == b"jobfeatures-exporter: interrupted\n"
