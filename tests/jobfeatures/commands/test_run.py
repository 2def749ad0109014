"""`jobfeatures run`: a program that is told before its job's end. Each case is a real process."""

import contextlib
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobfeatures import client
from jobfeatures.client import parse_hook, parse_signal

# The client, which looks more often. Time passes as FOLDER/passed says, and FOLDER/clock is how far its clock is set ahead:
# nothing here waits for an hour, and nothing happens because something else took seconds. FOLDER/looks grows by a byte
# as a reading begins.
QUICK = """
import sys, time
sys.path.insert(0, {taken!r})
import client
client._READ_SECS = {{True: 0.1, False: 0.1}}
client._FRESH_SECS, client._PATIENCE_SECS, client._SHORT_SECS, client._SET_UP_SECS = 0.3, 1.0, 0.5, {set_up}
def told(name):
    try:
        with open({folder!r} + "/" + name) as file:
            return float(file.read())
    except FileNotFoundError:
        return 0.0
def begin(end, begin=client._End.begin):
    with open({folder!r} + "/looks", "a") as file:
        file.write(".")
    begin(end)
client._End.begin = begin
time.time = lambda real=time.time: real() + told("passed") + told("clock")
time.monotonic = lambda real=time.monotonic: real() + told("passed")
sys.exit(client.main(sys.argv[1:]))
"""
pytestmark = pytest.mark.program
SAYS = "import os, signal, sys, time\n"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    made = tmp_path / "job"
    made.mkdir()
    return made


@pytest.fixture
def quick(tmp_path: Path) -> list[str]:
    return quick_client(tmp_path)


def quick_client(tmp_path: Path, *, set_up: float = 0.5) -> list[str]:
    folder = tmp_path / "taken along"
    folder.mkdir(exist_ok=True)
    shutil.copy(client.__file__, folder)
    text = QUICK.format(taken=str(folder), folder=str(tmp_path), set_up=set_up)
    return [sys.executable, "-c", text, "run"]


def replace(path: Path, text: str) -> None:
    new = path.with_name(".new")
    new.write_text(text)
    new.rename(path)


def limit(job: Path, secs: float) -> None:
    """Let the job end in so many seconds, as a provider does: by a file that takes another's place."""
    start = job / "jobstart_secs"
    if not start.exists():
        start.write_text(f"{int(time.time()) - 1000}\n")
    replace(job / "wall_limit_secs", f"{secs + time.time() - int(start.read_text()):.3f}\n")


def looked(tmp_path: Path) -> None:
    """Wait until what holds now has been read, and all that follows from it has been done."""
    looks = tmp_path / "looks"
    # The next reading is of now; the one behind begins when that is taken, and the third when all is done.
    wanted = 3 + (looks.stat().st_size if looks.exists() else 0)
    while not looks.exists() or looks.stat().st_size < wanted:
        time.sleep(0.02)


def program(text: str) -> list[str]:
    return [sys.executable, "-c", SAYS + textwrap.dedent(text)]


def environ(job: Path) -> dict[str, str]:
    return {**os.environ, "JOBFEATURES": str(job), "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def begun(command: list[str], job: Path, **more: object) -> Iterator[subprocess.Popen[str]]:
    """Run a command whose program says "ready", and goes on until `ended`."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **{**pipes, "text": True, "env": environ(job), **more}) as running:  # type: ignore[call-overload]
        try:
            assert running.stdout.readline() == "ready\n"
            yield running
        finally:
            running.kill()


def end(running: subprocess.Popen[str]) -> None:
    running.stdin.write("\n")
    running.stdin.flush()


def ended(running: subprocess.Popen[str]) -> tuple[str, int]:
    """Have the program end; return what else it has said, and the status."""
    end(running)
    return running.stdout.read(), running.wait()


def run(command: list[str], job: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environ(job), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


# It says which signals come, until it hears a line.
TELLS = """
    def tell(number, _):
        os.write(1, signal.Signals(number).name.encode() + b"\\n")
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGCONT):
        signal.signal(number, tell)
    print("ready", flush=True)
    sys.stdin.readline()
