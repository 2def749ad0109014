"""NVML's real Python binding before a stand-in of the library."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample
from jobfeatures_exporter.sampling.gpu import DriverError
from jobfeatures_exporter.sampling.gpu.bounds import bounded
from jobfeatures_exporter.sampling.gpu.monitor import DriverReader
from jobfeatures_exporter.sampling.gpu.nvidia import parse_card_file

INSTANCE = "mig gpu=0 uuid=MIG-3333 gi=1 ci=0 total=5000 used=100"


def by_uuid(driver):
    return {sample.card.uuid: sample for sample in driver.read()}


def test_every_field_of_a_card(make_nvidia, clock):
    assert next(iter(make_nvidia().read())) == GpuSample(
        card=GpuCard(
            uuid="GPU-1111",
            index=0,
            minor=1,
            address="00000000:3B:00.0",
            manufacturer="NVIDIA",
            model="NVIDIA A100-SXM4-40GB",
            architecture="Ampere",
            driver="550.54.15",
            firmware="92.00.19",
            memory_bytes=40_000_000_000,
            power_limit_watts=400.0,
            max_power_limit_watts=400.0,
            min_power_limit_watts=100.0,
            max_ce_clock_mhz=1980,
            max_memory_clock_mhz=2619,
        ),
        taken_at_secs=clock.now_secs(),
        fan_percent=30,
        compute_mode="ExclusiveProcess",
        performance_state=2,
        memory_used_bytes=10_000_000_000,
        ce_util_percent=87,
        memory_busy_percent=31,
        temperature_celsius=45,
        power_watts=pytest.approx(250.5),
        power_limit_watts=400.0,
        ce_clock_mhz=1410,
        memory_clock_mhz=1215,
        energy_joules=pytest.approx(123456.789),
    )


def test_what_a_card_does_not_tell_is_unknown_and_not_zero(make_nvidia, unreadable):
    sample = by_uuid(make_nvidia())["GPU-2222"]
    assert (sample.ce_util_percent, sample.power_watts, sample.energy_joules) == (None, None, None)
    assert (sample.fan_percent, sample.performance_state, sample.compute_mode) == (None, None, "")
    assert sample.card.max_power_limit_watts is sample.memory_busy_percent is None
    assert (sample.memory_used_bytes, sample.failing) == (0, 0)
    assert unreadable.counts == {}  # a sensor that is not there is no failure


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetTemperature", "temperature_celsius"),
        ("nvmlDeviceGetPowerUsage", "power_watts"),
        ("nvmlDeviceGetUtilizationRates", "ce_util_percent"),
        ("nvmlDeviceGetUtilizationRates", "memory_busy_percent"),
        ("nvmlDeviceGetTotalEnergyConsumption", "energy_joules"),
        ("nvmlDeviceGetFanSpeed", "fan_percent"),
        ("nvmlDeviceGetClockInfo", "ce_clock_mhz"),
        ("nvmlDeviceGetPerformanceState", "performance_state"),
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_watts"),
    ],
)
def test_a_call_that_fails_costs_its_own_field(nvml, make_nvidia, unreadable, function, field):
    nvml.say(nvml.DRIVER, nvml.A100, nvml.T4, f"fail func={function} code=999 gpu=0")
    sample = by_uuid(make_nvidia())["GPU-1111"]
    assert getattr(sample, field) is None
    assert sample.memory_used_bytes == 10_000_000_000
    assert unreadable.counts[f"gpu_{function}_999"] >= 1


def test_an_old_driver_without_a_function_is_asked_by_the_older_name(nvml, make_nvidia):
    process = "proc gpu=0 pid=7 used=4096"
    nvml.say(
        nvml.DRIVER, nvml.A100, process,
        "fail func=nvmlDeviceGetComputeRunningProcesses_v3 code=13",
        "fail func=nvmlDeviceGetMemoryInfo_v2 code=13",
    )  # fmt: skip
    driver = make_nvidia()
    for _ in range(2):
        sample = by_uuid(driver)["GPU-1111"]
        assert [each.pid for each in sample.processes] == [7]
        assert sample.memory_used_bytes == 10_616_038_400  # the older form counts what is reserved


def test_a_card_keeps_its_name_when_the_order_changes(nvml, make_nvidia):
    driver = make_nvidia()
    assert by_uuid(driver)["GPU-1111"].card.index == 0
    nvml.say(nvml.DRIVER, nvml.T4, nvml.A100)
    assert by_uuid(driver)["GPU-1111"].card.index == 1


def test_a_card_that_answers_at_another_number_is_not_lost_at_its_old_one(nvml, make_nvidia, tree):
    tree.write("proc/driver/nvidia/gpus/0000:3b:00.0/information", "GPU UUID: GPU-1111\nDevice Minor: 1\n")
    driver = make_nvidia()
    by_uuid(driver)
    nvml.say(nvml.DRIVER, nvml.T4, nvml.A100, "fail func=nvmlDeviceGetHandleByIndex_v2 code=15 gpu=1")
    found = [(each.card.uuid, each.failing) for each in driver.read()]
    assert found == [("GPU-2222", 0), ("GPU-1111", 15)]


def test_a_performance_state_that_is_none_is_unknown(nvml, make_nvidia):
    nvml.say(nvml.DRIVER, nvml.A100.replace("pstate=2", "pstate=32"))
    assert by_uuid(make_nvidia())["GPU-1111"].performance_state is None


def test_a_lost_card_is_told_by_its_code_and_the_other_lives(nvml, make_nvidia):
    driver = make_nvidia()
    assert by_uuid(driver)["GPU-1111"].failing == 0
    nvml.say(nvml.DRIVER, nvml.A100, nvml.T4, "fail func=nvmlDeviceGetTemperature code=15 gpu=0")
    found = by_uuid(driver)
    assert (found["GPU-1111"].failing, found["GPU-2222"].failing) == (15, 0)
    nvml.say(nvml.DRIVER, nvml.A100, nvml.T4, "fail func=nvmlDeviceGetHandleByIndex_v2 code=15 gpu=0")
    found = by_uuid(driver)
    assert found["GPU-1111"].failing == 15
    assert found["GPU-1111"].card.model == "NVIDIA A100-SXM4-40GB"  # as it was known
    assert found["GPU-1111"].memory_used_bytes is None
    assert found["GPU-2222"].memory_used_bytes == 0


def test_processes_stand_once_with_memory_and_utilisation(nvml, make_nvidia):
    nvml.say(
        nvml.DRIVER,
        nvml.A100,
        "proc gpu=0 pid=1 used=1000000000 sm=60 mem=20",
        "proc gpu=0 pid=1 used=2000000000 type=G",
        "proc gpu=0 pid=2 sm=27",
        "proc gpu=0 pid=3 used=9",
        "proc gpu=0 pid=3 used=0 type=G",
        "proc gpu=0 pid=4 used=5 sm=4000000000",  # drivers are known to answer garbage
        "proc gpu=1 pid=9 used=5",
    )
    assert by_uuid(make_nvidia())["GPU-1111"].processes == (
        GpuProcess(pid=1, memory_bytes=2_000_000_000, ce_util_percent=60),
        GpuProcess(pid=2, memory_bytes=None, ce_util_percent=27),
        GpuProcess(pid=3, memory_bytes=9, ce_util_percent=0.0),
        GpuProcess(pid=4, memory_bytes=5, ce_util_percent=0.0),
    )


@pytest.mark.parametrize(
    ("clients_own", "percents"),
    [("", {1: 0.0, 2: 30.0, 3: 30.0, 4: 7.0}), (" sm=50", {1: 60.0, 2: 50.0, 3: 0.0, 4: 7.0})],
)
def test_what_a_server_of_mps_computes_is_its_clients_unless_they_have_figures_of_their_own(
    nvml, make_nvidia, tree, clients_own, percents
):
    """Constructed: the server is a service's, the clients are jobs' processes."""
    tree.write("proc/1/comm", "nvidia-cuda-mps\n")
    tree.write("proc/4/comm", "python3\n")
    nvml.say(
        nvml.DRIVER,
        nvml.A100,
        "proc gpu=0 pid=1 used=30000000 sm=60",
        f"proc gpu=0 pid=2 used=1000000000 type=M{clients_own}",
        "proc gpu=0 pid=3 used=2000000000 type=M",
        "proc gpu=0 pid=4 used=5 sm=7",
    )
    processes = by_uuid(make_nvidia())["GPU-1111"].processes
    assert {each.pid: each.ce_util_percent for each in processes} == percents


def test_processes_keep_their_utilisation_when_the_clock_is_set_back(nvml, make_nvidia, clock):
    """As at a boot with a clock of local time: for hours NVML had nothing newer than the latest sample."""
    driver = make_nvidia()

    def percent(*samples):
        lines = [f"proc gpu=0 pid=1 used=10 sm={sm} at={int(secs * 1e6)}" for sm, secs in samples]
        nvml.say(nvml.DRIVER, nvml.A100 + " samples=1000:10", *lines)
        return by_uuid(driver)["GPU-1111"].processes[0].ce_util_percent

    before = clock.now_secs()
    assert percent((30, before - 1)) == 30
    clock.advance(-3600)
    assert percent((30, before - 1), (40, before - 3601)) == 40
    assert percent((30, before - 1), (40, before - 3601), (50, before - 3600.5)) == 50
    assert percent((30, before - 1), (40, before - 3601), (50, before - 3600.5)) == 0


def test_where_the_driver_tells_no_utilisation_of_processes_it_is_unknown(nvml, make_nvidia):
    nvml.say(
        nvml.DRIVER,
        nvml.A100,
        "proc gpu=0 pid=1 used=10 sm=5",
        "fail func=nvmlDeviceGetProcessUtilization code=3",
    )
    [process] = by_uuid(make_nvidia())["GPU-1111"].processes
    assert process.ce_util_percent is None


def test_utilisation_is_the_mean_of_what_was_sampled_since_the_last_reading(nvml, make_nvidia):
    driver = make_nvidia()
    nvml.say(nvml.DRIVER, nvml.A100 + " samples=1000:10")
    assert by_uuid(driver)["GPU-1111"].ce_util_percent == 87  # since when is not known: the latest
    nvml.say(nvml.DRIVER, nvml.A100 + " samples=1000:10,2000:20,3000:60")
    assert by_uuid(driver)["GPU-1111"].ce_util_percent == 40
    assert by_uuid(driver)["GPU-1111"].ce_util_percent == 87  # nothing new was sampled


def test_an_instance_is_a_device_of_its_own_and_takes_the_processes(nvml, make_nvidia):
    mig_card = nvml.A100.replace("mig=0", "mig=1").replace("util=87", "")
    nvml.say(nvml.DRIVER, mig_card, INSTANCE, "proc gpu=0 pid=5 used=64 gi=1 ci=0")
    found = by_uuid(make_nvidia())
    assert list(found) == ["GPU-1111", "MIG-3333"]
    instance = found["MIG-3333"]
    assert (instance.card.parent_uuid, instance.card.index, instance.card.minor) == ("GPU-1111", None, None)
    assert instance.card.instance_id == 1
    assert (instance.card.memory_bytes, instance.memory_used_bytes) == (5000, 100)
    assert instance.card.memory_percent(instance.memory_used_bytes) == 2.0
    assert [each.pid for each in instance.processes] == [5]
    assert instance.ce_util_percent is None
    assert found["GPU-1111"].processes == ()


def test_the_minor_number_comes_from_the_kernels_driver_where_nvml_tells_none(nvml, make_nvidia, tree):
    tree.write(
        "proc/driver/nvidia/gpus/0000:3b:00.0/information",
        "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-1111\nDevice Minor: \t 6\n",
    )
    tree.write("proc/driver/nvidia/gpus/0000:af:00.0/information", "Device Minor: \t x\n")
    nvml.say(nvml.DRIVER, nvml.A100, "fail func=nvmlDeviceGetMinorNumber code=3")
    assert by_uuid(make_nvidia())["GPU-1111"].card.minor == 6


def test_without_a_loaded_driver_or_its_binding_the_driver_says_so(nvml, make_nvidia, monkeypatch):
    nvml.vanish()
    with pytest.raises(DriverError, match="Driver Not Loaded"):
        make_nvidia()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(DriverError, match="nvidia-ml-py is not installed"):
        make_nvidia()


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_after_an_upgrade_of_the_driver_the_message_says_to_restart_the_daemon(nvml, make_nvidia, function):
    nvml.say(nvml.DRIVER, nvml.A100, f"fail func={function} code=18")
    with pytest.raises(DriverError, match="if nvidia-smi works, restart this daemon"):
        list(make_nvidia().read())


def test_a_driver_that_is_unloaded_later_says_so(nvml, make_nvidia):
    driver = make_nvidia()
    nvml.vanish()
    with pytest.raises(DriverError):
        list(driver.read())


def test_a_card_that_was_never_used_has_no_uuid_yet():
    with pytest.raises(ParseError, match="no UUID"):
        parse_card_file("GPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: 0\n")


@given(st.text() | st.from_regex(r"(GPU UUID|Device Minor):[ \t]*[G0-9?-]{0,20}\n", fullmatch=True))
def test_any_text_is_a_card_or_a_parse_error(text):
    try:
        assert parse_card_file(text)[0]
    except ParseError:
        pass


LOST = "fail func=nvmlDeviceGetHandleByIndex_v2 code=15 gpu=1"
INFORMATION = "Model: Tesla T4\nGPU UUID: {}\nBus Location: 0000:af:00.0\nDevice Minor: 0\nGPU Excluded: {}\n"
OF_T4 = "proc/driver/nvidia/gpus/0000:af:00.0/information"


@pytest.mark.parametrize(
    ("uuid", "excluded", "files", "lines", "found"),  # files: of the card, below /proc and in /dev
    [
        ("GPU-2222", "No", True, ("T4", LOST), {"GPU-1111": 0, "GPU-2222": 15}),
        ("GPU-2222", "No", "dev", (), {"GPU-1111": 0, "GPU-2222": 1}),  # NVML no longer counts it
        ("GPU-2222", "No", True, (), {"GPU-1111": 0}),  # another container's
        ("GPU-????????-????", "No", True, ("T4", LOST), {"GPU-1111": 0, "PCI-0000:af:00.0": 15}),
        ("GPU-2222", "No", False, ("T4", LOST), {"GPU-1111": 0, "GPU-unknown-1": 15}),
        ("GPU-2222", "Yes", True, (), {"GPU-1111": 0}),
        ("GPU-2222", "No", True, ("T4",), {"GPU-1111": 0, "GPU-2222": 0}),
    ],
)
def test_a_card_lost_before_the_start_is_named_and_the_driver_is_not_complete(
    nvml, make_nvidia, tree, clock, uuid, excluded, files, lines, found
):
    tree.write("proc/driver/nvidia/gpus/0000:3b:00.0/information", "GPU UUID: GPU-1111\nDevice Minor: 1\n")
    if files:
        tree.write(OF_T4, INFORMATION.format(uuid, excluded))
    if files == "dev":
        tree.write("dev/nvidia0", "")
    nvml.say(nvml.DRIVER, nvml.A100, *(nvml.T4 if line == "T4" else line for line in lines))
    reader = DriverReader("nvidia", lambda _: make_nvidia(), clock, 10)
    for _ in range(2):
        reader.read_once()
        assert {uuid: each.failing for uuid, each in reader.latest.items()} == found
        assert reader.is_up == (not any(found.values()))
    reader.close()


def test_a_card_that_is_lost_at_work_stays_itself_when_nvml_counts_fewer(nvml, make_nvidia, tree):
    tree.write(OF_T4, INFORMATION.format("GPU-2222", "No"))
    tree.write("dev/nvidia0", "")
    driver = make_nvidia()
    known = [each.card for each in driver.read()]
    nvml.say(nvml.DRIVER, nvml.A100)
    assert [(each.card, each.failing) for each in driver.read()] == list(zip(known, (0, 1), strict=True))


def test_garbage_that_comes_with_success_is_unknown_and_named(nvml, make_nvidia, unreadable):
    most, odd = 2**32 - 1, nvml.A100
    for name, sane in (("util", 87), ("memutil", 31), ("temp", 45), ("power", 250500), ("limit", 400000)):
        odd = odd.replace(f" {name}={sane}", f" {name}={most}")
    odd = odd.replace("used=10000000000", "used=90000000000")
    other = f"{nvml.T4} util=101 memutil=1 temp=255 limit=0 power=70000"
    nvml.say(nvml.DRIVER, odd, other)
    found = {each.card.uuid: bounded(each, unreadable.count) for each in make_nvidia().read()}
    first, second = found["GPU-1111"], found["GPU-2222"]
    for each in (first, second):
        assert (each.ce_util_percent, each.temperature_celsius, each.power_limit_watts) == (None, None, None)
    assert (first.power_watts, first.memory_used_bytes, first.card.power_limit_watts) == (None, None, None)
    assert (first.memory_busy_percent, second.memory_busy_percent) == (None, 1)
    assert (first.card.max_power_limit_watts, first.ce_clock_mhz, second.power_watts) == (400, 1410, 70)
    assert unreadable.counts == {
        "gpu_refused_ce_util_percent": 2, "gpu_refused_temperature_celsius": 2, "gpu_refused_power_watts": 1,
        "gpu_refused_memory_used_bytes": 1, "gpu_refused_power_limit_watts": 2, "gpu_refused_memory_busy_percent": 1,
    }  # fmt: skip
