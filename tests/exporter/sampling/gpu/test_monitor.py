"""The drivers at work: bounded in time, each for itself."""

import subprocess
import sys
import threading

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.model.snapshot import (
    FigureSource,
    GpuCard,
    GpuProcess,
    GpuSample,
    JobGpu,
    JobSample,
    Snapshot,
)
from jobfeatures_exporter.sampling.gpu import DRIVERS, DriverError, monitor
from jobfeatures_exporter.sampling.gpu.monitor import DriverReader, GpuMonitor, chosen_drivers
from tests.running import own_folder

INTERVAL_SECS = 10.0
PATIENCE_SECS = 30.0  # of a test that waits for a thread


class FakeDriver:
    """Cards as a test says; reading waits while the gate is shut."""

    def __init__(self, clock):
        self.clock = clock
        self.cards = {"GPU-1": {}}
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()
        self.error = None
        self.index = None
        self.made = self.closed = 0

    def make(self, unreadable):
        self.made += 1
        if isinstance(self.error, DriverError):
            raise self.error
        return self

    def read(self):
        for uuid, values in list(self.cards.items()):
            if not self.gate.is_set():
                self.waiting.set()
                self.gate.wait(PATIENCE_SECS)
            if self.error:
                raise self.error
            yield GpuSample(
                card=GpuCard(uuid=uuid, index=self.index), taken_at_secs=self.clock.now_secs(), **values
            )

    def close(self):
        self.closed += 1


@pytest.fixture
def driver(clock):
    return FakeDriver(clock)


@pytest.fixture
def watch(driver, clock, tree):
    """Return a monitor of this one driver, whose threads do not run."""
    made = GpuMonitor([], clock, interval_secs=INTERVAL_SECS, paths=tree.paths)
    made.readers = [DriverReader("fake", driver.make, clock, INTERVAL_SECS)]
    return made


def snapshot(**values):
    return Snapshot(taken_at_secs=0, duration_secs=0, node=None, jobs={}, **values)


def test_a_snapshot_is_filled_with_what_was_read_last(watch, driver, clock, make_job):
    driver.cards["GPU-1"] = {"ce_util_percent": 50, "processes": (GpuProcess(pid=5), GpuProcess(pid=6))}
    job = make_job("12", gpus=("GPU-1",))
    for _ in range(2):
        watch.readers[0].read_once()
        clock.advance(INTERVAL_SECS)
        filled = watch.fill(snapshot(keys={5: job.key}, unreadable={"x": 1}), {job.key: job})
    [gpu] = filled.gpus
    assert (gpu.busy_secs, gpu.taken_at_secs) == (5.0, clock.now_secs() - INTERVAL_SECS)
    assert filled.job_gpus == (
        JobGpu(key=job.key, uuid="GPU-1", allocated=True, busy_secs=2.5, ce_util_percent=25),
    )
    assert filled.gpu_unattributed == {"GPU-1": 1}
    assert filled.gpu_drivers == {"fake": True}
    assert filled.unreadable == {"x": 1}


def test_jobs_of_the_cards_are_written_as_they_come_and_go_and_none_stays_at_the_end(
    driver, clock, tree, make_job, tmp_path
):
    folder = tmp_path / "map"
    own_folder(folder)
    monitor = GpuMonitor([], clock, interval_secs=INTERVAL_SECS, paths=tree.paths, job_map=str(folder))
    (folder / "5").write_text("of a daemon that was killed\n")
    monitor.fill(snapshot(), {})
    assert not list(folder.iterdir())
    monitor.readers = [DriverReader("fake", driver.make, clock, INTERVAL_SECS)]
    driver.index = 3
    monitor.readers[0].read_once()
    jobs = [make_job(job_id, gpus=("GPU-1",)) for job_id in ("12", "13")]
    monitor.fill(snapshot(), {job.key: job for job in jobs})
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"3": "12\n13\n"}
    monitor.fill(snapshot(), {jobs[1].key: jobs[1]})
    assert (folder / "3").read_text() == "13\n"
    monitor.stop()
    assert not list(folder.iterdir())


def test_a_driver_that_hangs_costs_its_own_series_after_a_while_and_comes_back(watch, driver, clock):
    other = FakeDriver(clock)
    other.cards = {"GPU-9": {}}
    watch.readers.append(DriverReader("other", other.make, clock, INTERVAL_SECS))
    for reader in watch.readers:
        reader.read_once()
    driver.gate.clear()
    thread = threading.Thread(target=watch.readers[0].read_once, daemon=True)
    thread.start()
    assert driver.waiting.wait(PATIENCE_SECS)

    clock.advance(20)
    watch.readers[1].read_once()
    filled = watch.fill(snapshot(), {})  # returns although the driver hangs
    assert {gpu.card.uuid: clock.now_secs() - gpu.taken_at_secs for gpu in filled.gpus} == {
        "GPU-1": 20,
        "GPU-9": 0,
    }
    assert filled.gpu_drivers == {"fake": False, "other": True}

    clock.advance(100)
    watch.readers[1].read_once()
    assert [gpu.card.uuid for gpu in watch.fill(snapshot(), {}).gpus] == ["GPU-9"]

    driver.gate.set()
    thread.join(PATIENCE_SECS)
    filled = watch.fill(snapshot(), {})
    assert [gpu.card.uuid for gpu in filled.gpus] == ["GPU-1", "GPU-9"]
    assert filled.gpu_drivers == {"fake": True, "other": True}


