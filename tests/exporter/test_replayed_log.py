"""A log is played into the spool folder of the real daemon, and its page shows the jobs."""

import re
import time

import pytest

from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from tests.labs.replay import Player
from tests.labs.replaying import plan_replay


class Clock:
    """The machine's time of day; what passes is what was slept."""

    def __init__(self) -> None:
        self.slept = 0.0

    def now_secs(self) -> float:
        return time.time()

    def monotonic_secs(self) -> float:
        return self.slept


@pytest.fixture
def daemon(tmp_path):
    (tmp_path / "spool").mkdir()
    flags = {
        "features.root": str(tmp_path / "features"),
        "batch.sources": "spool",
        "spool.directory": str(tmp_path / "spool"),
        "sample.interval": "100ms",
        "jobs.retain": "0s",
    }
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}))
    daemon.start()
    yield daemon
    daemon.stop()


def shown(daemon):
    text = daemon.exposition(openmetrics=False).decode()
    infos = [line for line in text.splitlines() if line.startswith("batch_job_info{")]
    labels = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in infos]
    return {each["job_id"]: each["user"] for each in labels if each["batch_system"] == "spool"}


def test_each_job_of_the_log_is_on_the_page_while_it_runs(daemon, tmp_path):
    clock = Clock()
    seen = []
    expected = [{"1": "ann"}, {"1": "ann", "2": "bob"}, {"2": "bob"}]

    def look():
        folders = tmp_path / "features/jobfeatures"
        limits = {path.parent.name: path.read_text() for path in folders.glob("spool-*/wall_limit_secs")}
        return shown(daemon), limits

    def sleep(secs):
        users = expected[len(seen)]
        told = (users, {f"spool-{job_id}": "60\n" for job_id in users})
        deadline = time.monotonic() + 60
        while (found := look()) != told and time.monotonic() < deadline:
            time.sleep(0.02)
        assert found == told
        seen.append(found[0])
        clock.slept += secs

    records = [
        JobRecord(
            batch_system="swf", job_id=job_id, user=user, start_secs=start, end_secs=start + 600, total_cpus=1,
            wall_limit_secs=3600,
        )
        for job_id, user, start in (("1", "ann", 0), ("2", "bob", 300))
    ]  # fmt: skip
    player = Player(str(tmp_path / "spool"), clock, sleep, speed=60, node="n1")
    player.play(plan_replay(records, speed=60))
    assert seen == expected
    assert list((tmp_path / "spool").iterdir()) == []
