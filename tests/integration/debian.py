"""The built packages, and clean Debian systems in folders to try them on.

`build_packages` is behind the fixture `packages`, `clean_debian` behind `debian`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3.11"
RELEASE = "bookworm"
WITH_SLURM = (
    "dbus",
    "slurmctld",
    "slurmd",
    "slurm-client",
    "munge",
    "openssl",
    "curl",
    "ca-certificates",
    "iproute2",
)
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "jobfeatures-exporter"


@dataclass(frozen=True)
class Packages:
    """The files that `packaging/build.sh` made."""

    wheel: Path
    archive: Path
    deb: Path
    rpm: Path


def build_packages(folder: Path) -> Packages:
    """Run the documented command once; `JOBFEATURES_PACKAGES` names a folder where that has been done."""
    for program, package in (("dpkg-deb", "dpkg"), ("rpmbuild", "rpm"), (PYTHON, "python3.11")):
        if not shutil.which(program):
            pytest.skip(f"needs {program} (Debian: {package})")
    if subprocess.run([PYTHON, "-c", "import ensurepip"], capture_output=True).returncode != 0:
        pytest.skip("needs Debian's python3.11-venv")
    if given := os.environ.get("JOBFEATURES_PACKAGES"):
        folder = Path(given)
    else:
        environ = {**os.environ, "JOBFEATURES_BUILD_TOOLS": str(CACHE / "build-tools")}
        environ |= {"DEBFULLNAME": "Tests", "DEBEMAIL": "tests@example.org"}  # lintian wants an address
        command = [ROOT / "packaging/build.sh", "--release", "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True, env=environ)
        assert done.returncode == 0, done.stdout + done.stderr
    found = [next(folder.glob(pattern)) for pattern in ("*.whl", "*.tar.gz", "*.deb", "*.rpm")]
    return Packages(*found)


@dataclass(frozen=True)
class Debian:
    """A Debian 12 with what it needs to start, Python 3.11 and systemd, which does not run."""

    root: Path

    def command(self, *command: str | Path) -> list[str]:
        """Return the command line that runs a command there, with /proc and /sys, which no other process sees."""
        script = 'mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"'
        isolated = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, self.root]
        return [str(each) for each in (*isolated, *command)]

    def run(self, *command: str | Path, check: bool = True) -> str:
        """Run a command there; return what it says."""
        done = subprocess.run(
            self.command(*command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND": "noninteractive",
                "LC_ALL": "C.UTF-8",
            },
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}"
        return done.stdout

    def boot(self, script: str, shared: Path) -> str:
        """Boot it, with systemd as process 1, in namespaces; run a script there as root, return what it prints.

        The script finds the folder `shared` as /mnt. Nothing of the network is there but loopback.
        """
        (shared / "script").write_text(script)
        command = [ROOT / "tests/labs/systemd/container.sh", self.root, shared, "bash", "/mnt/script"]
        environ = {**os.environ, "CONTAINER_TIMEOUT": "1400"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=1430, env=environ)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        return done.stdout

    def bring(self, file: Path) -> str:
        """Copy a file there; return its path there."""
        shutil.copy(file, self.root / "tmp")
        return f"/tmp/{file.name}"

    def files(self) -> dict[str, str]:
        """Return each file and folder with its mode, owners and content, but for what package managers note."""
        found = {}
        for place, folders, names in os.walk(self.root):
            below = Path(place).relative_to(self.root)
            if str(below) in ("tmp", "var/log", "var/lib/dpkg", "root/.rpmdb", "var/cache"):
                folders.clear()
                continue
            for name in (*folders, *names):
                path = Path(place, name)
                status = path.lstat()
                content = path.readlink() if path.is_symlink() else _content(path, status)
                found[str(below / name)] = f"{status.st_mode:o} {status.st_uid}:{status.st_gid} {content}"
        for backup in (
            "etc/passwd-",
            "etc/group-",
            "etc/shadow-",
            "etc/gshadow-",
            "etc/.pwd.lock",
            "etc/subuid-",
        ):
            found.pop(backup, None)
        return found


def _content(path: Path, status: os.stat_result) -> str:
    """Return what says whether a file was changed: what is in it, of a large one its size and time."""
    if not stat.S_ISREG(status.st_mode):
        return ""
    if status.st_size > 100_000:
        return f"{status.st_size} {status.st_mtime_ns}"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def make_debian(cached: Path, more: Sequence[str]) -> None:
    """Make a clean system, with more packages, which takes half a minute or a whole one."""
    if not shutil.which("debootstrap"):
        pytest.skip("needs debootstrap")
    partial = cached.with_name(f"{cached.name}.{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    include = ",".join(["python3.11", "systemd", "libbpf1", *more])
    command = ["debootstrap", "--variant=minbase", f"--include={include}", RELEASE, partial]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (partial / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    (partial / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")  # as Debian's installer does
    partial.rename(cached)


@contextlib.contextmanager
def clean_debian(folder: Path, more: Sequence[str] = ()) -> Iterator[Debian]:
    """Give a clean system for one test: a layer over one that is made once and kept, or a copy of it.

    With `more` it is one that has these packages too.
    """
    if os.geteuid() != 0:
        pytest.skip("a Debian in a folder needs root: chroot")
    cached = CACHE / "-".join([RELEASE, "4", *more])
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:  # others may want it at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cached.exists():
            make_debian(cached, more)
    with layer_over(cached, folder) as system:
        yield system


@contextlib.contextmanager
def later_debian(suite: str, packages: Sequence[str], folder: Path) -> Iterator[Debian]:
    """Give a system of a suite with these packages: a layer over one that is made once and kept, or a copy of it."""
    if os.geteuid() != 0:
        pytest.skip("a Debian in a folder needs root: chroot")
    if not shutil.which("debootstrap"):
        pytest.skip("needs debootstrap")
    command = [ROOT / "tests/labs/suites/folder.sh", suite, *packages]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with layer_over(Path(done.stdout.strip()), folder) as system:
        yield system


@contextlib.contextmanager
def layer_over(cached: Path, folder: Path) -> Iterator[Debian]:
    """Give what is in a folder, which stays as it is."""
    for name in ("root", "changes", "work"):
        (folder / name).mkdir(parents=True)
    layers = f"lowerdir={cached},upperdir={folder}/changes,workdir={folder}/work"
    # volatile: nothing waits for a disk
    mount = ["mount", "-t", "overlay", "overlay", "-o", f"{layers},volatile", folder / "root"]
    layered = subprocess.run(mount, capture_output=True).returncode == 0
    if not layered:  # in a container whose own files are such layers
        subprocess.run(["cp", "-a", f"{cached}/.", folder / "root"], check=True)
    try:
        yield Debian(folder / "root")
    finally:
        if layered:
            subprocess.run(["umount", folder / "root"], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def read_metrics(daemon: subprocess.Popen, awaited: str) -> str:
    """Return the page of a daemon whose log is a pipe, once there is something on it; end it if there is not."""
    for line in daemon.stderr:
        if found := re.search(r"msg=listening address=(\S+)", line):
            break
    else:
        pytest.fail(f"the daemon has ended: {daemon.wait()}")
    deadline = time.monotonic() + 240
    page = ""
    while awaited not in page:
        if time.monotonic() > deadline:
            os.killpg(daemon.pid, signal.SIGKILL)
            pytest.fail(f"no {awaited} on the page:\n{page}")
        with urllib.request.urlopen(f"http://{found[1]}/metrics", timeout=240) as response:
            page = response.read().decode()
        time.sleep(0.1)
    return page
