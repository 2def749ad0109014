"""Sonar's documents of many nodes a minute, for hours: what is kept of them and what a scrape costs does not grow.

Short: 16 nodes for 160 minutes. JOBFEATURES_LONG=1: 1,000 nodes. Every minute a sixth of the jobs ends, which is told,
and others begin; each minute is followed by a scrape. What was counted of a job is kept for an hour: what counts is that
nothing grows behind the first half.
"""

from __future__ import annotations

import gc
import logging
import os
import statistics
import time

import pytest

from tests.benchmarks.bench_endurance import resident_mib
from tests.exporter.ingest.conftest import Site, envelope, job, process, sample, stamp

IS_LONG = bool(os.environ.get("JOBFEATURES_LONG"))
NODES, MINUTES = 1000 if IS_LONG else 16, 160
JOBS, PROCESSES, LASTS_MINUTES = 6, 4, 6
MOST_GROWN_PERCENT, MOST_GROWN_MIB = 10, 8
MOST_TIMES_MEDIAN = 12  # CPU time, 99 of 100: others may work on this machine
MOST_LINES = 20


def jobs_of(node: int, minute: int) -> list[int]:
    """Return which jobs run there then: each begins at another minute."""
    return [
        (minute + place) // LASTS_MINUTES * NODES * JOBS + node * JOBS + place + 1 for place in range(JOBS)
    ]


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600 if IS_LONG else 300)
def test_memory_descriptors_log_and_time_of_documents_and_scrapes_stay_as_they_are(caplog):
    caplog.set_level(logging.INFO)
    site = Site(max_nodes=NODES)
    memory_mib, opened, series, taking_secs, scraping_secs = [], [], [], [], []
    for minute in range(MINUTES):
        site.clock.now += 60
        at = site.clock.now
        for node in range(NODES):
            found = [
                {
                    "job": number,
                    "user": f"u{number % 97}",
                    "processes": [
                        process(100 * place + each, 60 * minute) for each in range(1, PROCESSES + 1)
                    ],
                }
                for place, number in enumerate(jobs_of(node, minute), 1)
            ]
            document = sample(f"c{node}", jobs=found, at=at, cpus=[minute] * 16, used_memory=4096)
            told = [job(each["job"], nodes=[f"c{node}"], start_time=stamp(60, at)) for each in found]
            for number in set(jobs_of(node, minute - 1)) - set(jobs_of(node, minute)):
                told.append(job(number, nodes=[f"c{node}"], job_state="COMPLETED", end_time=stamp(0, at)))
            documents = [document, envelope("jobs", time=stamp(0, at), slurm_jobs=told)]
            began = time.process_time()
            site.send(*documents)
            taking_secs.append(time.process_time() - began)
        began = time.process_time()
        page = site.page.exposition(openmetrics=False)
        scraping_secs.append(time.process_time() - began)
        if minute % (MINUTES // 20) == 0:
            gc.collect()
            memory_mib.append(resident_mib())
            opened.append(len(os.listdir("/proc/self/fd")))
            series.append(page.count(b"\n") - page.count(b"\n#"))
    warm = len(memory_mib) // 2
    print(
        f"{NODES} nodes, {NODES * MINUTES} samples: {', '.join(f'{each:.0f}' for each in memory_mib)} MiB; "
        f"{series[-1]} series; {opened[-1]} descriptors; CPU of a node's documents "
        f"{statistics.median(taking_secs) * 1e3:.2f} ms, p99 {p99(taking_secs) * 1e3:.2f}; of a scrape first "
        f"{scraping_secs[0] * 1e3:.0f} ms, median {statistics.median(scraping_secs) * 1e3:.0f}, "
        f"p99 {p99(scraping_secs) * 1e3:.0f}"
    )
    assert f'job_id="{jobs_of(NODES - 1, MINUTES - 1)[0]}"'.encode() in page, (
        "the last jobs are on the last page"
    )
    assert f'job_id="{jobs_of(0, 0)[0]}"'.encode() not in page, "the first have gone"
    most = memory_mib[warm] * (1 + MOST_GROWN_PERCENT / 100) + MOST_GROWN_MIB
    assert max(memory_mib[warm:]) < most, memory_mib
    assert max(opened[warm:]) - min(opened[warm:]) <= 2, opened
    assert max(series[warm:]) - min(series[warm:]) <= max(series) // 20, series
    for spent in (taking_secs, scraping_secs):
        assert p99(spent[len(spent) // 2 :]) < MOST_TIMES_MEDIAN * statistics.median(spent)
    assert len(caplog.records) <= MOST_LINES, caplog.text[-2000:]


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]