"""
EXITS_WITH = "echo ready; read line; exit {}"


@pytest.mark.parametrize("text", ["USR1@300", "SIGUSR1@300", "usr1@300", "10@300"])
def test_a_signal_is_named_as_anybody_would(text: str) -> None:
    notice = parse_signal(text)
    assert (notice.signal, notice.secs) == (signal.SIGUSR1, 300)


@pytest.mark.parametrize(
    "text", ["USR1", "USR1@", "@300", "NONE@300", "0@3", "65@3", "USR1@-1", "USR1@1e3", "²@3", "1@²"]
)
def test_what_is_no_signal_with_seconds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"signal|SECS"):
        parse_signal(text)


def test_a_hook_may_have_an_at_in_its_name() -> None:
    notice = parse_hook("/a@b/c@30")
    assert (notice.hook, notice.secs) == ("/a@b/c", 30)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -USR1 $$"], 138),
        (["no-such-program"], 127),
        (["/etc/passwd/x"], 127),
        (["/"], 126),
        (["/etc/passwd"], 126),
        ([""], 127),
    ],
)
def test_the_program_s_status_is_ours(quick: list[str], job: Path, words: list[str], status: int) -> None:
    assert run([*quick, "--", *words], job).returncode == status


def test_a_script_without_an_interpreter_is_the_shell_s(quick: list[str], job: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit $1\n")
    script.chmod(0o755)
    assert run([*quick, str(script), "5"], job).returncode == 5


@pytest.mark.parametrize("name", ["script", "-script"])
def test_a_script_without_an_interpreter_is_found_as_programs_are(
    quick: list[str], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text("exit $1\n")
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert run([*quick, "--", name, "5"], job).returncode == 5


def test_a_folder_with_the_program_s_name_is_no_program(
    quick: list[str], job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert run([*quick, "--", job.name], job).returncode == 127


def test_a_program_that_has_become_another_user_is_waited_for_all_the_same(
    quick: list[str], job: Path
) -> None:
    limit(job, 60)
    refusing = """
import os
def kill(pid, number):
    raise PermissionError(1, "Operation not permitted")
os.kill = kill
"""
    command = [quick[0], "-c", refusing + quick[2], "run", "--signal", "TERM@600", "--"]
    with begun([*command, "sh", "-c", EXITS_WITH.format(4)], job) as running:
        assert "SIGTERM is sent" in running.stderr.readline()
        assert "does not get signal 15: Operation not permitted" in running.stderr.readline()
        assert ended(running) == ("", 4)


def test_children_that_are_ignored_where_it_starts_leave_their_status(quick: list[str], job: Path) -> None:
    text = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    assert run([sys.executable, "-c", text, *quick, "--", "sh", "-c", "exit 7"], job).returncode == 7


def test_signals_that_a_launcher_has_blocked_come_all_the_same(quick: list[str], job: Path) -> None:
    text = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals)); "
    blocked = [sys.executable, "-c", text + "os.execv(sys.argv[1], sys.argv[1:])", *quick]
    limit(job, 60)
    with begun([*blocked, "--signal", "USR1@600", "--", *program(TELLS)], job) as running:
        assert running.stdout.readline() == "SIGUSR1\n"
        running.send_signal(signal.SIGTERM)
        assert running.stdout.readline() == "SIGTERM\n"
        assert ended(running) == ("", 0)


def test_where_no_more_threads_may_be_the_program_goes_on_and_that_is_said(
    tmp_path: Path, quick: list[str], job: Path
) -> None:
    full = """
