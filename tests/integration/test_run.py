"""`jobfeatures run` in a batch job of a real Slurm, by the client alone, as a user takes it along."""

import re
import shutil
from pathlib import Path

import pytest

from jobfeatures import client

PAYLOAD = """
trap 'echo told; exit 5' USR1
echo ready
while :; do sleep 0.2; done
"""


@pytest.fixture
def alice():
    folder = Path("/home/alice/run")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(client.__file__, folder / "client.py")
    (folder / "payload.sh").write_text(PAYLOAD)
    (folder / "out").touch()
    shutil.chown(folder / "out", "alice")
    return folder


def test_a_payload_is_told_when_its_limit_is_shortened_after_a_suspension(
    slurm, slurm_exporter, alice, until
):
    line = f"exec python3 {alice}/client.py run --signal USR1@120 -- bash {alice}/payload.sh"
    job_id = slurm.submit(line, "-t", "10", output=alice / "out")
    until(lambda: "ready" in (alice / "out").read_text())
    slurm.run("scontrol", "suspend", job_id)
    slurm.wait(job_id, "SUSPENDED")
    slurm.run("scontrol", "resume", job_id)
    slurm.wait(job_id, "RUNNING")
    assert "told" not in (alice / "out").read_text()
    slurm.run("scontrol", "update", f"JobId={job_id}", "TimeLimit=2")
    until(lambda: "told" in (alice / "out").read_text(), 60)
    said = (alice / "out").read_text()
    assert said.count("told") == 1
    assert "SIGUSR1 is sent" in said
    slurm.wait(job_id, "FAILED")
    assert "ExitCode=5:0" in slurm.run("scontrol", "show", "job", job_id)


@pytest.mark.long
def test_a_payload_is_told_at_once_when_less_than_its_notice_is_left_by_a_preemption(
    slurm, slurm_exporter, alice, until
):
    (alice / "payload.sh").write_text(f"trap : TERM\n{PAYLOAD}")  # Slurm's own, as the grace begins
    line = f"exec python3 {alice}/client.py run --signal USR1@600 -- bash {alice}/payload.sh"
    slurm.run(
        "scontrol", "create", "partition=lower", f"nodes={slurm.node}", "gracetime=90", "prioritytier=0"
    )
    try:
        slurm.submit(line, "-p", "lower", "-n4", "--mem=50", "-t", "20", output=alice / "out")
        until(lambda: "ready" in (alice / "out").read_text())
        slurm.submit("sleep 1", "-n4", "--mem=50", "-t", "1", user="bob")
        until(lambda: "told" in (alice / "out").read_text(), 80)
        said = (alice / "out").read_text()
        assert said.count("told") == 1
        left = re.search(r"(\d+) s are left by shutdown: SIGUSR1 is sent", said)
        assert left is not None, said
        assert int(left[1]) <= 90
    finally:
        slurm.cancel_all()
        until(lambda: not slurm.run("squeue", "-h", "-p", "lower"))
        slurm.run("scontrol", "delete", "partition=lower")


@pytest.mark.long
def test_a_change_far_from_the_end_is_known_within_a_minute_where_run_waits(
    slurm, start_exporter, alice, until
):
    """By the settings that nobody changes: else such a job is asked about every 5 minutes."""
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        environ=slurm.environ,
    )  # fmt: skip
    line = f"exec python3 {alice}/client.py run --signal USR1@600 -- bash {alice}/payload.sh"
    job_id = slurm.submit(line, "-p", "long", "-t", "1200", output=alice / "out")
    until(lambda: "ready" in (alice / "out").read_text())
    until(lambda: exporter.series("batch_job_wall_limit_seconds", job_id=job_id) or None, 120)
    slurm.run("scontrol", "update", f"JobId={job_id}", "TimeLimit=9")
    until(lambda: "told" in (alice / "out").read_text(), 150)
