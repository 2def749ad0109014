"""A real log, where somebody has it beside the project: JOBFEATURES_DATA names a folder with ``swf/`` in it.

What is expected was counted by another program: Algorithm 1 of the paper as it stands, over every second.
"""

import os
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="numpy is not installed (extra: analysis)")

from jobfeatures.formats.swf.columns import read_columns
from jobfeatures.schedule.document import make_document
from jobfeatures.schedule.jobs import from_swf
from jobfeatures.schedule.result import Options, evaluate
from jobfeatures.schedule.shares import ShareRules

FOLDER = os.environ.get("JOBFEATURES_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="JOBFEATURES_DATA names no folder of public logs")


def test_the_expected_ends_of_kth_are_those_of_the_loop_over_seconds():
    path = Path(FOLDER) / "swf/KTH-SP2-1996-2.1-cln.swf.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    log = from_swf(read_columns(str(path)), "KTH")
    found = make_document(evaluate(log, Options(rules=ShareRules(default={"cpu": 8000}))))
    expected = {
        "jobs": 28475,
        "users": 214,
        "sum_eet": 436090472648,
        "violated": 15568,
        "total_tardiness": 262122453,
        "total_weighted_tardiness": 3441930356,
    }
    assert {name: found[name] for name in expected} == expected
    assert sum(found["skipped"].values()) == found["skipped"]["no_cpus"] == 1