def test_cards_before_the_one_that_hangs_are_told(watch, driver, clock):
    driver.cards = {"GPU-1": {}, "GPU-2": {}}
    watch.readers[0].read_once()
    clock.advance(30)
    seen = []

    def hang():
        yield GpuSample(card=GpuCard(uuid="GPU-1"), taken_at_secs=clock.now_secs())
        seen.append(watch.fill(snapshot(), {}))

    driver.read = hang
    watch.readers[0].read_once()
    [filled] = seen
    assert [clock.now_secs() - gpu.taken_at_secs for gpu in filled.gpus] == [0, 30]


def test_a_driver_that_fails_is_made_anew_and_complains_once(watch, driver, caplog):
    driver.error = DriverError("no driver")
    for _ in range(3):
        watch.readers[0].read_once()
    assert watch.fill(snapshot(), {}).gpu_drivers == {"fake": False}
    assert caplog.text.count("no driver") == 1
    driver.error = None
    watch.readers[0].read_once()
    assert watch.fill(snapshot(), {}).gpu_drivers == {"fake": True}
    assert driver.made == 4


def test_a_fault_in_a_driver_is_contained(watch, driver, caplog):
    watch.readers[0].read_once()
    driver.error = ZeroDivisionError("oops")
    watch.readers[0].read_once()
    assert watch.fill(snapshot(), {}).gpu_drivers == {"fake": False}
    assert driver.closed == 1
    assert "oops" in caplog.text


def test_a_card_that_is_gone_is_gone_and_its_counters_go_on_when_it_is_back(watch, driver, clock):
    reader = watch.readers[0]
    driver.cards["GPU-1"] = {"ce_util_percent": 100}
    reader.read_once()
    clock.advance(10)
    reader.read_once()
    driver.cards = {}
    clock.advance(10)
    reader.read_once()
    assert watch.fill(snapshot(), {}).gpus == ()
    driver.cards = {"GPU-1": {"ce_util_percent": 100}}
    clock.advance(10)
    reader.read_once()
    assert watch.fill(snapshot(), {}).gpus[0].busy_secs == 30


def test_a_driver_whose_card_vanishes_or_never_answered_is_not_complete(watch, driver, caplog):
    reader = watch.readers[0]
    driver.cards = {"GPU-1": {}, "GPU-2": {}}
    reader.read_once()
    assert reader.is_up
    driver.cards = {"GPU-1": {}}
    for _ in range(2):
        reader.read_once()
        assert not reader.is_up
    assert caplog.text.count("GPUs that answered before are no longer found: 'GPU-2'") == 1
    driver.cards = {"GPU-1": {}, "GPU-2": {"failing": 15}}  # told by its own series
    reader.read_once()
    assert reader.is_up
    driver.cards = {"GPU-1": {}, "GPU-2": {}, "GPU-3": {"failing": 15}}
    reader.read_once()
    assert not reader.is_up
    driver.cards = {"GPU-1": {}, "GPU-2": {}, "GPU-3": {}}
    reader.read_once()
    assert reader.is_up


def test_figures_that_a_driver_cannot_have_read_are_counted(watch, driver, clock):
    driver.cards = {"GPU-1": {"energy_joules": 900_001_000}}
    reader = watch.readers[0]
    reader.read_once()
    clock.advance(INTERVAL_SECS)
    driver.cards = {"GPU-1": {"energy_joules": 900_000_999, "ce_util_percent": 4294967295}}
    reader.read_once()
    names = {"gpu_refused_energy_joules": 1, "gpu_refused_ce_util_percent": 1}
    assert watch.fill(snapshot(), {}).unreadable == names


def test_readings_that_nobody_takes_are_bounded(watch, monkeypatch):
    reader = watch.readers[0]
    for _ in range(monitor.MAX_READINGS + 10):
        reader.read_once()
    assert len(reader.fresh) == monitor.MAX_READINGS
    watch.fill(snapshot(), {})
    assert len(reader.fresh) == 0


def test_the_files_of_a_prolog_and_what_is_unreadable_are_told_of(watch, tree):
    watch.readers[0].unreadable.count("gpu_x")
    watch.readers[0].read_once()
    tree.write("gpustat/0", "not a number")
    assert watch.fill(snapshot(), {}).unreadable == {"gpu_x": 1, "gpustat_garbage": 1}


# --- which drivers ----------------------------------------------------------------------


