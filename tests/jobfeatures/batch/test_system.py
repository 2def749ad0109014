"""What the table of batch systems promises of each room."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.system import System
from jobfeatures.config import Config
from jobfeatures.errors import ParseError
from jobfeatures.logkinds import KINDS
from jobfeatures.settings.resolve import settings_of

TESTS = Path(__file__).parents[2]
ROOMS = TESTS.parent / "jobfeatures" / "batch"
HELPERS = {"controller"}  # of several systems
EACH = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)


def test_every_room_is_in_the_table() -> None:
    rooms = {path.parent.name for path in ROOMS.glob("*/__init__.py")} - HELPERS
    assert rooms == {each.room.rpartition(".")[2] for each in SYSTEMS.values()}


@EACH
def test_a_room_has_the_parts_that_its_description_promises(system: System) -> None:
    site = system.load("site")
    assert callable(site.is_here)
    assert callable(system.load("source").make_source)
    assert not system.has_cluster or callable(system.load("clustersource").make_cluster_source)
    assert system.key_sources
    if system.job_variable is not None:
        assert callable(system.load("prolog").job_from_prolog)
        assert system.is_plain or callable(system.load("prolog").job_id_of)
    if system.has_groups:
        assert system.load("groups").HIERARCHY.name == system.name
    else:
        with pytest.raises(ModuleNotFoundError):
            system.load("groups")


PARTS = {
    "job_from_prolog": "prolog", "is_here": "site", "ask_in_prolog": "site", "needs_server": "site",
    "read_parents": "site", "daemon_uids": "site", "make_source": "source", "make_cluster_source": "clustersource",
    "make_group_names": "groupnames", "make_job_processes": "processes",
}  # fmt: skip


@EACH
@pytest.mark.parametrize("name", PARTS)
def test_a_part_takes_what_the_method_of_its_name_hands_on(system: System, name: str) -> None:
    try:
        function = getattr(system.load(PARTS[name]), name, None)
    except ModuleNotFoundError:
        function = None
    if function is None:
        return
    given = list(inspect.signature(getattr(System, name)).parameters.values())[1:]
    named = {each.name: None for each in given if each.kind is each.KEYWORD_ONLY}
    inspect.signature(function).bind(*[None] * (len(given) - len(named)), **named)


@EACH
def test_a_system_s_settings_are_those_of_its_room(system: System) -> None:
    declared = {
        each.key
        for value in vars(importlib.import_module(system.room)).values()
        if isinstance(value, type) and is_dataclass(value)
        for each in settings_of(value)
    }
    known = {each.key for each in settings_of(Config)}
    ours = {key for key in known if key.startswith(f"{system.name}.")}
    assert ours
    assert ours <= declared <= known
    assert system.command in ours or not system.has_cluster


@EACH
def test_a_kind_of_log_is_read_in_its_room(system: System) -> None:
    for name, kind in system.log_kinds.items():
        assert KINDS[name] is kind
        assert kind.reader.startswith(f"{system.room}.")
        assert callable(importlib.import_module(kind.reader).read_records)


@EACH
def test_a_system_is_documented_and_has_fixtures(system: System) -> None:
    docs = TESTS.parent / "docs"
    assert (docs / "batch" / f"{system.name}.md").exists() or (docs / f"{system.name}.md").exists()
    fixtures = TESTS / "fixtures" / {"spool": "sss"}.get(system.name, system.name)
    assert any(path.is_file() for path in fixtures.rglob("*"))
    assert any((TESTS / "jobfeatures" / "batch" / system.room.rpartition(".")[2]).glob("test_*.py"))


@EACH
def test_a_job_without_its_variable_is_not_known(system: System) -> None:
    with pytest.raises(ParseError, match="not known"):
        system.job_id_in({})


def test_a_plain_id_is_taken_as_it_stands() -> None:
    assert SYSTEMS["slurm"].job_id_in({"SLURM_JOB_ID": "12"}) == "12"
    assert SYSTEMS["pbs"].job_id_in({"PBS_JOBID": "12.server"}) == "12"
