"""Logs that are bad, in every way, given to each command that reads them: words and a status, never a traceback.

All logs are constructed.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import re
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.cli import main
from tests.together import failures

HEAD = "; Version: 2.2\n; UnixStartTime: 1000000000\n; MaxProcs: 4\n"
SCHEDULE = {
    "schedule": ["schedule", "LOG"],
    "schedule json": ["schedule", "LOG", "--format", "json", "--mode", "fluid", "--arrival", "submit"],
    "schedule csv": ["schedule", "LOG", "--format", "csv", "--by", "user,queue", "--mode", "exact"],
    "schedule simulate": ["schedule", "LOG", "--simulate", "all", "--format", "json"],
    "schedule parts": ["schedule", "--one-log", "--format", "json", "LOG"],
}
SIMULATE = {
    "simulate fifo": ["simulate", "LOG", "--policy", "fifo"],
    "simulate nodes": ["simulate", "LOG", "--policy", "fairshare+easy", "--nodes", "2x2cpu"],
    "simulate fairshare": ["simulate", "LOG", "--policy", "fairshare", "--fairshare-halving", "7"],
}
EXPECT = {
    "expect": ["expect", "1", "--log", "LOG", "--share", "2"],
    "expect at": ["expect", "1", "--log", "LOG", "--share", "0.5", "--at", "1000000001", "--mode", "fluid"],
    "expect json": ["expect", "1", "--log", "LOG", "--share", "3", "--format", "json"],
}
SWF = {"swf": ["check", "--as", "swf", "LOG"]}
COMMANDS = SCHEDULE | SIMULATE | EXPECT | SWF
NAMES = [(name,) for name in COMMANDS]


def line(number=1, submit=0, wait=0, run=10, cpus=1, *, memory=-1, user=1, asked=1):
    return f"{number} {submit} {wait} {run} {cpus} -1 {memory} {asked} 20 {memory} 1 {user} 1 -1 1 1 -1 -1\n"


def called(words):
    """Return what a command returned and printed, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(word) for word in words])
        except SystemExit as error:
            status = error.code
    return status, out.getvalue(), err.getvalue()


def run_on(path, name):
    """Run a command on a log; whatever it says, it says it in words of its own."""
    status, out, err = called(path if word == "LOG" else word for word in COMMANDS[name])
    assert status in (0, 1, 2)
    told = err.splitlines()
    assert all(each.startswith("jobfeatures: ") for each in told), err
    if name != "swf":  # reports faults on standard output
        assert bool(out) == (status == 0)
        assert told or status == 0
    return status, out, err


