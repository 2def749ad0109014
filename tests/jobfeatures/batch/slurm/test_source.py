"""Which queries are sent when, and what is cached."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.questions import MAX_QUESTIONS, KnownJob, compute_questions
from jobfeatures.batch.slurm import source as slurm_source
from jobfeatures.batch.slurm.answers import Scontrol
from jobfeatures.batch.slurm.source import SlurmSource, make_source
from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.records.model import Job, JobKey, JobState
from tests.configured import settings_for
from tests.running import HandClock


class Controller:
    """A stand-in for scontrol that answers from files and logs its queries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "jobs").mkdir()
        self.program = path / "scontrol"
        self.program.write_text(f"""#!/bin/bash
            cd {path} || exit 1
            echo start >>starts
            echo "$@" >>arguments
            [ -e complaint ] && cat complaint >&2
            while read -r _ what name; do
              if [ -z "$what" ]; then continue; fi
              if [ "$what" = hostnames ]; then echo "$name"; continue; fi
              if [ "$what" = node ]; then
                echo "$name" >>nodes
                [ -e clock ] && echo "last_update_time=$(cat clock), records=1"
                cat node; continue; fi
              if [ "$what" = reservation ]; then cat reservations; continue; fi
              echo "$name" >>asked
              if [ -e down ]; then echo "Unable to contact slurm controller" >&2
              elif [ -e "jobs/$name" ]; then cat "jobs/$name"
              else echo "slurm_load_jobs error: Invalid job id specified" >&2; fi
            done
        """)
        self.program.chmod(stat.S_IRWXU)
        self.scontrol = Scontrol(str(self.program), node_name="n1")
        (path / "node").write_text("NodeName=n1 Arch=x86_64 State=IDLE ThreadsPerCore=1\n")
        (path / "reservations").write_text("No reservations in the system\n")

    def put(self, job_id: str, state: str = "RUNNING", name: str = "x", nodes: str = "") -> None:
        where = f" NodeList={nodes}" if nodes else ""
        (self.path / "jobs" / job_id).write_text(
            f"JobId={job_id} JobName={name} UserId=bob(6002) JobState={state}{where} NumCPUs=1"
            " Features=(null)\n"
        )

    def forget(self, job_id: str) -> None:
        (self.path / "jobs" / job_id).unlink()

    def asked(self) -> list[str]:
        """Return the queries since the last call."""
        log = self.path / "asked"
        lines = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def starts(self) -> int:
        log = self.path / "starts"
        return len(log.read_text().split()) if log.exists() else 0


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1795246000.0, 1000.0)


@pytest.fixture
def source(controller: Controller, clock: HandClock) -> SlurmSource:
    return SlurmSource(clock, controller.scontrol.ask, node_name="n1")


def keys(*ids: str) -> list[JobKey]:
    return [JobKey("slurm", job_id) for job_id in ids]


def states(source: SlurmSource, *seen: str) -> dict[str, JobState]:
    return {key.job_id: job.state for key, job in source.poll_jobs(keys(*seen)).jobs.items()}


def known(state: JobState | None, asked_secs: float = 0.0) -> KnownJob:
    return KnownJob(None if state is None else Job(key=JobKey("slurm", "1"), state=state), asked_secs)


@pytest.mark.parametrize(
    ("answer", "seen", "now_secs", "is_asked"),
    [
        (None, True, 0, True),
        (known(JobState.RUNNING), True, 299, False),
        (known(JobState.RUNNING), True, 300, True),
        (known(JobState.RUNNING), False, 1, True),
        (known(JobState.UNKNOWN), True, 1, False),
        (known(JobState.PENDING), True, 1, True),
        (known(JobState.COMPLETED), True, 1, True),
        (known(JobState.COMPLETING), True, 1, False),
        (known(None), True, 1, False),
        (known(None), True, 300, True),
        (known(None), False, 1, False),  # of an empty control group
        (known(None), False, 300, True),
    ],
)
def test_what_is_worth_a_question(
    answer: KnownJob | None, seen: bool, now_secs: float, is_asked: bool
) -> None:
    questions = compute_questions(
        {"1": answer} if answer else {}, {"1"} if seen else set(), set(), now_secs, 300
    )
    assert questions == (("1",) if is_asked else ())


