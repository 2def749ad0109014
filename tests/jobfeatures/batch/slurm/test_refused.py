"""Jobs whose name makes scontrol's record unusable. All answers are constructed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.answers import Scontrol
from jobfeatures.batch.slurm.queue import QUEUE_FIELDS
from jobfeatures.batch.slurm.refused import ask_squeue, make_separator, parse_refused
from jobfeatures.errors import ParseError, SourceError
from jobfeatures.records.model import JobState
from tests.jobfeatures.batch.slurm.test_answers import ask_about_job, poll_answers
from tests.jobfeatures.batch.slurm.test_queue import SEPARATOR, VALUES, answer

FORGED = [
    "JobId=99 JobState=FAILED NumCPUs=7",
    "x JobState=FAILED",
    "x UserId=root(0)",
    "a\nJobId=5 JobName=b",
]
SCONTROL = r"""#!/bin/bash
while read -r show what name; do
  if [ "$what" = hostnames ]; then echo "$name"
  else printf 'JobId=%s JobName=%s UserId=bob(6002) JobState=RUNNING NumCPUs=1 Features=(null)\n' "$name" "$NAME"; fi
done
"""
# Prints the requested fields like squeue, each value from a file named after its field.
SQUEUE = r"""#!/bin/bash
echo "$*" >>{folder}/asked
IFS=, read -r -d '' -a wanted <<<"$SQUEUE_FORMAT2"
for each in "${{wanted[@]}}"; do printf '%s' "$(<"{folder}/${{each%%:*}}")${{each#*:}}"; done | tr -d '\n'
echo
"""


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a stand-in for scontrol, with one for squeue in its directory; both report job 5 with a forged name."""
    values = {
        **VALUES,
        "JobID": "5",
        "NodeList": "n1",
        "NumNodes": "1",
        "tres-alloc": "cpu=4,mem=1.50G,node=1",
    }
    for field, value in values.items():
        (tmp_path / field).write_text(value)
    for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE.format(folder=tmp_path))):
        (tmp_path / name).write_text(text.replace("$NAME", "x JobState=FAILED"))
        (tmp_path / name).chmod(0o755)
    return str(tmp_path / "scontrol")


@pytest.mark.parametrize("name", FORGED)
def test_a_job_with_a_forged_name_still_gets_user_limit_and_share(name: str, scontrol: str) -> None:
    folder = Path(scontrol).parent
    (folder / "scontrol").write_text(SCONTROL.replace('"$NAME"', f"$'{name}'"))
    (folder / "Name").write_text(name.replace("\n", " "))
    job = ask_about_job("5", node_name="n1", scontrol=scontrol)
    assert job is not None
    assert (job.user, job.uid, job.state) == ("alice", 6001, JobState.RUNNING)
    assert (job.limits.wall_secs, job.limits.memory_bytes) == (26 * 3600, 3 * 2**29)
    assert (job.allocated_cpus, job.start_secs, job.restarts) == (4, 1795266083, 1)


def test_the_rejection_is_still_reported_and_others_are_not_queried(scontrol: str) -> None:
    answers = poll_answers(["5"], node_name="n1", scontrol=scontrol)
    assert (set(answers.jobs), set(answers.rejected), answers.complete) == ({"5"}, {"5"}, True)
    assert (Path(scontrol).parent / "asked").read_text() == "--local -a -h -t all -j 5\n"
    (Path(scontrol).parent / "scontrol").write_text(SCONTROL.replace("$NAME", "honest"))
    assert poll_answers(["5"], node_name="n1", scontrol=scontrol).jobs["5"].uid == 6002
    assert (Path(scontrol).parent / "asked").read_text().count("\n") == 1


@pytest.mark.parametrize("body", ["exit 1", "echo cut", "sleep 60", None])
def test_without_an_answer_of_squeue_the_job_stays_rejected(body: str | None, scontrol: str) -> None:
    squeue = Path(scontrol).parent / "squeue"
    if body is None:
        squeue.unlink()
    else:
        squeue.write_text(f"#!/bin/sh\n{body}\n")
    limit_secs = 60.0 if body != "sleep 60" else 2.0  # scontrol does answer
    answers = poll_answers(["5"], node_name="n1", scontrol=scontrol, timeout_secs=limit_secs)
    assert (answers.jobs, set(answers.rejected)) == ({}, {"5"})
    assert "squeue" in answers.complaint
    with pytest.raises(SourceError):
        ask_squeue(Scontrol(scontrol).programs, ["5"], node_name="n1", timeout_secs=0.2)
    with pytest.raises(ParseError):
        ask_about_job("5", node_name="n1", scontrol=scontrol, timeout_secs=limit_secs)


def test_a_job_of_several_nodes_has_no_share_here() -> None:
    jobs = parse_refused(answer(VALUES), SEPARATOR, {"7"}, node_name="n1")
    assert (jobs["7"].total_cpus, jobs["7"].allocated_cpus, jobs["7"].limits.memory_bytes) == (4, None, None)


def test_a_job_of_another_node_has_no_share_here() -> None:
    one = {**VALUES, "NodeList": "n2", "NumNodes": "1"}
    assert parse_refused(answer(one), SEPARATOR, {"7"}, node_name="n1")["7"].allocated_cpus is None
    assert parse_refused(answer(one), SEPARATOR, {"7"}, node_name=None)["7"].allocated_cpus == 4


def test_other_tasks_of_the_array_are_left_out() -> None:
    text = answer({**VALUES, "JobID": "8"}, VALUES)
    assert set(parse_refused(text, SEPARATOR, {"7"}, node_name="n1")) == {"7"}


@given(st.text(max_size=200), st.sampled_from(["", SEPARATOR[:-1], "\n", *QUEUE_FIELDS]))
def test_no_name_changes_what_is_reported_about_the_job(name: str, word: str) -> None:
    separator = make_separator()
    records = ({**VALUES, "Name": name + word}, {**VALUES, "JobID": "8"})
    text = "\n".join("".join(record[field] + separator for field in QUEUE_FIELDS) for record in records)
    job = parse_refused(text, separator, {"7"}, node_name="n1")["7"]
    assert (job.uid, job.state, job.total_cpus, job.name) == (6001, JobState.RUNNING, 4, name + word)


@pytest.mark.parametrize(("ids", "is_answer"), [(["990"], True), (["990", "991"], False)])
def test_the_only_job_asked_about_that_has_left_the_queue_is_an_answer(
    ids: list[str], is_answer: bool, tmp_path: Path
) -> None:
    """squeue ends with 1 for one unknown id; of several it passes over those, and with 1 it has failed."""
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")
    squeue.chmod(0o755)

    def ask() -> object:
        return ask_squeue(
            Scontrol(str(tmp_path / "scontrol"), timeout_secs=60.0).programs, ids, node_name=None
        )

    if is_answer:
        assert ask() == {}
    else:
        with pytest.raises(SourceError, match="Invalid job id"):
            ask()


def test_a_malformed_record_hides_no_other_job_that_was_asked_again() -> None:
    text = answer({**VALUES, "JobID": "8", "NumCPUs": "many"}, VALUES)
    assert set(parse_refused(text, SEPARATOR, {"7", "8"}, node_name="n1")) == {"7"}
