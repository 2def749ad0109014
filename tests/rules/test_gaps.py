"""What alerts have to stand and to see: a scrape that fails, which leaves a gap in all series, and the first event."""

import json
import re
from pathlib import Path

import pytest

from tests.rules.test_rules import ALERTS, TESTS, lean, run
from tests.yamltext import read_yaml


def expanded(values: str) -> list[str]:
    """Return promtool's notation of a series as one word for each scrape."""
    found: list[str] = []
    for each in values.split():
        part = re.fullmatch(r"(_|-?[\d.]+(?:e\d+)?)(?:([+-][\d.]+(?:e\d+)?))?x(\d+)", each)
        if part is None:
            found.append(each)
        elif part[1] == "_":
            found += ["_"] * int(part[3])
        else:
            found += [
                repr(float(part[1]) + number * float(part[2] or 0)) for number in range(int(part[3]) + 1)
            ]
    return found


def minutes_of(time: str) -> int:
    return int(time.removesuffix("m"))


def with_gaps(values: str, gaps: set[int]) -> str:
    return " ".join("stale" if number in gaps else word for number, word in enumerate(expanded(values)))


def firing_cases():
    """Yield for each alert the earliest time at which a test has it fire, with that test."""
    found: dict[str, tuple[int, dict, dict, dict]] = {}
    for path in TESTS:
        test = read_yaml(path.read_text(encoding="utf-8"))
        for case in test["tests"]:
            for asked in case.get("alert_rule_test", []):
                minute = minutes_of(asked["eval_time"])
                if asked["exp_alerts"] and minute < found.get(asked["alertname"], (10**9,))[0]:
                    found[asked["alertname"]] = minute, test, case, asked
    return found


def test_values_are_expanded_as_promtool_does():
    assert " ".join(expanded("1 2x1 1+0.5x2 _x2 stale _")) == "1 2.0 2.0 1.0 1.5 2.0 _ _ stale _"
    assert with_gaps("0x9 1x3", {1, 10}) == "0.0 stale" + " 0.0" * 8 + " stale 1.0 1.0 1.0"


class Fired:
    """Tests that ask at one time which alerts of a name fire, each with the rules that it needs alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.made: list[Path] = []

    def add(self, name: str, like: tuple[dict, dict, dict], series: list[dict], minute: int) -> None:
        test, case, asked = like
        labels = [
            {"alertname": name, "alertstate": "firing", **each["exp_labels"]} for each in asked["exp_alerts"]
        ]
        texts = (", ".join(f"{key}={json.dumps(value)}" for key, value in each.items()) for each in labels)
        wanted = {
            "expr": f'ALERTS{{alertname="{name}",alertstate="firing"}}',
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f"ALERTS{{{text}}}", "value": 1} for text in texts],
        }
        alone = {"interval": case["interval"], "input_series": series, "promql_expr_test": [wanted]}
        path = self._folder / f"{name}.yml"
        path.write_text(json.dumps({**test, "tests": [{"name": name, **alone}]}))
        folder = self._folder / name
        folder.mkdir()
        self.made += lean(path, folder)

    def check(self) -> None:
        done = run("test", "rules", *self.made)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(400)
@pytest.mark.integration
def test_two_scrapes_that_fail_as_an_alert_is_due_or_fires_neither_delay_nor_end_it(tmp_path):
    fired = Fired(tmp_path)
    for name, (due, *like) in firing_cases().items():
        _, case, _ = like
        step = minutes_of(case["interval"])
        minute = due if "for" in ALERTS[name] else due + 2 * step  # what waits for nothing has to stay
        gaps = {minute // step - 1, minute // step}
        series = [{**each, "values": with_gaps(each["values"], gaps)} for each in case["input_series"]]
        fired.add(name, like, series, minute)
    assert len(fired.made) == len(ALERTS)
    fired.check()


@pytest.mark.integration
def test_the_first_event_fires_each_alert_that_counts_events(tmp_path):
    fired = Fired(tmp_path)
    for name, (_, *like) in firing_cases().items():
        counted = re.search(r"increase\((\w+)\[\d+[mh]\]\)+ > 0$", ALERTS[name]["expr"])
        if counted and name not in {"BatchRecordsRejected", "BatchSinkFailing"}:  # of what goes on
            [series] = [each for each in like[1]["input_series"] if each["series"].startswith(counted[1])][:1]
            waits = minutes_of(ALERTS[name].get("for", "0m"))
            fired.add(name, like, [{**series, "values": "0x9 1x60"}], 11 + waits)
    assert len(fired.made) == 4
    fired.check()
