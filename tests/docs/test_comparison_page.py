"""The comparison is dated, and what it says that this exporter has is there; figures are those that were measured."""

import re

import pytest

from jobfeatures.cli import COMMANDS
from jobfeatures.settings.resolve import settings_of
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.scrape.profiles import PROFILES
from tests.docs.pages import ROOT, text_of

PAGE, MEASURED = text_of("docs/comparison.md"), text_of("docs/benchmarks.md")
TABLE = PAGE.partition("\n## ")[0]
ROWS = [line.strip("|").split("|") for line in TABLE.splitlines() if line.startswith("|")]
HEAD, ROWS = ROWS[0], ROWS[2:]
KNOWN = text_of("docs/reference/metrics.md") + (ROOT / "grafana/rules/recording.yml").read_text()
SETTINGS = {each.key for each in settings_of(ExporterConfig)}


def is_there(name):
    """Return whether this exporter has a command, metric, recording rule, setting or flag of this name."""
    if name.startswith("jobfeatures "):
        return name.split()[1] in COMMANDS
    if name.startswith("jobfeatures-exporter "):
        return f"## {name}\n" in text_of("docs/reference/commands.md")
    if ":" in name or name.startswith("batch_"):
        return re.search(rf"(?<![\w:]){name}(?![\w:])", KNOWN) is not None
    return name.removeprefix("--") in SETTINGS | {"metrics.profile"}


def test_it_is_dated_and_names_who_is_compared():
    assert re.search(r"^Read in \w+ \d{4} from documentation and sources", PAGE, re.MULTILINE)
    for name in HEAD[3:]:
        assert re.search(rf"\[{name}[^\]]*\]\(https://", " ".join(PAGE.split())), name


@pytest.mark.parametrize(("question", "ours", "proof", "others"), [(*row[:3], row[3:]) for row in ROWS])
def test_what_is_said_to_be_here_is_here(question, ours, proof, others):
    assert len(others) == len(HEAD) - 3
    assert ours in {"✔", "◐", "–"}
    assert {each.removesuffix("?") for each in others} <= {"✔", "◐", "–"}
    assert (proof == "–") == (ours == "–")
    assert proof == "–" or is_there(proof.strip("`"))


def test_what_is_not_there_would_be_noticed():
    names = (
        "jobfeatures nothing",
        "jobfeatures-exporter nothing",
        "batch_nothing",
        "job:nothing:sum",
        "--no.thing",
    )
    assert not any(map(is_there, names))


def test_each_profile_has_its_differences_of_names():
    assert sorted(re.findall(r"(?m)^### Names of (\S+)$", PAGE)) == sorted(PROFILES)


def test_figures_are_those_of_the_benchmarks():
    ours, node = re.search(r"^\| d \| ([\d.]+) .* \| ([\d.]+) \([\d.]+\) \|", MEASURED, re.MULTILINE).groups()
    assert f"half of our CPU time at most with 200 jobs ({node} against {ours} ms" in " ".join(PAGE.split())
    assert float(node) / float(ours) < 0.5