import threading
def start(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
"""
    command = [quick[0], "-c", full + quick[2], "run", "--signal", "USR1@60", "--"]
    with begun([*command, "sh", "-c", EXITS_WITH.format(7)], job) as running:
        looked(tmp_path)
        assert ended(running) == ("", 7)
        assert running.stderr.read().count("can't start new thread") == 1


def test_words_behind_the_program_are_its_own(quick: list[str], job: Path) -> None:
    done = run([*quick, "--kill-after", "1", "--", "echo", "--signal", "--", "-x"], job)
    assert (done.stdout, done.returncode) == ("--signal -- -x\n", 0)
    assert run([*quick, "echo", "-n", "--", "y"], job).stdout == "-- y"


def test_without_a_program_it_says_so(quick: list[str], job: Path) -> None:
    done = run([*quick, "--signal", "USR1@3"], job)
    assert done.returncode == 2
    assert "a program to run is missing" in done.stderr


def test_each_signal_comes_once_and_in_its_time(tmp_path: Path, quick: list[str], job: Path) -> None:
    limit(job, 1000)
    command = [*quick, "--signal", "USR2@200", "--signal", "USR1@500", "--", *program(TELLS)]
    with begun(command, job) as running:
        for passed_secs, name, until_secs in ((600, "SIGUSR1", 200), (900, "SIGUSR2", 0)):
            looked(tmp_path)
            replace(tmp_path / "passed", str(passed_secs))
            assert running.stdout.readline() == f"{name}\n"
            left, said = running.stderr.readline().removeprefix("jobfeatures: ").split(" ", 1)
            assert until_secs < int(left) <= 1000 - passed_secs
            assert f"s are left by wall_limit: {name} is sent" in said
        assert ended(running) == ("", 0)


def test_if_less_is_left_the_signal_comes_at_once_but_not_before_the_program_can_take_it(
    tmp_path: Path, job: Path
) -> None:
    limit(job, 500)
    quick = quick_client(tmp_path, set_up=1.0)
    began = time.monotonic()
    assert run([*quick, "--signal", "TERM@3000", "--", "sleep", "1000"], job).returncode == 143
    assert time.monotonic() - began >= 1.0


SLOW_PROGRAMS = {
    "python": program("""
        time.sleep(2)
        signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
        time.sleep(1000)
    """),
    "a shell": ["sh", "-c", "sleep 2; trap 'exit 3' USR1; sleep 1000 & wait"],
    "exec": ["sh", "-c", "sleep 1; exec sh -c \"sleep 1; trap 'exit 3' USR1; sleep 1000 & wait\""],
}


@pytest.mark.parametrize("command", SLOW_PROGRAMS.values(), ids=SLOW_PROGRAMS)
def test_a_program_that_takes_longer_to_begin_gets_the_signal_once_it_catches_it(
    quick: list[str], job: Path, command: list[str]
) -> None:
    limit(job, 2000)
    assert run([*quick, "--signal", "USR1@3000", "--", *command], job).returncode == 3


@pytest.mark.parametrize(
    ("left", "options"),
    [
        (2, ["--signal", "USR1@3000"]),  # soon less is left than has passed
        (2000, ["--signal", "USR1@3000", "--signal", "USR2@2500"]),  # another is due, too
    ],
)
def test_nobody_waits_for_a_program_to_catch_it_where_that_would_be_too_late(
    quick: list[str], job: Path, left: int, options: list[str]
) -> None:
    limit(job, left)
    assert run([*quick, *options, "--", "sleep", "1000"], job).returncode == 138


def test_what_never_catches_it_gets_it_all_the_same(tmp_path: Path, quick: list[str], job: Path) -> None:
    limit(job, 2000)
    with begun([*quick, "--signal", "USR1@3000", "--", "sh", "-c", EXITS_WITH.format(4)], job) as running:
        looked(tmp_path)
        assert running.poll() is None
        (tmp_path / "passed").write_text("30")
        assert running.wait() == 138


def test_where_it_cannot_be_known_what_is_caught_nobody_waits(
    tmp_path: Path, quick: list[str], job: Path
) -> None:
    limit(job, 2000)
    quick[2] = quick[2].replace("import client\n", f"import client\nclient._PROC = {str(tmp_path)!r}\n", 1)
    late = ["sh", "-c", "sleep 25 & wait; trap 'exit 3' USR1; sleep 1000 & wait"]
    assert run([*quick, "--signal", "USR1@3000", "--", *late], job).returncode == 138


def test_an_end_that_moves_back_sends_nothing_twice(tmp_path: Path, quick: list[str], job: Path) -> None:
    limit(job, 10000)
    command = [*quick, "--signal", "USR1@1000", "--signal", "USR2@300", "--", *program(TELLS)]
    with begun(command, job) as running:
        limit(job, 900)
        assert running.stdout.readline() == "SIGUSR1\n"
        for secs in (10000, 900):
            limit(job, secs)
            looked(tmp_path)
        limit(job, 200)
        assert running.stdout.readline() == "SIGUSR2\n"
        assert ended(running) == ("", 0)


@pytest.mark.parametrize("is_extended", [True, False])
def test_a_limit_that_is_extended_before_the_notice_is_followed(
    tmp_path: Path, quick: list[str], job: Path, is_extended: bool
) -> None:
    limit(job, 1000)
    with begun([*quick, "--signal", "USR1@500", "--", *program(TELLS)], job) as running:
        if is_extended:
            limit(job, 10000)
        looked(tmp_path)
        replace(tmp_path / "passed", "600")
        if is_extended:
            looked(tmp_path)
        else:
            assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)


@pytest.mark.parametrize("name", ["wall_limit_secs", "shutdowntime", "shutdowntime_job"])
def test_an_end_that_is_announced_later_is_followed(
    tmp_path: Path, quick: list[str], job: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    monkeypatch.setenv("MACHINEFEATURES", str(machine))
    limit(job, 10000)
    with begun([*quick, "--signal", "USR1@600", "--", *program(TELLS)], job) as running:
        looked(tmp_path)
        if name == "wall_limit_secs":
            limit(job, 500)
        else:
            folder = machine if name == "shutdowntime" else job
            replace(folder / name, f"{int(time.time()) + 500}\n")
        assert running.stdout.readline() == "SIGUSR1\n"
        assert 300 < int(running.stderr.readline().split()[1]) <= 500
        assert ended(running) == ("", 0)


@pytest.mark.parametrize("places", [{}, {"JOBFEATURES": "empty"}, {"JOBFEATURES": "gone"}])
def test_where_no_end_is_known_nothing_is_sent_and_that_is_said_once(
    tmp_path: Path, quick: list[str], job: Path, places: dict[str, str]
) -> None:
    (tmp_path / "empty").mkdir()
    given = {name: value for name, value in os.environ.items() if not name.endswith("FEATURES")}
    given.update({name: str(tmp_path / value) for name, value in places.items()})
    command = [*quick, "--signal", "USR1@60", "--", "sh", "-c", EXITS_WITH.format(0)]
    with begun(command, job, env=given) as running:
        looked(tmp_path)
        assert ended(running) == ("", 0)
        assert running.stderr.read().count("no notice is given") == 1


def test_what_was_known_counts_when_it_can_be_read_no_more(
    quick: list[str], job: Path, tmp_path: Path
) -> None:
    limit(job, 1000)
    with begun([*quick, "--signal", "USR1@500", "--", *program(TELLS)], job) as running:
        looked(tmp_path)
        job.rename(tmp_path / "elsewhere")
        looked(tmp_path)
        replace(tmp_path / "passed", "600")
        assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)
        assert "what was known still counts" in running.stderr.read()


@pytest.mark.parametrize("unread", ["machine", "job"])
def test_what_can_be_read_counts_where_the_other_folder_cannot_be(
    quick: list[str], job: Path, tmp_path: Path, unread: str
) -> None:
    machine = tmp_path / "machine"
    if unread == "machine":  # as in a container that has the job's folder alone
        limit(job, 1000)
    else:
        machine.mkdir()
        replace(machine / "shutdowntime", str(int(time.time()) + 1000))
        job.rmdir()
    given = {**environ(job), "MACHINEFEATURES": str(machine)}
    with begun([*quick, "--signal", "USR1@500", "--", *program(TELLS)], job, env=given) as running:
        looked(tmp_path)
        replace(tmp_path / "passed", "600")
        assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)
        known = "wall_limit" if unread == "machine" else "shutdown"
        assert (
            f"only {known} counts: {tmp_path / unread}: there is no such directory" in running.stderr.read()
        )


def test_a_shutdown_that_was_known_counts_beside_a_limit_that_is_extended(
    quick: list[str], job: Path, tmp_path: Path
) -> None:
    machine = tmp_path / "machine"
    machine.mkdir()
    replace(machine / "shutdowntime", str(int(time.time()) + 1000))
    limit(job, 900)
    given = {**environ(job), "MACHINEFEATURES": str(machine)}
    with begun([*quick, "--signal", "USR1@500", "--", *program(TELLS)], job, env=given) as running:
        looked(tmp_path)
        machine.rename(tmp_path / "elsewhere")
        limit(job, 5000)
        looked(tmp_path)
        replace(tmp_path / "passed", "450")
        looked(tmp_path)
        assert not select.select([running.stdout], [], [], 0)[0]
        replace(tmp_path / "passed", "510")
        assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)
        assert "are left by shutdown: SIGUSR1" in running.stderr.read()


def test_a_directory_that_never_answers_keeps_no_signal_from_the_program(
    tmp_path: Path, quick: list[str], job: Path
) -> None:
    limit(job, 1000)
    hanging = "import client, threading\nclient.Features.get = lambda *_: threading.Event().wait()\n"
    quick[2] = quick[2].replace("import client\n", "import client\n" + hanging, 1)
    with begun([*quick, "--signal", "USR1@500", "--", *program(TELLS)], job) as running:
        replace(tmp_path / "passed", "600")
        running.send_signal(signal.SIGUSR2)
        assert running.stdout.readline() == "SIGUSR2\n"
        assert ended(running) == ("", 0)


EVERY_SECS = 20.0


def reported_at(ends: Callable[[float], float], hangs_at: float = 1e9) -> float:
    """Return when a notice 100 s before the end is given, by a clock of our own.

    The job's end is `ends(now)`. Readings take no time; those that begin from `hangs_at` on never end.
    """
    now, end, read_at = 0.0, float("inf"), float("-inf")
    began: float | None = None
    while True:
        waited = None if began is None else now - began
        begins, gives, secs = client.plan_notice(end - now - 100, now - read_at, waited, EVERY_SECS, 1 - now)
        if gives:
            return now
        if begins:
            began = now
        if began is not None and began < hangs_at:
            read_at, end, began = now, ends(now), None  # it is looked at once more, at once
        else:
            now += max(0.001, secs)


@pytest.mark.parametrize("hangs_at", [*(each / 4 for each in range(3580, 3610)), 1e9])
def test_a_notice_waits_for_no_server_that_hangs(hangs_at: float) -> None:
    at = reported_at(lambda _: 1000.0, hangs_at)
    assert 900 <= at < 900.6


@pytest.mark.parametrize("changed_at", [1.0, 500.0, 897.0])
def test_a_change_up_to_shortly_before_the_notice_counts(
    changed_at: float,
) -> None:
    extended = reported_at(lambda now: 1000.0 if now < changed_at else 2000.0)
    assert 1900 <= extended < 1900.1
    shortened = reported_at(lambda now: 1000.0 if now < changed_at else 50.0)
    assert changed_at <= shortened < changed_at + EVERY_SECS + 0.1


def test_a_clock_that_is_set_ahead_brings_the_notice_forward(
    quick: list[str], job: Path, tmp_path: Path
) -> None:
    limit(job, 3600)
    with begun([*quick, "--signal", "USR1@600", "--", *program(TELLS)], job) as running:
        looked(tmp_path)
        replace(tmp_path / "clock", "3500")
        assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)


def test_a_clock_that_is_set_back_puts_it_off(quick: list[str], job: Path, tmp_path: Path) -> None:
    limit(job, 1000)
    with begun([*quick, "--signal", "USR1@500", "--", *program(TELLS)], job) as running:
        looked(tmp_path)
        replace(tmp_path / "clock", "-3600")
        replace(tmp_path / "passed", "600")
        looked(tmp_path)
        replace(tmp_path / "passed", "4200")
        assert running.stdout.readline() == "SIGUSR1\n"
        assert "is in the future: less may be left than it seems" in running.stderr.readline()
        assert int(running.stderr.readline().split()[1]) <= 400
        assert ended(running) == ("", 0)


def test_signals_to_us_are_passed_on_once(quick: list[str], job: Path) -> None:
    with begun([*quick, "--", *program(TELLS)], job) as running:
        for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGCONT):
            running.send_signal(number)
            assert running.stdout.readline() == f"{number.name}\n"
        assert ended(running) == ("", 0)


def test_what_is_ignored_as_by_nohup_stays_ignored(quick: list[str], job: Path) -> None:
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *quick, "--", *program(TELLS)]
    with begun(command, job) as running:
        running.send_signal(signal.SIGHUP)
        running.send_signal(signal.SIGUSR1)
        assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)


def test_other_descriptors_stay_open_for_the_program(quick: list[str], job: Path) -> None:
    reading, writing = os.pipe()
    with open(reading, encoding="ascii") as file:
        command = [*quick, "--", "bash", "-c", f"echo through >&{writing}"]
        subprocess.run(command, env=environ(job), pass_fds=[writing], check=True)
        os.close(writing)
        assert file.read() == "through\n"


FORKS = """
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, {handler})
        os.write(1, b"ready\\n")
        while True:
            time.sleep(1)
    sys.stdin.readline()
    os._exit(5)
