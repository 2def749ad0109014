"""Sonar's format as published, beside the table of types; JOBFEATURES_SONAR names a copy of Sonar's repository."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from jobfeatures.formats.sonar import CURRENT
from jobfeatures.formats.sonar.fields import TYPES

PLACE = "util/formats/newfmt/types.go"
HEAD = re.compile(r"^type (\w+) struct \{$", re.MULTILINE)
NAME = re.compile(r'`json:"(\w+)')


def published() -> dict[str, set[str]]:
    """Return the names of all fields by type."""
    given = os.environ.get("JOBFEATURES_SONAR")
    if not given:
        pytest.skip("no JOBFEATURES_SONAR names a copy of Sonar's repository")
    file = Path(given, PLACE)
    if file.is_file():
        text = file.read_text()
    else:  # one without a work tree
        command = ["git", "-c", "safe.directory=*", "-C", given, "show", f"HEAD:{PLACE}"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    heads = [*HEAD.finditer(text)]
    assert len(heads) > 15
    return {each[1]: {*NAME.findall(text[each.end() : text.index("\n}", each.end())])} for each in heads}


@pytest.mark.program
def test_the_types_have_the_fields_that_sonar_publishes():
    found = published()
    ours = {
        name: {each.name for each in fields if CURRENT in each.profiles} for name, fields in TYPES.items()
    }
    both = ours.keys() & found.keys()
    assert len(both) > 12
    assert {name: found[name] ^ ours[name] for name in both if found[name] != ours[name]} == {}
