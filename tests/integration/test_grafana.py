"""The dashboards hold what Grafana's own schema knows, and every panel shows something on a cluster at work."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.labs.monitoring.lab import Lab
from tests.labs.monitoring.panels import Checker, panels_of

ROOT = Path(__file__).parents[2]
BOARDS = sorted((ROOT / "grafana/dashboards").glob("*.json"))
LABS = ROOT / "tests/labs/grafana"
CHOSEN = {"batch_system": "slurm", "job_id": "1003"}  # a job with cards, and a JOBSTATUS; all others: .*
WHOLE = CHOSEN | {"job_id": "1008"}  # one that has its node to itself
STEP_SECS = 2
PATIENCE_SECS = 180


@pytest.mark.long
def test_they_fit_grafanas_published_types(tmp_path):
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm is not installed (Debian: nodejs npm)")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LABS / "schema" / name, tmp_path)
    done = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"npm cannot fetch @grafana/schema: {done.stderr[-300:]}")
    check = ["node", str(LABS / "typecheck.mjs"), *map(str, BOARDS)]
    environ = {**os.environ, "GRAFANA_LAB": str(tmp_path)}
    done = subprocess.run(check, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = json.loads(BOARDS[0].read_text())
    broken["panels"][1]["options"]["colour"] = "red"
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    check = ["node", str(LABS / "typecheck.mjs"), str(tmp_path / "broken.json")]
    done = subprocess.run(check, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1, "a key that Grafana does not know passes"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    for program in ("prometheus", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: prometheus, gcc)")
    with Lab(tmp_path_factory.mktemp("lab") / "lab", interval_secs=STEP_SECS) as running:
        yield running


def test_every_panel_gives_data(lab):
    """Variables as somebody finds them who opens the dashboard: all of everything, and one job."""
    missing = {
        (path.stem, panel["title"]): panel
        for path in BOARDS
        for panel in panels_of(json.loads(path.read_text()))
    }
    assert len(missing) > 150
    seen, alone = Checker(lab, CHOSEN, STEP_SECS), Checker(lab, WHOLE, STEP_SECS)
    deadline = time.monotonic() + PATIENCE_SECS
    while missing and time.monotonic() < deadline:
        missing = {
            (board, title): panel
            for (board, title), panel in missing.items()
            if not (alone if title.endswith("of its nodes") else seen).has_data(panel)
        }
        if missing:
            time.sleep(STEP_SECS)
    assert sorted(missing) == [], "panels without data"


def test_what_variables_offer_is_there(lab):
    seen = Checker(lab, CHOSEN, STEP_SECS)
    for path in BOARDS:
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(
                    r"label_values\((.*), (\w+)\)", variable["query"]["query"]
                ).groups()
                values = lab.ask(f"label/{label}/values", **{"match[]": seen.filled(metric)})
                assert values, f"{path.stem}: {variable['name']}"
