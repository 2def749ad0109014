"""Exit records: constructed messages for the parser, the real kernel for the rest."""

import errno
import os
import signal
import struct
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures.records.model import Job, JobKey, JobState
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.exits import taskstats
from jobfeatures_exporter.sampling.exits.exitrecords import (
    ExitRecord,
    make_message,
    parse_error_code,
    parse_exits,
    parse_family,
    parse_taskstats,
    split_attributes,
    split_messages,
)
from jobfeatures_exporter.sampling.exits.taskstats import ExitRecords
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings
from tests.running import until


def struct_taskstats(*, version=13, size=432, run_ns=0, user=0, system=0, command=b"sleep", pid=7, ppid=5):
    data = bytearray(size)
    struct.pack_into("=H", data, 0, version)
    struct.pack_into("=Q", data, 72, run_ns)
    data[80 : 80 + len(command)] = command
    struct.pack_into("=IIII", data, 120, 6001, 6001, 8, ppid)
    struct.pack_into("=QQQ", data, 144, 2_000_000, user, system)
    struct.pack_into("=Q", data, 344, 1_800_000_010)
    struct.pack_into("=I", data, 368, pid)
    struct.pack_into("=Q", data, 376, 5_000_000)
    return bytes(data)


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def test_a_record_says_who_ended_and_what_it_used():
    data = struct_taskstats(run_ns=9_000_000, user=4000, system=8000)
    assert parse_taskstats(data) == ExitRecord(
        pid=7, ppid=5, start_secs=1_800_000_007.0, user_usecs=3000, system_usecs=6000
    )  # fmt: skip


def test_where_the_scheduler_tells_nothing_the_ticks_count():
    record = parse_taskstats(struct_taskstats(user=4000, system=8000))
    assert (record.user_usecs, record.system_usecs) == (4000, 8000)


def test_time_without_a_tick_is_the_user_s():
    record = parse_taskstats(struct_taskstats(run_ns=700_999))
    assert (record.user_usecs, record.system_usecs) == (700, 0)


@pytest.mark.parametrize("size", [384, 416, 432, 560, 1000])
def test_what_later_versions_append_is_passed_over(size):
    assert parse_taskstats(struct_taskstats(version=16, size=size)).pid == 7


@pytest.mark.parametrize(("version", "size"), [(11, 432), (15, 560), (13, 383), (0, 0), (13, 1)])
def test_a_version_that_is_not_understood_is_refused(version, size):
    data = (
        struct_taskstats(version=version)[:size]
        if size < 384
        else struct_taskstats(version=version, size=size)
    )
    with pytest.raises(ParseError):
        parse_taskstats(data)


def test_a_message_has_the_records_of_threads_and_not_that_of_their_group():
    one = attribute(1, struct.pack("=I", 7)) + attribute(3, struct_taskstats())
    group = attribute(2, struct.pack("=I", 7)) + attribute(3, struct_taskstats(user=10**6))
    content = b"\2\1\0\0" + attribute(4, one) + attribute(5, group)
    assert [record.user_usecs for record in parse_exits(content)] == [0]


def test_a_request_reads_back_as_it_was_made():
    [(kind, content)] = split_messages(make_message(31, 1, 3, b"0-15\0"))
    assert kind == 31
    assert list(split_attributes(content[4:])) == [(3, b"0-15\0")]


@given(st.binary(max_size=700) | st.binary(max_size=40).map(lambda tail: struct_taskstats() + tail))
def test_any_bytes_are_read_or_refused(data):
    for parse in (parse_taskstats, parse_exits, parse_family, parse_error_code):
        try:
            parse(data)
        except ParseError:
            pass
    try:
        for _kind, content in split_messages(data):
            parse_exits(content)
    except ParseError:
        pass


def test_without_the_capability_sampling_goes_on_and_says_so(monkeypatch, node, clock, caplog):
    def refuse(*_args):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(taskstats.socket, "socket", refuse)
    sampler = Sampler(SamplerSettings(procfs=str(node.proc), cgroup=str(node.cgroup), taskstats=True), clock)
    snapshot = sampler.sample()
    sampler.close()
    assert snapshot.unreadable == {"exit_records_eperm": 1}
    assert snapshot.exit_records == {}
    assert "no exit records" in caplog.text


# --- on the real kernel ------------------------------------------------------------


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def exits(unreadable):
    try:
        made = ExitRecords(unreadable)
    except OSError as error:
        pytest.skip(
            f"no exit records here: {error.strerror}; they need CAP_NET_ADMIN and a kernel that has them"
        )
    yield made
    made.close()


BUSY = "import time; until = time.process_time() + 0.2\nwhile time.process_time() < until: pass"


@pytest.mark.program
def test_the_real_kernel_tells_of_an_exit(exits, unreadable):
    with subprocess.Popen([sys.executable, "-S", "-c", BUSY]) as process:
        pass
    [record] = [each for each in exits.drain() if each.pid == process.pid]
    assert record.ppid == os.getpid()
    assert 150_000 < record.user_usecs + record.system_usecs < 2_000_000
    assert abs(record.start_secs - time.time()) < 60
    assert unreadable.counts == {}


@pytest.mark.program
def test_the_records_of_a_real_process_s_threads_name_the_process(exits):
    code = f"import threading\ndef work():\n {BUSY!r}\n exec({BUSY!r})\n"
    code += "each = [threading.Thread(target=work) for _ in range(3)]\n[t.start() for t in each]; [t.join() for t in each]"
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as process:
        pass
    assert len([each for each in exits.drain() if each.pid == process.pid]) == 4


@pytest.mark.program
def test_real_processes_that_nobody_waits_for_are_counted_to_their_job(exits):
    """The shell ignores SIGCHLD, so its children's time goes nowhere: only their records tell."""
    exits.close()
    parent = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "for _ in sys.stdin:\n"
        " if os.fork() == 0:\n"
        f"  exec({BUSY!r})\n"
        "  os._exit(0)\n"
        " try: os.wait()\n"
        " except ChildProcessError: print('done', flush=True)\n"
    )
    job = subprocess.Popen(
        [sys.executable, "-S", "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    key = JobKey("spool", "1")
    jobs = {key: Job(key=key, state=JobState.RUNNING, processes=frozenset({job.pid}))}
    with_records = Sampler(SamplerSettings(taskstats=True), SystemClock(), jobs=lambda: jobs)
    without = Sampler(SamplerSettings(), SystemClock(), jobs=lambda: jobs)
    try:
        for sampler in (with_records, without):
            sampler.sample()
        for _ in range(3):
            job.stdin.write("\n")
            job.stdin.flush()
            assert job.stdout.readline() == "done\n"
        told, other = with_records.sample().jobs[key], without.sample().jobs[key]
        assert told.user_cpu_secs + told.system_cpu_secs > 0.5
        assert other.user_cpu_secs + other.system_cpu_secs < 0.4
    finally:
        with_records.close()
        without.close()
        job.send_signal(signal.SIGKILL)
        job.communicate()


def test_records_that_found_no_room_are_counted_as_lost(unreadable, monkeypatch, exits):
    exits.close()
    monkeypatch.setattr(taskstats, "BUFFER_BYTES", 4096)
    small = ExitRecords(unreadable)
    for _ in range(200):
        subprocess.run(["/bin/true"], check=True)
    until(lambda: (small.drain(), unreadable.counts.get("exit_records_enobufs"))[1])
    small.close()


def test_no_descriptor_is_left(exits, unreadable, open_descriptors):
    exits.close()
    before = open_descriptors()
    ExitRecords(unreadable).close()
    assert open_descriptors() == before
