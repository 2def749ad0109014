"""The command: files in, files out, what it says and how it ends."""

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobfeatures.cli import main
from jobfeatures.openlog import open_log
from jobfeatures.system import progress

ROOT = Path(__file__).parents[3]
SWF = "; UnixStartTime: 1000\n1 0 5 100 8 60 -1 8 3600 -1 1 7 2 2 3 1 -1 -1\n2 9 -1 -1 -1 -1 -1 4 60 -1 5 7 2 2 3 1 -1 -1\n"

# Constructed: what `sacct -a -P -D` prints, in the summer-less winter of Berlin: 13:00 there is 12:00 UTC.
SACCT = """\
JobIDRaw|JobID|User|Group|Partition|State|Submit|Start|End|ElapsedRaw|AllocCPUS|ReqCPUS|ReqMem|TimelimitRaw|TotalCPU|MaxRSS
100|100|ann|phys|batch|COMPLETED|2026-03-01T13:00:00|2026-03-01T13:01:00|2026-03-01T14:01:00|3600|8|8|16G|120|07:00:00|
100.batch|100.batch||||COMPLETED|2026-03-01T13:01:00|2026-03-01T13:01:00|2026-03-01T14:01:00|3600|8|8|||06:00:00|1048576K
100.0|100.0||||COMPLETED|2026-03-01T13:01:00|2026-03-01T13:01:00|2026-03-01T14:01:00|3600|8|8|||01:00:00|524288K
202|201_1|ann|phys|batch|FAILED|2026-03-01T13:00:10|2026-03-01T13:00:20|2026-03-01T13:00:50|30|1|1||UNLIMITED|00:00:15|
203|201_2|ann|phys|batch|TIMEOUT|2026-03-01T13:00:10|2026-03-01T13:00:20|2026-03-01T13:10:20|600|1|1||10|00:10:00|
300|300+0|bob|phys|batch|COMPLETED|2026-03-01T13:00:30|2026-03-01T13:02:00|2026-03-01T13:03:00|60|4|4||5|00:03:20|
301|300+1|bob|phys|gpu|COMPLETED|2026-03-01T13:00:30|2026-03-01T13:02:00|2026-03-01T13:03:00|60|2|2||5|00:01:00|
400|400|bob|phys|batch|NODE_FAIL|2026-03-01T13:01:00|2026-03-01T13:02:00|2026-03-01T13:12:00|600|4|4||60|00:20:00|
400|400|bob|phys|batch|COMPLETED|2026-03-01T13:12:05|2026-03-01T13:20:05|2026-03-01T13:50:05|1800|4|4||60|01:00:00|
500|500|bob|phys|batch|CANCELLED by 6001|2026-03-01T13:05:00|Unknown|2026-03-01T13:06:40|0|0|4||60|00:00:00|
501|501|bob|phys|batch|CANCELLED|2026-03-01T13:05:00|2026-03-01T13:06:40|2026-03-01T13:06:40|0|0|4||60|00:00:00|
600|600|bob|phys|batch|PENDING|2026-03-01T13:06:00|Unknown|Unknown|0|0|4||60|00:00:00|
601|601|bob|phys|batch|RUNNING|2026-03-01T13:06:30|2026-03-01T13:07:00|Unknown|999|4|4||60|00:00:00|
"""
# Computed by hand: seconds since 12:00 UTC, CPU time and KiB by processor.
#  id  submit wait run  proc cpu  memory req limit memory status user group exe queue partition
JOBS = """\
100 0 60 3600 8 3150 131072 8 7200 2097152 1 1 1 -1 -1 1 -1 -1
202 10 10 30 1 15 -1 1 -1 -1 0 1 1 -1 -1 1 -1 -1
203 10 10 600 1 600 -1 1 600 -1 0 1 1 -1 -1 1 -1 -1
300 30 90 60 4 50 -1 4 300 -1 1 2 1 -1 -1 1 -1 -1
301 30 90 60 2 30 -1 2 300 -1 1 2 1 -1 -1 2 -1 -1
500 300 100 -1 -1 -1 -1 4 3600 -1 5 2 1 -1 -1 1 -1 -1
501 300 100 -1 -1 -1 -1 4 3600 -1 5 2 1 -1 -1 1 -1 -1
600 360 -1 -1 -1 -1 -1 4 3600 -1 -1 2 1 -1 -1 1 -1 -1
601 390 30 -1 4 -1 -1 4 3600 -1 -1 2 1 -1 -1 1 -1 -1
400 725 480 1800 4 900 -1 4 3600 -1 1 2 1 -1 -1 1 -1 -1
"""


