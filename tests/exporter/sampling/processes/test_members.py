import errno
import itertools
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes.members import Members, parse_process_memory
from jobfeatures_exporter.sampling.processes.scan import ProcessScanner
from tests.held import count_held

JOB = "0::/system.slice/slurmstepd.scope/job_4/step_0/user/task_0\n"


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def members(node, unreadable):
    return Members(str(node.proc), unreadable)


@pytest.fixture
def look(node, members):
    """Return a function that scans, updates, and returns the samples."""
    scanner = ProcessScanner(str(node.proc))

    def look():
        samples = scanner.scan()
        members.update(samples)
        return samples

    yield look
    scanner.close()


def moments(node, members, look, looks: int) -> list[int]:
    """Return at which looks process 10 was checked: its control group is taken away after each."""
    found = []
    for number in range(1, looks + 1):
        (node.proc / "10/cgroup").write_text(JOB)
        members.owners.memberships.pop(10, None)
        look()
        if 10 in members.owners.memberships:
            found.append(number)
    return found


def test_checks_grow_rare_but_never_end(node, members, look):
    node.process(10)
    checked = moments(node, members, look, 150)
    assert checked[:2] == [1, 2]
    gaps = [after - before for before, after in itertools.pairwise(checked)]
    assert all(gap <= min(2 ** (number + 1), 32) for number, gap in enumerate(gaps))
    assert checked[-1] - checked[-2] == 32


def test_processes_that_were_there_at_the_start_are_not_all_checked_at_once(node, members, look, monkeypatch):
    for pid in range(10, 330):
        node.process(pid)
    checked, real = [], os.stat
    monkeypatch.setattr(os, "stat", lambda path, *rest: (checked.append(path), real(path, *rest))[1])
    counts = []
    for _ in range(100):
        checked.clear()
        look()
        counts.append(len(checked))
    assert counts[:2] == [320, 320]
    assert max(counts[2:]) <= 160
    assert max(counts[24:]) <= 40


def test_a_process_that_is_moved_is_found_in_its_new_group(node, members, look):
    node.process(10)
    look()
    assert members.owners.memberships == {}
    (node.proc / "10/cgroup").write_text(JOB)
    look()
    assert members.owners.memberships[10].job_id == "4"
    (node.proc / "10/cgroup").write_text("0::/\n")
    for _ in range(2):
        look()
    assert members.owners.memberships == {}


def test_a_new_command_is_a_reason_to_check(node, members, look):
    node.process(10, name=b"slurmstepd")
    for _ in range(4):
        look()
    node.process(10, name=b"sleep", cgroup=JOB)
    look()
    assert members.owners.memberships[10].step == "0"


def test_a_reused_number_inherits_nothing(node, members, look):
    node.process(10, cgroup=JOB, start=1)
    look()
    node.process(10, start=2)
    look()
    assert members.owners.memberships == {}


def test_the_ended_are_forgotten(node, members, look):
    look()
    before = count_held(members)
    node.process(10, cgroup=JOB)
    look()
    node.end(10)
    look()
    assert members.owners.memberships == {}
    assert members.owners.uids.get(10) is None
    assert count_held(members) == before


def test_one_for_whom_nobody_waits_is_in_no_group_once_that_is_removed(node, members, look):
    """In a container whose process 1 waits for nobody (slurmd), jobs would never be gone."""
    for pid in (10, 11):
        node.process(pid, cgroup=JOB)
    for _ in range(20):
        look()
    node.process(10, cgroup=JOB, state="Z", virtual=0, resident=0)
    look()
    assert members.owners.memberships.keys() == {10, 11}, "somebody may still wait for it"
    node.process(10, cgroup=JOB.replace("\n", " (deleted)\n"), state="Z", virtual=0, resident=0)
    node.process(11, cgroup="0::/system.slice/slurmstepd.scope/job_4/any (deleted)\n")
    for _ in range(40):
        look()
    assert members.owners.memberships.keys() == {11}, "this one lives: a user has named its group so"


def test_one_that_has_ended_is_where_v2_says_that_it_was_last(node, members, look):
    """slurmstepd leaves the job's group before it ends."""
    node.process(10, cgroup=JOB)
    look()
    node.process(10, cgroup="0::/system.slice/slurmstepd.scope/system\n", state="Z", virtual=0, resident=0)
    look()
    assert members.owners.memberships == {}


def test_the_owner_is_that_of_the_directory(node, members, look):
    node.process(10)
    look()
    assert members.owners.uids.get(10) == os.stat(node.proc / "10").st_uid


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESRCH])
def test_a_group_that_cannot_be_read_stays_as_it_was_known(
    node, members, look, unreadable, fail_opening, number
):
    node.process(10, cgroup=JOB)
    look()
    fail_opening("/10/cgroup", number)
    look()
    assert members.owners.memberships[10].job_id == "4"
    kind = errno.errorcode[number].lower()
    assert unreadable.counts == ({} if number == errno.ESRCH else {f"process_cgroup_{kind}": 1})


def test_memory_is_summed_over_processes(node, members, look):
    node.process(10, rss_kib=4)
    node.process(11, rss_kib=6)
    samples = look()
    assert members.memory(samples.values()) == MemoryBytes(anon=10240, file=2048, shmem=0, swap=4096)
    assert members.memory([]) == MemoryBytes()


