"""slurmctld's figures under the controller role's names; which agree is tried on a real Slurm, see `ALIKE` there."""

import re
from pathlib import Path

import pytest

from tests.integration.test_slurm_suites import ALIKE
from tests.rules.test_rules import DECLARED, SITE, run
from tests.yamltext import read_yaml

RULES = Path(__file__).parents[2] / "grafana/rules/slurmctld/rules.yml"
CASES = Path(__file__).parent / "slurmctld/cases.yml"
MIB = 2**20


def rules():
    [group] = read_yaml(RULES.read_text(encoding="utf-8"))["groups"]
    return group["rules"]


def test_each_rule_is_a_pair_of_series_that_agreed_on_a_real_slurm():
    found = [
        (
            re.search(r"\((slurm_\w+)\)", rule["expr"])[1],
            rule["record"],
            {name: value for name, value in rule["labels"].items() if name != "batch_system"},
            MIB if "2^20" in rule["expr"] else 1,
        )
        for rule in rules()
    ]
    assert found == list(ALIKE)


def test_labels_are_those_of_the_controller_roles_series():
    for rule in rules():
        assert {*rule["labels"], "partition"} == DECLARED[rule["record"]] - SITE, rule["record"]
        assert f'unless on (cluster) {rule["record"]}{{instance!=""}}' in rule["expr"]


@pytest.mark.integration
@pytest.mark.parametrize("command", [("check", "rules", "--lint=all", RULES), ("test", "rules", CASES)])
def test_promtool_agrees(command):
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr
