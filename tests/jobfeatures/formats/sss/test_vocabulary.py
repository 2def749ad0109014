"""The table says one thing about each element at each place."""

from __future__ import annotations

from itertools import combinations

from jobfeatures.formats.sss.vocabulary import CONTENT, ROOTS, SIZE_UNITS, TABLE, Type


def test_no_place_has_two_rows_for_one_name():
    for one, other in combinations(TABLE, 2):
        if one.name == other.name:
            assert not one.places & other.places, (one, other)


def test_every_container_has_content_and_nothing_else_has():
    assert {term.name for term in TABLE if term.type is Type.CONTAINER} == CONTENT.keys()


def test_roots_are_jobs_and_groups():
    assert set(ROOTS) == {"Job", "JobGroup"}


def test_the_defaults_hold_what_their_namesakes_hold():
    for name in ("Job", "TaskGroup", "Task"):
        assert CONTENT[name] == CONTENT[f"{name}Defaults"]


def test_a_task_group_and_a_task_have_their_own_id():
    assert CONTENT["Job"]["Id"].term.section == "5.1"
    assert CONTENT["TaskGroup"]["Id"].term.section == "6.1"
    assert CONTENT["Task"]["Id"].term.section == "7.1"


def test_the_number_of_properties_is_that_of_the_specifications_tables():
    """Counted in the text: table 1 has 5 rows, table 2 has 43, tables 3 and 4 have 4 and 5 (without Account)."""
    assert sum(term.section == "4.1" for term in TABLE) == 5
    names = [term.name for term in TABLE]
    assert names.index("Duration") - names.index("Application") + 1 == 43
    assert {"Project", "GlobalUser", "Group", "User"} <= set(names)
    assert {"Disk", "Memory", "Network", "Processors", "Swap"} <= set(names)


def test_requested_properties_may_be_expressions():
    assert {"op", "conj", "group", "preference", "performanceFactor"} <= CONTENT["Requested"][
        "User"
    ].attributes
    assert CONTENT["Delivered"]["User"].attributes == {"awarenessPolicy", "group"}
    assert CONTENT["Job"]["User"].attributes == {"awarenessPolicy"}


def test_units_are_powers_of_1024():
    assert SIZE_UNITS["B"] == 1
    assert SIZE_UNITS["MB"] == 2**20
    assert SIZE_UNITS["YB"] == 2**80
    assert SIZE_UNITS["NB"] == 2**90
    assert SIZE_UNITS["DB"] == 2**100
