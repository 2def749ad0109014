"""Stand-ins for the drivers' libraries, built here, and made-up trees of /sys and /proc.

The libraries speak the C interfaces of NVML and of ROCm SMI, so that the real
bindings are what is tested. Trees are constructed after the kernel's
documentation; none was captured from a machine.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.gpu import Paths, nvidia

LABS = Path(__file__).parents[3] / "labs/gpu"


def build(source: str, target: Path, *options: str) -> Path:
    """Build a shared library, or skip."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in for the driver's library")
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-O2", *options, "-o", str(target), str(LABS / source)]
    subprocess.run(command, check=True)
    return target


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the stand-in, loaded: pynvml asks for it by a name, and gets what has that name already."""
    path = build(
        "fake_nvml.c",
        tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1",
        "-Wl,-soname,libnvidia-ml.so.1",
    )
    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return path


class State:
    """The file that says what a stand-in answers; its lines are described in the stand-in's source."""

    A100 = (
        "gpu uuid=GPU-1111 name=NVIDIA%20A100-SXM4-40GB minor=1 bus=0000:3B:00.0 util=87 memutil=31 "
        "total=40000000000 used=10000000000 reserved=616038400 temp=45 power=250500 limit=400000 "
        "minlimit=100000 maxlimit=400000 energy=123456789 sm=1410 mem=1215 maxsm=1980 maxmem=2619 fan=30 "
        "pstate=2 mig=0 computemode=3 vbios=92.00.19 arch=7"
    )
    T4 = "gpu uuid=GPU-2222 name=Tesla%20T4 minor=0 bus=0000:AF:00.0 total=1000 used=0"
    DRIVER = "driver version=550.54.15 cuda=12040"

    def __init__(self, path: Path) -> None:
        self._path = path

    def say(self, *lines: str) -> None:
        """Replace everything, at once for a library that reads meanwhile."""
        beside = self._path.with_suffix(".new")
        beside.write_text("\n".join(lines) + "\n")
        beside.rename(self._path)

    def vanish(self) -> None:
        """Be a driver that is not loaded."""
        self._path.unlink()


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    state = State(tmp_path / "nvml.txt")
    state.say(state.DRIVER, state.A100, state.T4)
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml.txt"))
    return state


@pytest.fixture(scope="session")
def rocm_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("rocm")
    build("fake_rocm_smi.c", top / "lib/librocm_smi64.so")
    return top


@pytest.fixture
def rocm(rocm_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    monkeypatch.setenv("ROCM_PATH", str(rocm_path))
    monkeypatch.setenv("FAKE_ROCM", str(tmp_path / "rocm.txt"))
    state = State(tmp_path / "rocm.txt")
    state.say(
        "gpu pci=0x300 name=AMD%20Instinct%20MI210 busy=61 total=68702699520 used=11530240 power=90000000"
    )
    return state


class Tree:
    """A /sys, a /proc and a /dev below one directory."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.paths = Paths(
            procfs=str(top / "proc"),
            sysfs=str(top / "sys"),
            devfs=str(top / "dev"),
            gpustat=str(top / "gpustat"),
        )
        for name in ("proc", "sys", "dev"):
            (top / name).mkdir()

    def write(self, path: str, text: str) -> None:
        """Make a file, such as ``sys/class/drm/card0/device/uevent``."""
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def card(self, number: int, driver: str, pci_id: str, address: str, **files: str) -> None:
        """Make a card; `files` lie in its device directory, two underscores for a slash."""
        device = f"sys/class/drm/card{number}/device"
        self.write(f"{device}/uevent", f"DRIVER={driver}\nPCI_ID={pci_id}\nPCI_SLOT_NAME={address}\n")
        for name, text in files.items():
            self.write(f"{device}/{name.replace('__', '/')}", f"{text}\n")

    def client(self, pid: int, descriptor: int, device: str, fdinfo: str) -> None:
        """Make a process hold a descriptor."""
        self.write(f"proc/{pid}/fdinfo/{descriptor}", fdinfo)
        link = self.top / f"proc/{pid}/fd/{descriptor}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(device)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def unreadable() -> Unreadable:
    return Unreadable()


@pytest.fixture
def make_nvidia(nvml: State, clock, unreadable: Unreadable, tree: Tree):
    """Return a function that makes the driver; what it has open is closed at the end."""
    made = []

    def make(*, detail: bool = False) -> nvidia.NvidiaDriver:
        made.append(nvidia.make_driver(tree.paths, clock, unreadable, detail=detail))
        return made[-1]

    yield make
    for driver in made:
        driver.close()
