"""The licences of everything that the programs need, and of all extras: each may stand beside Apache-2.0."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement

PROJECT = "jobfeatures-exporter"
TESTS_ONLY = {"test", "lint", "benchmark", "browser"}
# Permissive, or weak copyleft: libraries that are imported unchanged, and whose text and source are at hand.
COMPATIBLE = {
    "0BSD", "Apache-2.0", "Apache License 2.0", "Apache Software License", "BSD", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0",
    "GNU Lesser General Public License v2 or later (LGPLv2+)", "ISC", "MIT", "MIT License", "MIT-CMU", "MPL-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)",
    "PSF-2.0", "Python Software Foundation License", "Python-2.0", "Zlib",
}  # fmt: skip


def words_of(expression: str) -> set[str]:
    return set(re.split(r" (?:AND|OR|WITH) |[()]", expression)) - {""}


def licences_of(name: str) -> set[str]:
    """Return what a distribution states: an expression, else classifiers, else a first line of text."""
    about = metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return words_of(expression)
    stated = {
        each.rpartition(" :: ")[2]
        for each in about.get_all("Classifier", [])
        if each.startswith("License ::") and not each.endswith("OSI Approved")
    }
    return stated or words_of((about.get("License") or "nothing").splitlines()[0])


def needed_by(name: str, extras: frozenset[str], found: dict[str, frozenset[str]]) -> None:
    """Add all that a distribution needs here, with extras, to `found`."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in found and extras <= found[key]:
        return
    found[key] = found.get(key, frozenset()) | extras
    for each in map(Requirement, metadata.requires(name) or ()):
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            needed_by(each.name, frozenset(each.extras), found)


@pytest.fixture(scope="module")
def needed() -> set[str]:
    extras = metadata.metadata(PROJECT).get_all("Provides-Extra") or []
    found: dict[str, frozenset[str]] = {}
    needed_by(PROJECT, frozenset(extras) - TESTS_ONLY, found)
    return set(found)


def test_every_licence_may_stand_beside_ours(needed):
    assert {"aiohttp", "clustershell", "numpy", "rich", "yarl"} <= needed
    foreign = {each: licences_of(each) - COMPATIBLE for each in needed}
    assert not {each: stated for each, stated in foreign.items() if stated}


def test_what_is_ours_states_the_licence_that_is_in_its_file(needed):
    assert licences_of(PROJECT) == {"Apache-2.0"}
    texts = [each for each in metadata.files(PROJECT) or () if each.name == "LICENSE"]
    assert not texts or "Apache License" in texts[0].read_text()
