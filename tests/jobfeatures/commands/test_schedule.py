import io
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.cli import main

LINES = """\
; MaxProcs: 6
1 0  0  4 2 -1 -1 -1 -1 -1 1 1 7 -1  1 -1 -1 -1
2 1  3  1 2 -1 -1 -1 -1 -1 1 1 7 -1 -1 -1 -1 -1
3 2  0  2 4 -1 -1 -1 -1 -1 1 2 8 -1  1 -1 -1 -1
4 3  2  3 1 -1 -1 -1 -1 -1 1 2 8 -1  1 -1 -1 -1
5 4 10 -1 1 -1 -1 -1 -1 -1 5 2 8 -1  1 -1 -1 -1
"""
RECORDS = (
    '{"batch_system": "slurm", "job_id": "1", "user": "ann", "total_cpus": 2, "total_gpus": 1, '
    '"submit_secs": 100, "start_secs": 103, "end_secs": 105}\n'
    '{"batch_system": "slurm", "job_id": "1", "step": "0", "start_secs": 103, "end_secs": 105}\n'
    '{"batch_system": "slurm", "job_id": "2", "user": "ann", "total_cpus": 2, '
    '"submit_secs": 101, "start_secs": 101, "end_secs": 104}\n'
    "not a record\n"
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(LINES)
    return str(path)


def answer(capsys, *words):
    """Return exit status, the JSON and what was said beside it."""
    status = main(["schedule", *words, "--format", "json"])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else None, err


def test_values_that_cannot_be_read_are_told_with_their_jobs_counted(tmp_path, capsys):
    path = tmp_path / "log"
    rows = ["JobID|User|Submit|Start|End|State|AllocCPUS|ReqMem", "5|ann|100|100|160|COMPLETED|1|4Q?"]
    path.write_text("\n".join(rows) + "\n")
    status, found, said = answer(capsys, str(path), "--share", "3")
    assert (status, found["jobs"]) == (0, 1)
    assert "1 × unreadable ReqMem, such as '4Q?'" in said


def test_one_log_as_json(log, capsys):
    status, found, said = answer(capsys, log, "--share", "3")
    assert (status, said) == (0, "")
    expected = {
        "log": log, "jobs": 4, "users": 2, "mode": "literal", "share": 3, "sum_eet": 20, "violated": 1,
        "total_tardiness": 2, "total_weighted_tardiness": 4, "veet": {"1": 50, "2": 0}, "mean_wait": 1.25,
        "mean_response": 3.75,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["mean_slowdown"] == pytest.approx(23 / 12)
    assert sum(found["skipped"].values()) == found["skipped"]["never_started"] == 1
    assert list(found["by"]) == ["user"]


def test_options_reach_the_result(log, capsys):
    words = [
        "--mode", "exact", "--share-of", "1=2.5,group:8=4", "--total", "12",
        "--filter", "queue=1", "--by", "queue,group",
    ]  # fmt: skip
    _, found, _ = answer(capsys, log, *words)
    assert (found["mode"], found["share"]) == ("exact", 6)
    assert found["shares"]["cpu"]["users"] == {"1": 2.5, "2": 4}
    assert (found["jobs"], found["filtered"], found["over_time"]["intervals"]) == (3, 1, 100)
    assert list(found["by"]) == ["queue", "group"]
    _, found, _ = answer(capsys, log, "--by", "none", "--filter", "user!=1")
    assert ("by" in found, found["veet"]) == (False, {"2": 0})


def test_the_heatmap_as_numbers(log, capsys):
    """ "Such a heatmap is represented as a 2D array of integers. It has m rows where m is the number of users" """
    words = ["--share", "3", "--heatmap", "1"]
    _, found, said = answer(capsys, log, *words)
    # Job 2, of 1 s, was expected to end at 3, and ended at 5.
    cells = [[0, 0, 1, 1, 0, 0, 0, 0], [0] * 8]
    heatmap = {"users": ["1", "2"], "start_secs": 0, "cell_secs": 1, "violated_jobs": cells}
    assert (found["heatmap"], said) == (heatmap, "")
    assert "heatmap" not in answer(capsys, log)[1]
    assert main(["schedule", log, *words, "--format", "csv"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == "log,user,start_secs,cell_secs,0,1,2,3,4,5,6,7"
    assert (first, second) == (f"{log},1,0,1,0,0,1,1,0,0,0,0", f"{log},2,0,1,0,0,0,0,0,0,0,0")


def test_standard_input_is_read_too(log, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))
    _, found, _ = answer(capsys, "-")
    _, same, _ = answer(capsys, log)
    assert found | {"log": log} == same


def test_logs_of_other_kinds_are_jobs_too(log, tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    path.write_text(RECORDS)
    status, found, _ = answer(
        capsys, str(path), "--resource", "cpu,gpu", "--share", "cpu=2,gpu=1", "--from", "records"
    )
    assert (status, found["jobs"], found["skipped"]["unreadable"]) == (0, 2, 1)
    assert (found["sum_eet"], found["veet"], found["total_tardiness"]) == (2 + 5, {"ann": 50}, 3)


def test_a_log_and_what_it_is_converted_to_give_the_same(log, tmp_path, capsys):
    other = tmp_path / "log.jsonl"
    assert main(["convert", log, str(other)]) == 0
    capsys.readouterr()
    _, found, _ = answer(capsys, str(other), "--total", "6")
    _, same, _ = answer(capsys, log, "--total", "6")
    assert found | {"log": log} == same


def test_several_logs_stand_side_by_side(log, tmp_path, capsys):
    other = tmp_path / "other.swf"
    other.write_text(LINES.replace("2 1  3", "2 1  0"))
    status, found, _ = answer(capsys, log, str(other), "--share", "3")
    assert (status, [each["violated"] for each in found["logs"]]) == (0, [1, 0])
    assert found["comparison"]["others"][0]["lower_veet"] == 1
    assert main(["schedule", log, str(other), "--share", "3"]) == 0
    text = capsys.readouterr().out
    assert [line.split()[-2:] for line in text.splitlines() if line.startswith("violated ")] == [["1", "0"]]
    assert "users with lower VEET" in text


def test_text_and_csv(log, capsys):
    assert main(["schedule", log]) == 0
    assert "3 (6 log / users)" in capsys.readouterr().out
    assert main(["schedule", log, "--format", "csv", "--by", "none"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert dict(zip(head.split(","), row.split(","), strict=True))["sum_eet"] == "20"


@pytest.mark.parametrize(
    ("text", "words", "status"),
    [
        ("", "holds no jobs", 1),
        ("; Version: 2.2\n", "holds no jobs", 1),
        ("hello\n", "1 × the record could not be read", 1),
        ("; MaxProcs: 4\n", "holds no jobs", 1),
        (LINES.replace(" 1 7 ", " -1 7 ").replace(" 2 8 ", " -1 8 "), "4 × the user is unknown", 1),
        ("1 0 0 -1 1 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1\n", "the runtime is unknown", 1),
        ("1 0 -1 5 1 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1\n", "say --swf no-waits", 1),
    ],
)
def test_a_log_that_says_too_little_is_told_in_words(log, tmp_path, capsys, text, words, status):
    bad = tmp_path / "bad.swf"
    bad.write_text(text)
    assert main(["schedule", str(bad)]) == status
    out, err = capsys.readouterr()
    assert (out, words in err, "Traceback" in err) == ("", True, False)
    assert str(bad) in err
    status_of_both, found, _ = answer(capsys, str(bad), log)
    assert (status_of_both, [each["log"] for each in found["logs"]]) == (status, [log])


def test_odd_logs_are_evaluated_and_their_oddity_is_told(log, tmp_path, capsys):
    odd = tmp_path / "odd.swf"
    odd.write_text(
        "9 7 -3 5 1 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1\n"
        "8 6000000000 5000000000 4000000000 0 -1 -1 -1 -1 4000000000 1 1 7 -1 1 -1 -1 -1\n"
        "7 5 0 0 1 -1 -1 1 -1 4000000000 1 1 7 -1 1 -1 -1 -1\n"
    )
    status, found, said = answer(capsys, str(odd))
    assert (status, found["jobs"], found["users"], found["mean_wait"]) == (0, 2, 1, 2.5e9)
    assert (found["sum_eet"], found["violated"]) == (5 + 6_000_000_000, 1)
    for words in ("a negative number", "do not stand in order", "is it in bytes"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--share", "-1"], "--share: "),
        (["--share", "x"], "--share: "),
        (["--share", "memory=4"], "--share: "),
        (["--share-of", "5"], "--share-of: "),
        (["--resource", "disk"], "--resource: "),
        (["--by", "day"], "--by: "),
        (["--filter", "day=3"], "--filter: "),
        (["--heatmap", "60"], "--heatmap: needs --format json or csv"),
        (["--heatmap", "60", "--one-log", "--format", "json"], "--heatmap: needs --format json or csv"),
        (["--swf", "kib"], "--swf: 'kib' is not one of bytes, per-job, cpu-time, wall-time, no-waits"),
        (["--swf", "cpu-time,wall-time"], "--swf: cpu-time and wall-time cannot be combined"),
        (["--zone", "Nowhere/At_All"], "--zone: "),
    ],
)
def test_wrong_usage_names_the_option(log, capsys, words, said):
    assert main(["schedule", log, *words]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True)


@pytest.mark.parametrize("words", [["--heatmap", "0"], ["--heatmap", "nan"], ["--mode", "best"]])
def test_wrong_numbers_are_refused(log, capsys, words):
    with pytest.raises(SystemExit, match="2"):
        main(["schedule", log, *words])
    assert words[0] in capsys.readouterr().err


def test_a_share_of_nothing_is_an_error(log, capsys):
    assert main(["schedule", log, "--share", "0"]) == 1
    assert "share of 0 cpu" in capsys.readouterr().err


def test_a_file_whose_kind_neither_content_nor_name_tells_is_not_guessed(log, tmp_path, capsys):
    for text, words in (("", "is empty"), ("hello\n", "is not recognised as a log")):
        (tmp_path / "file").write_text(text)
        assert main(["schedule", str(tmp_path / "file")]) == 2
        assert words in capsys.readouterr().err


def test_a_log_that_is_not_there(log, tmp_path, capsys):
    assert main(["schedule", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main(["schedule", log, "--resource", "gpu"]) == 1
    assert "does not report the gpu" in capsys.readouterr().err
    assert main(["schedule", log, "--arrival", "eligible"]) == 1
    assert "does not report when jobs became eligible" in capsys.readouterr().err


@pytest.mark.program
def test_without_numpy_the_command_says_what_to_install(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(LINES)
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from jobfeatures.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "schedule", str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jobfeatures: schedule: needs numpy: pip install 'jobfeatures-exporter[analysis]'\n"


word = st.sampled_from(
    [
        "-1",
        "0",
        "1",
        "2",
        "7",
        "0.5",
        "-0.0",
        "1e3",
        "4000000000",
        str(2**60),
        str(2**63 - 1),
        str(2**63),
        "x",
        "-9",
    ]
)
lines = st.lists(
    st.lists(word, min_size=18, max_size=18).map(" ".join)
    | st.sampled_from(
        ["; MaxProcs: 4", "; Preemption: Yes", "; Note: user 1 is a\x1bb", "1 2 3 4 5 6", "", "?"]
    ),
    max_size=8,
)


@given(
    lines, st.sampled_from(["literal", "exact", "fluid"]), st.sampled_from(["cpu", "memory", "cpu,memory"])
)
def test_no_log_brings_the_command_down(log, tmp_path, capsys, lines, mode, resources):
    path = tmp_path / "any.swf"
    path.write_text("\n".join(lines))
    options = ["--from", "swf", "--mode", mode, "--resource", resources, "--by", "user,queue"]
    status, found, said = answer(capsys, str(path), *options)
    assert status in {0, 1}
    if status == 0:
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert found["jobs"] == sum(each["jobs"] for each in found["by"]["user"].values())
        assert 0 <= found["violated"] <= found["jobs"]
    else:
        assert said.startswith("jobfeatures: ")


def test_files_of_one_log_tell_the_same_as_the_whole(log, tmp_path, capsys):
    lines = LINES.splitlines(keepends=True)
    parts = []
    for number, part in enumerate((lines[1:3], lines[3:]), 1):
        (tmp_path / f"{number}.swf").write_text("".join([lines[0], *part]))
        parts.append(str(tmp_path / f"{number}.swf"))
    whole = answer(capsys, log)[1]
    status, found, said = answer(capsys, "--one-log", *parts)
    assert (status, said) == (0, "")
    assert found["log"] == f"{parts[0]} and 1 more"
    for name in ("jobs", "skipped", "users", "share", "sum_eet", "violated", "veet", "mean_wait"):
        assert found[name] == whole[name]


def test_accounting_and_a_workload_log_count_from_one_time_zero(tmp_path, capsys):
    rows = [f"{n}|ann|COMPLETED|1763622000|1763622000|1763625600|4" for n in (1, 2)]
    (tmp_path / "a").write_text("\n".join(["JobID|User|State|Submit|Start|End|AllocCPUS", *rows]) + "\n")
    lines = [f"{n} 0 0 3600 4 -1 -1 4 3600 -1 1 1 1 -1 1 -1 -1 -1" for n in (1, 2)]
    (tmp_path / "b").write_text("\n".join(["; UnixStartTime: 1763712000", *lines]) + "\n")
    names = [str(tmp_path / name) for name in ("a", "b")]
    for order in (names, names[::-1]):
        use = answer(capsys, "--one-log", "--share", "8", *order)[1]["utilisation"]["cpu"]
        assert (use["total"], use["mean"]) == (8, pytest.approx(2 * 3600 / 93_600))  # a day apart
    (tmp_path / "b").write_text("\n".join(lines) + "\n")
    assert "b: has no UnixStartTime" in answer(capsys, "--one-log", "--share", "8", *names)[2]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["--one-log"], 2, "--one-log: needs --format json"),
        (["--dask", "tcp://127.0.0.1:1"], 2, "--dask: needs --one-log"),
        (["--one-log", "--format", "json", "--filter", "user=nobody"], 1, "none of 4 jobs passes --filter"),
        (["/nowhere.swf", "--one-log", "--format", "json"], 2, "/nowhere.swf"),
        (["--one-log", "--format", "json", "--dask", "what://x"], 2, "--dask"),
    ],
)
def test_what_is_wrong_with_one_log_is_one_line(log, words, status, reason, capsys):
    assert main(["schedule", log, *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert reason in err
    assert err.startswith("jobfeatures: ")
    assert err.count("\n") == 1


def test_a_report_or_pictures_beside_the_result(log, tmp_path, capsys):
    report, directory = tmp_path / "out.html", tmp_path / "pictures"
    for path in (report, f"{directory}/"):
        status, found, said = answer(capsys, log, "--report", str(path), "--share", "3")
        assert (status, said) == (0, "")
        assert (status, found, said) == answer(capsys, log, "--share", "3")
    page = report.read_text(encoding="utf-8")
    assert "1 of 4 jobs of 2 users" in page
    names = ["heatmap.png", "heatmap.svg", "users.png", "users.svg"]
    assert sorted(path.name for path in directory.iterdir()) == names


def test_a_report_is_not_written_where_no_log_was_evaluated(log, tmp_path, capsys):
    report = tmp_path / "out.html"
    assert main(["schedule", log, "--filter", "user=nobody", "--report", str(report)]) == 1
    assert "passes --filter" in capsys.readouterr().err
    assert not report.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--report", "/no/such/directory/out.html"], "--report: no such directory"),
        (
            ["--one-log", "--format", "json", "--report", "out.html"],
            "--one-log: cannot be combined with --report",
        ),
    ],
)
def test_pictures_that_cannot_be_drawn_are_told_at_once(log, words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["schedule", log, *words]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["log.swf"]


@pytest.mark.parametrize("name", ["out", "out/"])
def test_without_matplotlib_the_command_says_what_to_install(log, name, tmp_path, capsys, monkeypatch):
    for each in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, each, None)
    assert main(["schedule", log, "--report", f"{tmp_path}/{name}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "--report: needs matplotlib: pip install 'jobfeatures-exporter[analysis]'" in err


def test_simulated_policies_stand_in_one_report(log, tmp_path, capsys, monkeypatch):
    report = tmp_path / "out.html"
    monkeypatch.setattr(  # which pictures stand there; how they look is what the test above has drawn
        "jobfeatures.analysis.schedule.pictures.draw._render", lambda _picture, _form: b"<svg></svg>"
    )
    assert main(["schedule", log, "--simulate", "all", "--report", str(report)]) == 0
    page = report.read_text(encoding="utf-8")
    assert page.count("<article>") == page.count('aria-label="Heatmap of ') == 5
    for name in ("log", "fifo", "fairshare", "easy", "fairshare+easy"):
        assert f"<h3>{name}</h3>" in page
    assert "The others against the first" in page


# --- one job in several records -----------------------------------------------------

# Constructed: monthly files of sacct overlap; 3 runs in both, and has another user in the second cluster.
JANUARY = """\
JobIDRaw|Cluster|User|State|Submit|Start|End|AllocCPUS
1|a|ann|COMPLETED|100|110|200|1
2|a|bob|RUNNING|150|160|Unknown|1
3|a|bob|COMPLETED|160|170|260|1
"""
FEBRUARY = """\
JobIDRaw|Cluster|User|State|Submit|Start|End|AllocCPUS
2|a|bob|COMPLETED|150|160|900|1
3|a|bob|COMPLETED|160|170|260|1
3|b|bob|COMPLETED|160|170|260|1
4|a|ann|COMPLETED|300|310|400|1
oops
"""


def test_one_log_of_several_files_counts_a_job_once(tmp_path, capsys):
    for name, text in (("jan", JANUARY), ("feb", FEBRUARY)):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("jan", "feb")]
    asked = ["schedule", "--one-log", "--format", "json", "--share", "1", *files]
    assert main(asked) == 0
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert document["jobs"] == 5  # 1, 2, 3, 4 of a, 3 of b
    assert document["folded"] == {"repeated report of a run": 2}
    assert document["skipped"]["unreadable"] == 1
    assert "merged: repeated report of a run (2)" in output.err
    assert "records that could not be read: 1" in output.err
    assert main([*asked, "--strict"]) == 1


def test_what_was_folded_stands_in_the_document_and_is_told(tmp_path, capsys):
    path = tmp_path / "log"
    path.write_text(JANUARY + "3|a|bob|COMPLETED|260|270|360|1\n")
    assert main(["schedule", str(path), "--share", "1", "--format", "json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["folded"] == {"earlier run": 1}
    assert "merged: earlier run (1)" in output.err


def test_a_workflow_has_one_expected_end_where_that_is_asked_for(tmp_path, capsys):
    path = tmp_path / "log.swf"
    path.write_text(
        "; UnixStartTime: 0\n; MaxProcs: 8\n"
        "1 0   0 600 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n"
        "2 0 600  50 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1  1 -1\n"
    )
    alone, joined = (answer(capsys, str(path), *words)[1] for words in ((), ("--join", "preceding,array")))
    assert (alone["joined"], alone["bags"], alone["violated"], alone["sum_eet"]) == ([], None, 1, 650)
    assert (joined["joined"], joined["violated"], joined["sum_eet"]) == (["preceding", "array"], 0, 1300)
    assert joined["bags"] == {"count": 1, "jobs": 2, "violated": 0}
    assert main(["schedule", str(path), "--join", "preceding"]) == 0
    assert "bags, joined by preceding" in capsys.readouterr().out
    for words, said in (
        (["friends"], "--join: 'friends' is not one of"),
        (["array", "--one-log"], "--join: cannot"),
    ):
        assert main(["schedule", str(path), "--join", *words]) == 2
        assert said in capsys.readouterr().err


def test_who_waited_for_a_preceding_job_is_told_and_may_count_from_its_end(tmp_path, capsys):
    """ "the current job can only start after the termination of this preceding job" """
    path = tmp_path / "log.swf"
    path.write_text(
        "; UnixStartTime: 0\n; MaxProcs: 8\n"
        "1   0   0 600 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1\n"
        "2   0 600  50 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1  1 -1\n"
        "3 660   0  50 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1  2 10\n"
    )
    found = answer(capsys, str(path))[1]
    assert (found["arrival"], found["waited_for_another"], found["violated"]) == ("submit", 1, 1)
    found = answer(capsys, str(path), "--arrival", "ready")[1]
    assert (found["arrival"], found["waited_for_another"], found["violated"]) == ("ready", 1, 0)
    assert found["mean_wait"] == 0
    files = answer(capsys, str(path), "--arrival", "ready", "--one-log")[1]
    assert (files["waited_for_another"], files["violated"], files["sum_eet"]) == (1, 0, found["sum_eet"])
    assert main(["schedule", str(path)]) == 0
    assert "waited for another job's end" in capsys.readouterr().out


GONE = (
    "--recompute", "--min-runtime", "--tau", "--top", "--intervals", "--compare", "--cell", "--plots",
    "--plot-format", "--no-waits", "--memory-unit", "--memory-per", "--requested-time", "--nodes",
    "--processors", "--workers", "--fairshare-refresh", "--fairshare-halving", "--fairshare-of",
)  # fmt: skip


@pytest.mark.parametrize("flag", GONE)
def test_a_flag_that_is_gone_is_refused_as_any_unknown_one(log, flag, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["schedule", log, flag, "1"])
    assert f"there is no flag '{flag}'" in capsys.readouterr().err


def test_jobs_without_waits_start_when_submitted_if_that_is_said_of_an_swf_log(log, tmp_path, capsys):
    path, records = tmp_path / "bare.swf", tmp_path / "bare.jsonl"
    path.write_text("".join(f"{line}\n" for line in (
        "; MaxProcs: 6",
        "1 7 -1  5 2 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1",
        "2 8  3  5 2 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1",
        "3 9 -1 -1 2 -1 -1 -1 -1 -1 1 1 7 -1 1 -1 -1 -1",
    )))  # fmt: skip
    status, found, _ = answer(capsys, str(path))
    assert (status, found["jobs"], found["skipped"]["no_start_time"]) == (0, 1, 1)
    status, found, _ = answer(capsys, str(path), "--swf", "no-waits")
    assert (status, found["jobs"], found["skipped"]["never_started"]) == (0, 2, 1)
    assert (found["wait"]["min"], found["wait"]["max"]) == (0, 3)
    assert main(["convert", str(path), str(records), "--swf", "no-waits"]) == 0
    capsys.readouterr()
    _, same, _ = answer(capsys, str(records), "--total", "6")
    assert (same["jobs"], same["mean_wait"], same["mean_response"]) == (2, 1.5, found["mean_response"])