"""


def test_what_the_program_leaves_in_its_group_is_ended(quick: list[str], job: Path) -> None:
    text = FORKS.format(handler="lambda *_: (os.write(1, b'term\\n'), os._exit(0))")
    with begun([*quick, "--kill-after", "1000", "--", *program(text)], job) as running:
        assert ended(running) == ("term\n", 5)


def test_what_does_not_heed_the_term_is_killed_later(tmp_path: Path, quick: list[str], job: Path) -> None:
    text = FORKS.format(handler="lambda *_: os.write(1, b'no\\n')")
    with begun([*quick, "--kill-after", "1000", "--", *program(text)], job) as running:
        end(running)
        assert running.stdout.readline() == "no\n"
        replace(tmp_path / "passed", "1000")
        assert (running.stdout.read(), running.wait()) == ("", 5)


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_hook_runs_as_we_do_and_knows_what_is_left(quick: list[str], job: Path, tmp_path: Path) -> None:
    limit(job, 10000)
    hook = script(
        tmp_path / "hook@", f'echo "$JOBFEATURES_LEFT_SECS" >{tmp_path}/left; kill -USR1 "$JOBFEATURES_PID"'
    )
    with begun([*quick, "--hook", f"{hook}@600", "--", *program(TELLS)], job) as running:
        limit(job, 500)
        assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)
    assert 300 <= int((tmp_path / "left").read_text()) <= 500


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        ("/no/such/hook", "cannot be run"),
        ("false", "ended with status 1"),
        ("sleeps", "takes too long and is killed"),
    ],
)
def test_a_hook_that_fails_is_told_and_ends_nothing(
    tmp_path: Path, quick: list[str], job: Path, hook: str, told: str
) -> None:
    limit(job, 1000)
    if hook == "sleeps":
        hook = script(tmp_path / "sleeps", "sleep 1000")
    command = [*quick, "--hook", f"{hook}@2000", "--signal", "USR1@1", "--"]
    with begun([*command, "sh", "-c", EXITS_WITH.format(4)], job) as running:
        assert f"{hook} is run" in running.stderr.readline()
        limit(job, 10000)
        looked(tmp_path)
        replace(tmp_path / "passed", "2000")
        assert told in running.stderr.readline()
        assert ended(running) == ("", 4)


def test_a_hook_that_is_at_work_is_waited_for(quick: list[str], job: Path, tmp_path: Path) -> None:
    limit(job, 1000)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    hook = script(tmp_path / "hook", f"cat {fifo} >{tmp_path}/copied")
    command = [*quick, "--hook", f"{hook}@2000", "--", "sh", "-c", "echo ready; read line; echo over"]
    with begun(command, job) as running:
        assert "is run" in running.stderr.readline()
        end(running)
        assert running.stdout.readline() == "over\n"
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)
        fifo.write_text("done\n")
        assert running.wait() == 0
        assert (tmp_path / "copied").read_text() == "done\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace takes root")
def test_as_process_1_it_reaps_passes_on_and_ends(quick: list[str], job: Path) -> None:
    limit(job, 10000)
    text = textwrap.dedent("""
        import subprocess
        left = subprocess.run(["sh", "-c", "sleep 0.1 & echo $!"], stdout=subprocess.PIPE, text=True).stdout
        while os.path.exists(f"/proc/{int(left)}"):  # an orphan: process 1 inherits it
            time.sleep(0.02)
    """) + textwrap.dedent(TELLS)
    inside = [*quick, "--signal", "USR1@600", "--", *program(text)]
    with begun(["unshare", "--fork", "--pid", "--mount-proc", *inside], job) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        assert running.stdout.readline() == "SIGTERM\n"
        limit(job, 500)
        assert running.stdout.readline() == "SIGUSR1\n"
        assert ended(running) == ("", 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace takes root")
def test_zombies_that_a_process_1_leaves_are_not_waited_for(quick: list[str], job: Path) -> None:
    text = """
