"""The units of systemd: what they allow, and that what they allow is explained."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "packaging/systemd"
VARIANTS = ROOT / "packaging/systemd-variants"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
PAGE = ROOT / "docs/systemd.md"
TUNING = ROOT / "docs/tuning.md"
LEFT_OPEN = ROOT / "docs/reliability.md"
MOST_EXPOSURE = 2.0
# Root, four rights, GPUs and the network, each for a reason that the page names: it cannot be less in one unit.
NODE_EXPOSURE = 2.7
VARIANT_EXPOSURE = 2.9


def directives(path):
    """Return the lines NAME=VALUE of a unit, in order."""
    return re.findall(r"^(\w+)=(.*)$", path.read_text(), re.MULTILINE)


def values(path, name):
    return [value for each, value in directives(path) if each == name]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The units in a folder where the command they start exists: systemd-analyze looks for it."""
    folder = tmp_path_factory.mktemp("units")
    for path in [*UNITS.iterdir()]:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE)
        (folder / path.name).write_text(text)
    return folder


def analyze(*words):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here (Debian: systemd)")
    return subprocess.run(["systemd-analyze", *map(str, words)], capture_output=True, text=True)


def exposures(unit):
    """Return the overall level, and the settings that leave something open."""
    done = analyze("security", "--offline=true", "--no-pager", unit)
    level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert level, done.stdout + done.stderr
    return float(level[1]), re.findall(r"^✗ (\S+)", done.stdout, re.MULTILINE)


def test_there_is_a_unit_for_each_role_and_a_socket_and_a_timer():
    assert sorted(path.name for path in UNITS.iterdir()) == [
        "jobfeatures-controller.service",
        "jobfeatures-exporter.service",
        "jobfeatures-exporter.socket",
        "jobfeatures-shutdowntime.service",
        "jobfeatures-shutdowntime.timer",
    ]


@pytest.mark.program
@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("marked", [pytest.param(True, marks=pytest.mark.integration), False])
def test_the_exposure_is_low_and_what_stays_is_explained(name, marked, installed):
    """Run twice: where systemd-analyze may be absent, and where that would be an error."""
    del marked
    level, left = exposures(installed / name)
    assert level <= (NODE_EXPOSURE if name == "jobfeatures-exporter.service" else MOST_EXPOSURE)
    if "systemd 252" not in analyze("--version").stdout:
        return  # another version asks for other things: the page's figures are those of one
    page = (PAGE.read_text() + LEFT_OPEN.read_text()).replace("\\|", "|")  # as tables need them
    assert [each for each in left if f"`{each}`" not in page] == []
    assert f"`{name}` {level}" in page


@pytest.mark.program
@pytest.mark.parametrize("name", sorted(path.name for path in UNITS.iterdir()))
def test_systemd_finds_nothing_wrong_with_a_unit(name, installed):
    done = analyze("verify", "--man=no", "--recursive-errors=no", installed / name)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "jobfeatures" in line] == []


@pytest.mark.parametrize(
    "path", [*map(UNITS.joinpath, SERVICES), *sorted(VARIANTS.iterdir())], ids=lambda path: path.name
)
def test_each_capability_has_its_reason_beside_it(path):
    text = path.read_text()
    granted = {each for value in values(path, "CapabilityBoundingSet") for each in value.split()}
    granted |= {each for value in values(path, "AmbientCapabilities") for each in value.split()}
    reasons = set(re.findall(r"^# (CAP_\w+) {2,}\S", text, re.MULTILINE))
    if path.parent == VARIANTS and path.name in {"lsf.conf", "pbs.conf"}:
        reasons = granted if text.startswith("#") else set()  # the whole file is the reason
    assert granted - reasons == set()


def test_the_timer_starts_a_command_only_while_a_shutdown_is_announced():
    assert values(UNITS / "jobfeatures-shutdowntime.timer", "OnCalendar") == ["minutely"]
    unit = dict(directives(UNITS / "jobfeatures-shutdowntime.service"))
    assert unit["ConditionPathExists"] == "/run/jobfeatures/machinefeatures/shutdowntime"
    assert " drain expire " in unit["ExecStart"]


@pytest.mark.parametrize("name", [each for each in SERVICES if "shutdowntime" not in each])
def test_a_wrong_setting_is_not_tried_again_and_a_hanging_service_is_ended(name):
    unit = dict(directives(UNITS / name))
    assert unit["Type"] == "notify"
    assert unit["RestartPreventExitStatus"] == "2"
    assert float(unit["WatchdogSec"]) > 0
    assert unit["ExecReload"] == '/bin/sh -c "kill -HUP ${MAINPID}"'


def test_jobs_come_first_on_a_full_node_and_which_cpus_the_service_has_is_the_sites_choice():
    unit = dict(directives(UNITS / "jobfeatures-exporter.service"))
    assert 0 < int(unit["CPUWeight"]) < 100  # what other services have
    assert not {"Nice", "CPUAffinity", "AllowedCPUs", "CPUQuota"} & unit.keys()


@pytest.mark.program
def test_systemd_takes_the_lines_by_which_the_page_gives_the_service_cores_of_its_own(installed, tmp_path):
    [lines] = re.findall(r"```ini\n(\[Service\]\nCPUAffinity=.*?)```", TUNING.read_text(), re.DOTALL)
    both = tmp_path / "jobfeatures-exporter.service"
    both.write_text(f"{(installed / both.name).read_text()}\n{lines}")
    done = analyze("verify", "--man=no", "--recursive-errors=no", both)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "jobfeatures" in line] == []


def test_what_jobs_read_outlasts_the_service():
    unit = dict(directives(UNITS / "jobfeatures-exporter.service"))
    assert unit["RuntimeDirectory"] == "jobfeatures"
    assert unit["RuntimeDirectoryPreserve"] == "yes"


def test_the_service_sees_all_processes_and_the_graphics_cards():
    unit = directives(UNITS / "jobfeatures-exporter.service")
    assert ("ProtectProc", "invisible") in unit  # which hides nothing from who may trace all
    assert "CAP_SYS_PTRACE" in dict(unit)["CapabilityBoundingSet"]
    assert ("ProcSubset", "all") in unit
    assert "PrivateDevices" not in dict(unit)
    assert {"char-nvidia rw", "char-drm rw", "char-kfd rw"} <= {
        value for name, value in unit if name == "DeviceAllow"
    }


@pytest.mark.program
@pytest.mark.parametrize("path", sorted(VARIANTS.iterdir()), ids=lambda path: path.name)
def test_each_variant_stands_on_the_page_with_its_exposure(path, installed, tmp_path):
    row = re.search(rf"^\| `{re.escape(path.name)}` \| .* \| ([0-9.]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert row
    name = re.search(r"/etc/systemd/system/(\S+\.service)\.d/", path.read_text())[1]
    both = tmp_path / name  # what comes later counts, as in a drop-in
    both.write_text(f"{(installed / name).read_text()}\n{path.read_text()}")
    level, _ = exposures(both)
    assert level <= VARIANT_EXPOSURE
    if "systemd 252" in analyze("--version").stdout:
        assert float(row[1]) == level
