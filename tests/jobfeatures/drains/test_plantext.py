"""What plans and victims look like: names from foreign metrics move no cursor, and letters stay letters."""

import pytest

from jobfeatures.drains.nodemetrics import SeenJob, SeenNode
from jobfeatures.drains.plan import plan_drain
from jobfeatures.drains.plantext import format_order, format_plan, format_victims
from jobfeatures.drains.victims import choose_victims

HOSTILE = "n\x1b[2J\n\u202ex"
SHOWN = r"n\x1b[2J\n\u202ex"
JOB = SeenJob(batch_system=HOSTILE, job_id=HOSTILE, user="Jürgen", allocated_cpus=2, kill_core_secs=7200)
NODE = SeenNode(HOSTILE, 4, (JOB,), (HOSTILE,), {HOSTILE: 60.0})


@pytest.mark.parametrize(
    "text",
    [
        format_plan(plan_drain(NODE, 0), now_secs=0),
        format_order([plan_drain(NODE, 0)], now_secs=0),
        format_victims(NODE, choose_victims(NODE.jobs, 2)),
        format_victims(NODE, choose_victims(NODE.jobs, 3)),
    ],
    ids=["plan", "order", "victims", "too few"],
)
def test_nothing_of_a_foreign_name_moves_the_cursor_or_ends_a_line(text):
    assert SHOWN in text
    assert [line for line in text.split("\n") if not line.isprintable()] == []


def test_letters_and_dashes_are_shown_as_they_are():
    assert "Jürgen" in format_victims(NODE, choose_victims(NODE.jobs, 2))
    empty = format_order([plan_drain(SeenNode("n1", 0), 0)], now_secs=0)
    assert empty.splitlines()[2].split()[7] == "–"  # nothing per CPU where there is none
