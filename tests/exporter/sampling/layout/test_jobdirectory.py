"""What a job's directories tell of themselves."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.layout.jobdirectory import FREEZER, UNIFIED, JobDirectory

JOB = Membership(batch_system="slurm", job_id="2")


@pytest.mark.parametrize(
    ("controllers", "version", "counts_cpu", "counts_memory"),
    [
        ((UNIFIED,), 2, True, True),
        (("cpuacct", "memory"), 1, True, True),
        (("cpuacct", UNIFIED), 1, True, True),
        (("memory",), 1, False, True),
        ((FREEZER,), 1, False, False),
    ],
)
def test_which_version_counts_and_what_it_counts(controllers, version, counts_cpu, counts_memory):
    directory = JobDirectory(path="/a", membership=JOB, groups=dict.fromkeys(controllers, "/x"))
    told = directory.version, directory.counts_cpu, directory.counts_memory
    assert told == (version, counts_cpu, counts_memory)


def test_a_figure_s_source_is_the_group_that_counts_it_else_the_whole():
    directory = JobDirectory(
        path="/a", membership=JOB, groups={"memory": "/x"}, inodes={"memory": 7}, sources={"memory": "/a@7#1"}
    )
    assert directory.source("memory", UNIFIED) == "/a@7#1"
    assert directory.source("cpuacct") == directory.unique_name == "/a@7"
