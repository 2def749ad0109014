import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.shares import (
    ShareRules,
    make_shares,
    parse_amounts,
    parse_shares_of,
    plain,
    split_list,
)
from jobfeatures.errors import ConfigurationError

ALL = ("cpu", "memory", "gpu")


def shares_of(rules, *, resource="cpu", total=100_000, users=8, groups=None):
    return make_shares(
        resource, rules, total=total, total_from="log", all_users=users, groups_of=groups or {}
    )


def test_a_share_is_by_default_what_there_is_by_those_who_use_it():
    shares = shares_of(ShareRules())
    assert (shares.default, shares.default_from, shares.total_from) == (12_500, "total / users", "log")
    assert shares.scale == 2
    assert plain("cpu", shares.default) == 12.5


def test_a_users_own_share_comes_first_then_the_largest_of_the_groups_then_the_default():
    rules = ShareRules(
        default={"cpu": 3000},
        users={"ann": {"cpu": 1000}, "eve": {"memory": 5}},
        groups={"g1": {"cpu": 4000}, "g2": {"cpu": 9000}},
    )
    groups = {"ann": ["g2"], "bob": ["g1", "g2", "g3"], "eve": ["g1"], "joe": ["g3"]}
    shares = shares_of(rules, groups=groups)
    assert {name: shares.of(name) for name in ("ann", "bob", "eve", "joe", "new")} == {
        "ann": 1000,
        "bob": 9000,
        "eve": 4000,
        "joe": 3000,
        "new": 3000,
    }
    assert shares.scale == 1


def test_a_total_that_is_given_is_taken_before_that_of_the_log():
    shares = shares_of(ShareRules(totals={"cpu": 16_000}))
    assert (shares.total, shares.total_from, shares.default) == (16_000, "given", 2000)


def test_the_smallest_share_of_anything_is_not_nothing():
    shares = shares_of(ShareRules(), total=1000, users=10**6)
    assert plain("cpu", shares.default) == 10**-6
    assert shares.scaled_share("ann", shares.scale) == 1
    assert shares_of(ShareRules(), total=0).default == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4", {"cpu": 4000}),
        ("0.467", {"cpu": 467}),
        ("0", {"cpu": 0}),
        ("cpu=4,memory=16GiB", {"cpu": 4000, "memory": 16 * 2**20}),
        ("memory=2GB", {"memory": 2 * 2**20}),
        ("memory=500KiB,gpu=0.5", {"memory": 500, "gpu": 500}),
    ],
)
def test_amounts_are_of_the_first_resource_or_named(text, found):
    assert parse_amounts("--share", text, ALL) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-1",
        "1e3",
        "0.0001",
        "nan",
        "inf",
        "٣",
        "1_0",
        "9" * 16,
        "disk=3",
        "cpu=",
        "cpu=1,2",
        "memory=2X",
        "memory=8000000000",
    ],
)
def test_other_amounts_name_the_option(text):
    with pytest.raises(ConfigurationError, match=r"^--share: "):
        parse_amounts("--share", text, ALL)


def test_shares_of_users_and_groups_are_told_apart():
    users, groups = parse_shares_of(
        "--share-of", ["ann=4,group:staff=20", "user:group=1", "7=cpu:2,memory:8G"], ALL
    )
    assert users == {"ann": {"cpu": 4000}, "group": {"cpu": 1000}, "7": {"cpu": 2000, "memory": 8 * 2**20}}
    assert groups == {"staff": {"cpu": 20_000}}


@pytest.mark.parametrize("text", ["4", "=4", "ann", "ann=", "group:=3", "ann=disk:4", "ann=cpu:x"])
def test_a_share_of_nobody_or_of_nothing_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^--share-of: "):
        parse_shares_of("--share-of", [text], ALL)


def test_lists_go_on_under_the_last_name():
    assert split_list("user=1,2,queue=a") == [("user", ["1", "2"]), ("queue", ["a"])]
    assert split_list("5") == [("", ["5"])]


@given(st.text(alphabet="ab7:=,.cpu memory-gGiB٣\x00", max_size=30) | st.text(max_size=12))
def test_any_text_is_shares_or_is_refused(text):
    for parse in (parse_amounts, lambda key, word, known: parse_shares_of(key, [word], known)):
        try:
            found = parse("--share", text, ALL)
        except ConfigurationError:
            pass
        else:
            amounts = (
                [found] if isinstance(found, dict) else [each for kind in found for each in kind.values()]
            )
            assert all(isinstance(value, int) and value >= 0 for each in amounts for value in each.values())


@pytest.mark.parametrize(("total", "users"), [(100_000, 214), (6000, 2), (16_000, 3000), (4_360_000, 97)])
def test_the_default_is_exactly_what_each_user_would_have(total, users):
    shares = shares_of(ShareRules(users={"ann": {"cpu": 1500}}), total=total, users=users)
    assert shares.default * users == total
    scale = shares.scale
    assert shares.scaled_share("bob", scale) * users * 1000 == total * scale
    assert shares.scaled_share("ann", scale) * 2 == 3 * scale


@pytest.mark.parametrize(("total", "users"), [(2**40, 3000), (7, 2)])
def test_a_default_share_of_memory_is_exact_too(total, users):
    shares = shares_of(ShareRules(), resource="memory", total=total, users=users)
    assert shares.scaled_share("bob", shares.scale) * users == total * shares.scale


def test_a_size_without_a_unit_is_asked_for_one():
    with pytest.raises(ConfigurationError, match="needs a unit, KiB or GiB: '8000000000'"):
        parse_amounts("--share", "memory=8000000000", ALL)
    assert parse_amounts("--share", "memory=0", ALL) == {"memory": 0}
