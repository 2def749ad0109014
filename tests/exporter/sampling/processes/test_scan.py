import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.sampling.descriptors import CALM_SAMPLES, DescriptorBudget, Unreadable
from jobfeatures_exporter.sampling.processes.scan import (
    READ_ANYWAY,
    ProcessScanner,
    find_clocks,
    parse_process_stat,
)
from jobfeatures_exporter.view.processes import make_tree


@pytest.fixture
def unreadable():
    return Unreadable()


@pytest.fixture
def scanner(node, unreadable):
    scanner = ProcessScanner(str(node.proc), unreadable=unreadable)
    yield scanner
    scanner.close()


def test_a_line_is_read_field_by_field(fixtures):
    process = parse_process_stat((fixtures / "proc/6664/stat").read_bytes(), page_bytes=4096)
    assert (process.pid, process.ppid, process.pgid, process.session) == (6664, 6663, 6663, 6663)
    assert process.command == "a) R\n(b\N{REPLACEMENT CHARACTER}"
    assert (process.state, process.start_ticks, process.threads) == ("R", 176920, 2)
    assert (process.user_ticks, process.system_ticks) == (250, 50)
    assert (process.resident_bytes, process.virtual_bytes) == (1423 * 4096, 9133440)
    parent = parse_process_stat((fixtures / "proc/6663/stat").read_bytes())
    assert (parent.children_user_ticks, parent.children_system_ticks) == (40, 10)


@given(st.binary(max_size=15))
def test_a_name_may_hold_any_bytes(name):
    line = b"7 (" + name + b") S 1 2 3 0 -1 0 0 0 0 0 4 5 6 7 20 0 8 0 9 10 11 0 0\n"
    process = parse_process_stat(line)
    assert (process.pid, process.ppid, process.start_ticks) == (7, 1, 9)
    assert process.command == name.decode("utf-8", "replace")
    process.command.encode()


@given(st.binary(max_size=200) | st.text(alphabet="0123456789 ()S-_", max_size=120).map(str.encode))
def test_any_bytes_give_a_process_or_the_error(data):
    try:
        parse_process_stat(data)
    except ParseError:
        pass


@pytest.mark.parametrize(
    "change", [(b"7 (", b"-7 ("), (b" S ", b" SS "), (b" 9 ", b" -9 "), (b" 9 ", b" 9_0 "), (b" 11 0", b"")]
)
def test_garbage_is_an_error(change):
    line = b"7 (x) S 1 2 3 0 -1 0 0 0 0 0 4 5 6 7 20 0 8 0 9 10 11 0"
    parse_process_stat(line + b" 0\n")
    with pytest.raises(ParseError):
        parse_process_stat(line.replace(*change))


def test_a_tree_of_processes_is_scanned(fixtures, unreadable):
    scanner = ProcessScanner(str(fixtures / "proc"), unreadable=unreadable)
    assert sorted(scanner.scan()) == [1, 2, 6659, 6663, 6664]
    assert unreadable.counts == {}
    scanner.close()


def test_the_real_proc_is_scanned():
    scanner = ProcessScanner("/proc")
    process = scanner.scan()[os.getpid()]
    assert process.ppid == os.getppid()
    assert process.pgid == os.getpgid(0)
    assert process.resident_bytes > 2**20
    scanner.close()


def test_an_unchanged_process_is_the_same_object(node, scanner):
    node.process(10)
    node.process(11)
    before = scanner.scan()
    node.process(11, user=5)
    after = scanner.scan()
    assert after[10] is before[10]
    assert after[11].user_ticks == 5


def test_a_vanished_process_is_not_an_error(node, scanner, open_descriptors, unreadable):
    node.process(10)
    node.process(11)
    scanner.scan()
    before = open_descriptors()
    node.end(10)
    assert list(scanner.scan()) == [11]
    assert unreadable.counts == {}
    assert open_descriptors() == before - 1


