"""What the outcomes of tests say of the lines of docs/behaviour.toml. Pure, but for reading pytest's report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

Outcomes = dict[str, list[tuple[str, str]]]  # of a test, whatever its parameters: what happened, and why
HOLDS, CHANGED, NOT_TRIED = VERDICTS = ("holds", "CHANGED", "not tried")


def named_by(line: Mapping[str, Any]) -> list[str]:
    """Return what has to pass for a line to hold: its probe, and its own test where libraries are newer."""
    found = [line["check"]] if "check" in line else []
    return [*found, line["test"]] if line["next"] != "sid" or not found else found


def wanted(lines: Iterable[Mapping[str, Any]], kind: str) -> list[str]:
    return sorted({test for each in lines if each["next"] == kind for test in named_by(each)})


def judge(line: Mapping[str, Any], outcomes: Outcomes) -> tuple[str, str]:
    """Return whether a line holds, and why not."""
    found = [
        each for test in named_by(line) for each in outcomes.get(test) or [("missing", "it did not run")]
    ]
    for verdict, kinds in ((CHANGED, {"failure", "error"}), (NOT_TRIED, {"skipped", "missing"})):
        for kind, why in found:
            if kind in kinds:
                return verdict, why
    return HOLDS, ""


def read(report: Path, tests: Sequence[str], outcomes: Outcomes) -> None:
    """Add the outcomes that a report of pytest has, by the tests' names without parameters."""
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"].partition("[")[0]
        place = case.attrib["classname"].replace(".", "/")
        [test] = [
            each for each in tests if each.endswith(f"::{name}") and each.partition(".py")[0].endswith(place)
        ] or [""]
        bad = next((each for each in case if each.tag in {"failure", "error", "skipped"}), None)
        why = "" if bad is None else bad.attrib.get("message", "").partition("\n")[0][:160]
        outcomes.setdefault(test, []).append(("passed" if bad is None else bad.tag, why))
