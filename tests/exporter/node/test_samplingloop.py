"""How often the node is sampled, and where commands that go on for hours look for jobs' control groups."""

from __future__ import annotations

import pytest

from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.node.samplingloop import find_places
from jobfeatures_exporter.sampling.bpf.choice import Choice
from tests.exporter.sampling.fakenode import FakeNode
from tests.exporter.sampling.stages.test_kernelsampler import PATH, MadeUpSums
from tests.running import HandClock


class SimulatedMinutes:
    """Stands for the event that requests a sample: five minutes pass while somebody waits for it.

    At each of the scrapes it is set; `meanwhile` is called at the end of each wait.
    """

    def __init__(self, scraped_each_secs, meanwhile, stop):
        self.secs, self.each_secs, self.meanwhile, self.stop = 0.0, scraped_each_secs, meanwhile, stop

    def wait(self, secs):
        scrape_secs = (self.secs // self.each_secs + 1) * self.each_secs
        is_scraped = scrape_secs <= self.secs + secs
        self.secs = scrape_secs if is_scraped else self.secs + secs
        if self.secs >= 300:
            self.stop()
        self.meanwhile()
        return is_scraped

    def set(self):
        raise AssertionError("nothing happens")

    def clear(self):
        pass


@pytest.fixture
def count_samples(tmp_path):
    """Return a function that counts the samples of five minutes with a job on v2, by sums in the kernel or without."""
    node = FakeNode(tmp_path)
    group = node.job_v2(PATH)
    (group / "cgroup.procs").write_text("41\n")
    node.process(41, cgroup=f"0::/{PATH}\n")
    flags = {
        "features.root": str(tmp_path / "features"),
        "path.cgroup": str(node.cgroup),
        "path.procfs": str(node.proc),
        "path.sysfs": str(tmp_path / "sys"),
        "batch.sources": "",
    }

    def count(scraped_each_secs=float("inf"), *, is_busy=False, choice=None, range_uj=None):
        choice = choice or Choice(MadeUpSums())
        if range_uj is not None:
            zone = tmp_path / "sys/class/powercap/intel-rapl:0"
            zone.mkdir(parents=True)
            for name, value in (("name", "package-0"), ("max_energy_range_uj", range_uj), ("energy_uj", 7)):
                (zone / name).write_text(f"{value}\n")
        daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}), choose_reader=lambda: choice)
        board, made, used = daemon.board, [], [0]

        def run():
            used[0] += is_busy
            node.job_v2(PATH, user_usec=used[0])

        put = board.samples.put
        board.samples.put = lambda snapshot: (made.append(snapshot), put(snapshot))
        end = lambda: (setattr(board.samples.wanted, "set", lambda: None), daemon.sampling.stop())  # noqa: E731
        board.samples.wanted = SimulatedMinutes(scraped_each_secs, run, end)
        daemon.sampling.run()
        return len(made)

    return count


def test_a_job_that_sleeps_is_looked_at_twice_a_minute_as_it_may_be_frozen_or_run_any_moment(
    count_samples, monkeypatch
):
    waits, wait = [], SimulatedMinutes.wait
    monkeypatch.setattr(
        SimulatedMinutes, "wait", lambda self, secs: (waits.append(secs), wait(self, secs))[1]
    )
    count_samples()
    assert (set(waits), max(waits)) == ({10.0, 20.0, 30.0}, 30.0)


FIRST = 5  # samples: all processes are read, then it gets settled which end with the job


def test_jobs_that_sleep_are_sampled_at_scrapes_and_else_hardly_ever(count_samples):
    assert count_samples() == FIRST
    assert count_samples(15.0) == FIRST + 17
    assert count_samples(60.0) == FIRST + 4


@pytest.mark.parametrize(("range_uj", "more"), [(65_532_610_987, 2), (262_143_328_850, 0)])
def test_a_counter_of_energy_that_wraps_soon_as_amds_is_read_in_time(count_samples, range_uj, more):
    assert count_samples(range_uj=range_uj) == FIRST + more


def test_jobs_that_run_are_sampled_at_scrapes_and_else_once_a_minute(count_samples):
    assert count_samples(is_busy=True) == FIRST + 3
    assert count_samples(15.0, is_busy=True) == FIRST + 17
    assert count_samples(60.0, is_busy=True) == FIRST + 4


def test_a_sample_that_hangs_is_late_by_the_interval_though_sampling_rested_before(tmp_path):
    node, clock = FakeNode(tmp_path), HandClock(1000.0)
    flags = {"features.root": str(tmp_path / "features"), "batch.sources": ""}
    flags |= {"path.cgroup": str(node.cgroup), "path.procfs": str(node.proc)}
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}), clock, lambda: Choice(MadeUpSums()))
    loop, sample, late = daemon.sampling, daemon.sampling.sampler.sample, []

    def passes(secs):
        clock.secs += secs
        return loop.is_late()

    def hang(wishes):
        if daemon.board.samples.snapshot is not None:
            late.append([passes(20.0) for _ in range(3)])
            loop.stop()
        return sample(wishes)

    class Requested:
        """A sample is requested 5 s after the rest has begun."""

        def wait(self, secs):
            assert secs == 60.0, "there is no job"
            return not passes(5.0)

        def clear(self):
            pass

        def set(self):
            pass

    loop.sampler.sample, daemon.board.samples.wanted = hang, Requested()
    loop.run()
    assert late == [[False, False, True]]


def test_no_rest_is_late_however_long_it_was_and_whatever_the_interval(tmp_path):
    """Somebody asks just when the daemon goes over from a rest to a sample."""
    node, clock, late = FakeNode(tmp_path), HandClock(1000.0), []
    flags = {"features.root": str(tmp_path / "features"), "batch.sources": "", "sample.interval": "1"}
    flags |= {"path.cgroup": str(node.cgroup), "path.procfs": str(node.proc)}
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}), clock, lambda: Choice(MadeUpSums()))
    loop, board = daemon.sampling, daemon.board

    class Asked(type(board)):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            late.append(loop.is_late())

    class Waited:
        """A sample is requested when a minute has nearly passed."""

        def wait(self, secs):
            for _ in range(2):
                clock.secs += 29.0
                late.append(loop.is_late())
            if len(late) > 20:
                loop.stop()
            return True

        def clear(self):
            pass

        set = clear

    board.samples.wanted = Waited()
    board.__class__ = Asked
    loop.run()
    assert late
    assert not any(late)


def test_without_sums_in_the_kernel_jobs_are_sampled_each_interval(count_samples):
    assert count_samples(choice=Choice()) == 30


def test_a_place_that_comes_while_a_command_goes_on_is_found(tmp_path):
    """`top` goes on for hours, and pods come."""
    (tmp_path / "cgroup.controllers").touch()
    flags = {"batch.cgroup_parents": "/pods/*", "batch.sources": "slurm", "path.cgroup": str(tmp_path)}
    config = load_config(ExporterConfig, flags=flags, environ={})
    clock = HandClock(1000.0)
    places = find_places(config, clock)
    assert places().parents == {}
    (tmp_path / "pods/a/slurmstepd.scope/job_7").mkdir(parents=True)
    assert places().parents == {}
    clock.secs += 60.0
    assert places().parents.keys() == {"/pods/a"}
