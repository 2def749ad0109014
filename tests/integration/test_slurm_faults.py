"""What a real Slurm's faults cost the jobs of a node: by docs/evidence.md, and without a restart of the daemon."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import until
from tests.integration.slurmdaemons import CONTROLLER, DATABASE, Daemons, part_of_answers

ROOT = Path(__file__).parents[2]


@dataclass
class Job:
    """A job whose end a test decides."""

    id: str
    folder: Path  # of its features
    go: Path
    values: dict[str, str]

    def end(self) -> None:
        """Have it end, and wait until its script has."""
        self.go.touch()
        until(lambda: not self.go.exists(), 60)


@pytest.fixture
def daemons(slurm):
    """Return what is done to Slurm's daemons, and undo it."""
    found = Daemons(slurm)
    yield found
    found.restore()


@pytest.fixture
def node(slurm, daemons, start_exporter):
    """Return a function that starts the daemon of the node."""

    def start(*flags: str):
        return start_exporter(
            "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
            "--batch.interval", "1s", "--batch.refresh", "1s", "--sample.interval", "1s", "--jobs.retain", "0s",
            *flags, environ=slurm.environ,
        )  # fmt: skip

    return start


@pytest.fixture
def submit(slurm):
    """Return a function that submits a job whose end the test decides, and waits for its features."""
    made = []

    def submit(user: str = "alice", *options: str) -> Job:
        go = Path(f"/home/{user}/go.{len(made)}")
        go.unlink(missing_ok=True)
        made.append(go)
        script = f"until [ -e {go} ]; do sleep 0.2; done; rm {go}"
        job_id = slurm.submit(script, "-n1", "-t", "7", "--mem=50", "--no-requeue", *options, user=user)
        slurm.wait(job_id, "RUNNING")
        folder = slurm.features / f"jobfeatures/slurm-{job_id}"
        until((folder / "wall_limit_secs").exists)
        return Job(job_id, folder, go, values_in(folder))

    yield submit
    for go in made:  # cancelled jobs end without it
        go.unlink(missing_ok=True)


def age(slurm, *jobs: Job) -> None:
    """Have prologs' records say that they are two minutes old: before a minute, not to be known proves nothing."""
    for job in jobs:
        record = slurm.features / f"records/slurm-{job.id}.json"
        said = json.loads(record.read_text())
        said["told_at_secs"] -= 120
        new = slurm.features / f"{job.id}.new"
        new.write_text(json.dumps(said))
        new.chmod(0o600)
        new.rename(record)


