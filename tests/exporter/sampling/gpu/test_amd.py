"""AMD's cards in a constructed /sys, with and without ROCm SMI (the real pyrsmi before a stand-in)."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.prolog import job_from_prolog
from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess, GpuSample
from jobfeatures_exporter.sampling.gpu import amd, rocm
from jobfeatures_exporter.sampling.gpu.allocated import compute_allocations
from jobfeatures_exporter.sampling.gpu.drm import parse_current_clock, parse_highest_clock, parse_uevent
from jobfeatures_exporter.sampling.gpu.kfd import KfdNode, node_of, parse_properties

ADDRESS = "0000:03:00.0"
PROPERTIES = (
    "cpu_cores_count 0\nsimd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\n"
    "location_id 768\ndomain 0\nunique_id 5555\n"
)


@pytest.fixture
def mi210(tree):
    """Return a tree with a card whose every file is there, behind the board's own graphics."""
    tree.card(0, "ast", "1A03:2000", "0000:01:00.0")
    tree.card(
        1,
        "amdgpu",
        "1002:740F",
        ADDRESS,
        gpu_busy_percent="42",
        mem_info_vram_total="68702699520",
        mem_info_vram_used="6870269952",
        unique_id="b5c1f6b0a1e2d3c4",
        product_name="Instinct MI210",
        vbios_version="113-D67301-063",
        current_compute_partition="SPX",
        pp_dpm_sclk="0: 500Mhz\n1: 1700Mhz *",
        pp_dpm_mclk="0: 400Mhz *\n1: 1600Mhz",
        hwmon__hwmon5__temp1_input="41000",
        hwmon__hwmon5__fan1_input="1500",
        hwmon__hwmon5__fan1_max="3000",
        hwmon__hwmon5__power1_average="38000000",
        hwmon__hwmon5__power1_cap="300000000",
        hwmon__hwmon5__power1_cap_max="320000000",
        hwmon__hwmon5__power1_cap_min="0",
    )
    tree.write("sys/module/amdgpu/version", "6.7.0\n")
    tree.write("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n")
    tree.write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51230\n")
    tree.write("sys/class/kfd/kfd/topology/nodes/1/properties", PROPERTIES)
    return tree


@pytest.fixture
def read(tree, clock, unreadable, monkeypatch):
    """Return a function that reads all cards, without ROCm SMI."""
    driver = amd.AmdDriver(tree.paths, clock, unreadable, None)
    return lambda: list(driver.read())


def test_every_field_from_the_kernels_files_alone(mi210, read, clock, unreadable):
    assert read() == [
        GpuSample(
            card=GpuCard(
                uuid="GPU-b5c1f6b0a1e2d3c4",
                index=0,
                minor=1,
                address=ADDRESS,
                manufacturer="AMD",
                model="Instinct MI210",
                architecture="gfx90a",
                driver="6.7.0",
                firmware="113-D67301-063",
                memory_bytes=68702699520,
                power_limit_watts=300,
                max_power_limit_watts=320,
                min_power_limit_watts=0,
                max_ce_clock_mhz=1700,
                max_memory_clock_mhz=1600,
            ),
            taken_at_secs=clock.now_secs(),
            fan_percent=50,
            compute_mode="SPX",
            memory_used_bytes=6870269952,
            ce_util_percent=42,
            temperature_celsius=41,
            power_watts=38,
            power_limit_watts=300,
            ce_clock_mhz=1700,
            memory_clock_mhz=400,
        )
    ]
    assert unreadable.counts == {}


def test_a_card_without_sensors_and_without_an_id_is_named_by_its_address(tree, read):
    tree.card(0, "amdgpu", "1002:1638", "0000:05:00.0", unique_id="0")
    [sample] = read()
    assert sample.card.uuid == "PCI-0000:05:00.0"
    assert sample.card.model == "1002:1638"
    assert (sample.ce_util_percent, sample.power_watts, sample.fan_percent) == (None, None, None)
    assert sample.temperature_celsius is None


