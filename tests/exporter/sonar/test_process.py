"""Several processes as one."""

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.model.snapshot import GpuCard, GpuProcess
from jobfeatures_exporter.sonar.process import ProcessFigures, roll_up

GPUS = st.lists(
    st.tuples(
        st.builds(GpuCard, uuid=st.sampled_from("ab")),
        st.builds(
            GpuProcess, pid=st.just(1), ce_util_percent=st.none() | st.integers(0, 100),
            memory_bytes=st.none() | st.integers(0, 2**40),
        ),
    ),
    max_size=2, unique_by=lambda gpu: gpu[0].uuid,
).map(tuple)  # fmt: skip
WORKS = st.lists(
    st.builds(
        ProcessFigures, pid=st.integers(1, 2**22), ppid=st.integers(0, 2), command=st.sampled_from("xy"),
        has_children=st.booleans(), threads=st.integers(1, 9), anon_bytes=st.none() | st.integers(0, 2**40),
        cpu_secs=st.integers(0, 10**9), cpu_avg_percent=st.integers(0, 100),
        cpu_util_percent=st.none() | st.integers(0, 100), gpus=GPUS,
    ),
    max_size=12, unique_by=lambda work: work.pid,
)  # fmt: skip


def total(values):
    return sum(value for value in values if value is not None)


@given(WORKS)
def test_rolling_up_loses_nothing_and_counts_everybody(works):
    rolled = roll_up(works)
    assert sum(1 + each.rolled_up for each in rolled) == len(works)
    for name in ("cpu_secs", "cpu_avg_percent", "cpu_util_percent", "anon_bytes", "threads"):
        assert total(getattr(each, name) for each in rolled) == total(getattr(each, name) for each in works)
    memory = [total(use.memory_bytes for each in found for _, use in each.gpus) for found in (rolled, works)]
    assert memory[0] == memory[1]


@given(WORKS)
def test_what_is_one_has_the_same_parent_and_command_and_no_children(works):
    rolled = roll_up(works)
    places = [(each.ppid, each.command) for each in rolled if not each.has_children]
    assert len(set(places)) == len(places)
    assert [each for each in rolled if each.has_children] == [each for each in works if each.has_children]
    for each in rolled:
        assert (each.pid == 0) == (each.rolled_up > 0)
        assert len({card.uuid for card, _ in each.gpus}) == len(each.gpus)


@given(WORKS)
def test_a_sum_of_unknowns_is_unknown(works):
    for each in roll_up(works):
        group = [work for work in works if (work.ppid, work.command) == (each.ppid, each.command)]
        if each.rolled_up and all(work.anon_bytes is None for work in group if not work.has_children):
            assert each.anon_bytes is None


@given(WORKS, st.integers(1, 2**32 - 1))
def test_what_is_rolled_up_now_has_a_pid_of_its_own_that_stays_while_processes_come_and_go(works, job):
    rolled = [each for each in roll_up(works, job=job, current=True) if each.rolled_up]
    assert len({each.pid for each in rolled}) == len(rolled)
    assert all(2**22 < each.pid < 2**32 for each in rolled)
    fewer = [each for number, each in enumerate(works) if number % 3]
    later = {
        (each.ppid, each.command): each.pid
        for each in roll_up(fewer, job=job, current=True)
        if each.rolled_up
    }
    for each in rolled:
        assert later.get((each.ppid, each.command), each.pid) == each.pid
