"""The daemon ends and starts again while a job goes on: no counter falls, and what was done meanwhile is counted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from array import array

import pytest

from tests.exporter.sampling.bpf.conftest import HIERARCHIES, Groups
from tests.running import free_port, until

JOB = f"987{os.getpid():07}"  # of this run alone: others may run beside it
NODE = f"jfrestart{os.getpid()}"  # likewise
SIZE = 1_000_000


class Manager:
    """A service manager: keeps descriptors, and hands them to the next start."""

    def __init__(self, folder) -> None:
        self.address = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.address)
        self._socket.settimeout(0.05)
        self._closing = False
        self.kept: dict[str, int] = {}
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                text, rights, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(4))
                fields = dict(line.split("=", 1) for line in text.decode().split("\n"))
                if "FDSTORE" in fields:
                    numbers = array("i", rights[0][2])
                    self.kept[fields["FDNAME"]] = numbers[0]
                if "FDSTOREREMOVE" in fields:
                    self.close(fields["FDNAME"])

    def close(self, name: str) -> None:
        number = self.kept.pop(name, None)
        if number is not None:
            os.close(number)

    def close_all(self) -> None:
        self._closing = True
        self._thread.join()
        for name in list(self.kept):
            self.close(name)
        self._socket.close()

    def start(self, command: list[str]) -> subprocess.Popen:
        names, numbers = list(self.kept), list(self.kept.values())
        script = 'export LISTEN_PID=$$; exec "$@"'

        def arrange() -> None:
            first = 3 + len(numbers)
            high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, first) for each in numbers]
            for place, each in enumerate(high):
                os.dup2(each, 3 + place)

        return subprocess.Popen(
            ["sh", "-c", script, "sh", *command],
            env={
                **os.environ,
                "NOTIFY_SOCKET": self.address,
                "LISTEN_FDS": str(len(numbers)),
                "LISTEN_FDNAMES": ":".join(names),
                "PYTHONPATH": ":".join(sys.path),
            },
            preexec_fn=arrange,  # noqa: PLW1509  # it calls nothing but fcntl and dup2
            close_fds=False,
            stderr=subprocess.DEVNULL,
        )


@pytest.fixture
def manager(sockets):
    manager = Manager(sockets)
    yield manager
    manager.close_all()


class Daemon:
    """The exporter, started again and again."""

    def __init__(self, manager: Manager, folder) -> None:
        self._manager = manager
        self._port = free_port()
        self._folder = folder
        self._process: subprocess.Popen | None = None
        self.flags: list[str] = []

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "jobfeatures_exporter",
            "serve",
            "--batch.sources",
            "",
            "--node.name",
            NODE,
        ]
        command += ["--features.root", str(self._folder / "features"), "--sampling.processes", "bpf"]
        command += ["--sample.interval", "1h", "--web.listen-address", f"127.0.0.1:{self._port}"]
        self._process = self._manager.start([*command, *self.flags])
        until(self.page)

    def page(self) -> str:
        address = f"http://127.0.0.1:{self._port}/metrics"
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=30) as answer:
            return answer.read().decode()
        assert self._process is not None
        assert self._process.poll() is None, "it does not start"
        return ""

    def written(self) -> float:
        return self.of_job("batch_job_io_written_bytes_total")

    def of_job(self, name: str) -> float:
        found = re.search(rf'^{name}{{[^}}]*job_id="{JOB}"}} (\S+)$', self.page(), re.MULTILINE)
        return float(found[1]) if found else -1.0

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)


@pytest.fixture
def daemon(manager, tmp_path):
    daemon = Daemon(manager, tmp_path)
    yield daemon
    daemon.stop(signal.SIGKILL)


@pytest.mark.program
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_over_a_restart_no_counter_falls_and_nothing_is_lost(end, daemon, manager, groups, make_sums):
    make_sums().close()  # or skips
    path = groups.of_job(NODE, JOB)

    def write_in(step: str) -> None:
        """Let a process write in a step that is gone then."""
        directory = groups.make(f"{path}/step_{step}")
        join = f'echo $$ >"$0/cgroup.procs" && exec head -c {SIZE} /dev/zero'
        with open(os.devnull, "wb") as null:
            subprocess.run(["sh", "-c", join, groups.path(directory)], check=True, stdout=null)
        until(lambda: groups.is_empty(directory))
        groups.remove(directory)

    groups.make(path)
    daemon.start()
    write_in("0")
    for _ in range(4):  # the record of the step goes
        until(lambda: daemon.written() >= SIZE)
    before = daemon.written()
    assert before < SIZE + 1000
    daemon.stop(end)
    until(lambda: len(manager.kept) == 12)
    write_in("1")  # while nobody looks
    daemon.start()
    after = daemon.written()
    assert after >= before
    until(lambda: daemon.written() >= 2 * SIZE)
    write_in("2")
    until(lambda: daemon.written() >= 3 * SIZE)
    assert daemon.written() < 3 * (SIZE + 1000)
    assert len(manager.kept) == 12


SEND = """
import socket
it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
it.bind(("127.0.0.1", 0))
it.connect(it.getsockname())
for _ in range(10):
    it.send(b"x" * 72)
"""


@pytest.mark.program
def test_packets_are_counted_on_over_a_restart_and_no_longer_when_nobody_asks_any_more(
    daemon, manager, groups_of_v2
):
    hierarchy, groups = groups_of_v2
    job = groups.make(groups.of_job(NODE, JOB))

    def send() -> None:
        join = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
        subprocess.run(["sh", "-c", join, groups.path(job), sys.executable, "-c", SEND], check=True)

    def sent() -> tuple[float, float]:
        found = (daemon.of_job(f"batch_job_network_sent_{what}_total") for what in ("bytes", "packets"))
        return next(found), next(found)

    asked = ["--path.cgroup", hierarchy, "--jobs.network"]
    daemon.flags = asked
    daemon.start()
    until(lambda: "batch_exporter_job_network{" in daemon.page())
    if 'batch_exporter_job_network{reason=""} 1' not in daemon.page():
        pytest.skip("the kernel has no packets for us")
    send()
    until(lambda: sent() == (1000, 10))
    daemon.stop()
    until(lambda: len(manager.kept) == 14)
    send()  # while nobody looks
    daemon.start()
    until(lambda: sent() == (2000, 20))
    assert daemon.of_job("batch_job_network_received_bytes_total") == 2000
    daemon.stop()
    daemon.flags = asked[:2]
    daemon.start()
    until(lambda: len(manager.kept) == 12)
    assert sent() == (-1, -1)
    assert "batch_exporter_job_network{" not in daemon.page()
    assert daemon.written() > 0, "the sums go on"


@pytest.fixture
def groups_of_v2(make_sums):
    make_sums().close()  # or skips
    for each in HIERARCHIES:
        groups = Groups(each)
        if groups.freezer is None:
            yield each, groups
            groups.close()
            return
    pytest.skip("this machine has no control groups v2")