def test_other_names_of_sensors(tree, read):
    tree.card(
        0,
        "amdgpu",
        "1002:74A1",
        ADDRESS,
        hwmon__hwmon1__temp2_input="61000",
        hwmon__hwmon1__power1_input="150000000",
        hwmon__hwmon1__pwm1="51",
    )
    [sample] = read()
    assert (sample.temperature_celsius, sample.power_watts, sample.fan_percent) == (61, 150, 20)


def test_garbage_and_endless_files_cost_their_field_and_are_counted(mi210, read, unreadable):
    mi210.card(1, "amdgpu", "1002:740F", ADDRESS, gpu_busy_percent="lots", mem_info_vram_used="1" * 70000)
    [sample] = read()
    assert (sample.ce_util_percent, sample.memory_used_bytes, sample.temperature_celsius) == (None, None, 41)
    assert unreadable.counts == {"gpu_sysfs_garbage": 1, "gpu_sysfs_efbig": 1}


def test_processes_of_kfd_and_of_drm_stand_once(mi210, read, clock):
    mi210.write("sys/class/kfd/kfd/proc/100/vram_51230", "4096\n")
    mi210.write("sys/class/kfd/kfd/proc/100/stats_51230/cu_occupancy", "26\n")
    mi210.write("sys/class/kfd/kfd/proc/101/vram_51230", "1\n")
    mi210.write("sys/class/kfd/kfd/proc/102/vram_999", "77\n")
    mi210.write("sys/class/kfd/kfd/proc/x/vram_51230", "77\n")
    text = (
        f"drm-driver: amdgpu\ndrm-client-id: 1\ndrm-pdev: {ADDRESS}\ndrm-memory-vram: {{}} KiB\n"
        "drm-engine-gfx: {} ns\n"
    )
    mi210.client(100, 7, "/dev/dri/renderD128", text.format(1, 0))
    mi210.client(101, 7, "/dev/dri/renderD128", text.replace("id: 1", "id: 3").format(2, 0))
    mi210.client(103, 7, "/dev/dri/renderD128", text.replace("id: 1", "id: 2").format(8, 0))
    read()
    clock.advance(10)
    mi210.client(103, 7, "/dev/dri/renderD128", text.replace("id: 1", "id: 2").format(8, 10**9))
    [sample] = read()
    assert sample.processes == (
        GpuProcess(
            pid=100,
            memory_bytes=4096,
            ce_util_percent=25.0,
        ),
        GpuProcess(
            pid=101,
            memory_bytes=2048,
            ce_util_percent=0.0,
        ),
        GpuProcess(
            pid=103,
            memory_bytes=8192,
            ce_util_percent=10.0,
        ),
    )


GIB = 2**30


def divided(tree, locations, minors=(128, 129, 130)):
    """Make a card in three partitions, with a process on each, one on all, and one that is not known to KFD."""
    address = "0000:02:00.0"
    tree.card(0, "amdgpu", "1002:74A0", address, current_compute_partition="TPX", gpu_busy_percent="90")
    tree.write("sys/class/drm/card0/device/drm/renderD128/dev", "226:128\n")
    for number, (location, minor, gpu_id) in enumerate(
        zip(locations, minors, (51234, 40120, 7788), strict=True)
    ):
        place = f"sys/class/kfd/kfd/topology/nodes/{number}"
        tree.write(f"{place}/gpu_id", f"{gpu_id}\n")
        text = f"simd_count 304\nsimd_per_cu 4\nlocation_id {location}\ndomain 0\ndrm_render_minor {minor}\n"
        tree.write(f"{place}/properties", text)
        for pid, amount in ((1001 + number, 10 * (number + 1)), (2000, 1)):
            tree.write(f"sys/class/kfd/kfd/proc/{pid}/vram_{gpu_id}", f"{amount * GIB}\n")
            tree.write(f"sys/class/kfd/kfd/proc/{pid}/stats_{gpu_id}/cu_occupancy", "38\n")


