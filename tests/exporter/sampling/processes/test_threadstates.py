"""The states of threads: of this process, and of made-up ones."""

import os
import threading

from jobfeatures_exporter.sampling.descriptors import Unreadable
from jobfeatures_exporter.sampling.processes.scan import parse_process_stat
from jobfeatures_exporter.sampling.processes.threadstates import read_thread_states

STAT = "{} (a) b) {} 1 9 9 0 -1 0 0 0 0 0 1 2 0 0 20 0 {} 0 7 0 0 0 0 0\n"


def make(top, pid, **states):
    """Make a process with threads of these states, the first the main one; `gone`: its file has gone."""
    for tid, state in states.items():
        folder = top / f"{pid}/task/{tid[1:]}"
        folder.mkdir(parents=True)
        if state != "gone":
            (folder / "stat").write_text(STAT.format(tid[1:], state, len(states)))
    return parse_process_stat(STAT.format(pid, next(iter(states.values())), len(states)).encode())


def test_threads_are_counted_by_state(tmp_path):
    processes = [make(tmp_path, 9, t9="S", t10="R", t11="D", t12="S"), make(tmp_path, 20, t20="Z")]
    assert read_thread_states(str(tmp_path), processes, Unreadable()) == {
        9: {"S": 2, "R": 1, "D": 1},
        20: {"Z": 1},
    }


def test_a_thread_and_a_process_that_end_meanwhile_are_none(tmp_path):
    gone = make(tmp_path / "elsewhere", 30, t30="S", t31="S")
    unreadable = Unreadable()
    processes = [make(tmp_path, 9, t9="S", t10="gone"), gone]
    assert read_thread_states(str(tmp_path), processes, unreadable) == {9: {"S": 1}, 30: {}}
    assert unreadable.counts == {}


def test_a_process_with_a_thread_that_is_garbage_is_unknown_and_counted(tmp_path):
    process = make(tmp_path, 9, t9="S", t10="R")
    (tmp_path / "9/task/10/stat").write_text("nothing\n")
    unreadable = Unreadable()
    assert read_thread_states(str(tmp_path), [process], unreadable) == {}
    assert list(unreadable.counts.values()) == [1]


def test_this_process_has_as_many_as_it_starts():
    done = threading.Event()
    threads = [threading.Thread(target=done.wait) for _ in range(3)]
    for each in threads:
        each.start()
    with open("/proc/self/stat", "rb") as file:
        process = parse_process_stat(file.read())
    states = read_thread_states("/proc", [process], Unreadable())[os.getpid()]
    done.set()
    assert sum(states.values()) >= 4