@pytest.mark.parametrize("waiting", [0, 5, 16])
def test_a_minute_costs_one_command_and_a_question_for_each_job_in_which_run_waits(
    controller: Controller, clock: HandClock, waiting: int
) -> None:
    ids = [str(100 + each) for each in range(16)]
    for each in ids:
        controller.put(each)
    source = SlurmSource(
        clock, controller.scontrol.ask, node_name="n1", refresh_secs=7200.0, waited_for=set(ids[:waiting])
    )
    source.poll_jobs(keys(*ids))
    assert (controller.starts(), len(controller.asked())) == (1, 16)
    for _ in range(10):
        clock.secs += 60
        source.poll_jobs(keys(*ids))
    assert controller.starts() == 1 + (10 if waiting else 0)
    assert sorted(controller.asked()) == sorted(10 * ids[:waiting])


def test_a_job_near_its_end_is_asked_about_each_minute_and_for_its_details_every_refresh(
    controller: Controller, clock: HandClock, source: SlurmSource
) -> None:
    """Details make scontrol load all nodes of the cluster."""
    end_secs = round(clock.now_secs()) + 1800
    times = f"TimeLimit=01:00:00 SubmitTime=1 StartTime=2 EndTime={end_secs} NodeList=n[1-2]"
    text = f"JobId=1 JobName=x UserId=bob(6002) JobState=RUNNING {times} NumCPUs=3"
    details = "JOB_GRES=(null)   Nodes=n1 CPU_IDs=0-1 Mem=100 GRES="
    (controller.path / "jobs" / "1").write_text(f"{text} {details} Features=(null)\n")
    source.poll_jobs(keys("1"))
    said, options = [], []
    for minute in range(1, 7):
        clock.secs += 60
        left = f"{text.replace(str(end_secs), str(end_secs - minute))} Features=(null)\n"
        if minute == 5:
            left = f"{text} {details} Features=(null)\n"
        (controller.path / "jobs" / "1").write_text(left)
        job = source.poll_jobs(keys("1")).jobs[JobKey("slurm", "1")]
        said.append((end_secs - (job.limit_end_secs or 0), job.allocated_cpus, job.limits.memory_bytes))
        options.append("-d" in (controller.path / "arguments").read_text().splitlines()[-1].split())
    assert said == [(1, 2, 100 * 2**20), (2, 2, 100 * 2**20), (3, 2, 100 * 2**20), (4, 2, 100 * 2**20),
                    (0, 2, 100 * 2**20), (6, 2, 100 * 2**20)]  # fmt: skip
    assert options == [False] * 4 + [True, False]


def test_new_jobs_are_asked_about_first_then_the_oldest() -> None:
    answers = {"1": known(JobState.RUNNING, 50), "2": known(JobState.RUNNING, 10)}
    assert compute_questions(answers, {"1", "2", "10", "9"}, set(), 1000, 300) == ("9", "10", "2", "1")


@given(st.sets(st.integers(1, 9).map(str)), st.dictionaries(st.integers(1, 9).map(str), st.floats(0, 500)))
def test_no_job_is_asked_about_twice_and_no_new_one_forgotten(
    seen: set[str], asked: dict[str, float]
) -> None:
    answers = {job_id: known(JobState.RUNNING, secs) for job_id, secs in asked.items()}
    questions = compute_questions(answers, seen, set(), 500, 300)
    assert len(questions) == len(set(questions))
    assert seen - answers.keys() <= set(questions) <= seen | answers.keys()


def test_without_a_question_nothing_is_started(source: SlurmSource, controller: Controller) -> None:
    source.poll_jobs(keys())  # asks about the node
    table = source.poll_jobs(keys())
    assert (table.complete, dict(table.jobs), controller.starts()) == (True, {}, 1)


