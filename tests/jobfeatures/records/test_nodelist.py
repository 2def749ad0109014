"""Compressed host lists."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.records.nodelist import MAX_NODES, expand_nodes, fold_nodes, fold_ranges


@pytest.mark.parametrize("text", ["", "(null)", "None assigned"])
def test_no_nodes_are_no_names(text: str) -> None:
    assert expand_nodes(text) == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("node-7.example.org", ("node-7.example.org",)),
        ("n[1-3,07-09]", ("n1", "n2", "n3", "n07", "n08", "n09")),
        ("n[1-3],gpu-[01-02]-x", ("n1", "n2", "n3", "gpu-01-x", "gpu-02-x")),
        ("n2,n1", ("n2", "n1")),
        ("n1,n1", ("n1",)),
        ("n[098-101]", ("n098", "n099", "n100", "n101")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("n1[8-11]", ("n18", "n19", "n110", "n111")),
        ("n[1-2][8-10]", ("n18", "n19", "n110", "n28", "n29", "n210")),
        ("n0[8-10]", ("n08", "n09", "n010")),
        ("n[1-2]0[1-2]", ("n101", "n102", "n201", "n202")),
        ("n[2,1]", ("n2", "n1")),
        ("n[1-003]", ("n1", "n2", "n3")),
        ("n[1-2]-ib", ("n1-ib", "n2-ib")),
    ],
)
def test_lists_expand_in_their_order_with_their_padding(text: str, names: tuple[str, ...]) -> None:
    assert expand_nodes(text) == names


def test_two_dimensions_expand() -> None:
    first = ("1", "2", "3", "08", "09", "10")
    assert expand_nodes("c[1-3,08-10]-[2-4]") == tuple(f"c{a}-{b}" for a in first for b in "234")


@pytest.mark.parametrize(
    "text",
    [
        "n[0-999999999]",
        "n[0-99999],m",
        "n[0-999][0-999]",
        "n[0-9999]x[0-9999]y[0-9999]z[0-9999]",
        "n[1-99999,1-99999]",
        "n[0-999999999999]",
        "n[0-99999],m[0-99999]",
        "n9[0-999999]",
    ],
)
def test_too_many_nodes_are_refused_before_they_are_made(text: str) -> None:
    with pytest.raises(ParseError, match=f"more than {MAX_NODES} nodes"):
        expand_nodes(text)


def test_as_many_nodes_as_allowed_expand() -> None:
    assert len(expand_nodes(f"n[1-{MAX_NODES}]")) == MAX_NODES


@pytest.mark.parametrize(
    "text",
    [
        "@all",
        "n1,@group",
        "n[1-4]!n2",
        "n[1-4]&n[2-3]",
        "n[1-4]^n2",
        "@*",
        "n[1-9/2]",
        "n[1-3",
        "n]",
        "n[]",
        "n[3-1]",
        "n[a-b]",
        "n1,",
        ",n1",
        "n1,,n2",
        "n 1",
        "n[1, 2]",
        "n1\n",
        "n[1-2]\n",
        "../etc",
        "n[١-٢]",
        "x" * 256,
        "x" * 256 + "[1-2]",
        "x" * 255 + "[1-2]",
        "[1]" * 100_000,
    ],
)
def test_what_is_no_plain_list_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        expand_nodes(text)


def test_names_fold() -> None:
    assert fold_nodes(["n3", "n1", "n2", "n08", "n09"]) == "n[1-3,08-09]"
    assert fold_nodes(["n1"]) == "n1"
    assert fold_nodes([]) == ""


@pytest.mark.parametrize("name", ["@all", "n[1-2]", "a,b", "a b", "", "x" * 256])
def test_only_plain_names_fold(name: str) -> None:
    with pytest.raises(ParseError):
        fold_nodes([name, "n1"])


plain_names = st.from_regex(r"[a-z]{1,3}[0-9]{0,4}(-[a-z]?[0-9]{1,3})?", fullmatch=True)


ranges = st.tuples(st.integers(0, 120), st.integers(0, 15), st.integers(0, 3)).map(
    lambda drawn: (f"{drawn[0]:0{drawn[2]}d}", drawn[0] + drawn[1])
)


@given(
    st.text("an0-", max_size=3),
    st.lists(st.tuples(st.lists(ranges, min_size=1, max_size=3), st.text("x01", max_size=2)), max_size=3),
)
def test_brackets_are_a_product_of_texts(head: str, rest: list[tuple[list[tuple[str, int]], str]]) -> None:
    text, names = head, [head]
    for bracket, tail in rest:
        text += "[" + ",".join(f"{low}-{high}" for low, high in bracket) + "]" + tail
        numbers = [str(n).zfill(len(low)) for low, high in bracket for n in range(int(low), high + 1)]
        names = [name + number + tail for name in names for number in numbers]
    if text and len(names) <= MAX_NODES:
        assert expand_nodes(text) == tuple(dict.fromkeys(names))


@given(st.sets(plain_names, max_size=12))
def test_folding_and_expanding_gives_the_same_names(names: set[str]) -> None:
    assert set(expand_nodes(fold_nodes(names))) == names


@given(st.text(max_size=60) | st.text(alphabet="n[]0129-,@!&^/.x ", max_size=40))
def test_any_text_gives_names_or_a_parse_error(text: str) -> None:
    try:
        names = expand_nodes(text)
    except ParseError:
        return
    assert len(names) <= MAX_NODES
    assert all(isinstance(name, str) and name for name in names)


@pytest.mark.program
def test_expanding_does_not_load_the_library() -> None:
    code = (
        "import sys; from jobfeatures.records.nodelist import *; expand_nodes('n1'); expand_nodes(''); "
        "expand_nodes('n1[1-2]'); fold_nodes(['n1']); sys.exit('ClusterShell' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("names", "ranges"),
    [
        ((), ()),
        (("n1",), ("n1",)),
        (("n2", "n1", "login"), ("login", "n[1-2]")),
        (("a1", "a2", "b-1-1", "b-1-2", "b-2-1", "b-2-2"), ("a[1-2]", "b-[1-2]-[1-2]")),
    ],
)
def test_ranges_have_no_commas_between_names(names: tuple[str, ...], ranges: tuple[str, ...]) -> None:
    assert fold_ranges(names) == ranges
    assert set(expand_nodes(",".join(fold_ranges(names)))) == set(names)
