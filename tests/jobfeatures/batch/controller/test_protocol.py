"""What the controller role tells a node, and the token by which it knows the node."""

import base64
import hashlib
import hmac
import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.controller.protocol import (
    format_answer,
    is_token,
    make_token,
    parse_answer,
    parse_secrets,
    parse_token,
)
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, JobTable, Limits, NodeNotice

TEXT = st.text(min_size=1, max_size=20)
COUNT = st.none() | st.integers(0, 2**62)
LIMIT = COUNT | st.just(UNLIMITED)


@st.composite
def tables(draw):
    jobs = [
        Job(
            key=JobKey("slurm", job_id),
            state=draw(st.sampled_from(JobState)),
            name=draw(st.none() | TEXT),
            user=draw(st.none() | TEXT),
            **{name: draw(COUNT) for name in ("uid", "start_secs", "end_secs", "total_cpus", "allocated_cpus",
                                              "allocated_gpus", "restarts", "het_offset")},
            nodes=tuple(draw(st.lists(TEXT, max_size=3))),
            gpus=tuple(draw(st.lists(TEXT, max_size=3))),
            limits=Limits(**{name: draw(LIMIT) for name in ("wall_secs", "cpu_secs", "memory_bytes", "scratch_bytes")}),
            array_job_id=draw(st.none() | TEXT),
            sluid=draw(st.none() | TEXT),
        )
        for job_id in draw(st.lists(st.integers(1, 99).map(str), unique=True, max_size=4))
    ]  # fmt: skip
    notice = st.builds(
        NodeNotice, st.booleans(), st.lists(st.integers(0, 2**40), max_size=3).map(tuple), COUNT
    )
    return JobTable(
        source="slurm",
        jobs={job.key: job for job in jobs},
        taken_at_secs=draw(st.floats(0, 2**40)),
        complete=draw(st.booleans()),
        node=draw(st.none() | notice),
        node_problem=draw(st.text(max_size=40)),
    )


@given(tables())
def test_what_is_told_is_what_was_known(table):
    assert parse_answer(format_answer(table), taken_at_secs=table.taken_at_secs) == (table, "")


@given(tables())
def test_where_the_batch_system_has_not_answered_since_nothing_is_complete(table):
    told, problem = parse_answer(format_answer(table, "squeue: no answer"), taken_at_secs=5.0)
    assert (told.complete, problem, told.jobs) == (False, "squeue: no answer", table.jobs)


def head(**changes):
    values = {"batch_system": "slurm", "complete": True, "problem": "", "node": None, "node_problem": ""}
    return json.dumps(values | changes) + "\n"


JOB = '{"batch_system": "slurm", "job_id": "1", "state": "RUNNING"}\n'


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "[]\n", "{}\n", "[" * 5000 + "\n", head().strip(), head() + JOB.strip(), head() + JOB + JOB,
        head() + "oops\n", head() + '{"batch_system": "pbs", "job_id": "1"}\n', head(complete=1), head(problem=None),
        head(node=[]), head(node={"draining": "no", "shutdowns": [], "cpus": 1}),
        head(node={"draining": False, "shutdowns": ["x"], "cpus": 1}),
        head(node={"draining": False, "shutdowns": [], "cpus": ""}),
        head(node={"draining": False, "shutdowns": [], "cpus": "1"}), head() + "\n" + JOB,
    ],
)  # fmt: skip
def test_an_answer_with_one_bad_line_proves_nothing(text):
    with pytest.raises(ParseError):
        parse_answer(text, taken_at_secs=0.0)


@given(st.text(max_size=200), st.integers(0, 400))
def test_any_text_is_read_or_refused(text, place):
    whole = head() + JOB
    for one in (text, whole[:place] + text + whole[place:]):
        try:
            parse_answer(one, taken_at_secs=0.0)
        except ParseError:
            continue


SECRET, OTHER = b"s" * 32, b"t" * 64
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


@given(NAMES, NAMES)
def test_a_token_is_good_for_its_node_and_its_secret_alone(name, other):
    token = make_token(SECRET, name)
    assert is_token(token, name, [OTHER, SECRET])
    assert not is_token(token, name, [OTHER])
    assert is_token(token, other, [SECRET]) is (name == other)
    for wrong in ("", token[:-1], token + "=", token.swapcase(), "é" * 43):
        assert not is_token(wrong, name, [SECRET])


@pytest.mark.program
def test_a_token_is_an_hmac_as_others_make_it():
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    done = subprocess.run(
        [openssl, "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{SECRET.hex()}", "-binary"],
        input=b"jobfeatures node token 1\nn1",
        capture_output=True,
        check=True,
    )
    assert make_token(SECRET, "n1") == base64.urlsafe_b64encode(done.stdout).decode().rstrip("=")


def test_tokens_are_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert is_token(make_token(SECRET, "n1"), "n1", [SECRET, OTHER])
    assert len(compared) == 2  # all secrets, whichever is right


def test_a_file_holds_the_secret_and_those_before_it():
    text = b"\n" + SECRET + b"\n" + OTHER + b"\n\n"
    assert parse_secrets(text, "f") == (SECRET, OTHER)


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", SECRET + b"\nshort", (SECRET + b"\n") * 5])
def test_a_secret_that_can_be_guessed_is_refused_and_not_shown(content):
    with pytest.raises(ParseError, match="f") as refusal:
        parse_secrets(content, "f")
    assert "short" not in str(refusal.value).replace("a secret has", "")


def test_a_file_of_a_node_holds_a_token_and_nothing_else():
    token = make_token(SECRET, "n1")
    assert parse_token(f"{token}\n".encode(), "f") == token
    for content in (b"", b"x" * 44, f"n1 {token}".encode(), b"\xff" * 43):
        with pytest.raises(ParseError, match="must be a token"):
            parse_token(content, "f")


def test_the_digest_is_sha256():
    assert len(base64.urlsafe_b64decode(make_token(SECRET, "n1") + "=")) == hashlib.sha256().digest_size
