"""The rules as `install.sh` installs them: every alert leads to a page that can be opened."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.yamltext import read_yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "grafana/rules"


def install(*words):
    return subprocess.run([RULES / "install.sh", *words], capture_output=True, text=True)


@pytest.mark.program
def test_installed_rules_are_those_of_the_folder_with_links_that_lead_somewhere(tmp_path):
    assert install("https://docs.example.org/batch/", tmp_path).returncode == 0
    assert {each.name.removeprefix("jobfeatures-") for each in tmp_path.iterdir()} == {
        each.name for each in RULES.glob("*.yml")
    }
    links = []
    for file in RULES.glob("*.yml"):
        installed = (tmp_path / f"jobfeatures-{file.name}").read_text()
        assert installed.replace("https://docs.example.org/batch/", "docs/") == file.read_text()
        groups = read_yaml(installed)["groups"]
        links += [
            rule["annotations"]["runbook_url"]
            for group in groups
            for rule in group["rules"]
            if "alert" in rule
        ]
    assert len(links) > 40
    assert [
        each for each in links if not re.fullmatch(r"https://docs\.example\.org/batch/runbook\.md#\w+", each)
    ] == []


@pytest.mark.program
@pytest.mark.parametrize(
    "url", ["", "docs", "ftp://x", "http://", "https://x/'; rm", "https://x|y", "https://x/&"]
)
def test_what_is_no_address_is_refused_and_nothing_installed(tmp_path, url):
    ended = install(url, tmp_path)
    assert ended.returncode == 2
    assert "http://" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.program
def test_a_folder_that_is_not_there_is_named(tmp_path):
    ended = install("https://x/docs", tmp_path / "rules")
    assert ended.returncode == 2
    assert "rules is no folder" in ended.stderr