def test_what_is_not_listed_and_still_answers_is_alive(node, scanner, tmp_path, unreadable):
    node.process(10)
    node.process(11)
    scanner.scan()
    hidden = (node.proc / "10").rename(tmp_path / "hidden")
    (hidden / "stat").write_bytes(node.stat_line(10, user=7))
    found = scanner.scan()
    assert list(found) == [10, 11]
    assert found[10].user_ticks == 7
    assert unreadable.counts == {"process_list_incomplete": 1}
    shutil.rmtree(hidden)
    assert list(scanner.scan()) == [11]


@pytest.mark.parametrize("number", [errno.ESRCH, errno.ENOENT])
def test_a_process_that_vanishes_while_it_is_read_is_not_an_error(
    node, scanner, fail_opening, number, unreadable
):
    node.process(10)
    fail_opening("/10/stat", number)
    assert scanner.scan() == {}
    assert unreadable.counts == {}


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_an_unreadable_process_is_counted_by_kind_and_costs_no_other(
    node, scanner, fail_opening, number, unreadable
):
    node.process(10)
    node.process(11)
    fail_opening("/10/stat", number)
    assert list(scanner.scan()) == [11]
    assert unreadable.counts == {f"process_stat_{errno.errorcode[number].lower()}": 1}


def test_a_forbidden_file_is_counted(node, scanner, unreadable):
    path = node.process(10) / "stat"
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything; the fake failure above stands in for this")
    assert scanner.scan() == {}
    assert unreadable.counts == {"process_stat_eacces": 1}


def fail_reading(monkeypatch, number, times=1):
    real = os.pread
    left = [times]

    def fake(*arguments):
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    monkeypatch.setattr(os, "pread", fake)


def test_a_number_that_is_another_process_by_now_is_read_anew(node, scanner, monkeypatch, unreadable):
    node.process(10, start=100)
    scanner.scan()
    node.end(10)
    node.process(10, start=200)
    fail_reading(monkeypatch, errno.ESRCH)  # as the old descriptor answers on the real /proc
    assert scanner.scan()[10].start_ticks == 200
    assert unreadable.counts == {}


def test_a_process_that_cannot_be_read_this_time_is_not_taken_for_dead(
    node, scanner, monkeypatch, unreadable
):
    node.process(10, user=1)
    before = scanner.scan()
    node.process(10, user=2)
    fail_reading(monkeypatch, errno.EIO)
    assert scanner.scan()[10] is before[10]
    assert unreadable.counts == {"process_stat_eio": 1}
    assert scanner.scan()[10].user_ticks == 2


def test_garbage_is_counted_and_keeps_what_was_known(node, scanner, unreadable):
    path = node.process(10)
    node.process(11)
    before = scanner.scan()
    (path / "stat").write_bytes(b"\xff")
    assert scanner.scan()[10] is before[10]
    (node.process(12) / "stat").write_bytes(b"")
    (node.process(13) / "stat").write_bytes(node.stat_line(99))
    assert sorted(scanner.scan()) == [10, 11]
    assert unreadable.counts == {"process_stat_garbage": 4}


def test_pipes_and_links_and_odd_names_neither_hang_nor_deceive(node, scanner, tmp_path, unreadable):
    node.process(10)
    os.mkfifo(node.process(11) / "stat2")
    (node.proc / "11/stat").unlink()
    (node.proc / "11/stat2").rename(node.proc / "11/stat")
    (node.proc / "12").mkdir()
    (node.proc / "12/stat").symlink_to(node.proc / "10/stat")
    for name in ("self", "٣", "1e3", "-1", "9" * 30, "013"):
        (node.proc / name).mkdir()
    (node.proc / "013/stat").write_bytes(node.stat_line(13))
    (node.proc / "14").write_text("a file")
    assert list(scanner.scan()) == [10]
    assert unreadable.counts == {
        "process_stat_espipe": 1,
        "process_stat_eloop": 1,
        "process_stat_garbage": 1,
    }


