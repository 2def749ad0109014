"""Which processes a sample reads; scanner, attributor and kernel are stand-ins that tell what was asked of them."""

from types import SimpleNamespace

import pytest

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.groups.cgroup import GroupList
from jobfeatures_exporter.sampling.stages.reading import ALL_AGAIN_LOOKS, ProcessReading
from jobfeatures_exporter.sampling.stages.values import LastLook, Listed

NOTHING = Listed(GroupList(), {}, {})


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


class Attributor:
    needs_all = False

    def read(self, processes, *, are_all=True):
        pass


class Kernel:
    def due(self, directories, is_settled):
        return {7}


@pytest.fixture
def make():
    def make(kernel=None, *, always_all=False):
        parts = Scanner(), Attributor(), Unreadable()
        return ProcessReading(*parts[:2], kernel, parts[2], always_all=always_all), *parts

    return make


@pytest.mark.parametrize(("kernel", "always_all"), [(None, False), (Kernel(), True)])
def test_all_are_read_at_each_sample_where_nothing_else_counts_them(make, kernel, always_all):
    reading, *_ = make(kernel, always_all=always_all)
    for _ in range(ALL_AGAIN_LOOKS + 1):
        assert reading.begin(wants_all=False) == ({1: "init"}, True)


def test_with_the_kernels_sums_all_are_read_first_and_then_rarely(make):
    reading, *_ = make(Kernel())
    found = [reading.begin(wants_all=False) is not None for _ in range(2 * ALL_AGAIN_LOOKS)]
    assert [number for number, is_all in enumerate(found) if is_all] == [0, ALL_AGAIN_LOOKS]


def test_and_where_somebody_wants_them_or_a_job_can_be_found_in_no_other_way(make):
    reading, _, attributor, _ = make(Kernel())
    reading.begin(wants_all=False)
    assert reading.begin(wants_all=True) is not None
    attributor.needs_all = True
    assert reading.begin(wants_all=False) is not None


def test_else_those_that_are_due_are_read_and_no_descriptor_is_kept(make):
    reading, scanner, *_ = make(Kernel())
    assert reading.read_due(NOTHING, {}, {}, LastLook()) == ({7: "one"}, False)
    assert scanner.closed == 1


def test_a_job_that_only_processes_tell_has_all_of_them_read(make, make_job):
    reading, *_ = make(Kernel())
    job = make_job("9", processes=frozenset({41}))
    assert reading.read_due(NOTHING, {}, {job.key: job}, LastLook()).are_all
    last, one = LastLook({"/a": job.key}), GroupList(directories=[SimpleNamespace(cpu_source="/a")])
    assert not reading.read_due(Listed(one, {}, {}), {}, {job.key: job}, last).are_all
    assert reading.read_due(NOTHING, {}, {job.key: job}, last).are_all  # its group has gone


def test_a_list_that_cannot_be_read_is_the_last_one_and_counted(make):
    reading, scanner, _, unreadable = make()
    reading.begin(wants_all=True)
    scanner.failing = True
    assert reading.begin(wants_all=True) == ({1: "init"}, True)
    assert dict(unreadable.counts) == {"process_list_eio": 1}