def values_in(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def is_up(exporter, source: str = "slurm") -> bool:
    return list(exporter.series("batch_exporter_source_up", source=source).values()) == [1]


def remains(exporter, job: Job) -> bool:
    """Return whether the page says that the job has ended and its processes have not."""
    return 1 in exporter.series("batch_job_ended_with_processes", job_id=job.id).values()


@pytest.fixture
def whole():
    """Return a function that checks that a job is there with all that was known of it."""

    def check(exporter, job: Job, user: str = "alice") -> None:
        assert values_in(job.folder) == job.values
        assert exporter.info(job.id).get("user") == user
        assert exporter.series("batch_job_cpu_seconds_total", job_id=job.id)
        assert not remains(exporter, job)

    return check


@pytest.mark.parametrize("fault", ["stopped", "held"])
def test_a_controller_that_is_away_costs_live_jobs_nothing_and_ends_are_told_when_it_is_back(
    slurm, daemons, node, submit, whole, fault
):
    exporter = node()
    stays, ends = submit(), submit("bob")
    until(lambda: exporter.info(ends.id))
    (daemons.stop if fault == "stopped" else daemons.hold)(CONTROLLER)
    until(lambda: not is_up(exporter), 60)
    ends.end()  # its node is not told to run the epilog before the controller is back
    whole(exporter, stays)
    assert values_in(ends.folder) == ends.values, "nobody has said that it has ended"
    (daemons.start if fault == "stopped" else daemons.let_go)(CONTROLLER)
    until(lambda: is_up(exporter), 60)
    until(lambda: not ends.folder.exists(), 60)
    until(lambda: not exporter.info(ends.id))
    whole(exporter, stays)


def test_half_an_answer_takes_and_changes_nothing(slurm, daemons, node, submit, whole, tmp_path):
    answer = part_of_answers(tmp_path)
    exporter = node("--slurm.scontrol", str(tmp_path / "scontrol"))
    stays = submit()
    until(lambda: exporter.info(stays.id).get("account") == "physics")
    answer("half")
    cuts = tmp_path / "cuts"
    for _ in range(4):
        seen = len(cuts.read_text()) if cuts.exists() else 0
        until(lambda seen=seen: cuts.exists() and len(cuts.read_text()) >= seen + 2, 60)
        whole(exporter, stays)
        assert exporter.info(stays.id)["account"] == "physics"
    answer("whole")
    until(lambda: is_up(exporter), 60)
    whole(exporter, stays)
    stays.end()
    until(lambda: not stays.folder.exists(), 60)


@pytest.fixture
def other_cluster():
    """Return a function that starts another Slurm, with a job of Bob's of this number, and returns its slurm.conf."""
    lab = Path("/tmp/jobfeatures-lab/other")
    environ = {
        **os.environ, "SLURM_LAB": str(lab), "SLURM_LAB_PREFIX": "far", "SLURM_LAB_BASEPORT": "18100",
        "SLURM_LAB_NODES": "1", "SLURM_LAB_DB": "0", "SLURM_LAB_REST": "0",
    }  # fmt: skip
    labs = ROOT / "tests/labs/slurm"

    def start(job_id: str) -> Path:
        command, conf = [labs / "up.sh"], lab / "etc/slurm.conf"
        up = subprocess.run(
            command,
            env={**environ, "SLURM_LAB_EXTRA": f"FirstJobId={job_id}"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert up.returncode == 0, up.stdout + up.stderr
        there = {**os.environ, "SLURM_CONF": str(conf)}
        submit = [
            "sbatch",
            "--parsable",
            "--uid=bob",
            "-D",
            "/tmp",
            "-o",
            "/dev/null",
            "--mem=50",
            "--wrap",
            "sleep 300",
        ]
        submitted = subprocess.run(submit, env=there, check=True, capture_output=True, text=True, cwd="/")
        assert submitted.stdout.strip() == job_id
        return conf

    yield start
    subprocess.run([labs / "down.sh", "--purge"], env=environ, capture_output=True, timeout=240, check=False)


def test_another_cluster_s_answers_take_no_live_job_its_directories(
    slurm, daemons, node, submit, whole, tmp_path, other_cluster
):
    unknown, same = submit("alice"), submit("alice")
    age(slurm, unknown, same)
    answer = part_of_answers(tmp_path, other_cluster(same.id))
    exporter = node("--slurm.scontrol", str(tmp_path / "scontrol"))
    for job in (same, unknown):
        until(lambda job=job: exporter.info(job.id).get("account") == "physics")
    answer("other")
    until(lambda: remains(exporter, unknown), 120)
    assert values_in(unknown.folder) == unknown.values
    assert values_in(same.folder) == same.values, "the control group is Alice's"
    assert exporter.info(same.id)["user"] == "alice"
    answer("whole")
    until(lambda: not remains(exporter, unknown), 60)
    for job in (same, unknown):
        until(lambda job=job: exporter.info(job.id).get("account") == "physics", 60)
        whole(exporter, job)


def test_a_controller_that_lost_its_state_costs_living_jobs_nothing_and_gives_their_numbers_to_others(
    slurm, daemons, node, submit, whole
):
    """The node's slurmd hangs at first: it would be told at once to end what the controller does not know."""
    lost = submit()
    age(slurm, lost)
    exporter = node()
    until(lambda: exporter.info(lost.id).get("account") == "physics")
    secret = slurm.features / f"jobstatus/slurm-{lost.id}/of-alice"
    subprocess.run(["runuser", "-u", "alice", "--", "touch", secret], check=True)
    daemons.hold(daemons.node_daemon)
    daemons.stop(CONTROLLER)
    daemons.lose_state()
    daemons.set(FirstJobId=lost.id)
    daemons.start(CONTROLLER)
    until(lambda: remains(exporter, lost), 120)
    assert values_in(lost.folder) == lost.values
    assert secret.exists()
    daemons.let_go(daemons.node_daemon)  # now it is told
    until(lambda: not lost.folder.exists(), 90)
    until(lambda: not exporter.info(lost.id), 60)
    daemons.forget_kills()
    again = submit("bob")
    assert again.id == lost.id
    until(lambda: exporter.info(again.id).get("account") == "atlas", 60)
    until(lambda: exporter.series("batch_job_cpu_seconds_total", job_id=again.id), 60)  # by the next sample
    whole(exporter, again, "bob")
    assert again.folder.is_dir()
    status = slurm.features / f"jobstatus/slurm-{again.id}"
    assert status.stat().st_uid == 6002
    assert list(status.iterdir()) == []


def test_a_node_without_slurmd_keeps_its_jobs_until_their_end_is_told(slurm, daemons, node, submit, whole):
    exporter = node()
    stays, lost = submit(), submit("bob")
    until(lambda: exporter.info(lost.id).get("account") == "atlas")
    until(lambda: exporter.series("batch_job_cpu_seconds_total", job_id=lost.id))  # its processes have begun
    daemons.stop(daemons.node_daemon, signal.SIGKILL)
    until(lambda: is_up(exporter))
    whole(exporter, stays)
    whole(exporter, lost, "bob")
    daemons.start(daemons.node_daemon)
    until(lambda: "RUNNING" in slurm.states(stays.id).values())
    whole(exporter, stays)
    # Without slurmd the controller's word that the node is down ends jobs whose processes go on.
    daemons.stop(daemons.node_daemon, signal.SIGKILL)
    slurm.run("scontrol", "update", f"NodeName={slurm.node}", "State=DOWN", "Reason=gone")
    until(lambda: remains(exporter, stays) and remains(exporter, lost), 60)
    assert values_in(stays.folder) == stays.values
    daemons.start(daemons.node_daemon)  # is told to end them
    until(lambda: not stays.folder.exists() and not lost.folder.exists(), 90)
    until(lambda: not exporter.info(stays.id), 60)


def test_where_the_epilog_fails_an_ended_job_s_directories_go_all_the_same(slurm, daemons, node, submit):
    exporter = node()
    job = submit()
    fails = slurm.lab / "scripts/epilog.d/a-fails"  # before ours, which does not run then
    fails.write_text("#!/bin/sh\nexit 7\n")
    fails.chmod(0o755)
    try:
        job.end()
        until(lambda: not job.folder.exists(), 60)
        until(lambda: not exporter.info(job.id), 60)
        until(lambda: "DRAIN" in slurm.run("scontrol", "-o", "show", "node", slurm.node), 60)
        until(lambda: exporter.series("batch_node_draining").popitem()[1] == 1, 60)
    finally:
        fails.unlink()
    daemons.resume_nodes()
    until(lambda: exporter.series("batch_node_draining").popitem()[1] == 0, 60)
    submit("bob")


def test_a_job_that_slurm_has_forgotten_is_gone_though_its_epilog_told_nothing(
    slurm, daemons, node, submit, tmp_path
):
    daemons.stop(CONTROLLER)
    daemons.set(MinJobAge="2")
    daemons.start(CONTROLLER)
    answer = part_of_answers(tmp_path)
    job, stays = submit(), submit("bob")
    age(slurm, job, stays)
    exporter = node("--slurm.scontrol", str(tmp_path / "scontrol"))
    until(lambda: exporter.info(job.id))
    (slurm.lab / "scripts/epilog.d/jobfeatures").chmod(0o644)  # it is not run
    answer("none")  # as between two polls that are far apart
    job.end()
    until(lambda: "JobId=" not in daemons.try_run("scontrol", "show", "job", job.id), 120)
    assert values_in(job.folder) == job.values
    answer("whole")
    until(lambda: not job.folder.exists(), 90)
    until(lambda: not exporter.info(job.id), 60)
    assert values_in(stays.folder) == stays.values


def test_without_accounting_queue_and_nodes_go_on_and_ends_are_told_when_it_is_back(
    slurm, daemons, start_exporter, tmp_path
):
    documents = tmp_path / "documents"
    exporter = start_exporter(
        "--role", "controller", "--batch.sources", "slurm", "--controller.interval", "1s",
        "--sonar.cluster", "hpc.example.org", "--sonar.sinks", "tree", "--sonar.tree-directory", str(documents),
        "--sonar.jobs-interval", "2s", environ=slurm.environ,
    )  # fmt: skip

    def ends_reported(job_id: str) -> list[dict]:
        texts = [path.read_text() for path in documents.rglob("0+job-*.json")]
        found = [json.loads(line) for text in texts for line in text.splitlines()]
        jobs = [job for each in found for job in each["data"]["attributes"].get("slurm_jobs", ())]
        return [
            job for job in jobs if job.get("job_id") == int(job_id) and job.get("job_state") == "COMPLETED"
        ]

    before = slurm.submit("true", "-n1", "--mem=50")
    until(lambda: ends_reported(before), 90)
    daemons.stop(DATABASE)
    job = slurm.submit("sleep 3", "-n1", "--mem=50")
    queue = {"batch_system": "slurm", "partition": "batch", "state": "RUNNING"}
    until(lambda: list(exporter.series("batch_queue_jobs", **queue).values()) == [1], 60)
    slurm.wait(job, "COMPLETED")
    until(lambda: "sacct" in exporter.log.read_text(), 90)
    assert is_up(exporter, "slurm-queue")
    assert is_up(exporter, "slurm-nodes")
    assert not ends_reported(job)
    daemons.start(DATABASE)
    until(lambda: ends_reported(job), 120)


LONG = bool(os.environ.get("JOBFEATURES_LONG"))
ARRAY_TASKS, WAITING_JOBS = 2000, 10_000
APART = WAITING_JOBS if LONG else 500  # waiting tasks that are jobs of their own; a millisecond each and more


def test_an_array_of_2000_tasks_and_10000_jobs_that_wait_are_counted_and_those_that_run_are_told(
    slurm, node, daemons, start_exporter
):
    controller = start_exporter(
        "--role",
        "controller",
        "--batch.sources",
        "slurm",
        "--controller.interval",
        "1s",
        environ=slurm.environ,
    )
    exporter = node()
    array = slurm.submit("sleep 300", f"--array=1-{ARRAY_TASKS}", "-n1", "--mem=20", "-t", "7")
    waiting = slurm.submit("true", "-H", f"--array=1-{WAITING_JOBS}", "-n1", "--mem=20", user="bob")
    # Tasks that are changed one by one are jobs of their own.
    apart = "".join(f"update JobId={waiting}_{task} Nice=1\n" for task in range(1, APART + 1))
    slurm.run("scontrol", stdin=apart)

    def jobs(state: str) -> float:
        found = controller.series("batch_queue_jobs", batch_system="slurm", partition="batch", state=state)
        return sum(found.values())

    def running() -> dict[str, str]:
        found = slurm.run("squeue", "-h", "-t", "running", "-j", array, "-o", "%A %i")
        return {f"slurm-{job_id}": task for job_id, task in (line.split() for line in found.splitlines())}

    def published() -> set[str]:
        return {path.name for path in (slurm.features / "jobfeatures").iterdir()}

    until(lambda: len(running()) == 4, 60)
    until(lambda: jobs("PENDING") == ARRAY_TASKS - 4 + WAITING_JOBS, 120)
    assert jobs("RUNNING") == 4
    first = until(lambda: len(now := running()) == 4 and published() == now.keys() and now, 60)
    for name in first:
        info = until(lambda name=name: exporter.info(name.removeprefix("slurm-")))
        until(lambda name=name: exporter.info(name.removeprefix("slurm-")).get("array_job_id") == array)
        assert info["user"] == "alice"
    slurm.run("scancel", *first.values())
    until(lambda: len(now := running()) == 4 and not now.keys() & first and published() == now.keys(), 60)
    until(lambda: jobs("PENDING") == ARRAY_TASKS - 8 + WAITING_JOBS, 120)
    slurm.run("scancel", array, waiting)
    until(lambda: jobs("PENDING") == 0, 120)
    until(lambda: published() == set(), 60)
