"""The page on simulations: its example is simulated, and every reason is named."""

import re
from pathlib import Path

import pytest

from jobfeatures.analysis.schedule.logreading import read_log
from jobfeatures.analysis.simulate.policies import Policy
from jobfeatures.analysis.simulate.pools import parse_nodes
from jobfeatures.analysis.simulate.sizes import REASONS
from jobfeatures.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGE, SCHEDULE = ((DOCS / name).read_text(encoding="utf-8") for name in ("simulate.md", "schedule.md"))


def rows_of(table):
    """Return the cells of a table that begins with these words, without its head."""
    rows = PAGE[PAGE.index(table) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (1, ["fifo"]),
        (2, ["fairshare"]),
        (3, ["easy"]),
    ],
)
def test_the_example_starts_as_the_table_says(tmp_path, column, words):
    lines = PAGE[PAGE.index("; Version: 2.2") :].split("```")[0]
    log, found = tmp_path / "log.swf", str(tmp_path / "found.swf")
    log.write_text(lines)
    assert main(["simulate", str(log), "--policy", *words, "--output", found]) == 0
    assert read_log(found).start.tolist() == [int(row[column]) for row in rows_of("| job | fifo")]


def test_every_reason_is_named():
    """Here, or in the table of reasons that the page links to."""
    shared = set(re.findall(r"(?m)^\| `(\w+)` \|", SCHEDULE))
    assert set(REASONS) - shared == {"too_many_cpus", "too_much_memory", "too_many_gpus", "no_room"}
    assert all(f"`{name}`" in PAGE for name in set(REASONS) - shared)


def test_every_policy_is_named():
    assert [row[0].strip("`") for row in rows_of("| `--policy` |")] == [policy.value for policy in Policy]


def test_the_nodes_that_are_shown_are_a_pool():
    pool = parse_nodes("--nodes", re.search(r"`--nodes '([^']+)'`", PAGE)[1])
    assert (len(pool.nodes), pool.processors) == (9, 592)
