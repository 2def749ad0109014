"""`jobfeatures simulate`, and `jobfeatures schedule --simulate`."""

import gzip
import io
import json
import lzma
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.logreading import read_log
from jobfeatures.analysis.simulate.policies import Policy
from jobfeatures.cli import main

# Constructed: what test_engine says of EASY, with users, memory and names.
LINES = """\
; Version: 2.2
; Computer: Cray
; Note: uses the EASY scheduler
; Note: user 7 is ann
; UnixStartTime: 1000000000
; TimeZoneString: Europe/Prague
; MaxNodes: 3
; MaxProcs: 5
; Queue: 1 long
7  0 50 10 4 9 -1 4 10 1024 1 7 1 -1 1 -1 -1 -1
8  1 50 10 5 9 -1 5 10 1024 1 7 1 -1 1 -1 -1 -1
9  2 50  8 1 9 -1 1  8 1024 0 8 1 -1 1 -1  8  3
12 2 50  9 1 9 -1 1  9 1024 1 8 1 -1 1 -1 10  3
13 3 -1 -1 1 9 -1 1  9 1024 5 8 1 -1 1 -1 -1 -1
14 4  1  1 6 9 -1 6  9 1024 1 8 1 -1 1 -1 -1 -1
"""
NAMES = ("fifo", "fairshare", "easy", "fairshare+easy")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(LINES)
    return str(path)