@pytest.mark.parametrize("max_open", [0, 1, 2])
def test_beyond_the_limit_processes_are_opened_read_and_closed(node, open_descriptors, max_open):
    for pid in (10, 11, 12):
        node.process(pid)
    before = open_descriptors()
    scanner = ProcessScanner(str(node.proc), budget=DescriptorBudget(max_open))
    first = scanner.scan()
    assert open_descriptors() == before + max_open
    node.process(12, user=9)
    node.end(11)
    second = scanner.scan()
    assert second[10] is first[10]
    assert second[12].user_ticks == 9
    assert 11 not in second
    assert scanner.scan()[12] is second[12]
    scanner.close()
    assert open_descriptors() == before


def test_a_process_that_is_not_kept_and_cannot_be_opened_keeps_its_sample(node, fail_opening, unreadable):
    node.process(10)
    scanner = ProcessScanner(str(node.proc), budget=DescriptorBudget(0), unreadable=unreadable)
    before = scanner.scan()
    fail_opening("/10/stat", errno.EACCES)
    assert scanner.scan()[10] is before[10]
    assert scanner.scan()[10] is before[10]
    assert unreadable.counts == {"process_stat_eacces": 2}
    fail_opening("/10/stat", errno.ENOENT)
    assert scanner.scan() == {}


def test_when_the_system_has_no_more_files_some_are_given_back(node, monkeypatch, unreadable):
    for pid in (10, 11):
        node.process(pid)
    budget = DescriptorBudget()
    scanner = ProcessScanner(str(node.proc), budget=budget, unreadable=unreadable)
    scanner.scan()
    assert budget.open == 2
    node.process(12)
    real, left = os.open, [1]

    def fake(path, *rest):
        if left[0] and path.endswith("/12/stat"):
            left[0] -= 1
            raise OSError(errno.EMFILE, "too many")
        return real(path, *rest)

    monkeypatch.setattr(os, "open", fake)
    assert sorted(scanner.scan()) == [10, 11, 12]
    assert unreadable.counts == {}
    assert budget.open == 0
    assert sorted(scanner.scan()) == [10, 11, 12]
    for _ in range(CALM_SAMPLES + 1):
        scanner.scan()
    assert budget.open == 3
    scanner.close()


class Clocks(dict[int, int]):
    """The CPU time of processes by pid, read as clocks are."""

    def read(self, clock):
        pid = ~(clock >> 3)
        if pid not in self:
            raise OSError(errno.EINVAL, "no such process")
        return self[pid]


@pytest.fixture
def clocks():
    return Clocks({10: 5})


@pytest.fixture
def by_clock(node, clocks):
    scanner = ProcessScanner(str(node.proc), read_clock=clocks.read)
    yield scanner
    scanner.close()


def asleep(node, scanner, pid=10, **stat):
    """Make a process and look until the scanner goes by its clock; return the sample."""
    node.process(pid, **stat)
    for _ in range(3):  # its line; that it is the same; and what its clock says
        sample = scanner.scan()[pid]
    return sample


def looks_until_changed(node, scanner, before, pid=10):
    for number in range(1, 2 * READ_ANYWAY):
        if scanner.scan()[pid] is not before:
            return number
    return None


@pytest.mark.parametrize("stat", [{}, {"state": "R"}, {"threads": 2}])
def test_a_process_that_was_on_no_cpu_is_not_read_again(node, by_clock, stat):
    before = asleep(node, by_clock, **stat)
    node.process(10, user=99, **stat)
    assert by_clock.scan()[10] is before


def test_a_process_that_was_on_a_cpu_is_read_at_once(node, by_clock, clocks):
    before = asleep(node, by_clock)
    node.process(10, user=99)
    clocks[10] = 6
    assert by_clock.scan()[10].user_ticks == 99
    assert before.user_ticks != 99