def convert(*words):
    return main(["convert", *map(str, words)])


@pytest.fixture
def swf(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(SWF)
    return path


def data_of(path):
    return [line for line in path.read_text().splitlines() if not line.startswith(";")]


def test_accounting_of_slurm_becomes_the_log_that_was_computed_by_hand(tmp_path, capsys):
    (tmp_path / "in").write_text(SACCT)
    out = tmp_path / "out.swf"
    assert convert(tmp_path / "in", out, "--zone", "Europe/Berlin") == 0
    assert data_of(out) == JOBS.splitlines()
    header = out.read_text()
    assert "; UnixStartTime: 1772366400\n" in header
    assert "; Note: user 2 is bob\n" in header
    assert "; Partition: 2 gpu\n" in header
    said = capsys.readouterr().err
    for words in (
        "merged: earlier run (1)", "lost: restarts (1)", "merged: step (2)", "lost: array_job_id (2)",
        "lost: het_offset (2)", "lost: wall_limit_secs (1)", "lost: state (3)", "13 records, 0 rejected",
    ):  # fmt: skip
        assert words in said


def test_a_site_can_say_more_of_its_machine(swf, tmp_path, capsys):
    more = ["--header", "MaxProcs: 64", "--header", "Computer: Pizza Box"]
    assert convert(swf, tmp_path / "out.swf", *more) == 0
    lines = (tmp_path / "out.swf").read_text().splitlines()
    assert lines[:3] == ["; UnixStartTime: 1000", "; MaxProcs: 64", "; Computer: Pizza Box"]
    assert main(["check", "--as", "swf", str(tmp_path / "out.swf")]) == 0
    assert "MaxProcs" not in capsys.readouterr().out
    assert convert(swf, tmp_path / "out.jsonl", *more) == 2
    for wrong in ("MaxProcs", "MaxProcs: 1\n1 0 0", "maxjobs: 5", ": 5"):
        with pytest.raises(SystemExit):
            convert(swf, tmp_path / "out.swf", "--header", wrong)


def test_many_fields_that_are_lost_take_one_line_and_are_named_on_request(tmp_path, capsys):
    columns = [f"Extra{letter}" for letter in "ABCDEFGHIJKLM"]
    (tmp_path / "in").write_text(
        f"JobID|State|{'|'.join(columns)}\n7|COMPLETED{'|x' * 13}\n8|COMPLETED|y{'|' * 12}\n"
    )
    assert convert(tmp_path / "in", tmp_path / "out.jsonl") == 0
    said = capsys.readouterr().err
    assert "not taken: 13 fields, 14 values: ExtraA (2), ExtraB (1), ExtraC (1) …; --list names all\n" in said
    assert convert(tmp_path / "in", tmp_path / "out.jsonl", "--list") == 0
    assert capsys.readouterr().err.count("not taken: Extra") == 13


def test_impossible_cpu_time_is_named_and_kept(tmp_path, capsys):
    header = "JobID|State|AllocCPUS|ElapsedRaw|TotalCPU"
    (tmp_path / "in").write_text(f"{header}\n7|COMPLETED|1|600|07:41:00\n8|COMPLETED|2|600|00:20:10\n")
    assert convert(tmp_path / "in", tmp_path / "out.jsonl") == 0
    assert "doubtful: CPU time of more than CPUs times run time (1)\n" in capsys.readouterr().err
    assert '"used_cpu_secs": 27660' in (tmp_path / "out.jsonl").read_text()


def test_each_run_can_be_a_job_of_its_own(tmp_path, capsys):
    (tmp_path / "in").write_text(SACCT)
    assert convert(tmp_path / "in", tmp_path / "out.swf", "--zone", "Europe/Berlin", "--runs", "all") == 0
    lines = data_of(tmp_path / "out.swf")
    assert len(lines) == 11
    # 60 after the log's start for 600 s on 4 processors, and failed; numbered anew, as 400 is there twice.
    assert "6 60 60 600 4 300 -1 4 3600 -1 0 2 1 -1 -1 1 -1 -1" in lines
    assert "lost: job_id (11)" in capsys.readouterr().err


def test_a_log_goes_through_every_kind_and_comes_back(swf, tmp_path):
    assert convert(swf, tmp_path / "a.jsonl.gz") == 0
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).startswith(b'{"batch_system": "swf"')
    assert convert(tmp_path / "a.jsonl.gz", tmp_path / "b.xml") == 0
    assert convert(tmp_path / "b.xml", tmp_path / "c.json") == 0
    assert convert(tmp_path / "c.json", tmp_path / "d.swf") == 0
    before, after = SWF.splitlines()[1:], data_of(tmp_path / "d.swf")
    # Users and queues are numbered by name, the queue has become a partition; all else is as it was.
    assert [line.split()[:11] for line in after] == [line.split()[:11] for line in before]


