"""The controller role's questions to OAR, with stand-ins for its commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobfeatures.batch.oar.clustersource import OarCluster
from jobfeatures.batch.oar.site import is_here
from jobfeatures.batch.oar.source import OarSource, WithFiles, make_source
from jobfeatures.errors import SourceError
from jobfeatures.records.model import JobKey, NodeNotice
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for

FIXTURES = Path(__file__).parents[3] / "fixtures" / "oar"

pytestmark = pytest.mark.program


@pytest.fixture
def server(tmp_path: Path) -> Path:
    oarstat = f'case "$*" in *--sql*) cat {FIXTURES}/ended.json ;; *) cat {FIXTURES}/oarstat.json ;; esac'
    for name, body in (("oarstat", oarstat), ("oarnodes", f"cat {FIXTURES}/oarnodes.json")):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>{tmp_path}/calls\n{body}\n')
        path.chmod(0o755)
    return tmp_path


def cluster(server: Path) -> OarCluster:
    made = OarCluster(settings_for("oar", oar_oarstat=f"{server}/oarstat"), SystemClock(), 5.0)
    assert isinstance(made, OarCluster)
    return made


def test_one_question_about_jobs_and_one_about_nodes_serve_all_nodes(server: Path) -> None:
    source = cluster(server)
    queue = source.poll_queue()
    assert sorted(int(key.job_id) for key in queue.jobs) == [101, 102, 103, 105, 106]
    by_node = source.poll_by_node(queue)
    first, second = by_node.table("oar1.site", 0.0), by_node.table("oar2", 0.0)
    assert first is not None
    assert second is not None
    assert {key.job_id: job.allocated_cpus for key, job in first.jobs.items()} == {"101": 2, "102": 1}
    assert {key.job_id: job.allocated_cpus for key, job in second.jobs.items()} == {
        "102": 2,
        "105": 1,
        "106": 1,
    }
    assert first.jobs[JobKey("oar", "101")].limits.wall_secs == 840  # as it was changed
    assert (first.node, second.node) == (NodeNotice(False, cpus=4), NodeNotice(True, cpus=4))
    assert by_node.table("elsewhere", 0.0) is None
    assert (server / "calls").read_text().splitlines() == ["oarstat -J -f", "oarnodes -J"]


def test_accounting_has_the_jobs_of_the_queue_and_those_that_have_ended(server: Path) -> None:
    told = cluster(server).poll_accounting(1795246400.5)
    assert len(told.records) == 14
    assert told.rejected == ()
    asked = (server / "calls").read_text().splitlines()[-1]
    assert asked.startswith(
        "oarstat -J -f --sql stop_time >= 1795246400 or stop_time = 0 and "
    )  # or never ran


def test_nodes_are_told(server: Path) -> None:
    assert [each.name for each in cluster(server).poll_cluster().nodes] == ["oar1", "oar2", "oar3"]


@pytest.mark.parametrize("body", ["echo down >&2; exit 1", "echo '[]'", "printf '{'"])
def test_what_is_no_answer_is_a_failure(server: Path, body: str) -> None:
    source = cluster(server)
    queue = source.poll_queue()
    for name in ("oarstat", "oarnodes"):
        (server / name).write_text(f"#!/bin/sh\n{body}\n")
    for ask in (
        source.poll_queue,
        source.poll_cluster,
        lambda: source.poll_by_node(queue),
        lambda: source.poll_accounting(0.0),
    ):
        with pytest.raises(SourceError):
            ask()


def test_a_node_reads_its_files_or_asks_the_controller_role(server: Path) -> None:
    clock = SystemClock()
    assert isinstance(make_source(settings_for("oar"), clock, "oar1"), OarSource)
    config = settings_for("oar", oar_ask="controller", controller_url="https://ctl:9821")
    assert isinstance(make_source(config, clock, "oar1"), WithFiles)
    assert is_here(settings_for("oar", oar_oarstat=f"{server}/oarstat"))