@pytest.mark.parametrize("look", range(4))
@pytest.mark.parametrize("moment", ["before the clock", "before the line", "after both"])
def test_a_process_that_works_while_it_is_looked_at_is_seen_at_the_next_look(
    node, clocks, monkeypatch, look, moment
):
    """At each of the looks after which the scanner goes by its clock."""
    real_pread, due = os.pread, []

    def work(when):
        if when in due:
            due.clear()
            node.process(10, user=99)
            clocks[10] += 1

    def read(clock):
        work("before the clock")
        return clocks.read(clock)

    def pread(*arguments):
        work("before the line")
        data = real_pread(*arguments)
        work("after both")
        return data

    node.process(10)
    scanner = ProcessScanner(str(node.proc), read_clock=read)
    monkeypatch.setattr(os, "pread", pread)
    for _ in range(look):
        scanner.scan()
    due.append(moment)
    scanner.scan()
    if due:  # nobody reads its clock, or nobody its line, at that look
        work(moment)
    assert scanner.scan()[10].user_ticks == 99
    scanner.close()


def test_what_others_do_to_a_sleeper_shows_within_so_many_looks(node, by_clock):
    before = asleep(node, by_clock)
    node.process(10, resident=77)
    assert looks_until_changed(node, by_clock, before) <= READ_ANYWAY


def test_a_sleeper_whose_parent_has_gone_has_the_new_one_at_once(node, by_clock):
    node.process(9)
    asleep(node, by_clock, ppid=9)
    node.end(9)
    node.process(10, ppid=1)
    assert by_clock.scan()[10].ppid == 1


def test_a_process_whose_clock_cannot_be_read_is_read_at_every_look(node, by_clock, clocks):
    clocks.clear()
    asleep(node, by_clock)
    node.process(10, user=99)
    assert by_clock.scan()[10].user_ticks == 99


@pytest.mark.parametrize(
    "status", [None, "Pid:\t{pid}\n", "Pid:\t7\nNSpid:\t7\n", "Pid:\t{pid}\nNSpid:\t{pid}\t1\n"]
)
def test_clocks_are_not_read_by_numbers_of_another_pid_namespace(node, scanner, status):
    (node.proc / "self").mkdir()
    if status is not None:
        (node.proc / "self/status").write_text(f"Name:\tx\n{status.format(pid=os.getpid())}NSpgid:\t1\n")
    assert find_clocks(str(node.proc)) is None
    pid = os.getpid()  # whose clock goes on; a line of another
    asleep(node, scanner, pid)
    node.process(pid, user=99)
    assert scanner.scan()[pid].user_ticks == 99


def test_a_sleeper_that_ends_is_gone_and_its_descriptor_is_closed(node, clocks):
    budget = DescriptorBudget()
    scanner = ProcessScanner(str(node.proc), budget=budget, read_clock=clocks.read)
    asleep(node, scanner)
    assert budget.open == 1
    node.end(10)
    clocks.clear()
    assert scanner.scan() == {}
    assert budget.open == 0


def test_a_sleeper_needs_no_descriptor(node, clocks):
    budget = DescriptorBudget(0)
    scanner = ProcessScanner(str(node.proc), budget=budget, read_clock=clocks.read)
    before = asleep(node, scanner)
    node.process(10, user=99)
    assert scanner.scan()[10] is before
    clocks[10] = 6
    assert scanner.scan()[10].user_ticks == 99


