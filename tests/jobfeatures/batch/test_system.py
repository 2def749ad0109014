"""What the table of batch systems promises of each room."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobfeatures.batch import SYSTEMS
from jobfeatures.batch.system import System
from jobfeatures.errors import ParseError

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
    assert callable(site.make_source)
    assert hasattr(site, "make_cluster_source") == system.has_cluster
    assert system.load("keys").KEY_SOURCES
    if system.job_variable is not None:
        assert callable(site.ask_in_prolog)
        assert callable(system.load("prolog").job_from_prolog)
        assert system.is_plain or callable(system.load("prolog").job_id_of)
    if system.has_groups:
        assert system.load("groups").HIERARCHY.name == system.name
    else:
        with pytest.raises(ModuleNotFoundError):
            system.load("groups")


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