# What each command's exit status is to be: 0 where jobs are left that can be counted; and a word that is told.
CASES = {
    # name: (log, status of schedule, of simulate, of expect, of check, what schedule says)
    "no runtimes": (HEAD + line(run=-1) + line(2, run=-1), 1, 1, 1, 0, "2 × the runtime is unknown"),
    "no users": (HEAD + line(user=-1) + line(2, user=-1), 1, 0, 1, 0, "2 × the user is unknown"),
    "no order": (HEAD + line(1, 100) + line(2, 5) + line(3, 50), 0, 0, 0, 1, "do not stand in order of arrival"),
    "no runtime of one": (HEAD + line() + line(2, run=-1), 0, 0, 0, 0, ""),
    "zero runtimes": (HEAD + line(run=0) + line(2, run=0), 0, 0, 0, 0, ""),
    "zero processors": (HEAD + line(cpus=0, asked=0), 0, 0, 0, 0, ""),
    "negative numbers": (HEAD + line(1, -5, -7, -9, -3) + line(2, 5), 0, 0, 1, 1, "negative"),
    "negative numbers alone": (HEAD + line(1, -5, -7, -9, -3, user=-4), 1, 1, 1, 1, "time of submission is unknown"),
    "a single job": (HEAD + line(), 0, 0, 0, 0, ""),
    "a single user": (HEAD + "".join(line(n, n) for n in range(1, 50)), 0, 0, 0, 0, ""),
    "times beyond 2^31": (HEAD + line(1, 2**31 + 5) + line(2, 2**31 + 9, run=2**32), 0, 0, 0, 0, ""),
    "times beyond 2^53": (HEAD + line(1, 2**53 + 1) + line(2, 2**53 + 3, run=2**33), 0, 0, 0, 0, ""),
    "times beyond 2^60": (HEAD + line(1, 2**62) + line(2, 5), 0, 0, 1, 1, ""),
    "times beyond 2^63": (HEAD + line(1, 2**63) + line(2, 2**64), 1, 1, 1, 1, "could not be read"),
    "runtimes of ages": (HEAD + line(run=2**59) + line(2, run=2**59, wait=2**59), 0, 0, 0, 0, ""),
    "many processors": (HEAD + line(cpus=2**40, asked=2**40) + line(2, 5), 0, 0, 0, 1, ""),
    "all of it too much": (HEAD + line(1, 2**59, 2**59, 2**59, 2**61, user=2**62), 1, 1, 0, 1, "share of cpu too small"),
    "numbers of 400 digits": (HEAD + line(1, int("9" * 400)) + line(2, 5), 0, 0, 1, 1, "unreadable"),
    "bytes for KiB": (HEAD + line(memory=8 * 2**30) + line(2, memory=2**33), 0, 0, 0, 0, "is it in bytes, where KiB"),
    "no numbers": (HEAD + "1 nan inf -inf 1 -1 -1 1 NaN -1 1 1 1 -1 1 1 -1 -1\n", 1, 1, 1, 1, "could not be read"),
    "a number too large for doubles": (
        HEAD + line(2) + "1 1e308 0 1e308 1 -1 -1 1 20 -1 1 1 1 -1 1 1 -1 -1\n", 0, 0, 1, 1, ""),
    "tiny fractions": (HEAD + line(2) + "1 0.25 0.5 1e-300 1 -1 -1 1 20 -1 1 1 1 -1 1 1 -1 -1\n", 0, 0, 0, 0, ""),
    "nothing": ("", 1, 1, 1, 0, "holds no jobs"),
    "empty lines": ("\n\n \n", 1, 1, 1, 0, "holds no jobs"),
    "a header alone": (HEAD, 1, 1, 1, 0, "holds no jobs"),
    "a bad header": (
        "; UnixStartTime: never\n; MaxProcs: -4\n; Preemption: Maybe\n; TimeZoneString: No/Where\n" + line(),
        0, 0, 0, 0, ""),
    "zeros": (b"\0" * 5000, 1, 1, 1, 1, "could not be read"),
    "all bytes": (bytes(range(256)) * 50, 1, 1, 1, 1, "could not be read"),
    "mixed line ends": (
        (HEAD + line()).replace("\n", "\r\n") + line(2) + line(3).replace("\n", "\r"), 0, 0, 0, 0, ""),
    "carriage returns": ((HEAD + line() + line(2)).replace("\n", "\r"), 0, 0, 0, 0, ""),
    "a line without end": (HEAD + "1 " * 200_000 + "\n" + line(2, 5), 0, 0, 1, 1, "unreadable"),
    "few fields": (HEAD + "1 2 3\n", 1, 1, 1, 1, "could not be read"),
    "many fields": (HEAD + line().rstrip() + " 1 2 3\n", 0, 0, 0, 1, ""),
    "words": (HEAD + "a b c d e f g h i j k l m n o p q r\n", 1, 1, 1, 1, "could not be read"),
    "two bytes a character": ((HEAD + line()).encode("utf-16"), 1, 1, 1, 1, "could not be read"),
    "the same number again": (HEAD + line() * 5, 0, 0, 0, 1, ""),
    "a page of the web": ("<!DOCTYPE html><html><body>404</body></html>", 1, 1, 1, 1, "could not be read"),
}  # fmt: skip


