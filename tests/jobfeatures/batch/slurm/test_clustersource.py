"""The source of the controller role, with stand-ins for Slurm's commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from jobfeatures.batch.slurm.clustersource import SlurmCluster, make_cluster_source
from jobfeatures.batch.slurm.refused import make_separator
from jobfeatures.errors import CommandError, SourceError
from jobfeatures.records.model import Job, JobKey, JobState, JobTable, NodeNotice
from tests.configured import settings_for

FIXTURES = Path(__file__).parents[3] / "fixtures" / "slurm"

# Prints a captured answer with the requested separator, and logs its arguments.
COMMAND = """#!{python} -S
import json, os, sys
wanted = os.environ.get("SQUEUE_FORMAT2", "")
separator = wanted[len("JobID:"):wanted.find(",")] if wanted else ""
for argument in sys.argv:
    if argument.startswith("--delimiter="):
        separator = argument.removeprefix("--delimiter=")
called = {{"argv": sys.argv[1:], "separator": separator, "time": os.environ["SLURM_TIME_FORMAT"]}}
with open("{calls}", "a") as file:
    file.write(json.dumps(called) + "\\n")
{extra}
with open("{fixture}", "rb") as file:
    text = file.read().replace(b"\\x1fzCaptured\\x1f", separator.encode())
sys.stdout.buffer.write(text)
"""
SCONTROL = """#!/bin/bash
while read -r line; do
  case $line in
    "show hostnames "*) echo "${{line#show hostnames }}" ;;
    "show node") cat {folder}/nodes.txt; echo ;;
    "show partition") cat {folder}/partitions.txt; echo ;;
  esac
