import errno
import os
import resource
import time

import psutil
import pytest
from prometheus_client.process_collector import ProcessCollector

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import NodeSample
from jobfeatures_exporter.scrape.collectors import collect
from jobfeatures_exporter.scrape.collectors.own import process
from jobfeatures_exporter.scrape.collectors.own.process import _start_secs, count_open, families


def test_the_exporters_own_figures_are_those_of_the_common_library():
    """It counts the same, at the price of listing every descriptor."""
    _start_secs.cache_clear()  # the kernel's boot time, in whole seconds, follows adjustments of the clock
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


def test_what_all_exporters_have_is_told_in_the_words_of_the_official_clients():
    """Pages of several exporters that are joined may not differ in them: pushgateway, textfiles."""
    ours = {family.metric.name: family.metric.meaning for family in families(Context(now_secs=time.time()))}
    for family in ProcessCollector(registry=None).collect():
        assert ours[family.name] == family.documentation


def test_open_descriptors_are_counted():
    before = count_open()
    assert before in {psutil.Process().num_fds(), psutil.Process().num_fds() - 1}
    descriptors = [os.open("/dev/null", os.O_RDONLY) for _ in range(7)]
    try:
        assert count_open() == before + 7
    finally:
        for each in descriptors:
            os.close(each)


def names(context):
    families = collect(context, ["process"])
    failed = next(family for family in families if family.metric.name == "batch_exporter_failed_collectors")
    return {family.metric.name for family in families if family.samples}, failed.samples[0][1]


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "no more"), ParseError("not a process")])
def test_what_cannot_be_read_of_the_exporter_costs_neither_its_build_nor_a_traceback(
    context, monkeypatch, caplog, error
):
    def fail(_path):
        raise error

    monkeypatch.setattr(process, "read_file", fail)
    found, failed = names(context)
    assert {"batch_exporter_build", "batch_exporter_sample_duration_seconds", "process_max_fds"} <= found
    assert "process_cpu_seconds" not in found
    assert failed == 1
    assert [record.exc_info for record in caplog.records] == [None]
    monkeypatch.undo()
    found, failed = names(context)
    assert "process_cpu_seconds" in found
    assert failed == 0


def test_a_start_that_could_not_be_told_once_is_told_later(context, monkeypatch):
    process._start_secs.cache_clear()
    monkeypatch.setattr(process, "read_stat", lambda _procfs: NodeSample())
    assert "process_start_time_seconds" not in names(context)[0]
    monkeypatch.undo()
    assert "process_start_time_seconds" in names(context)[0]