@pytest.mark.parametrize("locations", [(512, 513, 514), (512, 512 | 1 << 28, 512 | 2 << 28)])
def test_the_processes_of_all_partitions_are_the_cards(tree, read, locations):
    divided(tree, locations)
    [sample] = read()
    assert {each.pid: each.memory_bytes for each in sample.processes} == {
        1001: 10 * GIB, 1002: 20 * GIB, 1003: 30 * GIB, 2000: 3 * GIB,
    }  # fmt: skip
    percents = {each.pid: each.ce_util_percent for each in sample.processes}
    assert percents == {pid: pytest.approx(50 / 3) for pid in (1001, 1002, 1003)} | {2000: pytest.approx(50)}
    assert (sample.card.partitions, sample.card.render_minors) == (3, (128, 129, 130))


def test_a_card_that_comes_back_with_other_device_files_is_found_by_these(tree, read):
    divided(tree, (512, 513, 514))
    read()
    (tree.top / "sys/class/drm/card0").rename(tree.top / "sys/class/drm/card3")
    divided_again = "simd_count 304\nsimd_per_cu 4\nlocation_id 514\ndomain 0\ndrm_render_minor 140\n"
    tree.write("sys/class/kfd/kfd/topology/nodes/2/properties", divided_again)
    [sample] = read()
    assert (sample.card.minor, sample.card.render_minors) == (3, (128, 129, 140))


def test_a_card_that_is_lost_or_comes_late_leaves_the_others_their_places(tree, read):
    tree.card(0, "amdgpu", "1002:740F", "0000:05:00.0", unique_id="5")
    tree.write("sys/bus/pci/drivers/amdgpu/0000:03:00.0", "")
    assert [(each.card.uuid, each.card.index) for each in read() if not each.failing] == [("GPU-5", 1)]
    tree.card(1, "amdgpu", "1002:740F", "0000:02:00.0", unique_id="2")
    assert [each.card.index for each in read() if not each.failing] == [0, 2]
    (tree.top / "sys/class/drm/card1").rename(tree.top / "gone")
    assert [(each.card.uuid, each.card.index) for each in read() if not each.failing] == [("GPU-5", 2)]


def test_a_function_with_a_card_of_its_own_is_no_partition(tree, read):
    for number in range(2):
        tree.card(number, "amdgpu", "1002:7408", f"0000:02:00.{number}")
        place = f"sys/class/kfd/kfd/topology/nodes/{number}"
        tree.write(f"{place}/gpu_id", f"{number + 1}\n")
        tree.write(f"{place}/properties", f"location_id {512 + number}\ndomain 0\n")
        tree.write(f"sys/class/kfd/kfd/proc/{number + 7}/vram_{number + 1}", "5\n")
    assert [[each.pid for each in sample.processes] for sample in read()] == [[7], [8]]


def test_rocm_smi_is_not_asked_of_a_card_in_partitions(tree, rocm, clock, unreadable):
    divided(tree, (512, 513, 514))
    rocm.say("gpu pci=0x200 name=x busy=1", "gpu pci=0x201 name=x busy=2", "gpu pci=0x202 name=x busy=3")
    driver = amd.make_driver(tree.paths, clock, unreadable)
    assert [sample.ce_util_percent for sample in driver.read()] == [90]
    driver.close()


