import os
import re
import time

import pytest

from jobfeatures.errors import CommandError
from jobfeatures.system.command import BackgroundProcess, conversation, run_command


def test_a_program_gets_its_input_and_a_plain_environment(monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    script = "cat; env >&2; exit 3"
    output = run_command(["sh", "-c", script], timeout_secs=60, stdin=b"question\n", kept=("SLURM_CONF",))
    assert output.stdout == b"question\n"
    assert output.status == 3
    assert b"LC_ALL=C" in output.stderr
    assert b"SLURM_CONF" in output.stderr
    assert b"SECRET" not in output.stderr


@pytest.mark.parametrize(
    ("script", "limit_secs", "kind"),
    [
        ("sleep 60", 0.3, "timeout"),
        ("trap '' TERM; sleep 60 & wait", 0.3, "timeout"),
        ("exec >&- 2>&-; sleep 60", 0.3, "timeout"),
        ("yes", 60.0, "too large"),
    ],
)
def test_a_program_that_hangs_or_floods_is_ended_with_its_children(script, limit_secs, kind):
    with pytest.raises(CommandError) as caught:
        run_command(["sh", "-c", script], timeout_secs=limit_secs, max_bytes=100_000)
    assert caught.value.kind == kind


@pytest.mark.parametrize("end", ["sleep 60", "exec >&- 2>&-; sleep 60"])
def test_a_program_without_an_end_is_told_with_its_own_words(end):
    # Captured from scontrol 22.05 without its configuration; it tries for a minute.
    said = (
        "scontrol: error: s_p_parse_file: cannot stat file /etc/slurm/slurm.conf: No such file or directory, "
        "retrying in 1sec up to 60sec"
    )
    script = f"echo first >&2; echo '{said}' >&2; {end}"
    for limit_secs in (0.3, 3, 30):  # a busy machine may need longer to get as far as that
        with pytest.raises(CommandError) as caught:
            run_command(["sh", "-c", script], timeout_secs=limit_secs)
        if "60sec" in str(caught.value):
            break
    assert re.search(
        rf"not finished after {limit_secs} s; its last output: 'scontrol: error: .*60sec'", str(caught.value)
    )
    assert caught.value.kind == "timeout"


def test_a_missing_program_is_named():
    with pytest.raises(CommandError, match="no-such-program") as caught:
        run_command(["/no-such-program"], timeout_secs=1)
    assert caught.value.kind == "missing"


def test_a_program_that_does_not_read_its_input_is_no_failure():
    assert run_command(["true"], timeout_secs=60, stdin=b"x" * 1000).status == 0


def test_a_background_process_is_ended_with_its_group():
    process = BackgroundProcess(["sh", "-c", "sleep 60 & sleep 60"], os.environ)
    assert not process.has_ended
    process.end(grace_secs=1.0)
    assert process.has_ended
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail("the group is still there")


@pytest.mark.parametrize(
    ("script", "word"), [("read word; echo $word; cat", b"hello\n"), ("echo deaf; exec sleep 600", b"deaf\n")]
)
def test_a_program_that_is_talked_to_ends_with_its_input_or_is_killed(script, word):
    with conversation(["sh", "-c", f"echo $$; {script}"], end_secs=0.2) as (their_input, their_output):
        pid = int(their_output.readline())
        their_input.write(b"hello\n")
        their_input.flush()
        assert their_output.readline() == word
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_is_talked_to_may_end_before_it_has_read_all():
    with conversation(["true"], end_secs=60.0) as (their_input, their_output):
        assert their_output.read() == b""
        their_input.write(b"unread")