def test_all_questions_go_through_one_process(source: SlurmSource, controller: Controller) -> None:
    for job_id in ("1", "2", "3"):
        controller.put(job_id)
    table = source.poll_jobs(keys("1", "2", "3", "4"))
    assert {key.job_id for key in table.jobs} == {"1", "2", "3"}
    assert table.complete
    assert controller.starts() == 1


def test_answers_are_kept_until_they_are_old(
    source: SlurmSource, controller: Controller, clock: HandClock
) -> None:
    controller.put("1")
    source.poll_jobs(keys("1"))
    clock.secs += 60
    table = source.poll_jobs(keys("1"))
    assert (set(table.jobs), table.taken_at_secs) == (set(keys("1")), clock.now_secs())
    assert controller.starts() == 1
    clock.secs += 240
    source.poll_jobs(keys("1"))
    assert controller.starts() == 2


def test_a_finished_job_is_reported_once_and_forgotten(source: SlurmSource, controller: Controller) -> None:
    controller.put("1")
    assert states(source, "1") == {"1": JobState.RUNNING}
    controller.put("1", "COMPLETED")
    assert states(source) == {"1": JobState.COMPLETED}
    controller.asked()
    assert states(source) == {}
    assert controller.asked() == []


def test_a_job_that_the_controller_forgot_is_proven_gone(source: SlurmSource, controller: Controller) -> None:
    controller.put("1")
    source.poll_jobs(keys("1"))
    controller.forget("1")
    table = source.poll_jobs(keys())
    assert (dict(table.jobs), table.complete) == ({}, True)
    controller.asked()
    source.poll_jobs(keys())
    assert controller.asked() == []


def test_a_finished_job_that_is_still_seen_is_asked_about_until_it_runs_again(
    source: SlurmSource, controller: Controller
) -> None:
    controller.put("1", "PREEMPTED")
    assert states(source, "1") == {"1": JobState.PREEMPTED}
    controller.put("1", "RUNNING")
    assert states(source, "1") == {"1": JobState.RUNNING}


@pytest.mark.parametrize("seen", [(), ("1",)])  # its control group may linger
def test_a_requeued_job_that_runs_on_another_node_has_left_this_one(
    controller: Controller, clock: HandClock, seen: tuple[str, ...]
) -> None:
    source = SlurmSource(clock, controller.scontrol.ask, node_name="n1")
    controller.put("1", nodes="n[1-2]")
    assert set(source.poll_jobs(keys("1")).jobs) == set(keys("1"))
    controller.put("1", "PENDING")
    assert states(source) == {"1": JobState.PENDING}
    controller.put("1", nodes="n2")
    table = source.poll_jobs(keys(*seen))
    assert (dict(table.jobs), table.complete, set(table.gone)) == ({}, True, set(keys("1")))
    controller.asked()
    source.poll_jobs(keys(*seen))
    assert controller.asked() == []


def test_no_job_is_elsewhere_where_slurm_does_not_know_the_node_by_its_name(
    controller: Controller, clock: HandClock
) -> None:
    (controller.path / "node").write_text("Node n1 not found\n")
    source = SlurmSource(clock, controller.scontrol.ask, node_name="n1")
    controller.put("1", nodes="node0001")
    assert states(source, "1") == {"1": JobState.RUNNING}


def test_a_failing_controller_loses_nothing(
    source: SlurmSource, controller: Controller, clock: HandClock
) -> None:
    controller.put("1")
    source.poll_jobs(keys("1"))
    (controller.path / "down").touch()
    with pytest.raises(SourceError, match="Unable to contact"):
        source.poll_jobs(keys())
    clock.secs += 400
    with pytest.raises(SourceError):
        source.poll_jobs(keys("1"))
    (controller.path / "down").unlink()
    assert states(source, "1") == {"1": JobState.RUNNING}


