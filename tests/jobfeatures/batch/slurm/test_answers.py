"""Queries to scontrol, and good and forged answers."""

from __future__ import annotations

import stat
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.answers import Answers, Scontrol, format_questions, parse_answers
from jobfeatures.batch.slurm.site import ask_in_prolog
from jobfeatures.errors import CommandError, ParseError, SourceError
from jobfeatures.records.model import Job, JobKey, JobState, Limits
from tests.configured import settings_for

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"
NONCE = "Ncaptured00"
INVALID = "slurm_load_jobs error: Invalid job id specified\n"
MakeProgram = Callable[[str], str]


def poll_answers(ids: list[str], *, scontrol: str, node_name: str, timeout_secs: float = 60.0) -> Answers:
    return Scontrol(scontrol, node_name=node_name, timeout_secs=timeout_secs).poll(ids)


def ask_about_job(job_id: str, *, scontrol: str, node_name: str, timeout_secs: float = 60.0) -> Job | None:
    return Scontrol(scontrol, node_name=node_name, timeout_secs=timeout_secs).ask_about_job(job_id)


def parse(stdout: str, stderr: str, *ids: str, **questions: str) -> Answers:
    asked = {job_id: job_id for job_id in ids} | questions
    return parse_answers(stdout, stderr, NONCE, asked, node_name="lab1")


def line(job_id: str, name: str = "x", user: str = "alice(6001)", head: str = "") -> str:
    return f"JobId={job_id}{head} JobName={name} UserId={user} JobState=RUNNING NumCPUs=1 Features=(null)"


def frames(*contents: str) -> str:
    """Return what scontrol prints: a marker before each answer and one at the end."""
    return "".join(f"{NONCE}\n{content}" for content in contents) + f"{NONCE}\n"


@pytest.fixture
def program(tmp_path: Path) -> MakeProgram:
    """Make a stand-in for scontrol: a shell script that runs `body`."""

    def make(body: str) -> str:
        path = tmp_path / "scontrol"
        path.write_text("#!/bin/bash\n" + textwrap.dedent(body))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def test_questions_are_framed_by_the_marker() -> None:
    assert format_questions(["7", "8_2"], "nonce") == (
        b"show hostnames nonce\nshow job 7\nshow hostnames nonce\nshow job 8_2\nshow hostnames nonce\n"
    )


def test_jobs_whose_details_are_known_are_asked_about_before_details_are_switched_on() -> None:
    questions = format_questions(["7", "8"], "nonce", ["show reservation"], brief=1).decode().split("\n")
    assert [each for each in questions if "hostnames" not in each] == [
        *("show job 7", "details", "show job 8", "verbose", "show reservation", "")
    ]


BRIEF = (  # of Slurm 26.05, shortened: without -d it says neither CPU_IDs nor the SLUID
    "JobId=7 JobName=x UserId=alice(6001) JobState=RUNNING Restarts=0 TimeLimit=00:02:00 SubmitTime=90"
    " StartTime=100 EndTime=220 NodeList=lab[1-2] NumCPUs=6 MinMemoryCPU=100M Features=(null)"
)
KNOWN = Job(
    key=JobKey("slurm", "7"),
    state=JobState.RUNNING,
    uid=6001,
    submit_secs=90,
    start_secs=100,
    restarts=0,
    nodes=("lab1", "lab2"),
    total_cpus=6,
    allocated_cpus=4,
    allocated_gpus=1,
    gpus=("3",),
    sluid="sA79M8D1923R00",
    limits=Limits(wall_secs=600, memory_bytes=4 * 2**20),
)


def test_a_brief_answer_renews_the_limit_and_keeps_the_details() -> None:
    answers = parse_answers(frames(f"{BRIEF}\n"), "", NONCE, {"7": "7"}, node_name="lab1", known={"7": KNOWN})
    job = answers.jobs["7"]
    assert (job.limits.wall_secs, job.limit_end_secs, job.limits.memory_bytes) == (120, 220, 4 * 2**20)
    assert (job.allocated_cpus, job.allocated_gpus, job.gpus, job.sluid) == (4, 1, ("3",), KNOWN.sluid)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Restarts=0", "Restarts=1"),
        ("SubmitTime=90", "SubmitTime=95"),
        ("StartTime=100", "StartTime=101"),
        ("NodeList=lab[1-2]", "NodeList=lab1"),
        ("NumCPUs=6", "NumCPUs=4"),
        ("alice(6001)", "bob(6002)"),
    ],
)
def test_a_brief_answer_about_another_run_or_size_is_asked_for_again_with_details(old: str, new: str) -> None:
    text = frames(BRIEF.replace(old, new) + "\n")
    answers = parse_answers(text, "", NONCE, {"7": "7"}, node_name="lab1", known={"7": KNOWN})
    assert (answers.jobs, answers.ask_alone) == ({}, {"7": "7"})