def test_no_driver_no_threads_and_the_snapshot_is_left_as_it_is(clock, tree):
    watch = GpuMonitor(["auto"], clock, interval_secs=1, paths=tree.paths)
    watch.start()
    watch.stop()
    before = snapshot()
    assert watch.fill(before, {}) is before


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("nvidia", "proc/driver/nvidia/version"),
        ("nvidia", "sys/module/nvidia/initstate"),
        ("amd", "dev/kfd"),
        ("amd", "sys/module/amdgpu/initstate"),
        ("intel", "sys/module/i915/initstate"),
        ("intel", "sys/module/xe/initstate"),
    ],
)
def test_a_driver_is_recognised_by_files_alone(tree, name, path):
    tree.write(path, "")
    assert chosen_drivers(["auto"], tree.paths) == [name]


def test_drivers_are_found_by_their_files_or_asked_for_by_name(tree):
    tree.write("dev/nvidiactl", "")  # made by NVIDIA's library where no driver is
    assert chosen_drivers(["auto"], tree.paths) == []
    assert chosen_drivers(["intel", "nvidia"], tree.paths) == ["nvidia", "intel"]
    tree.write("dev/kfd", "")
    tree.write("sys/module/xe/initstate", "")
    assert chosen_drivers(["auto"], tree.paths) == ["amd", "intel"]
    assert chosen_drivers(["none", "amd"], tree.paths) == []
    assert list(DRIVERS) == ["nvidia", "amd", "intel"]


@pytest.mark.program
def test_without_a_driver_no_library_is_imported(tree):
    code = (
        "import sys, jobfeatures_exporter.node.daemon\n"
        "from jobfeatures_exporter.sampling.gpu import Paths\n"
        "from jobfeatures_exporter.sampling.gpu.monitor import GpuMonitor\n"
        "from jobfeatures.system.clock import SystemClock\n"
        f"paths = Paths({tree.paths.procfs!r}, {tree.paths.sysfs!r}, {tree.paths.devfs!r})\n"
        "watch = GpuMonitor(['auto'], SystemClock(), interval_secs=1, paths=paths)\n"
        "watch.start(); watch.stop()\n"
        "print(*({'pynvml', 'pyrsmi', 'amdsmi', 'ctypes'} & set(sys.modules)) or ['none'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"none", "ctypes"}  # ctypes is used for other things


# --- the real binding in the real thread ------------------------------------------------


@pytest.fixture
def running(nvml, tree):
    """Return a monitor of NVML's stand-in that reads often, though not so that a busy machine leaves gaps."""
    made = GpuMonitor(["nvidia"], SystemClock(), interval_secs=0.05, paths=tree.paths, detail=True)
    made.start()
    yield made
    made.stop(PATIENCE_SECS)


def wait_for(made, condition):
    """Return the first snapshot that fulfils a condition; process 5 is that of a job."""
    key = JobKey("slurm", "1")
    job = JobSample(key=key, accounting=FigureSource.PROCESSES)
    look = Snapshot(taken_at_secs=0, duration_secs=0, node=None, jobs={key: job}, keys={5: key})
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECS / 0.01)):
        filled = made.fill(look, {})
        if condition(filled):
            return filled
        pause.wait(0.01)
    raise AssertionError("it never came to that")


def test_cards_that_change_are_followed(running, nvml):
    wait_for(running, lambda each: len(each.gpus) == 2)
    nvml.say(nvml.DRIVER, nvml.A100.replace("temp=45", "temp=77"))
    filled = wait_for(running, lambda each: len(each.gpus) == 1)
    assert filled.gpus[0].temperature_celsius == 77


@pytest.mark.parametrize("function", ["nvmlDeviceGetTemperature", "nvmlEventSetWait_v2"])
def test_a_call_that_hangs_in_the_library_holds_up_nobody(running, nvml, function):
    wait_for(running, lambda each: each.gpu_drivers["nvidia"])
    nvml.say(nvml.DRIVER, nvml.A100, f"slow func={function} ms=700")
    before = wait_for(running, lambda each: len(each.gpus) == 1).gpus[0]
    filled = [running.fill(snapshot(), {}) for _ in range(20)]  # none of which waits
    assert sum(each.gpus[0].taken_at_secs == before.taken_at_secs for each in filled) > 10
    nvml.say(nvml.DRIVER, nvml.A100)
    wait_for(running, lambda each: each.gpus[0].taken_at_secs > before.taken_at_secs)


def test_a_driver_that_is_unloaded_and_loaded_again(running, nvml):
    wait_for(running, lambda each: each.gpu_drivers["nvidia"])
    nvml.vanish()
    wait_for(running, lambda each: not each.gpu_drivers["nvidia"])
    nvml.say(nvml.DRIVER, nvml.A100)
    wait_for(running, lambda each: each.gpu_drivers["nvidia"])


def test_a_jobs_busy_time_grows_while_its_process_computes(running, nvml):
    nvml.say(nvml.DRIVER, nvml.A100, "proc gpu=0 pid=5 used=4096 sm=80")
    filled = wait_for(running, lambda each: each.job_gpus and each.job_gpus[0].busy_secs)
    assert filled.job_gpus[0].memory_bytes == 4096
    assert filled.job_gpus[0].busy_secs <= filled.gpus[0].busy_secs
