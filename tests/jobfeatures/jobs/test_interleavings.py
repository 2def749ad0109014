"""Random interleavings of all who know something of a job, against what is true. Long: JOBFEATURES_LONG=1."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from interleavings import play

SEEDS = 10_000 if os.environ.get("JOBFEATURES_LONG") else 40
BLOCK = 20


@pytest.mark.parametrize("block", range(SEEDS // BLOCK))
def test_no_order_of_events_costs_a_living_job_anything_or_leaves_a_ghost(block, tmp_path):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        play(seed, str(tmp_path / "features"))