def test_standard_streams_are_a_dash(swf, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SWF.encode())))
    assert convert("-", "-", "--to", "records") == 0
    output = capsys.readouterr()
    assert [json.loads(line)["job_id"] for line in output.out.splitlines()] == ["1", "2"]
    assert "standard input: 2 records, 0 rejected" in output.err


@pytest.mark.program
def test_standard_output_is_utf8_whatever_the_locale(tmp_path):
    (tmp_path / "in").write_text(
        '{"batch_system": "slurm", "job_id": "1", "user": "\\u0416", "submit_secs": 5}\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "jobfeatures", "convert", str(tmp_path / "in"), "-", "--to", "swf"],
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert "; Note: user 1 is \u0416\n" in done.stdout.decode("utf-8")


@pytest.mark.program
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_said_once(swf):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "jobfeatures", "convert", str(swf), "-", "--to", "swf"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert (done.returncode, done.stderr) == (2, b"jobfeatures: -: cannot write: No space left on device\n")


def test_who_reads_no_more_is_no_fault(swf):
    swf.write_text("".join(f"{n} 0 5 1 8 60 -1 8 3600 -1 1 7 2 2 3 1 -1 -1\n" for n in range(1, 3000)))
    done = subprocess.run(
        f"{sys.executable} -m jobfeatures convert {swf} - --to records | head -1",
        shell=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


def test_what_is_rejected_is_told_by_line_and_makes_the_status_1(tmp_path, capsys):
    (tmp_path / "in").write_text(SWF + "oops\n" * 30)
    assert convert(tmp_path / "in", tmp_path / "out.jsonl") == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[2] for line in said[:20]] == [str(number) for number in range(4, 24)]
    assert said[20].endswith("in: 10 more records rejected")
    assert said[-1].endswith("2 records, 30 rejected")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(("policy", "status"), [("Warn", 0), ("Ignore", 0), ("Reject", 1)])
def test_convert_and_check_judge_alike_what_a_policy_lets_pass(tmp_path, capsys, policy, status):
    """Specification of job objects 3.1.0, section 9.0: Warn accepts the element, and says that it was not understood."""
    source, out = tmp_path / "in.xml", tmp_path / "out.xml"
    source.write_text(f'<Job awarenessPolicy="{policy}"><Id>1</Id><Moon>full</Moon></Job>\n')
    assert main(["convert", str(source), str(out)]) == main(["check", str(source)]) == status
    said = capsys.readouterr()
    assert ("Moon" in said.err) is ("Moon" in said.out + said.err) is (policy != "Ignore")
    assert (out.read_text() == source.read_text()) is (status == 0)


def test_a_job_without_a_place_makes_the_status_1(tmp_path):
    (tmp_path / "in").write_text('{"batch_system": "slurm", "job_id": "1"}\n')
    assert convert(tmp_path / "in", tmp_path / "out.swf") == 1
    assert data_of(tmp_path / "out.swf") == []


def test_a_strict_reader_stops_and_leaves_what_was_there(tmp_path, capsys):
    (tmp_path / "in").write_text(SWF + "oops\n")
    out = tmp_path / "out.jsonl"
    out.write_text("as it was")
    assert convert(tmp_path / "in", out, "--strict") == 2
    assert "in:4" in capsys.readouterr().err
    assert out.read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["in", "out.jsonl"]


def test_an_interrupt_leaves_what_was_there(swf, tmp_path, monkeypatch):
    def interrupted(line):
        raise KeyboardInterrupt

    monkeypatch.setattr("jobfeatures.commands.convert.as_unicode", interrupted)
    (tmp_path / "out.jsonl").write_text("as it was")
    assert convert(swf, tmp_path / "out.jsonl") == 130
    assert (tmp_path / "out.jsonl").read_text() == "as it was"
    assert sorted(os.listdir(tmp_path)) == ["log.swf", "out.jsonl"]


def test_a_log_can_take_its_own_place(swf):
    assert convert(swf, swf) == 0
    assert data_of(swf)[0].split()[:11] == SWF.splitlines()[1].split()[:11]


def test_a_link_is_followed_to_what_it_names(swf, tmp_path):
    (tmp_path / "real.jsonl").write_text("")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    assert convert(swf, tmp_path / "link.jsonl") == 0
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len((tmp_path / "real.jsonl").read_text().splitlines()) == 2


def test_what_is_no_file_is_written_as_it_is(swf):
    assert convert(swf, os.devnull, "--to", "swf") == 0
    assert os.path.exists(os.devnull)


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (b"hello\n", [], "is not recognised as a log"),
        (b"", [], "is empty, so its kind is unknown: give it with --from"),
        (b"\x1f\x8b\x00", [], "is not recognised as a log"),
        (SWF.encode(), ["--to", "swf", "--from", "sonar", "--strict"], "in"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, capsys, content, words, said):
    (tmp_path / "in").write_bytes(content)
    assert convert(tmp_path / "in", tmp_path / "out.swf", *words) == 2
    assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["in"]


def test_names_that_lead_nowhere_are_said(swf, tmp_path, capsys):
    assert convert(tmp_path / "absent", tmp_path / "out.swf") == 2
    assert convert(swf, tmp_path / "absent/out.swf") == 2
    assert convert(swf, tmp_path / "out.txt") == 2
    assert convert(swf, tmp_path / "out.swf", "--zone", "Europe/Atlantis") == 2
    (tmp_path / "broken.swf.gz").write_bytes(gzip.compress(SWF.encode() * 99)[:60])
    assert convert(tmp_path / "broken.swf.gz", tmp_path / "out.swf") == 2
    said = capsys.readouterr().err
    for words in (
        "absent: cannot read",
        "absent/out.swf: cannot write",
        "give it with --to",
        "no such zone",
        "broken.swf.gz",
    ):
        assert words in said
    assert not (tmp_path / "out.swf").exists()


def test_halves_of_characters_do_not_stop_a_conversion(tmp_path):
    (tmp_path / "in").write_text(
        '{"batch_system": "slurm", "job_id": "1", "user": "\\ud800", "submit_secs": 5}\n'
    )
    assert convert(tmp_path / "in", tmp_path / "out.swf") == 0
    assert "; Note: user 1 is ?\n" in (tmp_path / "out.swf").read_text()


@pytest.mark.parametrize("cut", [4095, 4096, 4097])
def test_the_lines_of_a_log_are_whole_wherever_its_beginning_ends(cut):
    text = "; Version: 2.2\n; " + "x" * (cut - 18) + "\n" + SWF
    kind, lines = open_log(io.StringIO(text), None)
    assert kind == "swf"
    assert list(lines) == text.splitlines(keepends=True)


def test_a_beginning_without_an_end_is_cut_as_any_line():
    kind, lines = open_log(io.StringIO("; Version: 2.2 " + "x" * 200_000 + "\n" + SWF), None)
    found = list(lines)
    assert kind == "swf"
    assert len(found[0]) == 65537
    assert found[1:] == SWF.splitlines(keepends=True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_is_shown_on_a_terminal_only(swf, tmp_path, monkeypatch, capsys):
    swf.write_text(
        "; Version: 2.2\n"
        + "".join(f"{n} 0 5 1 8 60 -1 8 3600 -1 1 7 2 2 3 1 -1 -1\n" for n in range(1, 3000))
    )
    monkeypatch.chdir(tmp_path)  # a long name leaves no room for a bar
    assert convert(swf, tmp_path / "a.jsonl") == 0
    assert "%" not in capsys.readouterr().err
    for name in ("log.swf", "log.swf.gz"):
        if name.endswith("gz"):
            (tmp_path / name).write_bytes(gzip.compress(swf.read_bytes()))
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        assert convert(name, tmp_path / "b.jsonl") == 0
        assert "100%" in terminal.getvalue() or "%|" in terminal.getvalue()
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_without_the_library_there_is_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", None)
    lines = ["a\n"]
    assert progress.shown_progress(lines, io.StringIO(), "log") is lines


def test_an_input_that_is_cut_off_is_blamed_not_the_output(swf, tmp_path, capsys):
    lines = "".join(
        f"{n} {n} 5 {n * 7919 % 991} 8 60 -1 8 3600 -1 1 7 2 2 3 1 -1 -1\n" for n in range(1, 3000)
    )
    (tmp_path / "cut.swf.gz").write_bytes(gzip.compress(lines.encode())[:-2000])
    for name in ("out.swf", "out.jsonl"):
        assert convert(tmp_path / "cut.swf.gz", tmp_path / name) == 2
        told = capsys.readouterr().err
        assert f"{tmp_path}/cut.swf.gz: cannot read" in told
        assert "out." not in told
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize("text", ["\ufeff" + SWF, "\ufeff" + SACCT, "1 0 5 1\n2 3 4 5 6\n"])
def test_a_log_with_a_byte_order_mark_or_without_header_is_read_as_schedule_reads_it(tmp_path, text):
    name = "log.swf" if "|" not in text else "log"
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert convert(tmp_path / name, tmp_path / "out.jsonl") in {0, 1}
    assert (tmp_path / "out.jsonl").read_text()


def test_the_same_number_on_two_servers_is_two_jobs_and_every_one_is_counted(tmp_path, capsys):
    """PBS: two servers count from 1 each; constructed."""
    end = "E;6.{0};user={1} group=g queue=q ctime=100 start=200 end=300 Exit_status=0 resources_used.walltime=00:01:40"
    log = "".join(
        f"01/31/2026 13:00:00;{end.format(server, user)}\n"
        for server, user in (("serverA", "ann"), ("serverB", "ann"))
    )
    (tmp_path / "in").write_text(log)
    assert convert(tmp_path / "in", tmp_path / "out.swf") == 0
    assert len(data_of(tmp_path / "out.swf")) == 2
    assert "lost: cluster (2)" in capsys.readouterr().err