done
"""


@pytest.fixture
def command(tmp_path):
    """Return a function that makes a stand-in and returns its path."""

    def make(name, extra=""):
        path = tmp_path / name
        fixture = FIXTURES / f"{name}.txt"
        calls = tmp_path / f"{name}.calls"
        if name == "scontrol":
            path.write_text(SCONTROL.format(folder=FIXTURES))
        else:
            path.write_text(COMMAND.format(python=sys.executable, calls=calls, fixture=fixture, extra=extra))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def make(command, clock, tmp_path):
    """Return a function that makes a source with stand-ins for some commands."""

    def make(*names, extra="", timeout_secs=60.0):
        for name in names:
            command(name, extra)
        return SlurmCluster(
            settings_for("slurm", slurm_scontrol=str(tmp_path / "scontrol")), clock, timeout_secs
        )

    return make


def calls(tmp_path, name):
    return (tmp_path / f"{name}.calls").read_text()


def test_the_queue_is_asked_for_with_a_separator_that_no_command_line_shows(make, clock, tmp_path):
    source = make("squeue")
    table = source.poll_queue()
    assert len(table.jobs) == 16
    assert table.taken_at_secs == clock.now
    source.poll_queue()
    first, second = map(json.loads, calls(tmp_path, "squeue").splitlines())
    assert first["separator"] != second["separator"]
    assert first["argv"] == ["--local", "-a", "-h", "-t", "all"]
    assert first["time"] == "%s"


def test_accounting_is_asked_since_then(make, clock, tmp_path):
    source = make("sacct")
    assert len(source.poll_accounting(clock.now - 90.5).records) == 22
    assert '"-S", "now-91seconds", "-E", "now"' in calls(tmp_path, "sacct")
    source.poll_accounting(clock.now + 5)  # a clock that was set back
    assert "now-1seconds" in calls(tmp_path, "sacct")


def test_nodes_and_partitions_come_from_one_command(command, clock):
    cluster = SlurmCluster(
        settings_for("slurm", slurm_scontrol=command("scontrol")), clock, 60.0
    ).poll_cluster()
    assert [each.name for each in cluster.nodes] == ["lab1", "lab2"]
    assert [each.name for each in cluster.partitions] == ["batch", "long"]


@pytest.mark.parametrize("name", ["squeue", "sacct"])
@pytest.mark.parametrize(
    ("extra", "error", "reason"),
    [
        ("sys.exit('slurm_load_jobs error: Unable to contact slurm controller')", SourceError, "Unable to contact"),
        ("print('half of an answer'); sys.exit(0)", SourceError, "cut off|no records"),
        ("import time; time.sleep(60)", CommandError, "not finished after"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_no_answer(make, name, extra, error, reason):
    source = make(name, extra=extra, timeout_secs=0.5 if "sleep" in extra else 30)
    with pytest.raises(error, match=reason):
        source.poll_queue() if name == "squeue" else source.poll_accounting(0)


@pytest.mark.parametrize(
    "script",
    ["exit 1", "echo", "while read -r l; do echo ${l#show hostnames }; done", "head -c 99 /dev/zero"],
)
def test_an_scontrol_without_nodes_is_no_answer(clock, tmp_path, script):
    path = tmp_path / "scontrol"
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    with pytest.raises(SourceError):
        SlurmCluster(settings_for("slurm", slurm_scontrol=str(path)), clock, 5.0).poll_cluster()


def test_the_commands_are_those_beside_scontrol(clock, tmp_path):
    source = make_cluster_source(settings_for("slurm", slurm_scontrol=str(tmp_path / "scontrol")), clock, 5.0)
    with pytest.raises(SourceError, match=f"{tmp_path}/squeue"):
        source.poll_queue()


def test_no_two_separators_are_alike():
    assert len({make_separator() for _ in range(100)}) == 100


JOB = (
    "JobId=7 JobName=x UserId=ann(6001) JobState=RUNNING Restarts=0 TimeLimit=00:10:00 NodeList=n1 NumCPUs=1 "
    "  Nodes=n1 CPU_IDs=0 Mem=1 GRES= Features=(null)"
)


@pytest.mark.parametrize("ahead_secs", [-300, 0, 300])
def test_answers_for_nodes_have_the_difference_of_the_clocks(clock, tmp_path, ahead_secs):
    """The clock is read from a small answer of its own: the one about all jobs takes too long for that."""
    (tmp_path / "scontrol").write_text(f"""#!/bin/bash
        while read -r line; do case $line in
            verbose) verbose=y ;;
            "show hostnames "*) echo "${{line#show hostnames }}" ;;
            "show reservation") [ $verbose ] && echo "last_update_time={int(clock.now) + ahead_secs}, records=0" ;;
            "show job") touch {tmp_path}/slow; echo "{JOB}" ;;
            "show node") echo "NodeName=n1 State=IDLE x" ;;
        esac; done
    """)
    (tmp_path / "scontrol").chmod(0o755)
    made_now = clock.now_secs
    clock.now_secs = lambda: made_now() + 30 * (tmp_path / "slow").exists()
    key = JobKey("slurm", "7")
    queued = Job(key=key, state=JobState.RUNNING, uid=6001, nodes=("n1",))
    queue = JobTable(source="slurm", jobs={key: queued}, taken_at_secs=clock.now, complete=True)
    found = SlurmCluster(
        settings_for("slurm", slurm_scontrol=str(tmp_path / "scontrol")), clock, 60.0
    ).poll_by_node(queue)
    table = found.table("n1", clock.now)
    assert table.jobs[key].limits.wall_secs == 600
    assert table.clock_ahead_secs == pytest.approx(ahead_secs, abs=1)


def test_a_maintenance_that_floats_is_said_once_and_left_out_for_each_node(clock, tmp_path):
    floats = (
        "ReservationName=f StartTime=900 EndTime=999999 Duration=1 Nodes=n1 NodeCnt=1 Flags=MAINT,TIME_FLOAT"
    )
    (tmp_path / "scontrol").write_text(f"""#!/bin/bash
        while read -r line; do case $line in
            "show hostnames "*) echo "${{line#show hostnames }}" ;;
            "show reservation") echo "{floats}" ;;
            "show job") echo "No jobs in the system" ;;
            "show node") echo "NodeName=n1 State=IDLE x" ;;
        esac; done
    """)
    (tmp_path / "scontrol").chmod(0o755)
    queue = JobTable(source="slurm", jobs={}, taken_at_secs=clock.now, complete=True)
    source = SlurmCluster(settings_for("slurm", slurm_scontrol=str(tmp_path / "scontrol")), clock, 60.0)
    found = [source.poll_by_node(queue) for _ in range(2)]
    assert [len(each.rejected) for each in found] == [1, 0]
    assert [each.table("n1", 100.0).node for each in found] == [NodeNotice()] * 2


@pytest.mark.parametrize(
    ("squeue", "most", "told"),
    [
        ("tell 7 ann 6001 RUNNING n1", 500, ("told by squeue", 1)),
        (":", 500, None),  # it has ended since the queue's poll
        ("echo down >&2; exit 1", 500, ("told by the queue", None)),
        ("touch asked; exit 1", 0, ("told by the queue", None)),  # too many to query again
    ],
)
def test_a_job_without_a_trusted_record_is_queried_again_or_taken_from_the_queue(
    clock, tmp_path, monkeypatch, squeue, most, told
):
    forged = JOB.replace("JobName=x", "JobName=x JobState=FAILED")
    (tmp_path / "scontrol").write_text(f"""#!/bin/bash
        while read -r line; do case $line in
            "show hostnames "*) echo "${{line#show hostnames }}" ;;
            "show reservation") echo "No reservations in the system" ;;
            "show job") echo "{forged}" ;;
            "show node") echo "NodeName=n1 State=IDLE x" ;;
        esac; done
    """)
    # The fields in the order of QUEUE_FIELDS, each followed by the requested separator.
    (tmp_path / "squeue").write_text(f"""#!/bin/bash
        cd {tmp_path}
        mark=${{SQUEUE_FORMAT2#JobID:}}; mark=${{mark%%,*}}
        tell() {{
            for each in $1 $1 N/A N/A 0 $2 $3 physics batch $4 None 10:00 1 1 $5 \
                1 2 1 1 1 cpu=1,mem=10M 0 "(null)" "told by squeue"
            do printf '%s%s' "$each" "$mark"; done; echo
        }}
        {squeue}
    """)
    for name in ("scontrol", "squeue"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr("jobfeatures.batch.slurm.clustersource.MAX_ASKED_AGAIN", most)
    key = JobKey("slurm", "7")
    queued = Job(key=key, state=JobState.RUNNING, uid=6001, nodes=("n1",), name="told by the queue")
    queue = JobTable(source="slurm", jobs={key: queued}, taken_at_secs=clock.now, complete=True)
    source = SlurmCluster(settings_for("slurm", slurm_scontrol=str(tmp_path / "scontrol")), clock, 60.0)
    table = source.poll_by_node(queue).table("n1", clock.now)
    found = table.jobs.get(key)
    assert (None if found is None else (found.name, found.allocated_cpus)) == told
    assert table.complete
    assert not (tmp_path / "asked").exists()


def test_history_is_asked_for_by_parts_and_without_steps(make, clock, tmp_path):
    source = make("sacct")
    assert source.poll_history(clock.now - 200.5, clock.now - 100.5).records
    assert '"-X", "-S", "now-201seconds", "-E", "now-100seconds"' in calls(tmp_path, "sacct")
    source.poll_history(clock.now - 200, clock.now)
    assert '"-X", "-S", "now-200seconds", "-E", "now",' in calls(tmp_path, "sacct")


def test_one_user_is_asked_for_alone(make, clock, tmp_path):
    source = make("squeue", "sacct")
    source.poll_user_queue("ann")
    source.poll_user_history("ann", clock.now - 90)
    assert json.loads(calls(tmp_path, "squeue"))["argv"] == ["--local", "-a", "-h", "-t", "all", "--user=ann"]
    argv = json.loads(calls(tmp_path, "sacct"))["argv"]
    assert {"--user=ann", "-X"} <= set(argv)
    assert "-a" not in argv


@pytest.mark.parametrize(
    ("squeue", "sacct", "user"),
    [
        ("echo ann", "exit 9", "ann"),
        ("echo 'ann\nann\nann'", "exit 9", "ann"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "echo bob; echo bob", "bob"),
        ("exit 0", "echo bob", "bob"),
        ("exit 1", "exit 0", None),
    ],
)
def test_a_jobs_user_is_taken_from_the_queue_then_from_accounting(clock, tmp_path, squeue, sacct, user):
    for name, script in (("squeue", squeue), ("sacct", sacct)):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n{script}\n')
        (tmp_path / name).chmod(0o755)
    source = SlurmCluster(settings_for("slurm", slurm_scontrol=str(tmp_path / "scontrol")), clock, 60.0)
    assert source.find_user("12_3") == user
    assert " -j 12_3 " in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("job_id", ["", "0", "-1", "x", "1,2", "1_", "1_2_3", "1 2", "12345678901", "1\n"])
def test_an_invalid_job_id_is_not_queried(clock, job_id):
    assert (
        SlurmCluster(settings_for("slurm", slurm_scontrol="/nowhere/scontrol"), clock, 60.0).find_user(job_id)
        is None
    )


def test_accounting_that_does_not_answer_is_no_answer(clock, tmp_path):
    (tmp_path / "squeue").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "squeue").chmod(0o755)
    with pytest.raises(SourceError):
        SlurmCluster(settings_for("slurm", slurm_scontrol=str(tmp_path / "scontrol")), clock, 60.0).find_user(
            "12"
        )