def test_a_rejected_job_stays_as_one_of_which_nothing_is_known(
    source: SlurmSource, controller: Controller
) -> None:
    controller.put("1", name="x UserId=root(0)")
    controller.put("2")
    table = source.poll_jobs(keys("1", "2"))
    assert table.jobs[JobKey("slurm", "1")] == Job(key=JobKey("slurm", "1"))
    assert table.jobs[JobKey("slurm", "2")].uid == 6002
    assert table.complete
    assert [each.field for each in table.rejected] == ["UserId", ""]
    assert "squeue" in str(table.rejected[1])  # queried next, and not installed


def test_a_job_renamed_to_something_hostile_keeps_what_was_known(
    source: SlurmSource, controller: Controller, clock: HandClock
) -> None:
    controller.put("1")
    source.poll_jobs(keys("1"))
    controller.put("1", name="x UserId=root(0)")
    clock.secs += 300
    table = source.poll_jobs(keys("1"))
    assert table.jobs[JobKey("slurm", "1")].uid == 6002
    assert table.rejected[0].field == "UserId"


def test_complaints_forbid_conclusions_and_are_told_once(
    source: SlurmSource, controller: Controller, clock: HandClock
) -> None:
    controller.put("1")
    (controller.path / "complaint").write_text("scontrol: error: old configuration\n")
    first = source.poll_jobs(keys("1", "2"))
    assert (set(first.jobs), first.complete) == (set(keys("1")), False)
    assert "old configuration" in str(first.rejected[0])
    clock.secs += 300
    second = source.poll_jobs(keys("1"))
    assert (second.complete, second.rejected) == (False, ())


def test_ids_that_cannot_be_asked_about_stay_unconcluded(source: SlurmSource, controller: Controller) -> None:
    odd = [JobKey("slurm", "s5K1KKYAYG5D00"), JobKey("slurm", "1\nshow config"), JobKey("slurm", "")]
    source.poll_jobs(keys())  # asks about the node
    table = source.poll_jobs(odd)
    assert dict(table.jobs) == {key: Job(key=key) for key in odd}
    assert controller.starts() == 1


def test_jobs_of_other_batch_systems_are_not_asked_about(source: SlurmSource, controller: Controller) -> None:
    source.poll_jobs(keys())  # asks about the node
    table = source.poll_jobs([JobKey("pbs", "1")])
    assert (dict(table.jobs), controller.starts()) == ({}, 1)


def test_settings_reach_the_source(controller: Controller, clock: HandClock) -> None:
    config = settings_for("slurm", slurm_scontrol=str(controller.program), batch_refresh_secs=10.0)
    source = make_source(config, clock, "n1")
    controller.put("1")
    source.poll_jobs(keys("1"))
    clock.secs += 7
    source.poll_jobs(keys("1"))
    assert controller.asked() == ["1"]
    clock.secs += 6  # each daemon's interval differs by up to a quarter
    source.poll_jobs(keys("1"))
    assert controller.asked() == ["1"]


def test_too_many_questions_are_asked_in_turns(source: SlurmSource, controller: Controller) -> None:
    ids = [str(number) for number in range(1, MAX_QUESTIONS + 11)]
    first = source.poll_jobs(keys(*ids))
    assert (len(controller.asked()), first.complete) == (MAX_QUESTIONS, False)
    second = source.poll_jobs(keys(*ids))
    assert (len(controller.asked()), second.complete) == (10, True)


