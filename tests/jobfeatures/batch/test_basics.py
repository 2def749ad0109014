"""What several rooms share: texts that cannot be read, names of hosts and of users, how busy a node is."""

from __future__ import annotations

import pytest

from jobfeatures.batch.basics import (
    Texts,
    Users,
    busy_state,
    count_hosts,
    count_ranges,
    find_host,
    find_uid,
    is_host_name,
    parse_ranges,
    share_of,
)
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, multiplied
from jobfeatures.records.nodelist import is_same_host
from jobfeatures.records.quantities import parse_count


def test_the_first_text_that_can_be_read_counts_and_the_others_are_told():
    told = []
    texts = Texts({"A": "", "B": "x\ny", "C": "3", "D": "(null)"}, told.append, nothing=("", "(null)"))
    assert texts.read(parse_count, "A", "D", "B", "C") == 3
    assert texts.read(parse_count, "A", "D", "E") is None
    assert texts.text("A", "D", "B") == "x\ny"
    assert texts.text("D") is None
    [problem] = told
    assert str(problem) == r"environment:B: must be a whole number, 0 or more: 'x\ny'"


def test_a_host_may_be_named_with_its_domain_or_without():
    assert is_same_host("n1", "n1.example.org")
    assert is_same_host("n1.example.org", "n1")
    assert not is_same_host("n1.example.org", "n1.example.com")
    assert not is_same_host("n1", "n10")
    assert is_same_host("N1.Example.org", "n1.example.ORG")
    assert is_same_host("N1", "n1.example.org")
    assert find_host(["n2", "n1.example.org"], "n1") == "n1.example.org"
    assert find_host(["n2"], None) is None


@pytest.mark.parametrize(
    ("used", "total", "state"),
    [(0, 4, "IDLE"), (None, 4, "IDLE"), (3, 4, "MIXED"), (4, 4, "ALLOCATED"), (3, None, "MIXED")],
)
def test_a_node_is_as_busy_as_its_jobs_make_it(used, total, state):
    assert busy_state(used, total) == state


def test_a_limit_of_each_slot_is_multiplied_unless_it_is_no_number():
    assert multiplied(3600, 8) == 28800
    assert multiplied(3600, None) is None
    assert multiplied(3600, 0) is None
    assert multiplied(UNLIMITED, 8) is UNLIMITED


def test_the_systems_users_are_the_default():
    assert find_uid("root") == 0
    assert find_uid("no such user at all") is None
    assert find_uid("a\0b") is None


def test_a_user_is_looked_up_once_and_again_after_a_while_if_in_vain(clock):
    known, asked = {"ada": 6001}, []
    users = Users(clock, lambda user: (asked.append(user), known.get(user))[1])
    assert [users.uid(each) for each in ("ada", "ada", "new", "new", None)] == [6001, 6001, None, None, None]
    assert asked == ["ada", "new"]
    known["new"] = 6002
    clock.advance(301)
    assert users.uid("new") == 6002


def test_ranges_are_counted_without_being_unfolded():
    assert parse_ranges("1-5,9", "tasks", field="t") == [range(1, 6), range(9, 10)]
    assert count_ranges("0-100:4,7", "tasks", field="t") == 27
    assert count_ranges("0-999999999999", "tasks", field="t") == 10**12


@pytest.mark.parametrize("text", ["", "1-", "5-1", "a", "1,,2", "1-5:0", "1 ", "-1"])
def test_what_are_no_ranges_is_refused_with_what_it_should_be(text):
    with pytest.raises(ParseError, match="t: not tasks"):
        count_ranges(text, "tasks", field="t")


def test_hosts_that_are_named_once_for_each_slot_are_counted_in_their_order():
    assert list(count_hosts(["n2", " n1 ", "", "n2"], field="f").items()) == [("n2", 2), ("n1", 1)]
    with pytest.raises(ParseError, match="f: not a host name: 'n/1'"):
        count_hosts(["n1", "n/1"], field="f")


@pytest.mark.parametrize("name", ["", ".x", "-x", "a/b", "a b", "n[1-2]", "x" * 256, "é", "a\n"])
def test_what_is_no_name_of_a_host_is_asked_for_nowhere(name):
    assert not is_host_name(name)
    assert is_host_name("x" * 255)


def test_the_share_of_a_host_that_is_not_there_is_unknown() -> None:
    assert share_of({"n1": 4, "n2": 2}, "n2") == 2
    assert share_of({"n1": 4, "n2": 2}, "n3") is None
    assert share_of({"n1": 4}, None) is None
