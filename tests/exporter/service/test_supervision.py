import asyncio
import os
import socket
import time

import pytest

from jobfeatures.batch.source import KeeperStatus
from jobfeatures.records.model import JobTable
from jobfeatures_exporter.service.supervision import (
    Notifier,
    describe_problems,
    describe_sources,
    keep_telling,
)


@pytest.fixture(params=["path", "abstract"])
def manager(request, sockets):
    """A service manager's end: gives the address as NOTIFY_SOCKET has it, and what has come."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        if request.param == "path":
            address = bound = str(sockets / "notify")
        else:
            name = f"jobfeatures-test-{os.getpid()}-{time.monotonic_ns()}"
            address, bound = f"@{name}", f"\0{name}"
        end.bind(bound)
        end.setblocking(False)

        def received():
            found = []
            while True:
                try:
                    found.append(end.recv(4096).decode().split("\n"))
                except BlockingIOError:
                    return found

        received.address = address
        yield received


class Served:
    """What is looked after, as a test wants it."""

    def __init__(self):
        self.dead, self.text = [], "3 jobs here"

    def stalled(self):
        return self.dead

    def summary(self):
        return self.text


def test_a_name_that_is_no_text_is_told_with_a_mark_in_its_place(manager):
    Notifier(manager.address).status("no file /etc/b\udcffd.toml")
    assert manager() == [["STATUS=no file /etc/b?d.toml"]]


def test_the_life_of_a_daemon_is_told(manager):
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.address})
    before = time.monotonic_ns() // 1000
    notifier.ready("serving on 127.0.0.1:9819")
    notifier.reloading()
    notifier.ready("x\ny")
    notifier.alive()
    notifier.stopping()
    ready, reloading, again, alive, stopping = manager()
    assert ready == ["READY=1", "STATUS=serving on 127.0.0.1:9819"]
    assert reloading[0] == "RELOADING=1"
    name, _, usecs = reloading[1].partition("=")
    assert name == "MONOTONIC_USEC"
    assert before <= int(usecs) <= time.monotonic_ns() // 1000
    assert again == ["READY=1", "STATUS=x y"]  # no line of ours in disguise
    assert alive == ["WATCHDOG=1"]
    assert stopping[0] == "STOPPING=1"


def test_programs_that_are_started_cannot_speak_for_the_daemon(manager):
    environ = {
        "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": str(os.getpid()), "PATH": "/bin",
    }  # fmt: skip
    Notifier.from_environment(environ)
    assert environ == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("variables", "secs"),
    [
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),  # meant for another process
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_ours_only_if_it_says_so(variables, secs):
    assert Notifier.from_environment({"NOTIFY_SOCKET": "/x", **variables}).watchdog_secs == secs
    assert Notifier.from_environment(variables).watchdog_secs is None


def test_without_a_service_manager_nothing_happens(caplog):
    Notifier.from_environment({}).ready("x")
    assert caplog.records == []


@pytest.mark.parametrize("address", ["/no/such/socket", "@nobody-listens-here", "vsock:2:1234", ""])
def test_a_service_manager_that_cannot_be_reached_costs_a_line_of_the_log(address, caplog):
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": address})
    for _ in range(3):
        notifier.ready("x")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def told(notifier, served, manager, rounds):
    """Return what is told until `rounds` messages that put off the watchdog, or statuses, have come."""
    task = asyncio.create_task(keep_telling(notifier, served, lambda: "serving"))
    found = []
    async with asyncio.timeout(60):
        while len(found) < rounds:
            found += manager()
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return found


async def test_the_watchdog_is_put_off_again_and_again_and_a_status_told_once(manager):
    found = await told(Notifier(manager.address, 0.05), Served(), manager, 6)
    assert found.count(["STATUS=serving: 3 jobs here"]) == 1
    assert found.count(["WATCHDOG=1"]) == len(found) - 1


async def test_with_a_thread_that_is_dead_the_watchdog_is_not_put_off(manager, caplog):
    served = Served()
    served.dead = ["sampling"]
    found = await told(Notifier(manager.address, 0.05), served, manager, 1)
    await asyncio.sleep(0)
    assert found + manager() == [["STATUS=serving: sampling hangs"]]
    assert [each.getMessage() for each in caplog.records] == ["threads have died or hang: sampling"]


async def test_a_loop_that_hangs_tells_nothing(manager):
    """Told from the loop itself: no thread of its own could say that all is well."""
    task = asyncio.create_task(keep_telling(Notifier(manager.address, 0.02), Served(), lambda: "serving"))
    await asyncio.sleep(0)
    manager()
    time.sleep(0.1)  # the loop hangs for five times the watchdog's interval
    assert manager() == []
    task.cancel()


def test_sources_are_described_without_names_of_jobs():
    table = JobTable(source="slurm", jobs={}, taken_at_secs=1.0, complete=True)
    statuses = [
        KeeperStatus("hooks"),
        KeeperStatus("slurm", table),
        KeeperStatus("spool", table, failures=1, last_error="x"),
    ]
    assert describe_sources(statuses) == "sources: hooks has not answered yet, slurm answers, spool fails"
    assert describe_sources([]) == "no batch system is queried"


def test_what_has_not_answered_and_what_fails_is_told_with_its_words(make_table):
    statuses = [
        KeeperStatus("hooks", make_table()),
        KeeperStatus("slurm"),
        KeeperStatus("pbs", make_table(), failures=1, last_error="no server", failing_since_secs=100.0),
        KeeperStatus("lsf", None, failures=1, last_error="no bjobs", failing_since_secs=160.0),
    ]
    assert describe_problems(statuses, 170.0) == [
        "slurm has not answered yet",
        "pbs has failed for 70 s: no server",
        "lsf has failed for 10 s: no bjobs",
    ]


def test_descriptors_are_given_to_be_kept_and_those_of_a_name_dropped(manager, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    notifier = Notifier(manager.address)
    with file.open() as opened:
        notifier.keep({"sums-1": opened.fileno()})
    notifier.drop(["sums-0"])
    assert manager() == [
        ["FDSTORE=1", "FDNAME=kept-sums-1", "FDPOLL=0"],
        ["FDSTOREREMOVE=1", "FDNAME=kept-sums-0"],
    ]
