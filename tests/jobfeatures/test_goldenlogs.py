"""What the commands make of all logs at hand is what it was: see `tests/goldenlogs.py`, which writes it anew."""

import json
import os
from pathlib import Path

import pytest

from tests.goldenlogs import FIXTURES, GOLDEN_OF, find_logs, freeze_log

FOLDER = os.environ.get("JOBFEATURES_DATA")
FOLDERS = {"fixtures": FIXTURES, "public": Path(FOLDER) if FOLDER else None}
GOLDEN = {what: json.loads(path.read_text()) for what, path in GOLDEN_OF.items()}


@pytest.mark.parametrize(("what", "name"), [(what, name) for what, logs in GOLDEN.items() for name in logs])
def test_each_log_gives_the_frozen_figures(what, name):
    folder = FOLDERS[what]
    if folder is None or not (folder / name).exists():
        pytest.skip(f"no {name}: JOBFEATURES_DATA names no folder of public logs with it")
    files = dict(find_logs(folder))[name]
    found = json.loads(json.dumps(freeze_log(what, folder, name, files)))
    assert found == GOLDEN[what][name]


def test_every_log_among_the_fixtures_has_frozen_figures():
    assert [name for name, _ in find_logs(FIXTURES)] == sorted(GOLDEN["fixtures"])
