import os
import resource
import time

import psutil
import pytest
from prometheus_client.process_collector import ProcessCollector

from jobfeatures_exporter.collectors.process import count_open, families
from jobfeatures_exporter.context import Context


def test_the_exporters_own_figures_are_those_of_the_common_library():
    """It counts the same, at the price of listing every descriptor."""
    ours = {
        family.metric.sample_name: family.samples[0][1] for family in families(Context(now_secs=time.time()))
    }
    theirs = {
        sample.name: sample.value
        for family in ProcessCollector(registry=None).collect()
        for sample in family.samples
    }
    ours.pop("batch_exporter_build_info")
    assert ours.keys() == theirs.keys()
    assert ours["process_start_time_seconds"] == pytest.approx(theirs["process_start_time_seconds"], abs=0.02)
    assert ours["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for name in (
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
    ):
        assert ours[name] == pytest.approx(theirs[name], rel=0.1)


def test_open_descriptors_are_counted():
    before = count_open()
    assert before in {psutil.Process().num_fds(), psutil.Process().num_fds() - 1}
    descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(7)]
    try:
        assert count_open() == before + 7
    finally:
        for each in descriptors:
            os.close(each)
