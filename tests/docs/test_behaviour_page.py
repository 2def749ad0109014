"""The page on behaviour of others is its table's; each line has what it needs, and tests that are there."""

import re
import runpy
from collections import Counter

import pytest

from tests.docs.pages import ROOT, text_of

PAGE, FINDINGS = "docs/behaviour.md", "findings/README.md"
BEHAVIOURS = runpy.run_path(str(ROOT / "docs/behaviours.py"))
LINES = BEHAVIOURS["read_lines"]()
MOST_LINES = 120


def names_in(path):
    return re.findall(r"(?m)^(?:async )?def (test_\w+)\(", text_of(path)) if (ROOT / path).is_file() else ()


def faults_of(line):
    """Yield what a line lacks, or says and is not so."""
    for key in BEHAVIOURS["NEEDED"]:
        if not line.get(key, "").strip() or "\n" in line[key]:
            yield f"no {key}"
            return
    for key in line.keys() - {*BEHAVIOURS["NEEDED"], *BEHAVIOURS["MORE"]}:
        yield f"{key} is not known"
    if line.get("source") not in BEHAVIOURS["SOURCES"]:
        yield "source is not known"
    for key in ("test", "check"):
        path, _, name = line.get(key, "").partition("::")
        if key in line and name not in names_in(path):
            yield f"{key} is not there: {line[key]}"
    if line.get("next") not in {None, *BEHAVIOURS["NEXT"]}:
        yield "next is not known"
    if ("package" in line) != (line.get("next") == "pypi") or ("check" in line and "next" not in line):
        yield "next, package and check do not fit"


def test_each_line_is_whole_and_its_tests_are_there():
    assert {line.get("happens"): faults for line in LINES if (faults := [*faults_of(line)])} == {}


@pytest.mark.parametrize(
    "change",
    [
        {"test": ""}, {"test": "tests/docs/pages.py::test_nothing"}, {"test": "tests/none.py::test_x"}, {"source": "hearsay"},
        {"next": "pypi"}, {"next": "sid", "check": "tests/docs/test_length.py::test_x"}, {"more": "x"}, {"happens": "a\nb"},
    ],
)  # fmt: skip
def test_a_line_without_its_test_is_found(change):
    good = {key: "run" if key == "source" else "x" for key in BEHAVIOURS["NEEDED"]}
    good["test"] = "tests/docs/test_behaviour_page.py::test_a_line_without_its_test_is_found"
    assert [*faults_of(good)] == []
    assert len([*faults_of({**good, **change})]) == 1


def test_it_says_nothing_twice_and_can_be_read():
    assert len(LINES) <= MOST_LINES
    assert [each for each, count in Counter(line["happens"] for line in LINES).items() if count > 1] == []
    systems = [line["system"] for line in LINES]
    assert len({*systems}) == sum(one != other for one, other in zip(systems, ["", *systems], strict=False))


def test_each_finding_has_a_line_and_a_script():
    told = re.findall(r"(?m)^\| ([a-z0-9-]+) \| [^|]+ \| [^|]+ \| [^|]+ \|$", text_of(FINDINGS))
    assert sorted(told) == sorted(path.stem for path in (ROOT / "findings").glob("*.sh"))