@pytest.mark.program
def test_a_child_that_slept_for_many_looks_is_seen_to_work():
    """The real kernel: its clock has to tell every time on a CPU, also of a thread that is not the first."""
    code = (
        "import sys, threading\n"
        "def work():\n"
        "  for line in sys.stdin:\n"
        "    sum(range(10**6)); print(flush=True)\n"
        "threading.Thread(target=work).start()"
    )
    scanner = ProcessScanner("/proc")
    assert find_clocks("/proc") is not None
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        spent = []
        for _ in range(6):
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()
            for _ in range(4):
                time.sleep(0.01)
                sample = scanner.scan()[child.pid]
            spent.append(sample.user_ticks + sample.system_ticks)
        own = Path(f"/proc/{child.pid}/stat").read_bytes()
        child.stdin.close()
    scanner.close()
    assert parse_process_stat(own).user_ticks == sample.user_ticks
    assert spent == sorted(spent)
    assert spent[-1] > spent[0]


def test_a_missing_proc_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        ProcessScanner(str(tmp_path / "nothing")).scan()


def test_the_children_of_this_process_come_and_go(unreadable):
    scanner = ProcessScanner("/proc", unreadable=unreadable)
    scanner.scan()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        assert scanner.scan()[child.pid].ppid == os.getpid()
    assert child.pid not in scanner.scan()
    assert unreadable.counts == {}
    scanner.close()


def psutil_of(pids) -> dict[int, dict]:
    """Return what psutil says of each process that is there."""
    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found[pid] = psutil.Process(pid).as_dict(
                ["ppid", "name", "create_time", "cpu_times", "memory_info", "num_threads"]
            )
    return found


def told_otherwise(pids) -> dict[int, list[str]]:
    """Return of which fields of each process psutil says something else, before and after our look."""
    scanner = ProcessScanner("/proc")
    before, samples, after = psutil_of(pids), scanner.scan(), psutil_of(pids)
    scanner.close()
    ticks, found = os.sysconf("SC_CLK_TCK"), {}
    for pid in before.keys() & samples.keys() & after.keys():
        ours, both = samples[pid], (before[pid], after[pid])
        started = ours.start_ticks / ticks + psutil.boot_time()
        ranges = {
            "ppid": (ours.ppid, [each["ppid"] for each in both], 0),
            "start": (started, [each["create_time"] for each in both], 2),  # the time of boot is rounded
            "user": (ours.user_ticks, [each["cpu_times"].user * ticks for each in both], 1),
            "system": (ours.system_ticks, [each["cpu_times"].system * ticks for each in both], 1),
            "memory": (ours.resident_bytes, [each["memory_info"].rss for each in both], 2**20),
            "threads": (ours.threads, [each["num_threads"] for each in both], 0),
        }
        found[pid] = [
            name
            for name, (mine, theirs, slack) in ranges.items()
            if not min(theirs) - slack <= mine <= max(theirs) + slack
        ]
        if ours.command.isascii() and ours.command[:15] not in {each["name"][:15] for each in both}:
            found[pid].append("command")
    return found


def test_each_process_is_what_psutil_says_of_it():
    """We read ourselves what psutil reads, for a sixteenth of the time; psutil stays the judge."""
    suspects = {os.getpid(), *psutil.pids()[:80]}
    assert os.getpid() in told_otherwise(suspects)
    for _ in range(50):  # what changes between three looks is looked at again
        wrong = {pid: fields for pid, fields in told_otherwise(suspects).items() if fields}
        suspects = set(wrong)
        if not suspects:
            return
    pytest.fail(f"psutil says otherwise: {wrong}")


def test_the_tree_is_that_of_psutil():
    scanner = ProcessScanner("/proc")
    parents = {pid: each["ppid"] for pid, each in psutil_of(psutil.pids()[:200]).items()}
    samples = scanner.scan()
    scanner.close()
    tree = make_tree(samples.values(), sys.maxsize)
    above: list[int] = []
    compared = 0
    for each, depth in tree:
        del above[depth:]
        if parents.get(each.pid) == samples[each.pid].ppid and samples[each.pid].ppid in samples:
            assert above[-1:] == [parents[each.pid]]
            compared += 1
        above.append(each.pid)
    assert len(tree) == len(samples)
    assert compared or len(samples) == 1
