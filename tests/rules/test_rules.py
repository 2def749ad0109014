"""The rules as they are committed: what promtool thinks of them, and what it does not look at."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.grafana.test_dashboards import DECLARED, grouped, matchers, parse, selectors
from tests.together import together
from tests.yamltext import read_yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "grafana/rules"
FILES = {path.name: read_yaml(path.read_text(encoding="utf-8")) for path in sorted(RULES.glob("*.yml"))}
GROUPS = [group for file in FILES.values() for group in file["groups"]]
EVERY = [rule for group in GROUPS for rule in group["rules"]]
RECORDS = {rule["record"]: rule for rule in EVERY if "record" in rule}
ALERTS = {rule["alert"]: rule for rule in EVERY if "alert" in rule}
RULES_BY_NAME = {**RECORDS, **ALERTS}
TESTS = sorted(Path(__file__).parent.glob("*.yml"))
SITE = {"cluster", "job", "instance", "node"}  # labels that Prometheus or the site puts on
LEVELS = {"site", "cluster", "partition", "account", "user", "job", "job_node", "job_gpu", "node"}
OF_INFO = {"batch_system", "job_id", "user", "account", "partition", "name"}


def name_of(rule: dict) -> str:
    return rule.get("record") or rule["alert"]


def labels_of(name: str) -> set[str]:
    """Return the labels that a series may have; those of recorded ones are those of what they are made of."""
    if name in DECLARED:
        return DECLARED[name] | SITE
    tree = parse(RECORDS[name]["expr"])
    return SITE.union(*(labels_of(each.name) for each in selectors(tree)))


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    environ = {**os.environ, "GOGC": "400"}  # a quarter of its time would go into collecting garbage
    return subprocess.run(
        [program, *command], capture_output=True, text=True, check=False, cwd=ROOT, env=environ
    )


@pytest.mark.integration
def test_promtool_finds_no_fault():
    done = run("check", "rules", "--lint=all", "--lint-fatal", *RULES.glob("*.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(400)  # seconds of CPU, which a loaded machine takes many for
@pytest.mark.integration
@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_rules_give_and_alerts_say_what_is_written_beside_them(path, tmp_path):
    done = run("test", "rules", *lean(path, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def lean(path: Path, folder: Path) -> list[Path]:
    """Return each test of a file as one with no rules but those it asks for: in a fifth of the time."""
    test = read_yaml(path.read_text(encoding="utf-8"))
    made = []
    for number, case in enumerate(test["tests"]):
        place = folder / str(number)
        place.mkdir()
        needed = rules_behind(json.dumps([case.get("alert_rule_test"), case.get("promql_expr_test")]))
        for name in (Path(each).name for each in test["rule_files"]):
            groups = [
                {**group, "rules": [rule for rule in group["rules"] if name_of(rule) in needed]}
                for group in FILES[name]["groups"]
            ]
            (place / name).write_text(json.dumps({"groups": groups}))
        alone = {**test, "rule_files": [Path(each).name for each in test["rule_files"]], "tests": [case]}
        made.append(place / "test.yml")
        made[-1].write_text(json.dumps(alone))
    return made


def rules_behind(text: str) -> set[str]:
    """Return the names of the rules that a text names, and of those that these name in turn."""
    found: set[str] = set()
    texts = [text]
    while texts:
        named = set(re.findall(r"[\w:]+", texts.pop())) & RULES_BY_NAME.keys() - found
        found |= named
        texts += [json.dumps(RULES_BY_NAME[name]) for name in named]
    return found


def cases():
    for path in TESTS:
        for case in read_yaml(path.read_text(encoding="utf-8"))["tests"]:
            yield from case.get("alert_rule_test", [])


def test_each_alert_is_shown_to_fire_and_not_to_fire_and_to_end():
    seen: dict[str, list[tuple[int, bool]]] = {}
    for case in cases():
        minutes = int(case["eval_time"].removesuffix("m"))
        seen.setdefault(case["alertname"], []).append((minutes, bool(case["exp_alerts"])))
    assert sorted(seen) == sorted(ALERTS)
    for name, found in seen.items():
        fires = [minutes for minutes, does in found if does]
        assert fires, f"{name} never fires"
        assert any(not does and minutes < max(fires) for minutes, does in found), f"{name} always fires"
        assert any(not does and minutes > min(fires) for minutes, does in found), f"{name} never ends"


def test_each_recording_rule_has_an_expected_value():
    wanted = {
        expression["expr"]
        for path in TESTS
        for case in read_yaml(path.read_text(encoding="utf-8"))["tests"]
        for expression in case.get("promql_expr_test", [])
        if expression["exp_samples"]
    }
    assert sorted(wanted) == sorted(RECORDS)


def test_tests_evaluate_groups_in_their_order():
    names = [group["name"] for group in GROUPS]
    assert len(names) == len(set(names))
    for path in TESTS:
        test = read_yaml(path.read_text(encoding="utf-8"))
        files = [FILES[Path(each).name] for each in test["rule_files"]]  # those that its rules need
        known = [group["name"] for file in files for group in file["groups"]]
        assert sorted(test["group_eval_order"]) == sorted(known)


@together((name_of(rule), rule["expr"]) for rule in EVERY)
def test_a_rule_asks_for_what_the_exporter_shows(name, expression):
    tree = parse(expression)
    known = set(SITE)
    for selector in selectors(tree):
        assert selector.name in DECLARED or selector.name in RECORDS, f"no such metric: {selector.name}"
        assert matchers(selector) <= labels_of(selector.name), f"{selector.name} has no such label"
        known |= labels_of(selector.name)
    assert grouped(tree) <= known, name


@together((name,) for name in RECORDS)
def test_a_recorded_name_says_level_metric_and_operation(name):
    level, metric, operation = name.split(":")
    assert level in LEVELS
    assert re.fullmatch(r"[a-z_]+[a-z]", metric)
    assert (level == "site") == (operation in {"threshold", "factor"})
    assert level == "site" or metric.startswith("batch_")
    assert "labels" not in RECORDS[name]


def test_each_threshold_is_used_and_each_that_is_used_is_there():
    used = set(
        re.findall(r"site:\w+:(?:threshold|factor)", str([rule for rule in EVERY if "record" not in rule]))
    )
    used |= set(re.findall(r"site:\w+:(?:threshold|factor)", str(FILES["recording.yml"])))
    assert used == {name for name in RECORDS if name.startswith("site:")}
    assert all(rule["record"].startswith("site:") for rule in FILES["thresholds.yml"]["groups"][0]["rules"])


@together((name,) for name in ALERTS)
def test_an_alert_says_what_it_is_about_and_where_to_read_on(name):
    alert = ALERTS[name]
    assert name.startswith("Batch")
    assert alert["labels"].keys() == {"severity", "concern"}
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["labels"]["concern"] in {"job", "waste", "node", "exporter", "schedule"}
    assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["description"].rstrip().endswith(".")
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, "no such section"
    assert anchor == name.lower()


def test_the_runbook_has_no_section_of_an_alert_that_is_gone():
    text = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(
        dict.fromkeys(re.findall(r"^### (\w+)$", text, re.MULTILINE))
    )
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == ALERTS.keys()


@together((name,) for name in ALERTS)
def test_labels_that_a_text_uses_are_those_of_the_alert(name):
    alert = ALERTS[name]
    used = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
    expression = alert["expr"]
    series = set().union(*(labels_of(each.name) for each in selectors(parse(expression))))
    assert used <= series
    if "group_left (user, account, partition, name)" in expression:
        assert {"job_id", "user", "batch_system", "name"} <= used <= OF_INFO | SITE


@together((name,) for name in ALERTS)
def test_what_a_text_asks_prometheus_for_is_of_the_alerts_own_cluster(name):
    for asked in re.findall(r'printf\s+"([^"]*\{[^"]*)"', str(ALERTS[name]["annotations"])):
        assert "{cluster=%q," in asked


def test_what_is_checked_can_fail():
    assert "colour" not in labels_of("job:batch_info:group")
    assert labels_of("job:batch_cpu_efficiency:ratio_avg1h") >= {"job_id", "batch_system", "cluster"}
    with pytest.raises(KeyError):
        labels_of("job:batch_nothing:sum")