def test_memory_is_read_again_when_the_process_has_changed(node, members, look):
    node.process(10, rss_kib=4)
    look()
    node.process(10, rss_kib=5)  # a stat line that has not changed is taken as it is
    assert members.memory(look().values()).anon == 5120
    node.process(10, rss_kib=6)
    assert members.memory(look().values()).anon == 5120
    node.process(10, rss_kib=6, user=1)
    assert members.memory(look().values()).anon == 6144


def test_a_kernel_thread_is_not_asked_for_memory(node, members, look, unreadable):
    (node.process(10, virtual=0, resident=0) / "status").write_text("broken")
    assert members.memory(look().values()) == MemoryBytes()
    assert unreadable.counts == {}


def test_memory_that_cannot_be_read_is_left_out_and_counted(node, members, look, unreadable):
    node.process(10, rss_kib=4)
    (node.process(11) / "status").write_text("Name:\tx\n")
    assert members.memory(look().values()).anon == 4096
    assert unreadable.counts == {"process_status_garbage": 1}


def test_memory_that_could_not_be_read_is_read_at_the_next_sample_though_the_process_sleeps(
    node, members, look
):
    status = node.process(10, rss_kib=4) / "status"
    text = status.read_text()
    status.write_text("Name:\tx\n")
    assert members.memory(look().values()).anon is None
    status.write_text(text)
    assert members.memory(look().values()).anon == 4096


def test_a_pipe_in_place_of_a_file_does_not_hang(node, members, look):
    path = node.process(10)
    for name in ("cgroup", "status"):
        (path / name).unlink()
        os.mkfifo(path / name)
    assert members.memory(look().values()) == MemoryBytes()
    assert members.owners.memberships == {}


def test_the_next_process_of_a_number_has_its_own_groups_and_none_is_left_behind(node, members):
    scanner = ProcessScanner(str(node.proc))

    def holders() -> list[set[int]]:
        members.update(scanner.scan(), groups=True)
        return [set(members.owners.by_group.get(gid, ())) for gid in (1, 2, 3, 65400)]

    for number in range(3):
        node.process(10, start=number, groups=f"65400 {number + 1}", cgroup="0::/a.service\n")
        assert holders() == [*({10} if gid == number + 1 else set() for gid in (1, 2, 3)), {10}]
    node.end(10)
    assert holders() == [set()] * 4
    assert (members.owners.units, members.owners.uids.get(10)) == ({}, None)
    scanner.close()


def test_memory_is_read_by_component(fixtures):
    memory = parse_process_memory((fixtures / "proc/6664/status").read_text())
    assert memory == MemoryBytes(anon=4096 * 1024, file=1000 * 1024, shmem=596 * 1024, swap=12 * 1024)


def test_huge_pages_of_the_pool_are_in_no_other_component():
    text = "Name:\tx\nUid:\t0\nVmRSS:\t   13588 kB\nRssAnon:\t    7004 kB\nHugetlbPages:\t   20480 kB\n"
    memory = parse_process_memory(text)
    assert (memory.anon, memory.hugetlb, memory.used) == (7004 * 1024, 20 * 2**20, 7004 * 1024 + 20 * 2**20)
    assert parse_process_memory(text.replace("20480", "0")).hugetlb is None


def test_a_kernel_thread_has_no_memory_of_its_own(fixtures):
    assert parse_process_memory((fixtures / "proc/2/status").read_text()) == MemoryBytes()


def test_a_name_says_nothing_about_memory():
    assert parse_process_memory("Name:\tVmSwap:\t1 kB\nUid:\t0\nVmSwap:\t2 kB\n").swap == 2048
    with pytest.raises(ParseError, match="Uid"):
        parse_process_memory("Name:\tUid:\t0\t0\t0\t0\nVmSwap:\t2 kB\n"[:23])


@given(st.text() | st.text(alphabet="Uid:RssAnonFileVmSwapkB\t \n0123456789", max_size=200))
def test_any_text_gives_sizes_or_the_error(text):
    try:
        assert all(each is None or each % 1024 == 0 for each in parse_process_memory(text))
    except ParseError:
        pass


@pytest.mark.parametrize("mapped", [False, True])
def test_an_owner_whom_our_user_namespace_does_not_map_is_unknown_not_nobody(node, unreadable, mapped):
    """Constructed: rootless containers map few users, and the kernel shows one uid for all others."""
    node.process(10)
    owner = os.stat(node.proc / "10").st_uid
    (node.proc / "self").mkdir()
    (node.proc / "self/uid_map").write_text(
        "         0          0 4294967295\n" if mapped else "         0       1000          1\n"
    )
    (node.proc / "sys/kernel").mkdir(parents=True)
    (node.proc / "sys/kernel/overflowuid").write_text(f"{owner}\n")
    members = Members(str(node.proc), unreadable)
    scanner = ProcessScanner(str(node.proc))
    found = members.update(scanner.scan()).uids
    scanner.close()
    assert found == ({10: owner} if mapped else {})
    assert unreadable.counts == ({} if mapped else {"process_owner_unmapped": 1})
