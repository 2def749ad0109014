"""The board's sensor below a constructed /sys: no machine of ours has one."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.power import PowerError, PowerSettings, hwmon
from jobfeatures_exporter.sampling.power.hwmon import Sensor, choose_sensors, find_sensors
from jobfeatures_exporter.sampling.power.monitor import PowerReader


@pytest.fixture
def chip(tmp_path):
    """Return a function that writes a chip's files; it returns its folder."""

    def write(number, name, **files):
        folder = tmp_path / f"sys/class/hwmon/hwmon{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "name").write_text(f"{name}\n")
        for file, text in files.items():
            (folder / file).write_text(f"{text}\n")
        return folder

    return write


@pytest.fixture
def make(tmp_path):
    """Return a function that makes a reader of some sensors."""

    def make(wanted="power_meter"):
        return hwmon.make(PowerSettings(hwmon=wanted), str(tmp_path / "sys"))

    return make


def test_the_board_s_meter_is_read_and_other_chips_are_not(chip, make):
    chip(0, "nvme", temp1_input=40000)
    chip(1, "amdgpu", power1_average=99_000_000)
    chip(2, "power_meter", power1_average=345_500_000, power1_average_interval=1000)
    assert make()() == 345.5


def test_the_mean_is_taken_rather_than_the_moment(chip, tmp_path):
    folder = chip(0, "ibmaem", power1_input=5, power1_average=7, power2_input=9)
    assert [each.path for each in find_sensors(str(tmp_path / "sys"))] == [
        f"{folder}/power1_average",
        f"{folder}/power2_input",
    ]


def test_several_meters_are_named_by_what_they_measure_and_summed(chip, make):
    for number in range(2):
        chip(
            number, "power_meter", power1_average=300_000_000, power1_oem_info=f"Module Power Socket {number}"
        )
        chip(
            10 + number,
            "power_meter",
            power1_average=100_000_000,
            power1_oem_info=f"CPU Power Socket {number}",
        )
    both = "power_meter:Module Power Socket 0, power_meter:Module Power Socket 1"
    assert make(both)() == 600
    assert make(f"{both},power_meter:Module Power Socket 0")() == 600
    with pytest.raises(
        PowerError,
        match=r"power_meter must match one sensor, but matches 4; sensors here: .*CPU Power Socket 1",
    ):
        make()()


@pytest.fixture
def reader(make, clock):
    return PowerReader("hwmon", make, clock, 10.0)


def test_a_sensor_that_is_not_there_is_told_and_found_when_it_comes(chip, reader, caplog):
    reader.read_once()
    assert reader.watts is None
    assert "power_meter must match one sensor, but matches 0; sensors here: none" in caplog.text
    chip(3, "power_meter", power1_average=1_000_000)
    reader.read_once()
    assert reader.watts == 1


def test_a_sensor_that_moved_at_a_reload_of_its_driver_is_found_again(chip, reader, caplog):
    folder = chip(3, "power_meter", power1_average=1_000_000)
    reader.read_once()
    assert reader.watts == 1
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    reader.read_once()
    assert reader.watts is None
    assert "No such file" in caplog.text
    chip(4, "power_meter", power1_average=2_000_000)
    reader.read_once()
    assert reader.watts == 2


def test_the_number_of_a_sensor_that_has_gone_is_another_chips(tmp_path, reader):
    """Below /sys/class/hwmon are links to the devices' folders. A card took the number of the board's meter."""
    classes = tmp_path / "sys/class/hwmon"
    classes.mkdir(parents=True)

    def plug(device, number, name, watts):
        folder = tmp_path / f"sys/devices/{device}/hwmon/hwmon{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "power1_average").write_text(f"{watts}000000\n")
        (classes / f"hwmon{number}").symlink_to(folder)

    plug("ACPI000D:00", 3, "power_meter", 500)
    reader.read_once()
    assert reader.watts == 500
    shutil.rmtree(tmp_path / "sys/devices/ACPI000D:00")
    (classes / "hwmon3").unlink()
    plug("0000:03:00.0", 3, "amdgpu", 90)
    plug("ACPI000D:01", 4, "power_meter", 510)
    reader.read_once()
    assert reader.watts is None
    reader.read_once()
    assert reader.watts == 510


@pytest.mark.parametrize(
    "text",
    [
        *("0", "-1", "319000", "150000000000", "garbage", "", "9" * 60, "300000000000"),
        *("4294967295", "2147483647", "65535000000"),  # all ones
    ],
)
def test_a_running_machine_that_draws_nothing_or_anything_is_not_believed(chip, make, text):
    chip(0, "power_meter", power1_average=text)
    with pytest.raises(ParseError):
        make()()


def test_what_a_folder_holds_besides_is_no_sensor(chip, tmp_path):
    folder = chip(0, "x", power1_cap=5, power_average=5, power1_average_min=1)
    (folder / "power2_average").symlink_to("/etc/passwd")
    (tmp_path / "sys/class/hwmon/hwmon9").mkdir()
    found = find_sensors(str(tmp_path / "sys"))
    assert [each.path for each in found] == [f"{folder}/power2_average"]
    with pytest.raises(OSError, match="symbolic links"):
        hwmon.read_watts(found)


names = st.text(alphabet="ab:, ", max_size=6)


@given(names, st.lists(st.builds(Sensor, names, names, names), max_size=6))
def test_each_chosen_name_is_one_sensor_or_none_is_read(wanted, sensors):
    try:
        chosen = choose_sensors(wanted, sensors)
    except PowerError:
        return
    assert len(chosen) == len(set(chosen)) <= len([word for word in wanted.split(",") if word.strip()])