def test_captured_answers_are_assigned_to_their_queries() -> None:
    stdout = (FIXTURES / "answers-plain.stdout.txt").read_text()
    stderr = (FIXTURES / "answers-plain.stderr.txt").read_text()
    answers = parse(stdout, stderr, "1", "2", "3", "4242")
    assert {job_id: job.name for job_id, job in answers.jobs.items()} == {
        "1": "done",
        "2": "uneven",
        "3": "unlimited",
    }
    assert answers.gone == {"4242"}
    assert answers.complete
    assert not answers.rejected


def test_captured_oddities_never_give_a_foreign_user() -> None:
    stdout = (FIXTURES / "answers-odd.stdout.txt").read_text()
    questions = ["4", "5", "4_3", "5 again", "8", "9", "10", "10+1", "12"]
    asked = dict(zip(["4", "5", "4 alone", "5 again", "8", "9", "10", "11", "12"], questions, strict=True))
    asked |= {"5 again": "5"}
    answers = parse_answers(stdout, "", NONCE, asked, node_name="lab1")
    assert answers.ask_alone == {"4": "4_3", "10": "10+0"}
    assert {job_id: (job.uid, job.name) for job_id, job in answers.jobs.items()} == {
        "8": (6002, "two\nlines"),
        "11": (6001, "pair"),
    }
    assert set(answers.rejected) == {"5", "4 alone", "5 again", "9", "12"}
    assert answers.complete


def test_an_array_task_asked_alone_is_one_record() -> None:
    stdout = (FIXTURES / "answers-odd.stdout.txt").read_text()
    echo = "scontrol: show job 4_3\n"
    answer = stdout.partition(echo)[2].partition("scontrol: ")[0]
    answers = parse(frames(echo + answer), "", **{"4": "4_3"})
    assert answers.jobs["4"].array_task_id == "3"


def test_a_prompt_without_an_echo_is_recognised() -> None:
    stdout = f"scontrol: {NONCE}\nscontrol: {line('1')}\nscontrol: scontrol: {NONCE}\nscontrol: "
    assert set(parse(stdout, "", "1").jobs) == {"1"}


def test_a_banner_before_the_first_marker_is_ignored() -> None:
    assert set(parse("Welcome\nJobId=1 JobName=x\n" + frames(line("1") + "\n"), "", "1").jobs) == {"1"}


def test_a_marker_only_counts_as_a_whole_line() -> None:
    name = f"x\n{NONCE} \n {NONCE}\nshow hostnames {NONCE[:-1]}"
    answers = parse(frames(line("1", name) + "\n"), "", "1")
    assert answers.jobs["1"].name == name


def test_an_imitated_record_of_another_job_is_not_that_job() -> None:
    name = f"x\n{line('2', user='root(0)')}\ny"
    answers = parse(frames(line("1", name) + "\n", line("2") + "\n"), "", "1", "2")
    assert set(answers.rejected) == {"1"}
    assert answers.jobs["2"].uid == 6001


def test_an_imitated_record_of_the_same_job_is_rejected() -> None:
    for name in (f"x\n{line('1', user='root(0)')}\ny", f"x{line('1', user='root(0)')[7:]}\ny"):
        answers = parse(frames(line("1", name) + "\n"), "", "1")
        assert (set(answers.rejected), answers.jobs) == ({"1"}, {})


def test_an_imitated_array_is_rejected_when_asked_alone() -> None:
    head = " ArrayJobId=1 ArrayTaskId=3"
    forged = line("1", "x", "root(0)", head) + "\n" + line("2", head=head) + "\n"
    first = parse(frames(forged), "", "1")
    assert first.ask_alone == {"1": "1_3"}
    second = parse(frames(forged), "", **{"1": "1_3"})
    assert set(second.rejected) == {"1"}


@pytest.mark.parametrize(
    "head", ["", " ArrayJobId=1 ArrayTaskId=4-5%2", " ArrayJobId=1", " HetJobId=1 HetJobOffset=x"]
)
def test_several_records_without_a_name_for_one_are_rejected(head: str) -> None:
    answers = parse(frames(f"{line('1', head=head)}\n{line('2')}\n"), "", "1")
    assert (set(answers.rejected), answers.ask_alone) == ({"1"}, {})