def test_a_schedule_is_written_as_swf(log, capsys):
    assert main(["simulate", log, "--policy", "easy"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith(";")] == [
        "7 0 0 10 4 9 -1 4 10 1024 1 7 1 -1 1 -1 -1 -1",
        "8 1 9 10 5 9 -1 5 10 1024 1 7 1 -1 1 -1 -1 -1",
        "12 2 18 9 1 9 -1 1 9 1024 1 8 1 -1 1 -1 -1 -1",
        "9 23 0 8 1 9 -1 1 8 1024 0 8 1 -1 1 -1 8 3",
    ]
    header = [line.removeprefix("; ") for line in lines if line.startswith(";")]
    assert header[:2] == ["Version: 2.2", "Computer: simulated: 5 processors"]
    assert "MaxProcs: 5" in header
    assert "EndTime: Sun Sep 09 03:47:11 CEST 2001" in header
    assert "Note: this schedule is simulated: policy easy, on 5 processors" in header
    assert "Note: 2 jobs of the log are not in it: never_started 1, too_many_cpus 1" in header
    assert {"Note: user 7 is ann", "Queue: 1 long"} <= set(header)
    assert "uses the EASY" not in out
    assert "not simulated: 1 × it asks for more processors than there are" in err
    assert "4 jobs, policy easy, 5 processors, mean wait 6.75 s" in err


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_what_is_written_passes_the_check_and_reads_back(log, tmp_path, capsys, name, ending):
    first, second = (str(tmp_path / f"{each}.swf{ending}") for each in "ab")
    words = ["--policy", name, "--nodes", "2x2cpu,9MB;1x1cpu"]
    assert main(["simulate", log, *words, "--output", first]) == 0
    assert main(["check", "--as", "swf", first]) == 0
    assert "0 errors" in "".join(capsys.readouterr())
    found = read_log(first)
    assert (found.totals, len(found)) == ({"cpu": 5}, 4)
    assert main(["simulate", first, *words, "--output", second]) == 0  # it is a log as any
    again = read_log(second)
    assert (again.start.tolist(), again.submit.tolist()) == (found.start.tolist(), found.submit.tolist())
    opened = {"": open, ".gz": gzip.open, ".xz": lzma.open}[ending]
    with opened(first, "rt") as stream:
        text = stream.read()
    assert "; MaxNodes: 3\n" in text
    assert ("fairshare: usage counts up to each decision, and every 3600 s" in text) == ("fairshare" in name)


def test_logs_of_other_kinds_are_simulated_too(log, tmp_path, capsys):
    other, found, expected = (str(tmp_path / each) for each in ("log.jsonl", "found.swf", "expected.swf"))
    assert main(["convert", log, other]) == 0
    words = ["--policy", "fairshare+easy", "--processors", "5"]
    assert main(["simulate", other, *words, "--output", found]) == 0
    assert main(["simulate", log, *words, "--output", expected]) == 0
    assert main(["check", "--as", "swf", found]) == 0
    one, same = read_log(found), read_log(expected)
    assert one.start.tolist() == same.start.tolist()
    with open(found) as stream:
        assert "; Computer: simulated: 5 processors\n" in stream.read()


def test_standard_input_and_fractions_of_seconds(capsys, monkeypatch):
    text = (
        "1 0.5 0 1.25 1 -1 -1 1 2.5 -1 1 1 1 -1 -1 -1 -1 -1\n2 0.5 0 1 1 -1 -1 1 1 -1 1 1 1 -1 -1 -1 -1 -1\n"
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["simulate", "-", "--policy", "fifo", "--processors", "1"]) == 0
    out = capsys.readouterr().out
    assert out.endswith(
        "1 0.5 0 1.25 1 -1 -1 1 2.5 -1 1 1 1 -1 -1 -1 -1 -1\n2 0.5 1.25 1 1 -1 -1 1 1 -1 1 1 1 -1 -1 -1 -1 -1\n"
    )


def test_numbers_that_come_twice_are_given_anew(log, tmp_path, capsys):
    path = tmp_path / "twice.swf"
    path.write_text(LINES.replace("\n8  1", "\n7  1"))
    assert main(["simulate", str(path), "--policy", "fifo"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith(";")]
    assert [(words[0], words[16]) for words in lines] == [("1", "-1"), ("2", "-1"), ("3", "-1"), ("4", "-1")]


def test_jobs_that_were_swapped_out_run_in_one_piece(tmp_path, capsys):
    path = tmp_path / "parts.swf"
    path.write_text(
        "; Preemption: Double\n"
        "1 0 5 10 1 -1 -1 1 10 -1 1 1 1 -1 -1 -1 -1 -1\n"
        "1 0 5 4 1 -1 -1 1 10 -1 2 1 1 -1 -1 -1 -1 -1\n"
        "1 -1 7 6 1 -1 -1 1 10 -1 3 1 1 -1 -1 -1 -1 -1\n"
        "2 1 5 3 1 -1 -1 1 3 -1 1 1 1 -1 -1 -1 -1 -1\n"
    )
    assert main(["simulate", str(path), "--policy", "fifo", "--processors", "1"]) == 0
    out = capsys.readouterr().out
    assert "; Preemption: No\n" in out
    assert [line.split()[:4] for line in out.splitlines()[-2:]] == [
        ["1", "0", "0", "10"],
        ["2", "1", "9", "3"],
    ]


# "the current job can only start after the termination of this preceding job"
FEEDBACK = """\
; Version: 2.2
; MaxProcs: 5
1   0   0 100 5 -1 -1 5 -1 -1 1 1 1 -1 1 -1 -1 -1
2  10  90 500 5 -1 -1 5 -1 -1 1 1 1 -1 1 -1 -1 -1
3 100 500   7 1 -1 -1 1 -1 -1 1 2 1 -1 1 -1  2 10
4 -1   -1   7 1 -1 -1 1 -1 -1 1 2 1 -1 1 -1  3 -1
"""


@pytest.mark.parametrize("name", NAMES)
def test_submission_is_the_end_of_the_preceding_job_and_think_time(tmp_path, capsys, name):
    path, out = tmp_path / "log.swf", str(tmp_path / "out.swf")
    path.write_text(FEEDBACK)
    assert main(["simulate", str(path), "--policy", name, "--output", out]) == 0
    assert "2 jobs arrive when the job that they follow has ended" in capsys.readouterr().err
    with open(out) as stream:
        lines = [line.split() for line in stream if not line.startswith(";")]
    assert [[*line[:4], *line[16:]] for line in lines] == [
        ["1", "0", "0", "100", "-1", "-1"],
        ["2", "10", "90", "500", "-1", "-1"],
        ["3", "610", "0", "7", "2", "10"],
        ["4", "617", "0", "7", "3", "-1"],
    ]
    assert main(["check", "--as", "swf", out]) == 0
    assert "start: " not in capsys.readouterr().out


def test_an_on_success_dependency_of_sss_holds_in_simulations(tmp_path, capsys):
    path, out = tmp_path / "jobs.xml", str(tmp_path / "out.swf")
    job = (
        "<Job><Id>%s</Id><State>Completed</State><User>ann</User><SubmitTime>%d</SubmitTime>%s<Delivered>"
        "<Processors>1</Processors></Delivered><StartTime>%d</StartTime><EndTime>%d</EndTime></Job>"
    )
    path.write_text(
        "<JobGroup><Id>workflow1</Id>"
        + job % ("1", 1000, "", 2000, 2600)
        + job % ("2", 1000, '<Dependency condition="OnSuccess">1</Dependency>', 2600, 2610)
        + "</JobGroup>"
    )
    assert main(["simulate", str(path), "--policy", "easy", "--processors", "8", "--output", out]) == 0
    with open(out) as stream:
        lines = [line.split() for line in stream if not line.startswith(";")]
    assert [[*line[:4], line[16]] for line in lines] == [
        ["1", "0", "0", "600", "-1"],
        ["2", "0", "600", "10", "1"],
    ]
    assert main(["check", "--as", "swf", out]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "words", "status", "told"),
    [
        ("", [], 1, "no job can be simulated: it holds no jobs"),
        ("; MaxProcs: 4\n", [], 1, "it holds no jobs"),
        ("hello\n", [], 1, "the record could not be read"),
        ("1 0 0 -1 1 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1\n", [], 1, "1 × the runtime is unknown"),
        ("1 0 0 5 9 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1\n", [], 1, "more processors than there are"),
        (LINES, ["--nodes", "7y80"], 2, "--nodes: not a kind of node, such as 7x80cpu,504GB,4gpu: '7y80'"),
        (LINES, ["--processors", "0"], 2, "--processors: not a number from 1"),
        (LINES, ["--nodes", "1x4cpu"], 2, "--processors: cannot be combined with --nodes"),
        (
            LINES,
            ["--fairshare-refresh", "0"],
            2,
            "--fairshare-refresh: must be whole seconds, 1 or more, not '0'",
        ),
        (LINES, ["--fairshare-halving", "-1"], 2, "--fairshare-halving: must be whole seconds, 0 or more"),
        (LINES, ["--fairshare-of", "ann=0"], 2, "--fairshare-of: a share of 0"),
        (LINES, ["--fairshare-of", "ann=memory:3"], 2, "--fairshare-of: 'memory' is not one of"),
        (LINES, ["--output", "/nowhere/x.swf"], 2, "/nowhere/x.swf: cannot write"),
    ],
)
def test_what_cannot_be_done_is_told_in_words(tmp_path, capsys, text, words, status, told):
    path = tmp_path / "bad.swf"
    path.write_text(text)
    machine = [] if "7y80" in words else ["--processors", "8"]
    assert main(["simulate", str(path), "--policy", "easy", *machine, *words]) == status
    out, err = capsys.readouterr()
    assert (out, told in err, "Traceback" in err) == ("", True, False)


def test_a_log_that_is_not_there_leaves_what_was_there(tmp_path, capsys):
    output = tmp_path / "out.swf"
    output.write_text("as it was")
    assert main(["simulate", str(tmp_path / "no.swf"), "--policy", "fifo", "--output", str(output)]) == 2
    assert "No such file" in capsys.readouterr().err
    assert output.read_text() == "as it was"


def test_a_log_that_does_not_tell_its_machine_needs_to_be_told(tmp_path, capsys):
    path = tmp_path / "log.swf"
    path.write_text("1 0 -1 5 9 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1\n")
    assert main(["simulate", str(path), "--policy", "fifo"]) == 1
    assert "use --processors of jobfeatures simulate" in capsys.readouterr().err


@given(
    st.lists(
        st.lists(
            st.one_of(st.integers(-3, 30), st.sampled_from([2**31, 2**62, "1.5", "x", "-1"])),
            min_size=18,
            max_size=18,
        ),
        max_size=8,
    ),
    st.sampled_from(NAMES),
    st.sampled_from([["--processors", "9"], ["--nodes", "2x4cpu,9KB"], []]),
)
def test_any_lines_are_simulated_or_refused_in_words(tmp_path, capsys, rows, name, words):
    path = tmp_path / "any.swf"
    path.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    status = main(["simulate", str(path), "--policy", name, *words, "--output", str(tmp_path / "out.swf")])
    err = capsys.readouterr().err
    assert status in {0, 1}
    assert "Traceback" not in err
    if status == 0:
        assert main(["check", "--as", "swf", str(tmp_path / "out.swf")]) == 0, capsys.readouterr()
        capsys.readouterr()


def answer(capsys, *words):
    status = main(["schedule", *words, "--format", "json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else None, err


def test_four_policies_stand_beside_the_log_in_one_command(log, capsys):
    status, found, said = answer(capsys, log, "--simulate", "all", "--share", "2")
    assert status == 0
    assert [each["log"] for each in found["logs"]] == [log, *NAMES]
    assert [each["jobs"] for each in found["logs"]] == [5, 4, 4, 4, 4]
    assert [each["mean_wait"] for each in found["logs"]][1:] == [6.75, 2.5, 6.75, 2.5]
    assert len(found["comparison"]["others"]) == 4
    assert said.count("not simulated: 1 × it asks for more processors") == 1
    assert main(["schedule", log, "--simulate", "easy,fifo"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == [log, "easy", "fifo"]


def test_the_figures_are_those_of_the_schedules_that_simulate_writes(log, tmp_path, capsys):
    _, found, _ = answer(capsys, log, "--simulate", "all", "--share", "2")
    for document in found["logs"][1:]:
        path = str(tmp_path / document["log"]) + ".swf"
        words = ["--policy", document["log"], "--output", path]
        assert main(["simulate", log, *words]) == 0
        _, written, _ = answer(capsys, path, "--share", "2")
        for name in ("jobs", "users", "sum_eet", "violated", "veet", "mean_wait", "mean_slowdown"):
            assert written[name] == document[name]


def test_of_several_logs_each_has_its_own_simulations(log, tmp_path, capsys):
    bad = tmp_path / "bad.swf"
    bad.write_text("; MaxProcs: 4\n")
    status, found, said = answer(capsys, str(bad), log, "--simulate", "fifo")
    assert (status, [each["log"] for each in found["logs"]]) == (1, [log, f"{log}: fifo"])
    assert f"{bad}: holds no jobs" in said


def test_a_log_without_waits_is_simulated_all_the_same(log, tmp_path, capsys):
    path = tmp_path / "nowaits.swf"
    path.write_text(LINES.replace(" 50 ", " -1 "))
    status, found, said = answer(capsys, str(path), "--simulate", "fifo", "--filter", "user=ann")
    assert (status, [each["log"] for each in found["logs"]]) == (1, ["fifo"])
    assert "none of 1 jobs passes --filter" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--simulate", "lifo"], "--simulate: 'lifo' is not one of"),
        (
            ["--simulate", "all", "--one-log", "--format", "json"],
            "--simulate: cannot be combined with --one-log",
        ),
    ],
)
def test_wrong_usage_is_told_before_anything_is_read(log, capsys, words, told):
    assert main(["schedule", log, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, told in err) == ("", True)


def test_every_policy_can_be_named():
    assert tuple(policy.value for policy in Policy) == NAMES


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        (1024, []),
        (1024 * 1024, ["--swf", "bytes"]),
        (4 * 1024, ["--swf", "per-job"]),
        (4 * 1024 * 1024, ["--swf", "bytes,per-job"]),
    ],
)
def test_memory_may_be_in_bytes_and_of_the_job(tmp_path, capsys, memory, words):
    """A job of 4 processors with 4 MiB fits a node of 4 MiB, however its log says so."""
    path = tmp_path / "a.swf"
    path.write_text(f"1 0 0 10 4 9 -1 4 10 {memory} 1 7 1 -1 1 -1 -1 -1\n")
    asked = ["simulate", str(path), "--policy", "fifo", "--nodes", "1x4cpu,4MB"]
    assert main([*asked, *words]) == 0
    assert main([*asked, "--nodes", "1x4cpu,3MB", *words]) == 1
    assert "more memory than there is" in capsys.readouterr().err


def test_requested_cpu_times_are_no_estimates_of_how_long_a_job_runs(tmp_path, capsys):
    """ "In many logs this field is used for the user runtime estimate" and in others it is CPU time"""
    path = tmp_path / "a.swf"
    path.write_text(
        "1 0 0 10 4 9 -1 4 10 -1 1 7 1 -1 1 -1 -1 -1\n"
        "2 1 0 10 5 9 -1 5 10 -1 1 7 1 -1 1 -1 -1 -1\n"
        "3 2 0 20 1 9 -1 1  1 -1 1 8 1 -1 1 -1 -1 -1\n"
    )
    asked = ["simulate", str(path), "--policy", "easy", "--processors", "5"]

    def starts(*words):
        assert main([*asked, *words]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith(";")]
        return [int(line[1]) + int(line[2]) for line in lines]

    assert starts() == [0, 22, 2]  # the third says that it will be over in time
    assert starts("--swf", "cpu-time") == [0, 10, 20]
    path.write_text("; Note: requested times are CPU times\n" + path.read_text())
    assert starts() == [0, 10, 20]
    assert starts("--swf", "wall-time") == [0, 22, 2]


def test_designated_shares_reach_the_simulation_and_its_header(tmp_path, capsys):
    path = tmp_path / "log.swf"
    lines = ("1 0 0 10 5", 1, 7), ("2 1 0 6 5", 2, 8), ("3 2 0 1 5", 1, 7), ("4 3 0 1 5", 2, 8)
    path.write_text(
        "".join(f"{job} -1 -1 5 10 -1 1 {user} {group} -1 1 -1 -1 -1\n" for job, user, group in lines)
    )

    def starts(*words):
        assert main(["simulate", str(path), "--policy", "fairshare", "--processors", "5", *words]) == 0
        out = capsys.readouterr().out
        return out, [sum(map(int, line.split()[1:3])) for line in out.splitlines()[-4:]]

    assert starts()[1] == [0, 10, 17, 16]
    out, found = starts("--fairshare-of", "1=100", "--fairshare-of", "group:8=2.5")
    assert found == [0, 10, 16, 17]
    assert "it is never halved; share of 1 100; share of group 8 2.5\n" in out
