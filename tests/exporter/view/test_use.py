"""Peaks of memory that samples missed. Constructed."""

from jobfeatures_exporter.jobreport.text import format_reports
from jobfeatures_exporter.view.use import without_missed_peaks
from tests.exporter.view.test_judge import GIB, job, names, node


def peaks(report):
    return [node.memory_peak for node in without_missed_peaks(report).nodes]


def test_a_peak_that_samples_missed_does_not_stand_beside_a_kill_for_want_of_memory():
    low = 8 * GIB * 0.005
    killed = job(node(memory_peak=low, oom_kills=1))
    assert peaks(killed) == [None]
    assert without_missed_peaks(killed).memory_share is None
    assert names(without_missed_peaks(killed)) == ["memory_killed"]
    assert peaks(job(node(memory_peak=low), state="OUT_OF_MEMORY")) == [None]
    told = job(node(memory_peak=low, charged_peak=8 * GIB, oom_kills=1))
    assert peaks(told) == [8 * GIB]
    elsewhere = job(node(memory_peak=low), node(memory_peak=low, oom_kills=1))
    assert peaks(elsewhere) == [low, None]
    assert peaks(job(node(memory_peak=low))) == [low]
    assert peaks(job(node(memory_peak=None, allocated_memory=None, oom_kills=1))) == [None]


def test_the_report_says_that_the_peak_is_not_known():
    report = without_missed_peaks(job(node(memory_peak=1.0, oom_kills=1)))
    text = format_reports([report])
    assert "8 GiB ran out; the highest use is not known" in text
    assert "one of its processes was killed when memory ran out" in text
