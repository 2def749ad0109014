"""Packets by control group against what programs are known to have sent over loopback: header by header.

What is counted is the packet as IP has it: of UDP each datagram with 8 bytes, of IPv4 20 and of IPv6 40 more; of TCP
what the segments hold, with 20 to 60 bytes of TCP each. Over loopback each packet is sent once and received once.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from typing import NamedTuple

import pytest

from jobfeatures_exporter.sampling.bpf.reader import KernelSums
from jobfeatures_exporter.sampling.layout.hierarchy import find_hierarchies
from tests.exporter.sampling.bpf.conftest import CGROUP, HIERARCHIES

pytestmark = pytest.mark.program

JOIN = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
UDP = """
import socket, sys
family, address, size, count = getattr(socket, sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
there = socket.socket(family, socket.SOCK_DGRAM)
there.bind((address, 0))
here = socket.socket(family, socket.SOCK_DGRAM)
here.connect(there.getsockname())
for _ in range(count):
    here.send(b"x" * size)
    assert len(there.recv(65536)) == size
"""
TCP = """
import socket, sys, threading
size = int(sys.argv[1])
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
    there, _ = server.accept()
    sending = threading.Thread(target=here.sendall, args=(b"x" * size,))
    sending.start()
    while size:
        size -= len(there.recv(65536))
    sending.join()
    there.close()
    print(int.from_bytes(here.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[100:], sys.byteorder))  # retransmitted
"""
# Goes on with its socket after it was moved: one datagram for each line that is read.
STAYS = """
import socket, sys
it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
it.bind(("127.0.0.1", 0))
it.connect(it.getsockname())
for _ in sys.stdin:
    it.send(b"x" * 72)
    it.recv(100)
    print(flush=True)
"""


class Network(NamedTuple):
    """What a job's sockets did, in the order of the sums."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int


@pytest.fixture
def hierarchy() -> str:
    """Return that of control groups v2: alone, or beside v1."""
    for each in HIERARCHIES:
        if "cpuacct" not in find_hierarchies(each):
            return each
    pytest.skip("this machine has no control groups v2")


@pytest.fixture
def counting(make_sums) -> KernelSums:
    sums = make_sums(network=True)
    if sums.no_network:
        pytest.skip(f"the kernel has no packets for us: {sums.no_network}")
    return sums


def network(sums: KernelSums, directory) -> Network:
    sums.look([directory])
    return Network._make(sums.sums_of(directory).figures[-4:])


def run_in(groups, directory, script: str, *arguments: object) -> str:
    command = ["sh", "-c", JOIN, str(groups.path(directory)), sys.executable, "-c", script]
    command += map(str, arguments)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize(
    ("family", "address", "headers"), [("AF_INET", "127.0.0.1", 28), ("AF_INET6", "::1", 48)]
)
@pytest.mark.parametrize(("size", "count"), [(1, 3), (1000, 500), (40_000, 20)])
def test_each_datagram_counts_with_its_headers_once_in_each_direction(
    counting, groups, family, address, headers, size, count
):
    if family == "AF_INET6":
        with contextlib.closing(socket.socket(socket.AF_INET6)) as it:
            try:
                it.bind((address, 0))
            except OSError:
                pytest.skip("this machine has no IPv6")
    job = groups.make(f"/jf_net_{os.getpid()}")
    run_in(groups, job, UDP, family, address, size, count)
    whole = count * (size + headers)
    assert network(counting, job) == Network(whole, count, whole, count)


@pytest.mark.parametrize("size", [1, 5_000_000])
def test_a_stream_counts_with_its_headers_in_each_direction(counting, groups, size):
    job = groups.make(f"/jf_net_{os.getpid()}")
    again = 2**16 * int(run_in(groups, job, TCP, size))
    found = network(counting, job)
    for bytes_, packets in (found[:2], found[2:]):
        assert packets >= 5, "three begin a connection, others have the data and end it"
        assert size + 40 * packets <= bytes_ <= size + 80 * packets + again
    # The kernel itself answers for a connection that is over, by a socket that is nobody's.
    assert abs(found.received_packets - found.sent_packets) <= 3
    assert abs(found.received_bytes - found.sent_bytes) <= 3 * 80 + again


def test_steps_belong_to_their_job_also_those_that_nobody_saw(counting, groups):
    path = f"/jf_net_{os.getpid()}"
    job = groups.make(path)
    last = network(counting, job)
    assert last == (0, 0, 0, 0)
    for count in range(1, 6):
        step = groups.make(f"{path}/step_{count}/task_0")
        run_in(groups, step, UDP, "AF_INET", "127.0.0.1", 72, 10)
        if count % 2:
            groups.remove(step)
        for _ in range(3):  # what is removed is looked at again, and forgotten
            assert network(counting, job) == (1000 * count, 10 * count, 1000 * count, 10 * count)


def test_another_job_and_who_looks_have_nothing_of_it(counting, groups):
    mine, other = groups.make(f"/jf_net_{os.getpid()}"), groups.make(f"/jf_other_{os.getpid()}")
    run_in(groups, mine, UDP, "AF_INET", "127.0.0.1", 72, 10)
    counting.look([mine, other])
    assert counting.sums_of(mine).figures.sent_packets == 10
    assert counting.sums_of(other).figures.sent_packets == 0


def test_a_socket_stays_with_the_group_in_which_it_was_made(counting, groups):
    first, second = groups.make(f"/jf_net_{os.getpid()}"), groups.make(f"/jf_other_{os.getpid()}")
    command = ["sh", "-c", JOIN, str(groups.path(first)), sys.executable, "-c", STAYS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:

        def send() -> None:
            process.stdin.write(b"\n")
            assert process.stdout.readline()

        send()
        assert network(counting, first) == (100, 1, 100, 1)
        groups.join(second, process.pid)
        send()
        process.stdin.close()
    counting.look([first, second])
    assert counting.sums_of(first).figures[-4:] == (200, 2, 200, 2)
    assert counting.sums_of(second).figures[-4:] == (0, 0, 0, 0)


def test_packets_for_which_there_is_no_room_are_told(make_sums, groups):
    sums = make_sums(network=True, max_groups=2)
    if sums.no_network:
        pytest.skip(f"the kernel has no packets for us: {sums.no_network}")
    job = groups.make(f"/jf_net_{os.getpid()}")
    sums.look([job])
    before = sums.checks().full
    run_in(groups, job, UDP, "AF_INET", "127.0.0.1", 72, 10)
    assert sums.checks().full >= before + 20
    assert network(sums, job) == (0, 0, 0, 0)


def test_who_does_not_ask_has_no_program_at_the_control_groups(make_sums, groups):
    sums = make_sums()
    assert sums.no_network is None
    assert {"received", "sent"}.isdisjoint(sums.descriptors)
    job = groups.make(f"/jf_net_{os.getpid()}")
    run_in(groups, job, UDP, "AF_INET", "127.0.0.1", 72, 10)
    assert network(sums, job) == (0, 0, 0, 0)


def test_on_control_groups_v1_it_is_said_that_there_are_no_packets_by_job():
    if os.geteuid() != 0 or "cpuacct" not in find_hierarchies(CGROUP):
        pytest.skip("this machine has no control groups v1")
    try:
        sums = KernelSums(CGROUP, network=True)
    except OSError as error:
        pytest.skip(f"the kernel has no sums for us: {error}")
    with contextlib.closing(sums):
        assert sums.no_network == "packets can be counted in control groups v2 only, but jobs are in v1"
        sums.look([])
        assert sums.processes > 0


def test_what_a_former_process_left_goes_on(counting, groups, hierarchy):
    job = groups.make(f"/jf_net_{os.getpid()}")
    run_in(groups, job, UDP, "AF_INET", "127.0.0.1", 72, 10)
    kept = {name: os.dup(each) for name, each in counting.descriptors.items()}
    counting.close()
    run_in(groups, job, UDP, "AF_INET", "127.0.0.1", 72, 10)
    with contextlib.closing(KernelSums(hierarchy, kept=kept, network=True)) as after:
        assert (after.goes_on, after.no_network) == (True, "")
        assert network(after, job) == (2000, 20, 2000, 20)
