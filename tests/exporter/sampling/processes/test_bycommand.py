import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import CommandSample, ProcessSample
from jobfeatures_exporter.sampling.processes.bycommand import NAMED, OTHER, CommandBook

JOB = JobKey("slurm", "1")


def process(pid, command, *, ticks=0, memory=0, ppid=1, children=0) -> ProcessSample:
    return ProcessSample(
        pid=pid, ppid=ppid, pgid=pid, session=pid, start_ticks=pid, command=command, state="S",
        user_ticks=ticks, system_ticks=0, children_user_ticks=children, children_system_ticks=0,
        threads=1, resident_bytes=memory, virtual_bytes=1,
    )  # fmt: skip


def look(book, *processes, jobs=(JOB,), run=0):
    """Take one look at processes of one job; return its commands by name."""
    everything = {each.pid: each for each in processes}
    told = book.update(everything, {(job, run): processes for job in jobs})
    samples = told.get((JOB, run), ())
    assert len({each.command for each in samples}) == len(samples)  # else a page would have a series twice
    return {each.command: each for each in samples}


@pytest.fixture
def book():
    return CommandBook(2)


def test_processes_of_the_same_command_are_one(book):
    told = look(book, process(1, "make", ticks=100, memory=5), process(2, "make", ticks=50, memory=6))
    assert told == {"make": CommandSample(command="make", cpu_secs=1.5, resident_bytes=11, processes=2)}


def test_those_of_most_time_and_of_most_memory_have_names_and_the_rest_is_other(book):
    told = look(
        book,
        *(process(10 + n, f"cpu{n}", ticks=100 * n) for n in range(5)),
        *(process(20 + n, f"mem{n}", memory=1000 * n) for n in range(5)),
    )
    assert set(told) == {"cpu4", "cpu3", "mem4", "mem3", OTHER}
    assert told[OTHER] == CommandSample(command=OTHER, cpu_secs=3.0, resident_bytes=3000, processes=6)


def test_a_command_that_is_called_other_is_among_the_others(book):
    told = look(book, process(1, OTHER, ticks=100, memory=9))
    assert told == {OTHER: CommandSample(command=OTHER, cpu_secs=1.0, resident_bytes=9, processes=1)}


def test_a_child_that_was_waited_for_counts_for_its_command_and_the_rest_for_its_parents(book):
    look(book, process(1, "sh"), process(2, "cc", ppid=1, ticks=70))
    told = look(book, process(1, "sh", children=100))
    assert (told["cc"].cpu_secs, told["sh"].cpu_secs) == (0.7, 0.3)
    assert (told["cc"].processes, told["sh"].processes) == (0, 1)


def test_a_process_that_takes_another_name_is_not_counted_twice(book):
    look(book, process(1, "sh", ticks=50))
    told = look(book, process(1, "python", ticks=80))
    assert (told["sh"].cpu_secs, told["python"].cpu_secs) == (0.5, 0.3)


def test_a_name_is_kept_while_there_is_room_and_given_up_when_it_has_no_process(book):
    for number in range(NAMED * 2):
        look(book, process(number + 1, f"c{number}", ticks=100 + number))
    told = look(book, process(99, "new", ticks=1000))
    assert len(told) == NAMED * 2 + 1
    assert "c0" not in told  # of least time
    assert told[OTHER] == CommandSample(command=OTHER, cpu_secs=1.0, resident_bytes=0, processes=0)
    assert told["new"].cpu_secs == 10.0


def test_a_job_without_processes_keeps_its_counts_and_one_that_has_ended_does_not(book):
    look(book, process(1, "make", ticks=100))
    assert look(book)["make"].cpu_secs == 1.0
    assert look(book, process(2, "make", ticks=30))["make"].cpu_secs == 1.3
    assert look(book, jobs=()) == {}
    assert look(book, process(3, "make", ticks=10))["make"].cpu_secs == 0.1


STEPS = st.lists(
    st.lists(
        st.tuples(st.integers(1, 6), st.sampled_from("abcdefgh"), st.integers(0, 50), st.integers(0, 9)),
        max_size=6,
        unique_by=lambda each: each[0],
    ),
    max_size=12,
)


@given(STEPS, st.integers(1, 2))
def test_nothing_falls_while_it_is_told_and_nothing_is_lost_or_made_up(steps, top):
    book = CommandBook(top)
    ticks: dict[int, int] = {}
    used = 0
    last: dict[str, CommandSample] = {}
    for step in steps:
        processes = []
        for pid, command, more, memory in step:
            ticks[pid] = ticks.get(pid, 0) + more
            used += more
            processes.append(process(pid, command, memory=memory)._replace(user_ticks=ticks[pid]))
        for pid in ticks.keys() - {each.pid for each in processes}:
            del ticks[pid]
        told = look(book, *processes)
        assert all(told[name].cpu_secs >= last[name].cpu_secs for name in told.keys() & last.keys())
        assert OTHER in told or OTHER not in last
        assert round(sum(each.cpu_secs for each in told.values()) * 100) == used
        assert sum(each.processes for each in told.values()) == len(processes)
        assert sum(each.resident_bytes for each in told.values()) == sum(
            each.resident_bytes for each in processes
        )
        assert len(told) <= NAMED * top + 1
        last = told


def test_another_run_has_none_of_the_commands_and_time_of_the_last_one(book):
    look(book, process(1, "prepare", ticks=500), process(2, "sim", ticks=300))
    told = look(book, process(2, "sim", ticks=310), process(3, "sim", ticks=20), run=1)
    assert {name: (each.cpu_secs, each.processes) for name, each in told.items()} == {"sim": (0.3, 2)}


def programs_of(book, *processes, paths):
    """Take one look; return seconds by program, where processes have these paths."""
    everything = {each.pid: each for each in processes}
    book.update(everything, {(JOB, 0): processes}, lambda process: paths.get(process.pid))
    return book.programs[JOB, 0]


def test_commands_of_one_program_are_one_and_what_is_not_known_is_not_told(book):
    paths = {1: "/usr/bin/python3", 2: "/usr/bin/python3"}
    processes = process(1, "python3", ticks=100), process(2, "run.py", ticks=50), process(3, "x", ticks=10)
    assert programs_of(book, *processes, paths=paths) == {"/usr/bin/python3": 1.5}


def test_a_program_that_is_known_late_has_all_the_time_of_its_command_and_keeps_it(book):
    assert programs_of(book, process(1, "a", ticks=100), paths={}) == {}
    assert programs_of(book, process(1, "a", ticks=150), paths={1: "/a"}) == {"/a": 1.5}
    assert programs_of(book, process(1, "a", ticks=170), paths={1: "/another"}) == {"/a": 1.7}
    assert programs_of(book, paths={}) == {"/a": 1.7}
    for number in range(2, 40):  # other commands take its place
        last = programs_of(book, process(number, f"c{number}", ticks=1), paths={number: f"/c{number}"})
        assert last["/a"] == 1.7
    assert len(last) == NAMED * 2  # bounded, as processes choose them
