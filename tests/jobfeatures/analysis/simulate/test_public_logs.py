"""Real logs, where somebody has them beside the project: JOBFEATURES_DATA names a folder with ``swf/`` in it."""

import os
import sys
from pathlib import Path

import pytest

from jobfeatures.analysis.schedule.choosing import ScheduleError
from jobfeatures.analysis.schedule.logreading import Pieces
from jobfeatures.analysis.schedule.runs import Store, peak_of
from jobfeatures.analysis.simulate.policies import Fairshare, Policy
from jobfeatures.analysis.simulate.pools import one_pool
from jobfeatures.analysis.simulate.simulated import make_logs
from jobfeatures.analysis.simulate.swfschedule import describe, swf_lines
from jobfeatures.analysis.simulate.workload import choose_pool, make_workload, run_policy
from jobfeatures.formats.swf.check import ERROR, check_log

FOLDER = os.environ.get("JOBFEATURES_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="JOBFEATURES_DATA names no folder of public logs")
LOGS = sorted(Path(FOLDER, "swf").glob("*.swf*")) if FOLDER else []


@pytest.mark.parametrize("part", [1, 2, 4])
@pytest.mark.parametrize("path", LOGS, ids=[path.name for path in LOGS])
def test_real_logs_are_simulated_on_their_machine_and_on_parts_of_it(path, part):
    [read] = Pieces([(str(path), str(path))], most=sys.maxsize).reads()
    log = read.log
    if not len(log):
        with pytest.raises(ScheduleError, match="holds no jobs"):
            make_workload(log, one_pool(1))
        return
    pool = one_pool(max(1, choose_pool(log, [log], Store()).processors // part))
    workload = make_workload(log, pool)
    outcomes = {
        policy: run_policy(log, workload, policy, Fairshare(), progress=lambda count: None)
        for policy in Policy
    }
    waits_by = {}
    for policy, found in outcomes.items():
        [made] = make_logs(log, [log], workload, found, policy.value)
        waits = waits_by[policy] = found.starts - found.submits
        assert waits.min() >= 0
        events = Store().write_events(made.start, made.end, made.cpus)
        assert peak_of([events]) <= pool.processors
        if policy is Policy.FIFO:
            assert (made.start[1:] >= made.start[:-1]).all()
        about = describe(path.name, workload, policy, Fairshare())
        assert [
            each
            for each in check_log(swf_lines(lambda: [read.columns], workload, found, about))
            if each.level == ERROR
        ] == []
    assert waits_by[Policy.EASY].mean() <= waits_by[Policy.FIFO].mean()