OTHERWISE = {
    ("all of it too much", "schedule json"): 0,  # in the mode fluid times are floating point
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_log_is_told_in_words(tmp_path, case):
    log, *statuses, said = CASES[case]
    path = tmp_path / "log.swf"
    path.write_bytes(log if isinstance(log, bytes) else log.encode())

    def check(name):
        place = next(place for place, group in enumerate((SCHEDULE, SIMULATE, EXPECT, SWF)) if name in group)
        status, out, err = run_on(path, name)
        wanted = OTHERWISE.get((case, name), statuses[place])
        assert status == wanted or (name == "expect at" and status == 1), (
            err
        )  # nothing may have been there yet
        if name == "schedule":
            assert said in out + err

    assert failures(check, NAMES) == []


def test_what_fails_is_named_by_command():
    def check(name):
        assert name != "expect", "told"

    assert failures(check, NAMES) == ["expect: AssertionError: told\nassert 'expect' != 'expect'"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("cut.swf.gz", gzip.compress((HEAD + line() * 1000).encode(), mtime=0)[:-20]),
        ("no.swf.gz", b"no archive" * 100),
        ("cut.swf.xz", lzma.compress((HEAD + line()).encode())[:-9]),
        ("no.swf.xz", b"no archive"),
        ("cut.swf.bz2", bz2.compress((HEAD + line()).encode())[:-9]),
        ("no.swf.bz2", b"no archive"),
        ("cut.swf.zst", zstandard.compress((HEAD + line()).encode() * 1000)[:-9]),
        ("no.swf.zst", b"no archive"),
        ("empty.swf.xz", b""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_archive_is_told_in_words(tmp_path, file, content):
    path = tmp_path / file
    path.write_bytes(content)

    def check(name):
        status, _, err = run_on(path, name)
        assert status == 2
        assert re.search(r"the compressed data are damaged|cannot read", err)

    assert failures(check, NAMES) == []


def test_what_is_no_file_is_told_in_words(tmp_path):
    loop = tmp_path / "loop.swf"
    loop.symlink_to(loop)

    def check(name):
        assert run_on(tmp_path, name)[0] == 2
        assert "Is a directory" in run_on(tmp_path, name)[2]
        assert "No such file" in run_on(tmp_path / "no.swf", name)[2]
        assert run_on(loop, name)[0] == 2

    assert failures(check, NAMES) == []


@pytest.mark.parametrize(
    "log",
    [
        "", "\n", "<?xml version='1.0'?><a>", "{", "[1,2,3]", "[" * 100_000, "\0" * 5000, '{"a": NaN}',
        '{"jobs": [{"job_id": 1e400}]}', "JobID|JobID|JobID\n", "#!/bin/sh\nexit\n", HEAD.encode("utf-16").decode("latin1"),
    ],
    ids=lambda log: repr(log[:12]),
)  # fmt: skip
def test_what_is_no_log_is_no_log_or_holds_no_jobs(tmp_path, log):
    path = tmp_path / "file"
    path.write_text(log, encoding="utf-8")

    def check(name):
        assert run_on(path, name)[0] in (1, 2)

    assert failures(check, [(name,) for name in SCHEDULE | SIMULATE | EXPECT]) == []


SHARES = [
    (["schedule", "LOG", "--share", "0"], 1, "has a share of 0 cpu"),
    (["schedule", "LOG", "--share-of", "1=0"], 1, "has a share of 0 cpu"),
    (["schedule", "LOG", "--share", "0.001"], 0, ""),
    (["schedule", "LOG", "--share", "nan"], 2, "must be a number"),
    (["schedule", "LOG", "--share", "-1"], 2, "must be a number"),
    (["schedule", "LOG", "--share", "9" * 400], 2, "must be a number"),
    (["schedule", "LOG", "--total", "0"], 1, "share of 0"),
    (["simulate", "LOG", "--policy", "fifo", "--processors", "0"], 2, "--processors"),
    (["simulate", "LOG", "--policy", "fifo", "--nodes", "0x0cpu"], 2, "--nodes"),
    (["simulate", "LOG", "--policy", "fifo", "--processors", "9" * 400], 2, "--processors"),
    (["expect", "1", "--log", "LOG", "--share", "0"], 2, "must be above 0"),
    (["expect", "1", "--log", "LOG", "--share", "1", "--share-of", "1=0"], 1, "user '1' has a share of 0"),
    (["expect", "1", "--log", "LOG", "--share", "1", "--at", "9" * 19], 0, ""),
    (["expect", "1", "--log", "LOG", "--share", "1", "--at", "9" * 400], 2, "--at: must be epoch seconds"),
]


@pytest.mark.parametrize(("words", "status", "said"), SHARES)
def test_shares_and_machines_of_nothing(tmp_path, words, status, said):
    path = tmp_path / "log.swf"
    path.write_text(HEAD + line() + line(2, user=2))
    found, _, err = called(path if word == "LOG" else word for word in words)
    assert found == status, err
    assert said in err


# --- any log, any words --------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from(
        [2**31, 2**53 + 1, 2**60, 2**62, 2**63, 2**64, "1e308", "1e-300", "nan", "inf", "-inf", "x", ""]
    ),
    st.floats(width=32),
)
ROWS = st.lists(st.lists(NUMBERS, min_size=17, max_size=19), max_size=8)
LABELS = st.sampled_from(
    ["Version: 2.2", "MaxProcs: 4", "MaxProcs: x", "UnixStartTime: 1e9", "Preemption: Double", "MaxNodes: 0", "Note: user 1 is \x1b[2J"]
)  # fmt: skip
WORDS = st.one_of(
    st.sampled_from(list(COMMANDS.values())),
    st.builds(
        lambda share, resource, mode, rest: ["schedule", "LOG", "--share", share, "--resource", resource, "--mode", mode, *rest],
        st.sampled_from(["0", "1", "0.001", "999999999999999", "cpu=1,memory=1KiB", "x"]),
        st.sampled_from(["cpu", "cpu,memory", "gpu", "memory"]),
        st.sampled_from(["literal", "exact", "fluid"]),
        st.lists(st.sampled_from(["--swf=no-waits", "--swf=bytes,per-job,cpu-time", "--join=preceding", "--total=3",
                                  "--filter=user=1", "--by=none", "--arrival=eligible", "--from=swf"]), max_size=3),
    ),
    st.builds(
        lambda policy, rest: ["simulate", "LOG", "--policy", policy, *rest],
        st.sampled_from(["fifo", "fairshare", "easy", "fairshare+easy"]),
        st.lists(st.sampled_from(["--nodes=1x1cpu,1MB", "--processors=3", "--fairshare-refresh=1", "--from=swf"]), max_size=2),
    ),
    st.builds(
        lambda job, share, mode, at: ["expect", "--log", "LOG", f"--share={share}", f"--mode={mode}", *at, "--", job],
        st.one_of(st.integers(-1, 40).map(str), st.text(max_size=4)),
        st.sampled_from(["1", "0.001", "3", "999999999999999"]),
        st.sampled_from(["literal", "exact", "fluid"]),
        st.one_of(st.just([]), st.integers(0, 2**63).map(lambda at: [f"--at={at}"]), st.text(max_size=6).map(lambda at: [f"--at={at}"])),
    ),
)  # fmt: skip


@given(labels=st.lists(LABELS, max_size=4), rows=ROWS, words=WORDS)
def test_no_log_and_no_words_bring_a_command_down(tmp_path, labels, rows, words):
    path = tmp_path / "log.swf"
    text = "".join(f"; {label}\n" for label in labels) + "".join(
        f"{' '.join(map(str, row))}\n" for row in rows
    )
    path.write_text(text, encoding="utf-8")
    status, out, err = called(path if word == "LOG" else word for word in words)
    assert status in (0, 1, 2)
    assert "Traceback" not in err
    assert "\x1b" not in err
    assert "\x1b" not in out or words[0] == "simulate" or "csv" in words  # data, not for a terminal
    assert words[0] == "check" or out or err


@given(st.binary(max_size=300), st.sampled_from(list(COMMANDS)), st.sampled_from([".swf", ".log", ".swf.gz"]))
def test_any_bytes_are_told_in_words(tmp_path, content, name, ending):
    path = Path(tmp_path) / f"log{ending}"
    path.write_bytes(content)
    run_on(path, name)
