"""Real logs of the Parallel Workloads Archive and others, where somebody has them beside the project.

They are not ours to hand on: set JOBFEATURES_DATA to a folder with ``swf/`` in it. What
is expected was counted by other means (awk, grep) and stands here.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from jobfeatures.formats.swf.check import check_log
from jobfeatures.formats.swf.header import Preemption, Size
from jobfeatures.formats.swf.lines import SwfReader, format_job
from jobfeatures.formats.swf.records import read_records
from jobfeatures.formats.swf.write import write_records
from jobfeatures.joblogs.logfiles import bounded_lines, reading
from jobfeatures.joblogs.loggedjob import JobRecord, Notes

FOLDER = os.environ.get("JOBFEATURES_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="JOBFEATURES_DATA names no folder of public logs")

# jobs, users, faults by rule
LOGS = {
    "KTH-SP2-1996-2.1-cln.swf.gz": (
        28476,
        214,
        {"first submit", "header", "header count", "number sequence"},
    ),
    "NASA-iPSC-1993-3.1-cln.swf.gz": (18239, 69, {"header", "header count", "number sequence"}),
    "accasim-workload.swf": (25, 5, {"first submit", "header", "number sequence", "numbering"}),
    "cqsim-test.swf": (9, 1, {"header", "header count", "header time", "numbering"}),
    "evalys-easy_mediumWL_smallPF.swf": (800, 1, {"header", "number", "number sequence", "order"}),
    "lapis-swf_jobs.swf": (8, 5, {"header count", "header time"}),
    "LANL-O2K-1999-1.header-excerpt.swf.txt": (0, 0, {"header", "header count", "header value"}),
}


def path_of(name):
    path = Path(FOLDER) / "swf" / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return str(path)


@pytest.mark.parametrize("name", LOGS)
def test_a_public_log_is_read_whole_and_its_faults_are_those_that_are_known(name):
    jobs, users, rules = LOGS[name]
    with reading(path_of(name)) as stream:
        reader = SwfReader(bounded_lines(stream), source=name)
        found = list(reader)
    assert (len(found), len({job.user for job in found}), reader.skipped, reader.repaired) == (
        jobs,
        users,
        0,
        {},
    )
    with reading(path_of(name)) as stream:
        assert {fault.rule for fault in check_log(bounded_lines(stream))} == rules
    again = SwfReader([format_job(job) for job in found], strict=True)
    assert list(again) == found


@pytest.mark.parametrize("name", LOGS)
def test_a_public_log_survives_conversion(name):
    with reading(path_of(name)) as stream:
        records = list(read_records(bounded_lines(stream), source=name, notes=Notes()))
    assert all(isinstance(each, JobRecord) for each in records)
    lost = Counter()
    again = list(
        read_records(
            write_records(records, lambda field, count=1: lost.update({field: count})),
            source=name,
            notes=Notes(),
        )
    )
    assert set(lost) <= {"job_id", "wall_limit_secs"}
    assert len(again) == len(records)
    expected = sorted(records, key=lambda record: record.submit_secs)
    assert [each.used_cpu_secs for each in again] == pytest.approx(
        [each.used_cpu_secs for each in expected], abs=0.01 * 2048, nan_ok=True
    )
    assert [(each.start_secs, each.end_secs, each.total_cpus) for each in again] == [
        (each.start_secs, each.end_secs, each.total_cpus) for each in expected
    ]


def test_the_header_of_kth_is_understood():
    with reading(path_of("KTH-SP2-1996-2.1-cln.swf.gz")) as stream:
        header = SwfReader(bounded_lines(stream)).header
    assert header.size("MaxProcs") == Size(100)
    assert header.preemption() is Preemption.NO
    assert header.wall_clock(0).isoformat() == "1996-09-23T14:00:31+02:00"
    assert header.value("Information").value.count("\n") == 1


def test_the_queues_of_lanl_are_understood():
    with reading(path_of("LANL-O2K-1999-1.header-excerpt.swf.txt")) as stream:
        header = SwfReader(bounded_lines(stream)).header
    assert header.numbered("Queue") == {
        1: "short", 2: "long", 3: "small", 4: "medium", 5: "large", 6: "xlarge", 7: "small-d", 8: "medium-d",
        9: "large-d", 10: "xlarge-d",
    }  # fmt: skip