def test_a_jobs_device_files_are_those_of_its_card(tree, read, make_job):
    """Slurm's hook counts device files, scontrol the GPUs in their order."""
    tree.card(0, "ast", "1A03:2000", "0000:01:00.0")
    for number in range(1, 9):
        tree.card(number, "amdgpu", "1002:740F", f"0000:{12 - number:02x}:00.0", unique_id=f"{number:x}")
        tree.write(f"sys/class/drm/card{number}/device/drm/renderD{127 + number}/dev", "")
    cards = [sample.card for sample in read()]

    def of(**names):
        job = make_job("1", **names)
        return compute_allocations({job.key: job}, cards, {}).get(job.key, frozenset())

    def of_hook(text):
        job = job_from_prolog({"SLURM_JOB_ID": "1", "SLURM_JOB_GPUS": text}, node_name=None)
        return of(gpus=job.gpus, gpu_devices=job.gpu_devices)

    assert of_hook("128,135") == of_hook("1,8") == {"GPU-1", "GPU-8"}
    assert of_hook("0") == of_hook("127") == of_hook("136") == of_hook("9") == frozenset()
    assert of(gpus=("0", "1")) == {"GPU-8", "GPU-7"}  # by bus address
    assert of(gpus=("128",)) == {"GPU-1"}
    assert of(gpus=("0",), gpu_devices=("1",)) == {"GPU-1"}  # scontrol's answer beside the hook's


def test_a_partition_is_found_by_its_device_file_alone(tree, read, make_job):
    divided(tree, (512, 513, 514))
    tree.card(9, "amdgpu", "1002:74A0", "0000:05:00.0", unique_id="9")
    cards = [sample.card for sample in read()]
    jobs = [
        make_job("1", gpu_devices=("130",)), make_job("2", gpus=("0",)), make_job("3", allocated_gpus=2),
        make_job("4", allocated_gpus=4), make_job("5", gpu_devices=("131",)),
        make_job("6", gpus=("0", "1", "2", "3"), allocated_gpus=4),
    ]  # fmt: skip
    found = compute_allocations({job.key: job for job in jobs}, cards, {})
    first, second = (card.uuid for card in cards)
    assert found == {jobs[0].key: {first}, jobs[3].key: {first, second}, jobs[5].key: {first, second}}


def test_a_device_that_its_driver_could_not_start_is_a_card_that_does_not_answer(mi210, read, unreadable):
    for name in (ADDRESS, "0000:63:00.0", "module", "bind"):
        mi210.write(f"sys/bus/pci/drivers/amdgpu/{name}", "")
    assert [(each.card.uuid, each.failing) for each in read()] == [
        ("GPU-b5c1f6b0a1e2d3c4", 0), ("PCI-0000:63:00.0", 1),
    ]  # fmt: skip
    (mi210.top / "sys/class/drm/card1").rename(mi210.top / "gone")
    assert [(each.card.uuid, each.failing) for each in read()] == [
        ("GPU-b5c1f6b0a1e2d3c4", 1), ("PCI-0000:63:00.0", 1),
    ]  # fmt: skip
    assert unreadable.counts == {}


def test_a_card_that_vanishes_is_left_out(mi210, read):
    assert len(read()) == 1
    (mi210.top / "sys/class/drm/card1").rename(mi210.top / "gone")
    assert read() == []


# --- ROCm SMI --------------------------------------------------------------------------


@pytest.fixture
def with_rocm(mi210, rocm, clock, unreadable):
    driver = amd.make_driver(mi210.paths, clock, unreadable)
    yield driver
    driver.close()


def test_rocm_smi_tells_what_it_knows_and_the_kernel_the_rest(with_rocm):
    [sample] = with_rocm.read()
    assert sample.card.model == "AMD Instinct MI210"
    assert (sample.ce_util_percent, sample.memory_used_bytes) == (61, 11530240)
    assert sample.power_watts == pytest.approx(90)
    assert (sample.temperature_celsius, sample.fan_percent, sample.card.uuid) == (
        41,
        50,
        "GPU-b5c1f6b0a1e2d3c4",
    )


