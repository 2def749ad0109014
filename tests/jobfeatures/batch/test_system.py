"""What the table of batch systems promises of each room."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jobfeatures.batch import CLUSTER_SYSTEMS, SYSTEMS, BatchSettings
from jobfeatures.batch.settings import SystemSettings
from jobfeatures.batch.source import PolledSource
from jobfeatures.batch.system import ClusterSystem, System
from jobfeatures.config import Config
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.hooks.actions import publish_job, remove_of_own_cluster
from jobfeatures.logkinds import KINDS
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from jobfeatures.settings.resolve import settings_of
from jobfeatures.system.clock import Clock
from jobfeatures_exporter.node.sources import chosen_systems, confirm_jobs
from tests.configured import configured

TESTS = Path(__file__).parents[2]
ROOMS = TESTS.parent / "jobfeatures" / "batch"
HELPERS = {"controller"}  # of several systems
EACH = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)


def room_of(system: System[Any]) -> str:
    return type(system).__module__.removesuffix(".system")


def test_every_room_is_in_the_table() -> None:
    rooms = {path.parent.name for path in ROOMS.glob("*/__init__.py")} - HELPERS
    assert rooms == {room_of(each).rpartition(".")[2] for each in SYSTEMS.values()}


@EACH
def test_a_method_says_what_the_class_of_all_systems_says(system: System[Any]) -> None:
    """What a system adds beside is nobody's to call."""
    own = {name for name, value in vars(type(system)).items() if inspect.isfunction(value)}
    assert own <= set(dir(ClusterSystem if system.name in CLUSTER_SYSTEMS else System))
    assert system.key_sources


@EACH
def test_a_method_imports_a_part_of_its_own_room(system: System[Any]) -> None:
    text = Path(inspect.getfile(type(system))).read_text()
    inside = re.findall(r"^ {8}from (\S+) import", text, re.MULTILINE)
    assert {each for each in inside if not each.startswith(room_of(system))} == set()
    assert system.make_source.__qualname__ != "System.make_source"


@EACH
def test_the_groups_of_a_system_bear_its_name(system: System[Any]) -> None:
    hierarchy = system.hierarchy()
    assert system.has_groups == (hierarchy is not None)
    assert hierarchy is None or hierarchy.name == system.name


@EACH
def test_a_system_s_settings_are_those_of_its_room(system: System[Any]) -> None:
    own = type(getattr(BatchSettings(), system.name))
    assert own.__module__ == room_of(system)
    ours = {each.key: each for each in settings_of(Config) if each.key.startswith(f"{system.name}.")}
    assert {each.path[:-1] for each in ours.values()} == {("batch", system.name)}
    assert system.command in ours or system.name not in CLUSTER_SYSTEMS


@EACH
def test_a_kind_of_log_is_read_in_its_room(system: System[Any]) -> None:
    for kind in system.log_kinds:
        assert KINDS[kind.name] is kind
        assert kind.reader().__name__.startswith(f"{room_of(system)}.")


@EACH
def test_a_system_is_documented_and_has_fixtures(system: System[Any]) -> None:
    docs = TESTS.parent / "docs"
    assert (docs / "batch" / f"{system.name}.md").exists() or (docs / f"{system.name}.md").exists()
    fixtures = TESTS / "fixtures" / {"spool": "sss"}.get(system.name, system.name)
    assert any(path.is_file() for path in fixtures.rglob("*"))
    assert any((TESTS / "jobfeatures" / "batch" / room_of(system).rpartition(".")[2]).glob("test_*.py"))


@EACH
def test_a_job_without_its_variable_is_not_known(system: System[Any]) -> None:
    with pytest.raises(ParseError, match="must be set to"):
        system.job_id_in({})


def test_a_plain_id_is_taken_as_it_stands() -> None:
    assert SYSTEMS["slurm"].job_id_in({"SLURM_JOB_ID": "12"}) == "12"
    assert SYSTEMS["pbs"].job_id_in({"PBS_JOBID": "12.server"}) == "12"


def test_a_system_without_hooks_has_no_prolog() -> None:
    with pytest.raises(ParseError, match="spool has no prolog"):
        SYSTEMS["spool"].job_from_prolog({}, node_name=None, note=print)


@dataclass(frozen=True)
class FluxSource:
    """The whole queue of a batch system that never was here before."""

    name: str = "flux"
    is_local: bool = True

    def poll_jobs(self, seen: object, claimed: object = ()) -> JobTable:
        job = Job(key=JobKey("flux", "f1"), state=JobState.RUNNING, nodes=("n1",))
        return JobTable(source="flux", jobs={job.key: job}, taken_at_secs=0.0, complete=True)

    watch = PolledSource.watch


class Flux(System[None]):
    """A new batch system: one file, and one line in `SYSTEMS`."""

    name = "flux"
    job_variable = "FLUX_JOB_ID"
    key_sources: ClassVar = {"job_id": "FLUX_JOB_ID"}

    def is_here(self, config: SystemSettings[None]) -> bool:
        return True

    def make_source(self, config: SystemSettings[None], clock: Clock, node_name: str) -> FluxSource:
        return FluxSource()

    def job_from_prolog(
        self, environ: Mapping[str, str], *, node_name: str | None, note: Callable[[Rejected], None]
    ) -> Job:
        return Job(key=JobKey(self.name, self.job_id_in(environ)), state=JobState.RUNNING)


def test_a_new_system_is_one_class_and_one_line_in_the_table(tmp_path, monkeypatch, clock):
    monkeypatch.setitem(SYSTEMS, "flux", Flux())
    config = configured(features_root=str(tmp_path), batch_sources=("flux",))
    assert chosen_systems(config) == ["flux"]
    key = JobKey("flux", "f1")
    assert confirm_jobs(config, clock, [key]).keys() == {key}
    environ = {"FLUX_JOB_ID": "f1"}
    publish_job(config.shared, "flux", environ, timeout_secs=1.0)
    tree = FeatureTree(config.shared.batch.common.root)
    assert tree.published().keys() == {key}
    with tree.locked(key):
        assert remove_of_own_cluster(tree, key, environ)
    assert tree.published().keys() == set()


def test_a_class_that_lacks_what_every_system_needs_makes_no_system():
    class Idle(System[None]):
        name = "idle"

    class Half(ClusterSystem[None]):
        name, is_here, make_source = "half", Flux.is_here, Flux.make_source

    for lacking, what in ((Idle, "is_here"), (Half, "make_cluster_source")):
        with pytest.raises(TypeError, match=what):
            lacking()
