"""What is counted of processes, and of whom; the node is made up."""

from types import SimpleNamespace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample
from jobfeatures_exporter.sampling.descriptors import DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from jobfeatures_exporter.sampling.stages.counting import ProcessCounting
from jobfeatures_exporter.sampling.stages.values import Attributed, ProcessesRead

KEY = JobKey("slurm", "7")
IO = "rchar: 5\nwchar: 4\nsyscr: 1\nsyscw: 1\nread_bytes: 3\nwrite_bytes: 2\ncancelled_write_bytes: 1\n"


@pytest.fixture
def count(node):
    node.process(41, user=100, system=50)
    (node.proc / "41/io").write_text(IO)

    def count(*, sums=(), are_all=True, grouped=True, **settings):
        unreadable, budget = Unreadable(), DescriptorBudget()
        counting = ProcessCounting(SamplerSettings(procfs=str(node.proc), **settings), budget, unreadable)
        processes = ProcessScanner(str(node.proc), budget=budget, unreadable=unreadable).scan()
        groups = {KEY: [SimpleNamespace()]} if grouped else {}
        key_of = {"/a": KEY} if grouped else {}
        found = Attributed({41: KEY}, key_of, groups, {KEY: [processes[41]]})
        read = ProcessesRead(processes, are_all)
        counted = counting.count(read, dict.fromkeys(sums), found)
        job = JobSample(key=KEY, accounting=FigureSource.CGROUP)
        commands, _ = counting.by_command(read, found, {KEY: job})
        counting.close()
        return counting.needs_all, counted, commands

    return count


def test_cpu_time_is_counted_in_samples_of_all_processes_only(count):
    _, counted, _ = count()
    assert (counted.ticks[KEY].user, counted.ticks[KEY].system) == (100, 50)
    assert count(are_all=False)[1].ticks == {}


def test_transfers_are_those_of_jobs_of_which_the_kernel_has_no_sums(count):
    assert count(process_io=True)[1].io[KEY].read_bytes == 5
    assert count(process_io=True, grouped=False)[1].io[KEY].read_bytes == 5
    assert count(process_io=True, sums=["/a"])[1].io == {}
    assert count()[1].io == {}


def test_commands_need_all_processes_at_each_sample(count):
    needs_all, _, commands = count(top_commands=2)
    assert needs_all
    assert [each.processes for each in commands[KEY]] == [1]
    assert count()[0] is False
