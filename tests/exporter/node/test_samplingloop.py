"""Where commands that go on for hours look for jobs' control groups."""

from __future__ import annotations

from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.samplingloop import find_places
from tests.running import HandClock


def test_a_place_that_comes_while_a_command_goes_on_is_found(tmp_path):
    """`top` goes on for hours, and pods come."""
    (tmp_path / "cgroup.controllers").touch()
    flags = {"batch.cgroup_parents": "/pods/*", "batch.sources": "slurm", "path.cgroup": str(tmp_path)}
    config = load_config(ExporterConfig, flags=flags, environ={})
    clock = HandClock(1000.0)
    places = find_places(config, clock)
    assert places().parents == {}
    (tmp_path / "pods/a/slurmstepd.scope/job_7").mkdir(parents=True)
    assert places().parents == {}
    clock.secs += 60.0
    assert places().parents.keys() == {"/pods/a"}