def test_another_jobs_record_is_no_answer() -> None:
    answers = parse(frames(line("12") + "\n"), "", "1")
    assert set(answers.rejected) == {"1"}


def test_missing_jobs_are_gone_if_the_controller_says_so_as_often() -> None:
    answers = parse(frames("", line("2") + "\n", ""), INVALID * 2, "1", "2", "3")
    assert answers.gone == {"1", "3"}
    assert answers.complete


@pytest.mark.parametrize(
    "stderr",
    [
        "",
        INVALID,
        INVALID * 3,
        INVALID + "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        INVALID * 2 + "scontrol: error: Parsing error at unrecognized key: Frobnicate\n",
        INVALID + "slurm_load_jobs error: Socket timed out on send/recv operation\n",
        INVALID + "echo slurm_load_jobs error: Invalid job id specified, perhaps\n",
    ],
)
def test_missing_jobs_are_not_gone_otherwise(stderr: str) -> None:
    answers = parse(frames("", line("2") + "\n", ""), stderr, "1", "2", "3")
    assert (answers.gone, answers.complete, set(answers.jobs)) == (frozenset(), False, {"2"})


def test_complaints_beside_full_answers_make_them_incomplete() -> None:
    answers = parse(frames(line("1") + "\n"), "scontrol: error: the clock is slow\n", "1")
    assert set(answers.jobs) == {"1"}
    assert not answers.complete
    assert "the clock is slow" in answers.complaint


def test_an_answer_that_breaks_off_is_not_used() -> None:
    whole = frames(line("1") + "\n", line("2") + "\n")
    answers = parse(whole.removesuffix(f"{NONCE}\n"), "", "1", "2")
    assert (set(answers.jobs), answers.gone, answers.complete) == ({"1"}, frozenset(), False)


def test_more_answers_than_questions_are_not_trusted() -> None:
    answers = parse(frames(line("1") + "\n", line("2") + "\n"), "", "1")
    assert (answers.jobs, answers.complete) == ({}, False)


@given(
    st.lists(
        st.sampled_from([NONCE, line("1"), line("2"), "", "scontrol: ", "show job 1", "x"]), max_size=12
    ),
    st.lists(st.sampled_from([INVALID.strip(), "x", ""]), max_size=3),
    st.text(max_size=50),
)
def test_any_output_gives_answers(lines: list[str], stderr: list[str], text: str) -> None:
    answers = parse("\n".join([*lines, text]), "\n".join(stderr), "1", "2", "3")
    found = [*answers.jobs, *answers.gone, *answers.rejected, *answers.ask_alone]
    assert len(found) == len(set(found))
    assert set(found) <= {"1", "2", "3"}
    assert not answers.complete or len(found) == 3


SPEAK = """
    while read -r show what name; do
      if [ "$what" = hostnames ]; then echo "$name"
      elif [ "$name" = 5 ]; then {answer}
      else echo "slurm_load_jobs error: Invalid job id specified" >&2; fi
    done
"""
RECORD = "echo 'JobId=5 JobName=x UserId=bob(6002) JobState=RUNNING StartTime=9 NumCPUs=1 Features=(null)'"


def test_one_job_can_be_asked_about(program: MakeProgram) -> None:
    scontrol = program(SPEAK.format(answer=RECORD))
    job = ask_about_job("5", node_name="n1", scontrol=scontrol)
    assert job is not None
    assert (job.uid, job.start_secs) == (6002, 9)


def test_a_job_that_the_controller_does_not_know_is_none(program: MakeProgram) -> None:
    assert ask_about_job("6", node_name="n1", scontrol=program(SPEAK.format(answer=RECORD))) is None


@pytest.mark.parametrize("job_id", ["", "0", "05", "5_1", "5\nshow config", "5 6", "99999999999", "x", "５"])
def test_only_plain_ids_are_asked_about(job_id: str, program: MakeProgram) -> None:
    with pytest.raises(ParseError, match="not a job id"):
        ask_about_job(job_id, node_name="n1", scontrol=program("exit 1"))


def test_a_record_that_cannot_be_trusted_is_an_error(program: MakeProgram) -> None:
    scontrol = program(SPEAK.format(answer=f"{RECORD}; {RECORD}"))
    with pytest.raises(ParseError, match="the answer must have one record of job 5"):
        ask_about_job("5", node_name="n1", scontrol=scontrol)