import subprocess, sys
run = subprocess.Popen(sys.argv[1:])
try:
    print(run.wait(60))
except subprocess.TimeoutExpired:
    print("waits")
"""
    inside = [
        sys.executable,
        "-c",
        text,
        *quick,
        "--kill-after",
        "1000",
        "--",
        "sh",
        "-c",
        "sleep 1000 & exit 7",
    ]
    assert run(["unshare", "--fork", "--pid", "--mount-proc", *inside], job).stdout == "7\n"


class Terminal:
    """bash with job control, on a terminal of its own."""

    def __init__(self, job: Path) -> None:
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execvpe(
                "bash",
                ["bash", "--norc", "--noprofile", "-i"],
                {**environ(job), "PS1": "prompt> ", "TERM": "dumb"},
            )
        self.pid = pid
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, wanted: str, typing: str = "") -> str:
        """Return what is printed up to some text; type this again and again meanwhile."""
        deadline = time.monotonic() + 100
        while wanted not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.fd], [], [], 0.5)[0]:
                self.seen += os.read(self.fd, 4096).decode()
            elif typing:
                self.type(typing)
        before, _, self.seen = self.seen.partition(wanted)
        return before

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(job: Path) -> Iterator[Terminal]:
    made = Terminal(job)
    yield made
    made.close()


def shell_line(quick: list[str], tmp_path: Path, text: str) -> str:
    (tmp_path / "quick.py").write_text(quick[2])
    (tmp_path / "payload.py").write_text(SAYS + textwrap.dedent(text))
    return f"{sys.executable} {tmp_path}/quick.py run -- {sys.executable} {tmp_path}/payload.py"


ECHOES = """
    print("re" + "ady", flush=True)
    for line in sys.stdin:
        print("heard", line.strip(), flush=True)
