"""What docs/promises.md promises: no name of the last release is gone."""

import json
import re
import sys

from tests.docs.pages import ROOT, text_of

sys.path.insert(0, str(ROOT / "docs"))
from names import RELEASED, lost, promised

from tests.yamltext import read_yaml


def releases():
    """Return the versions with a date in the changelog, the newest first."""
    return re.findall(
        r"^## \[?([0-9.]+)\]? [-—] [0-9]{4}-[0-9]{2}-[0-9]{2}$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )


def test_the_names_of_the_newest_release_are_kept_and_all_are_still_there():
    kept = json.loads(RELEASED.read_text()) if RELEASED.exists() else {}
    assert kept.pop("version", None) == next(iter(releases()), None), "python docs/names.py --release VERSION"
    assert lost(kept, promised()) == []
    assert ("There has been no release so far." in text_of("docs/promises.md")) == (not releases())


def test_a_name_that_is_gone_is_found_and_one_that_is_new_is_not():
    now = promised()
    assert lost(now, now) == []
    assert all(len(names) > 1 for names in now.values())
    assert {"batch_job_cpu_seconds_total counter", "batch_sonar_node_age_seconds gauge"} <= set(
        now["metrics"]
    )
    assert "batch_job_info user" in now["labels"]
    assert "jobfeatures drain set --force" in now["flags"]
    for kind, names in now.items():
        without = {**now, kind: names[1:]}
        assert lost(now, without) == [f"{kind}: {names[0]}"]
        assert lost(without, now) == []


def test_the_workflow_runs_everything_and_the_forms_of_issues_are_forms():
    workflow = read_yaml((ROOT / ".github/workflows/ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    assert job["container"]["image"] == "debian:12"
    assert "bash .ci/run" in [step.get("run") for step in job["steps"]]
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"):
        content = read_yaml(form.read_text())
        assert content.keys() == {"name", "description", "body"}
        asked = [each for each in content["body"] if each["type"] != "markdown"]
        assert asked
        assert all(each["id"] and each["attributes"]["label"] for each in asked)
