"""Which processes a sample reads; scanner, members, finder and kernel are stand-ins that tell what was asked of them."""

import pytest

from jobfeatures.batch.groups import Membership
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.layout.jobdirectory import UNIFIED, GroupList, JobDirectory
from jobfeatures_exporter.sampling.processes.attribution import Owners
from jobfeatures_exporter.sampling.stages.reading import ALL_AGAIN_SAMPLES, ProcessReading
from jobfeatures_exporter.sampling.stages.values import LastSample, ListedGroups

NOTHING = ListedGroups(GroupList(), {}, {})
ALL = ({1: "init"}, True, Owners({1: "a job's"}, active={1: "active"}))


class Scanner:
    def __init__(self):
        self.processes, self.failing, self.closed = {1: "init"}, False, 0

    def scan(self):
        if self.failing:
            raise OSError(5, "Input/output error")
        return dict(self.processes)

    def glance(self, pids):
        return dict.fromkeys(pids, "one")

    def close(self):
        self.closed += 1


class Members:
    def update(self, processes, *, are_all=True, groups=False):
        return Owners(dict.fromkeys(processes, "a job's"))


class Finder:
    """What knows jobs by a batch system's files: of each process, that it is the job of its number."""

    is_here = False

    def update(self, processes):
        return dict.fromkeys(processes, "active")


class Kernel:
    def due(self, directories, is_settled):
        return {7}


@pytest.fixture
def make():
    def make(kernel=None, *, always_all=False):
        scanner, finder, unreadable = Scanner(), Finder(), Unreadable()
        reading = ProcessReading(scanner, Members(), [finder], kernel, unreadable, always_all=always_all)
        return reading, scanner, finder, unreadable

    return make


@pytest.mark.parametrize(("kernel", "always_all"), [(None, False), (Kernel(), True)])
def test_all_are_read_at_each_sample_where_nothing_else_counts_them(make, kernel, always_all):
    reading, *_ = make(kernel, always_all=always_all)
    for _ in range(ALL_AGAIN_SAMPLES + 1):
        assert reading.read_all(is_wanted=False) == ALL


def test_with_the_kernels_sums_all_are_read_first_and_then_rarely(make):
    reading, *_ = make(Kernel())
    found = [reading.read_all(is_wanted=False) is not None for _ in range(2 * ALL_AGAIN_SAMPLES)]
    assert [number for number, is_all in enumerate(found) if is_all] == [0, ALL_AGAIN_SAMPLES]


def test_and_where_somebody_wants_them_or_a_job_can_be_found_in_no_other_way(make):
    reading, _, finder, _ = make(Kernel())
    reading.read_all(is_wanted=False)
    assert reading.read_all(is_wanted=True) is not None
    finder.is_here = True
    assert reading.read_all(is_wanted=False) is not None


def test_else_those_that_are_due_are_read_and_no_descriptor_is_kept(make):
    reading, scanner, *_ = make(Kernel())
    assert reading.read_due(NOTHING, {}, {}, LastSample()) == ({7: "one"}, False, Owners({7: "a job's"}))
    assert scanner.closed == 1


def test_a_job_that_only_processes_tell_has_all_of_them_read(make, make_job):
    reading, *_ = make(Kernel())
    job = make_job("9", processes=frozenset({41}))
    assert reading.read_due(NOTHING, {}, {job.key: job}, LastSample()).are_all
    group = JobDirectory(
        path="/a",
        membership=Membership(batch_system="slurm", job_id="9"),
        groups={UNIFIED: "/a"},
        unique_name="/a",
    )
    last, one = LastSample({"/a": job.key}), GroupList([group])
    assert not reading.read_due(ListedGroups(one, {}, {}), {"/a": "sums"}, {job.key: job}, last).are_all
    assert reading.read_due(NOTHING, {}, {job.key: job}, last).are_all  # its group has gone


def test_a_list_that_cannot_be_read_is_the_last_one_and_counted(make):
    reading, scanner, _, unreadable = make()
    reading.read_all(is_wanted=True)
    scanner.failing = True
    assert reading.read_all(is_wanted=True) == ALL
    assert dict(unreadable.counts) == {"process_list_eio": 1}
