"""What the format has and documents never hold: the list here is whole and true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jobfeatures.formats.sonar import CURRENT, SEED
from jobfeatures.formats.sonar.fields import TYPES, fields_of

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "fixtures" / "golden"
WRITERS = (
    *(ROOT / "exporter" / "jobfeatures_exporter" / "sonar").glob("*.py"),
    *(ROOT / "jobfeatures" / "formats" / "sonar" / name for name in ("envelopes.py", "writejobs.py")),
)


UNSENT = {"format"}  # is 0, as all zeros left out


@pytest.mark.parametrize("profile", [CURRENT, SEED])
def test_every_other_field_can_be_sent(profile):
    """A field that is sent stands, in quotes, where documents are made."""
    source = "".join(path.read_text(encoding="utf-8") for path in WRITERS)
    unsent = {name for kind in TYPES for name in fields_of(kind, profile) if f'"{name}"' not in source}
    assert unsent == UNSENT


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("sonar-*.json")), ids=lambda path: path.stem)
def test_no_document_holds_what_is_said_not_to_be_sent(path):
    names = set(re.findall(r'"(\w+)":', json.dumps(json.loads(path.read_text()))))
    assert names & UNSENT == set()
