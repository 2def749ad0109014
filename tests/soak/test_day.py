"""A day of jobs, compressed: they come and go by the hundred while the node is looked at and its page is made, again and again.

Short: 2,000 jobs in 200 looks. JOBFEATURES_LONG=1: 100,000 jobs in 10,000 looks. The node is one of plain files, so that
times are not the kernel's; what counts is that nothing grows once the first quarter is over.
"""

from __future__ import annotations

import gc
import logging
import os
import statistics
import tempfile
import time
from pathlib import Path

import pytest

from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.scrape.collectors import COLLECTORS, NODE
from jobfeatures_exporter.scrape.pagetext import PageMaker
from tests.benchmarks.bench_endurance import Node, resident_mib

IS_LONG = bool(os.environ.get("JOBFEATURES_LONG"))
JOBS, ENDS_A_LOOK = 60, 10
LOOKS = 10_000 if IS_LONG else 200
PROCESSES_A_JOB = 4
MOST_GROWN_MIB = 12  # behind the first quarter: some arenas of the allocator, however many looks
MOST_TIMES_MEDIAN = 12  # CPU time, 99 of 100 looks: others may work on this machine
MOST_LINES = 20  # of the log, in all


@pytest.fixture
def folder():
    """Return a folder in memory where there is one: files are made and removed by the ten thousand."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600 if IS_LONG else 300)
def test_memory_descriptors_log_and_time_of_a_look_stay_as_they_are(folder, caplog):
    caplog.set_level(logging.INFO)
    node = Node(folder, PROCESSES_A_JOB)
    for _ in range(JOBS):
        node.start_job()
    sampler = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup)), SystemClock())
    pages = PageMaker(
        [name for name, each in COLLECTORS.items() if each.enabled and NODE in each.roles], (), 0
    )
    memory_mib, opened, series, spent_secs = [], [], [], []
    for _ in range(LOOKS):
        began = time.process_time()
        text = pages.render(Context(now_secs=time.time(), snapshot=sampler.sample()), openmetrics=False)
        spent_secs.append(time.process_time() - began)
        if len(spent_secs) % (LOOKS // 20) == 0:
            gc.collect()
            memory_mib.append(resident_mib())
            opened.append(len(os.listdir("/proc/self/fd")))
            series.append(text.count(b"\n") - text.count(b"\n#"))
        for _ in range(ENDS_A_LOOK):
            node.end_job()
            node.start_job()
    sampler.close()
    warm = len(memory_mib) // 4
    assert f'job_id="{LOOKS * ENDS_A_LOOK}"'.encode() in text, "the last jobs are on the last page"
    assert max(memory_mib[warm:]) - memory_mib[warm] < MOST_GROWN_MIB, memory_mib
    assert max(opened[warm:]) - min(opened[warm:]) <= 2, opened
    assert max(series[warm:]) - min(series[warm:]) <= max(series) // 20, series
    least, p99 = statistics.median(spent_secs), statistics.quantiles(spent_secs[LOOKS // 4 :], n=100)[98]
    assert p99 < MOST_TIMES_MEDIAN * least, f"p99 {p99 * 1e3:.1f} ms, median {least * 1e3:.1f} ms"
    early, late = spent_secs[LOOKS // 4 : LOOKS // 2], spent_secs[-LOOKS // 4 :]
    assert statistics.median(late) < 3 * statistics.median(early)
    assert len(caplog.records) <= MOST_LINES, caplog.text[-2000:]
    print(
        f"{LOOKS * ENDS_A_LOOK} jobs ended: {memory_mib[0]:.0f}, {memory_mib[warm]:.0f}, {memory_mib[-1]:.0f} MiB; "
        f"{opened[-1]} descriptors; CPU of a look {least * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms"
    )