"""


def test_the_program_has_the_terminal_and_job_control_works(
    terminal: Terminal, quick: list[str], tmp_path: Path
) -> None:
    line = shell_line(quick, tmp_path, ECHOES)
    terminal.until("prompt> ")
    terminal.type(f"{line}; echo status $?\n")
    terminal.until("ready")
    terminal.type("one\n")
    terminal.until("heard one")
    terminal.type("\x1a")  # Ctrl-Z
    terminal.until("Stopped")
    terminal.until("prompt> ")
    terminal.type("echo between\n")
    terminal.until("between\r\n")
    terminal.until("between\r\n")
    terminal.type("fg\n")
    terminal.until("payload.py")
    terminal.type("two\n")
    terminal.until("heard two")
    terminal.type("\x03")  # Ctrl-C
    terminal.until("KeyboardInterrupt")
    terminal.until("prompt> ")
    terminal.type("echo still $((40+2))\n")
    terminal.until("still 42")


def test_what_was_begun_in_the_background_gets_the_terminal_by_fg(
    terminal: Terminal, quick: list[str], tmp_path: Path
) -> None:
    line = shell_line(quick, tmp_path, ECHOES)
    terminal.until("prompt> ")
    terminal.type(f"{line} &\n")
    terminal.until("ready")
    # It wants to read from the terminal; bash tells at its next prompt.
    terminal.until("Stopped", typing="\n")
    terminal.type("fg\n")
    terminal.until("payload.py")
    terminal.type("three\n")
    terminal.until("heard three")
    terminal.type("\x04")  # end of input
    terminal.until("prompt> ")


def test_where_nobody_could_continue_it_ctrl_z_stops_nothing(
    quick: list[str], tmp_path: Path, job: Path
) -> None:
    line = shell_line(quick, tmp_path, ECHOES).split()
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(line[0], line, environ(job))
    alone = Terminal.__new__(Terminal)
    alone.pid, alone.fd, alone.seen = pid, fd, ""
    try:
        alone.until("ready")
        alone.type("\x1a")
        alone.type("on\n")
        alone.until("heard on")
    finally:
        alone.close()


def test_a_terminal_s_interrupt_reaches_all_of_the_program_s_group_also_after_fg(
    terminal: Terminal, quick: list[str], tmp_path: Path
) -> None:
    line = shell_line(quick, tmp_path, ECHOES).rpartition(" -- ")[0]
    terminal.until("prompt> ")
    terminal.type(f"{line} -- sh -c 'echo rea''dy; sleep 1000; echo no' &\n")
    terminal.until("ready")
    terminal.type("fg\n")
    terminal.until("sleep 1000")
    terminal.until("prompt> ", typing="\x03")  # the first may come before bash has given the terminal away


def test_in_a_pipeline_others_read_from_the_terminal(
    terminal: Terminal, quick: list[str], tmp_path: Path
) -> None:
    line = shell_line(quick, tmp_path, "print('re' + 'ady', flush=True); time.sleep(1000)")
    terminal.until("prompt> ")
    terminal.type(f"{line} | (read a; echo $a; read b </dev/tty; echo heard $b; cat)\n")
    terminal.until("ready")
    terminal.type("this\n")
    terminal.until("heard this")
    terminal.type("\x03")
    terminal.until("prompt> ")


def test_a_terminal_that_only_its_own_may_write_to_stops_no_notice(
    terminal: Terminal, quick: list[str], tmp_path: Path, job: Path
) -> None:
    limit(job, 10000)
    line = shell_line(quick, tmp_path, TELLS).replace(" -- ", " --signal USR1@600 -- ")
    terminal.until("prompt> ")
    terminal.type(f"stty tostop; {line}\n")
    terminal.until("ready")
    limit(job, 500)
    terminal.until("\nSIGUSR1")
    terminal.type("\n")
    terminal.until("prompt> ")