def test_what_rocm_smi_does_not_answer_the_kernel_does_and_it_is_not_asked_again(with_rocm, rocm, caplog):
    rocm.say("gpu pci=0x300 name=AMD%20Instinct")
    for _ in range(3):
        [sample] = with_rocm.read()
        assert (sample.ce_util_percent, sample.memory_used_bytes, sample.power_watts) == (42, 6870269952, 38)
    assert caplog.text.count("not supported") == 4  # each function once, by pyrsmi itself


def test_an_average_of_nothing_is_no_power(with_rocm, rocm):
    """Newer cards tell what they draw now, and no average."""
    rocm.say("gpu pci=0x300 name=AMD%20Instinct busy=1 power=0")
    [sample] = with_rocm.read()
    assert sample.power_watts == 38


def test_a_card_that_rocm_smi_does_not_know_is_read_by_the_kernels_files(mi210, rocm, clock, unreadable):
    rocm.say("gpu pci=0x9900 name=other busy=1")
    driver = amd.make_driver(mi210.paths, clock, unreadable)
    [sample] = driver.read()
    assert (sample.card.model, sample.ce_util_percent) == ("Instinct MI210", 42)
    driver.close()


def test_without_a_running_library_or_its_binding_there_is_none(rocm, monkeypatch):
    rocm.vanish()
    assert amd.open_rocm() is None
    monkeypatch.setitem(sys.modules, "pyrsmi.util", None)
    assert amd.open_rocm() is None


def test_a_library_that_counts_no_cards_after_a_failed_start_takes_none_from_the_kernel(
    rocm, mi210, clock, unreadable, monkeypatch
):
    """pyrsmi 0.2.0 says 0 devices, no error, where its start has failed; a later one says -1 for all else."""
    import pyrsmi.rocml as library

    rocm.vanish()
    for start in (library.smi_initialize, lambda: None):
        monkeypatch.setattr(library, "smi_initialize", start)
        monkeypatch.setattr(library, "smi_get_device_count", lambda: 0)
        driver = amd.make_driver(mi210.paths, clock, unreadable)
        [sample] = driver.read()
        assert (sample.ce_util_percent, sample.power_watts) == (42, 38)


def test_later_versions_of_pyrsmi_are_left_alone(rocm, monkeypatch):
    import pyrsmi.rocml as library

    monkeypatch.setattr(library, "LIBROCM_NAME", "libamd_smi.so")
    assert amd.open_rocm() is None


@pytest.mark.program
def test_loading_rocm_smi_prints_nothing_and_starts_nothing(rocm):
    """pyrsmi by itself runs rocminfo and a shell: without Popen either fails loudly."""
    code = (
        "import logging, subprocess, sys; logging.basicConfig(); subprocess.Popen = None;"
        "from jobfeatures_exporter.sampling.gpu.rocm import open_rocm;"
        "open_rocm().close(); sys.exit('amdsmi' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_addresses():
    assert rocm.format_address(0x1_0000_8308) == "0001:83:01.0"


# --- parsers ---------------------------------------------------------------------------


def test_a_node_of_kfd():
    assert node_of(51230, parse_properties(PROPERTIES)) == KfdNode(51230, ADDRESS, "gfx90a", 104)
    assert node_of(0, parse_properties(PROPERTIES)) is None
    assert node_of(5, {}) is None
    assert node_of(1, {"location_id": 0x8308, "domain": 1, "gfx_target_version": 110002}) == KfdNode(
        1, "0001:83:01.0", "gfx1102", None
    )


@given(st.text() | st.from_regex(r"[a-zA-Z_=:0-9* \n]{0,60}", fullmatch=True))
def test_any_text_goes_through_the_parsers_of_sysfs(text):
    assert all(value >= 0 for value in parse_properties(text).values())
    node = node_of(1, parse_properties(text))
    assert node is None or node.gpu_id == 1
    for parse in (parse_current_clock, parse_highest_clock):
        assert parse(text) is None or 0 <= parse(text) < 10**6
    card = parse_uevent(text, minor=0, path="x")
    assert card is None or card.address