@pytest.mark.program
def test_nothing_heavy_is_imported_for_a_prolog() -> None:
    code = (
        "import sys, jobfeatures.batch.slurm; "
        "bad = {'ClusterShell', 'asyncio', 'xml', 'psutil', 'watchdog', 'aiohttp'} & sys.modules.keys(); "
        "sys.exit(' '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_claimed_job_that_does_not_live_here_is_asked_about_at_every_poll() -> None:
    """A directory that outlives its job must not make the job seem to exist."""
    answer = KnownJob(Job(key=JobKey("slurm", "1"), state=JobState.RUNNING), asked_secs=0)
    assert compute_questions({"1": answer}, set(), {"1"}, 1, 300) == ("1",)
    assert compute_questions({"1": answer}, {"1"}, {"1"}, 1, 300) == ()
    assert compute_questions({}, set(), {"1"}, 1, 300) == ("1",)


def test_each_job_has_the_time_at_which_it_was_told(
    source: SlurmSource, controller: Controller, clock: HandClock
) -> None:
    """A query about another job, or one whose record is rejected, must not refresh an older answer's time."""
    controller.put("1")
    controller.put("2")
    first = clock.now_secs()
    source.poll_jobs(keys("1", "2"))
    clock.secs += 60
    controller.put("3")
    table = source.poll_jobs(keys("1", "2", "3"))
    told = {key.job_id: secs for key, secs in table.reported_secs.items()}
    assert told == {"1": first, "2": first, "3": first + 60}
    clock.secs += 300
    controller.put("1", name="x JobState=FAILED NumCPUs=7")
    table = source.poll_jobs(keys("1", "2", "3"))
    told = {key.job_id: secs for key, secs in table.reported_secs.items()}
    assert told == {"1": first, "2": first + 360, "3": first + 360}


def test_a_forgotten_job_is_gone_since_it_was_told_so(
    source: SlurmSource, controller: Controller, clock: HandClock
) -> None:
    table = source.poll_jobs(keys("7"))
    reported_at = clock.now_secs()
    assert table.gone == {JobKey("slurm", "7"): reported_at}
    clock.secs += 60
    assert source.poll_jobs(keys("7")).gone == {JobKey("slurm", "7"): reported_at}, "it was not asked again"


def test_a_number_of_a_forgotten_job_that_is_seen_again_is_asked_about_at_once(
    source: SlurmSource, controller: Controller
) -> None:
    """Its empty control group stayed, so the job was seen all the time."""
    assert set(source.poll_jobs((), keys("7")).gone) == set(keys("7"))
    controller.put("7")
    assert source.poll_jobs((), keys("7")).jobs == {}, "an empty group is not asked about again"
    assert states(source, "7") == {"7": JobState.RUNNING}


def test_a_job_that_nobody_asked_about_is_not_gone(source: SlurmSource, controller: Controller) -> None:
    """Its directory may have been created after the queries were assembled."""
    table = source.poll_jobs(keys())
    assert table.complete
    assert table.gone == {}


def test_the_controller_s_clock_is_compared_with_ours(controller: Controller, clock: HandClock) -> None:
    source = SlurmSource(clock, controller.scontrol.ask, node_name="n1")
    (controller.path / "clock").write_text(str(int(clock.now_secs()) + 300))
    table = source.poll_jobs(keys())
    assert table.node is not None
    assert table.clock_ahead_secs == pytest.approx(300, abs=1)


def test_a_controller_that_does_not_tell_the_time_is_no_clock_that_is_right(
    controller: Controller, clock: HandClock
) -> None:
    source = SlurmSource(clock, controller.scontrol.ask, node_name="n1")
    assert source.poll_jobs(keys()).clock_ahead_secs is None


def test_daemons_that_start_at_once_ask_again_at_different_times(clock, monkeypatch):
    monkeypatch.setattr(slurm_source, "SlurmSource", lambda *_, refresh_secs, **__: refresh_secs)
    config = settings_for("slurm", batch_refresh_secs=3600.0)
    periods = [slurm_source.make_command_source(config, clock, "n1", Scontrol()) for _ in range(200)]
    assert 2700 <= min(periods) < 2900
    assert 4300 < max(periods) <= 4500


def test_a_node_that_asks_the_controller_role_needs_its_address_and_a_safe_way_to_it(clock):
    for url, reason in ((None, "is not set"), ("http://ctl:9821", "must be https")):
        with pytest.raises(ConfigurationError, match=rf"controller\.url: {reason}"):
            make_source(settings_for("slurm", slurm_ask="controller", controller_url=url), clock, "n1")
    source = make_source(
        settings_for("slurm", slurm_ask="controller", controller_url="https://ctl:9821"), clock, "n1"
    )
    assert source.name == "slurm"
