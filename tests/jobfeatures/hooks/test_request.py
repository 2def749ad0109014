"""What hooks hand over, as bytes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.hooks.request import MAX_REQUEST_BYTES, MAX_VARIABLES, is_finished, parse_request
from tests.together import together

LIBRARY = Path(__file__).parents[3] / "packaging/common/hook.sh"
GOOD = b"jobfeatures 1\0publish\0slurm\0SLURM_JOB_ID=7\0SLURM_JOB_NAME=a\nend\0end\0"


def test_a_request_tells_action_system_and_variables() -> None:
    request = parse_request(GOOD, reported_at_secs=5.5)
    assert (request.action, request.batch_system, request.reported_at_secs) == ("publish", "slurm", 5.5)
    assert request.environ == {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "a\nend"}


@together((length,) for length in range(len(GOOD)))
def test_a_request_that_is_being_written_is_not_finished(length: int) -> None:
    assert not is_finished(GOOD[:length])
    with pytest.raises(ParseError, match="the request is too large or cut off"):
        parse_request(GOOD[:length], reported_at_secs=0)


@pytest.mark.parametrize(
    "data",
    [
        GOOD.replace(b"jobfeatures 1", b"jobfeatures 2"),
        GOOD.replace(b"publish", b"format"),
        GOOD.replace(b"slurm", b"../slurm", 1),
        GOOD.replace(b"SLURM_JOB_ID=7", b"SLURM_JOB_ID"),
        GOOD.replace(b"SLURM_JOB_ID=7", b"=7"),
        GOOD.replace(b"SLURM_JOB_ID=7", b""),
        GOOD.replace(b"7", b"7" * MAX_REQUEST_BYTES),
        GOOD.replace(b"SLURM_JOB_ID=7\0", b"".join(b"A%d=\0" % n for n in range(MAX_VARIABLES + 1))),
        b"end\0",
        b"\0end\0",
        b"jobfeatures 1\0end\0",
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(ParseError):
        parse_request(data, reported_at_secs=0)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_a_parse_error(data: bytes) -> None:
    for each in (data, data + b"\0end\0", b"jobfeatures 1\0remove\0slurm\0" + data + b"\0end\0"):
        try:
            request = parse_request(each, reported_at_secs=0)
        except ParseError:
            continue
        assert set(request.environ) <= {
            field.partition(b"=")[0].decode("latin1") for field in each.split(b"\0")
        }


@pytest.mark.program
@pytest.mark.parametrize(
    "value",
    ["plain", "two\nlines", "$(id) `id` \\0 %s", "é ü", "end", "=x", "x" * 65536, " ", "\x1b[31m", "\udcff"],
)
def test_the_shell_writes_what_is_read_here(value: str, tmp_path: Path) -> None:
    done = hand_over(tmp_path, "NAME EMPTY OTHER", NAME=value, EMPTY="", UNWANTED="x")
    assert done.returncode == 2  # nobody took it
    request = parse_request((tmp_path / "intake/x-7.publish").read_bytes(), reported_at_secs=0)
    assert request.environ == {"NAME": value}


@pytest.mark.program
def test_the_shell_leaves_out_a_value_beyond_all_bounds(tmp_path: Path) -> None:
    hand_over(tmp_path, "NAME OTHER", NAME="x" * 65537, OTHER="y")
    request = parse_request((tmp_path / "intake/x-7.publish").read_bytes(), reported_at_secs=0)
    assert request.environ == {"OTHER": "y"}


def hand_over(root: Path, names: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Hand job 7 over where this process passes for the daemon, which takes nothing."""
    intake = root / "intake"
    intake.mkdir()
    os.mkfifo(intake / "wait")
    (intake / "alive").write_text(f"99999999999 {os.getpid():010}\n")
    text = f". {LIBRARY}; hook_job=7 hook_root={root} hook_limit=0.01; hook_hand_over publish x {names}"
    return subprocess.run(
        ["bash", "-pc", text],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
