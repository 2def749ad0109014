"""Jobs of what does not answer stay as they were told last; those that may have ended do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.lastjobs import KEPT_SECS, LastJobs, is_silence
from jobfeatures.records.model import Job, JobKey, JobTable


@pytest.mark.parametrize(
    "complaint",
    [
        "qstat: cannot connect to server b (errno=15010)",
        "Connection refused",
        "qstat: Premature end of message (errno=15031)",
        "Failed in an LSF library call: Communication time out",
        "batch daemon not accepting connections now",
        "Cluster <c2> is not available",
        "LSF is down",
        "server b does not respond",
    ],
)
def test_somebody_is_silent(complaint: str) -> None:
    assert is_silence(complaint)


@pytest.mark.parametrize(
    "complaint", ["", "this command is deprecated", "Job <7> is not found", "Welcome to the cluster"]
)
def test_nobody_is_silent(complaint: str) -> None:
    assert not is_silence(complaint)


def table_of(names: set[str], at_secs: float) -> JobTable:
    jobs = {key: Job(key=key) for key in (JobKey("pbs", name) for name in names)}
    return JobTable.listed("pbs", jobs, at_secs, [])


NAMES = st.sets(st.sampled_from(["1.a", "2.a", "3.b", "4.b", "5.c"]))


@given(st.lists(st.tuples(NAMES, st.sampled_from(["", "Connection refused"])), max_size=8))
def test_what_is_kept_was_told_and_is_of_what_is_silent(answers: list[tuple[set[str], str]]) -> None:
    last, known, told = LastJobs(), set[str](), dict[str, float]()
    server = {name: name.partition(".")[2] for name in ("1.a", "2.a", "3.b", "4.b", "5.c")}
    for poll, (names, complaint) in enumerate(answers):
        told |= dict.fromkeys(names, float(poll))
        table = last.complete(table_of(names, poll), complaint, lambda key: server[key.job_id])
        silent = {server[name] for name in known} - {server[name] for name in names} or set(server.values())
        kept = {name for name in known - names if complaint and server[name] in silent}
        assert {key.job_id for key in table.jobs} == names | kept
        assert {key.job_id: table.answered_at_secs(key) for key in table.jobs} == {
            name: told[name] for name in names | kept
        }
        assert table.complete is not bool(kept)
        known = names | kept


def test_a_last_answer_stands_for_a_day() -> None:
    last = LastJobs()
    last.complete(table_of({"1.a"}, 0.0), "")
    assert last.complete(table_of(set(), KEPT_SECS - 1), "Connection refused").jobs
    assert not last.complete(table_of(set(), KEPT_SECS), "Connection refused").jobs