@pytest.mark.parametrize(
    ("nodes", "when", "is_asked"),
    [(1, "auto", True), (32, "auto", True), (33, "auto", False), (1, "never", False)],
)
def test_a_prolog_asks_unless_told_not_to(
    nodes: int, when: str, is_asked: bool, program: MakeProgram
) -> None:
    config = settings_for("slurm", slurm_scontrol=program(SPEAK.format(answer=RECORD)), hook_ask=when)
    job = Job(key=JobKey("slurm", "5"), nodes=tuple(f"n{number}" for number in range(nodes)))
    answer = ask_in_prolog(job, config, node_name="n1", timeout_secs=60)
    assert (answer is not None) == is_asked


def test_an_array_is_asked_again_by_its_task(program: MakeProgram) -> None:
    scontrol = program("""
        while read -r show what name; do
          tail="JobName=x UserId=bob(6002) JobState=RUNNING NumCPUs=1 Features=(null)"
          second="JobId=5 ArrayJobId=5 ArrayTaskId=2 $tail"
          case "$what $name" in
          hostnames*) echo "$name" ;;
          "job 5") echo "$second"; echo "JobId=9 ArrayJobId=5 ArrayTaskId=1 $tail" ;;
          "job 5_2") echo "$second" ;;
          esac
        done
    """)
    answers = poll_answers(["5"], node_name="n1", scontrol=scontrol)
    assert answers.jobs["5"].array_task_id == "2"
    assert (answers.ask_alone, answers.complete) == ({}, True)


@pytest.mark.parametrize("alone", ["sleep 60", "exit 1", ":"])
def test_a_task_that_gets_no_answer_in_time_costs_no_other_job_its_answer(
    alone: str, program: MakeProgram
) -> None:
    scontrol = program(f"""
        while read -r show what name; do
          tail="UserId=bob(6002) JobState=RUNNING NumCPUs=1 Features=(null)"
          second="JobId=5 ArrayJobId=5 ArrayTaskId=2 JobName=x $tail"
          case "$what $name" in
          hostnames*) echo "$name" ;;
          "job 5") echo "$second"; echo "JobId=9 ArrayJobId=5 ArrayTaskId=1 JobName=x $tail" ;;
          "job 7") echo "JobId=7 JobName=y $tail" ;;
          "job 5_2") {alone} ;;
          esac
        done
    """)
    for secs in (1, 5, 25):  # a busy machine may need longer for the first answers
        try:
            answers = poll_answers(["5", "7", "8"], node_name="n1", scontrol=scontrol, timeout_secs=secs)
            break
        except SourceError:
            continue
    assert answers.jobs.keys() == {"7"}
    assert f"alone within {secs} s" in str(answers.rejected["5"])
    assert (answers.ask_alone, answers.complete, "5" in answers.gone) == ({}, False, False)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 1", "no answer"),
        ("echo 'scontrol: fatal: no configuration' >&2; exit 1", "no configuration"),
        (
            "cat >/dev/null; echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2",
            "Unable to contact",
        ),
        ("read -r _ _ nonce; echo $nonce; echo JobId=5 JobName=x", "no answer"),
        ("while read -r _ what name; do [ $what = hostnames ] && echo $name; done; exit 1", "no answer"),
    ],
)
def test_no_answer_is_an_error_of_the_source(body: str, message: str, program: MakeProgram) -> None:
    with pytest.raises(SourceError, match=message):
        poll_answers(["5"], node_name="n1", scontrol=program(body))


def test_a_controller_that_hangs_is_an_error_of_the_source(program: MakeProgram) -> None:
    with pytest.raises(CommandError) as caught:
        poll_answers(["5"], node_name="n1", scontrol=program("sleep 60"), timeout_secs=0.2)
    assert caught.value.kind == "timeout"


def test_a_missing_program_is_an_error_of_the_source(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        poll_answers(["5"], node_name="n1", scontrol=str(tmp_path / "absent"))
    assert caught.value.kind == "missing"


def test_bytes_that_are_no_text_do_not_matter(program: MakeProgram) -> None:
    answer = r"printf 'JobId=5 JobName=\xff\x00 UserId=bob(6002) JobState=RUNNING NumCPUs=1 Features=x\n'"
    job = ask_about_job("5", node_name="n1", scontrol=program(SPEAK.format(answer=answer)))
    assert job is not None
    assert job.name == "�\x00"
