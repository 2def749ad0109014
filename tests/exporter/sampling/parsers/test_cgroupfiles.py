import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.sampling.parsers.cgroupfiles import (
    CpuTimes,
    compute_memory_sum,
    compute_split,
    parse_cpu_stat,
    parse_cpuacct_stat,
    parse_flat_keyed,
    parse_limit,
    parse_memory_stat_v1,
    parse_memory_stat_v2,
    parse_number,
)

NONE = CpuTimes(0.0, 0.0)


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", "9223372036854775807\n", f"{2**62}\n"])
def test_no_limit_is_none(text):
    assert parse_limit(text, source="memory.max") is None


def test_limits_and_numbers_are_read():
    assert parse_limit("104857600\n", source="memory.max") == 104857600
    assert parse_limit(f"{2**62 - 1}\n", source="memory.max") == 2**62 - 1
    assert parse_limit("0\n", source="memory.max") == 0
    assert parse_number("7\n", source="memory.current") == 7


@pytest.mark.parametrize("text", ["", "\n", "maximum\n", "-1\n", "1 2\n", "0x10\n", "٣\n"])
def test_garbage_for_a_limit_is_an_error_that_names_the_file(text):
    with pytest.raises(ParseError, match=r"^memory\.max: "):
        parse_limit(text, source="memory.max")


def test_cpu_times_of_both_versions_are_seconds():
    times = "usage_usec 3\nuser_usec 1500000\nsystem_usec 500000\nnr_periods "
    assert parse_cpu_stat(times + "0\n") == (CpuTimes(1.5, 0.5), None)
    assert parse_cpu_stat(times + "3\nnr_throttled 1\nthrottled_usec 40\n") == (CpuTimes(1.5, 0.5), 40)
    assert parse_cpuacct_stat("user 150\nsystem 50\n", ticks_per_sec=100) == CpuTimes(1.5, 0.5)


@pytest.mark.parametrize("nice", ["", "nice_usec 7\n"])  # from Linux 6.12 on
def test_a_group_without_the_cpu_controller_has_its_time_and_is_never_throttled(nice):
    text = f"usage_usec 3\nuser_usec 1500000\nsystem_usec 500000\n{nice}"
    assert parse_cpu_stat(text) == (CpuTimes(1.5, 0.5), None)


@pytest.mark.parametrize(
    "text", ["", "user_usec 1\n", "user_usec x\nsystem_usec 1\n", "user_usec -1\nsystem_usec 1\n"]
)
def test_incomplete_cpu_times_are_an_error(text):
    with pytest.raises(ParseError):
        parse_cpu_stat(text)
    with pytest.raises(ParseError):
        parse_cpuacct_stat(text.replace("_usec", ""), ticks_per_sec=100)


def test_a_precise_total_is_divided_as_the_samples_say():
    assert compute_split(6.0, CpuTimes(4.0, 1.0), NONE) == CpuTimes(pytest.approx(4.8), pytest.approx(1.2))
    assert compute_split(0.006, NONE, NONE) == CpuTimes(0.006, 0.0)
    assert compute_split(3.0, CpuTimes(0.0, 1.0), NONE) == CpuTimes(0.0, 3.0)
    for total, system in ((0.495435087, 0.58), (0.23308445, 0.3), (0.973252257, 0.65)):  # x * y / y is not x
        assert compute_split(total, CpuTimes(0.0, system), NONE) == CpuTimes(0.0, total)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**18), st.integers(0, 10**9), st.integers(0, 10**9)),
        min_size=1,
        max_size=10,
    )
)
def test_neither_part_ever_falls_and_both_make_the_total(readings):
    last = NONE
    highest = 0.0
    for nanoseconds, user, system in readings:
        now = compute_split(nanoseconds / 1e9, CpuTimes(user / 100, system / 100), last)
        highest = max(highest, nanoseconds / 1e9)
        assert now.user_secs >= last.user_secs
        assert now.system_secs >= last.system_secs
        assert now.user_secs + now.system_secs == pytest.approx(highest)
        last = now


def test_memory_of_v1_is_that_of_the_whole_subtree(fixtures):
    text = (fixtures / "cgroup-v1/memory/slurm_n1/uid_6001/job_10/memory.stat").read_text()
    assert parse_memory_stat_v1(text) == MemoryBytes(
        anon=593920, file=135168 - 4096, shmem=4096, swap=8192, reclaimable=135168, limit=104857600
    )


def test_without_shmem_the_page_cache_of_v1_cannot_be_told_from_it():
    memory = parse_memory_stat_v1("total_cache 10\ntotal_rss 20\n")
    assert memory == MemoryBytes(anon=20, file=None, shmem=None, swap=None, reclaimable=0)


def test_shmem_is_no_page_cache_on_v2():
    assert parse_memory_stat_v2("anon 5\nfile 30\nshmem 10\nkernel 7\n") == MemoryBytes(
        anon=5, file=20, shmem=10, kernel=7, reclaimable=20
    )


@pytest.mark.parametrize(("anon", "kernel", "known"), [(4096, 0, None), (0, 0, 0), (4096, 512, 512)])
def test_kernel_memory_that_is_not_counted_is_not_0(anon, kernel, known):
    """Constructed: of a kernel with cgroup.memory=nokmem; anonymous memory needs page tables."""
    assert parse_memory_stat_v2(f"anon {anon}\nfile 0\nshmem 0\nkernel {kernel}\n").kernel == known
    parts = f"kernel_stack {kernel}\npagetables 0\nslab 0\n"
    assert parse_memory_stat_v2(f"anon {anon}\nfile 0\nshmem 0\n{parts}").kernel == known


def used_of(text, charged, parse=parse_memory_stat_v2):
    return parse(text)._replace(charged=charged).used


@pytest.mark.parametrize("more", ["sock 8552448\n", "hugetlb 8552448\n", "of_a_later_kernel 8552448\n", ""])
def test_what_is_charged_and_cannot_be_dropped_is_used_whatever_the_kernel_calls_it(more):
    text = f"anon 4136960\nfile 4096\nkernel 131072\nshmem 0\n{more}active_file 0\ninactive_file 4096\n"
    assert used_of(text, 12_824_576) == 12_820_480


@pytest.mark.parametrize(
    ("lists", "used"),
    [
        ("active_file 300\ninactive_file 500\nunevictable 0\n", 1200),
        ("active_file 300\ninactive_file 100\nunevictable 400\n", 1600),  # 400 are locked in memory
        ("active_file 300\ninactive_file 100\nunevictable 0\n", 1200),  # 400 are on their way to the lists
        (
            "active_file 300\ninactive_file 550\nunevictable 0\n",
            1150,
        ),  # 50 of anon may be dropped (MADV_FREE)
        ("", 1200),
    ],
)
def test_page_cache_is_used_only_as_far_as_it_cannot_be_dropped(lists, used):
    assert used_of(f"anon 1000\nfile 900\nkernel 100\nshmem 100\n{lists}", 2000) == used
    v1 = f"cache 900\nrss 1000\nshmem 100\n{lists}".splitlines(keepends=True)
    assert used_of("".join(f"total_{line}" for line in v1), 2000, parse_memory_stat_v1) == used


def test_shmem_is_used_on_kernels_that_do_not_tell_it_from_page_cache():
    text = "total_cache 900\ntotal_rss 1000\ntotal_active_file 300\ntotal_inactive_file 500\n"
    assert used_of(text, 2000, parse_memory_stat_v1) == 1200


def test_figures_that_disagree_for_a_moment_give_no_negative_use():
    assert used_of("anon 1\nfile 500\nkernel 1\nshmem 0\n", 100) == 0


def test_without_a_charge_the_parts_are_used():
    assert MemoryBytes(anon=10, file=5, shmem=3, hugetlb=100, swap=7).used == 113
    assert (
        MemoryBytes(anon=10, file=5, shmem=3, kernel=1, sock=1, charged=20, hugetlb=100, reclaimable=5).used
        == 15
    )
    assert MemoryBytes(charged=5, reclaimable=2).used is None


def test_the_lowest_limit_of_v1_s_hierarchy_is_the_group_s():
    lines = "hierarchical_memory_limit 49999872\nhierarchical_memsw_limit 9223372036854771712\n"
    memory = parse_memory_stat_v1(f"{lines}total_cache 10\ntotal_rss 20\n")
    assert (memory.limit, memory.swap_limit) == (49_999_872, None)


def test_old_kernels_do_not_sum_up_their_own_memory():
    old = "anon 1000\nfile 300\nkernel_stack 10\npagetables 20\npercpu 30\nsock 7\nvmalloc 0\nshmem 100\nslab 40\n"
    assert parse_memory_stat_v2(old).kernel == 100
    assert parse_memory_stat_v2("anon 1\nfile 2\nshmem 0\nslab 5\n").kernel is None


def test_counters_that_disagree_for_a_moment_give_no_negative_size():
    assert parse_memory_stat_v2("anon 1\nfile 5\nshmem 9\nkernel 0\n").file == 0
    assert parse_memory_stat_v1("total_cache 5\ntotal_rss 1\ntotal_shmem 9\n").file == 0


@given(st.text() | st.text(alphabet="anonfileshmemkernel_totalcacherssuserstem 0123456789\n", max_size=300))
def test_any_text_gives_a_record_or_the_error(text):
    for parse in (
        parse_cpu_stat,
        lambda text: parse_cpuacct_stat(text, ticks_per_sec=100),
        parse_memory_stat_v1,
        parse_memory_stat_v2,
        lambda text: parse_limit(text, source="x"),
        lambda text: parse_number(text, source="x"),
    ):
        try:
            parse(text)
        except ParseError:
            pass


def test_what_is_unknown_of_one_group_is_unknown_of_the_sum():
    one = MemoryBytes(anon=1, file=2, limit=100, peak=5)
    other = MemoryBytes(anon=10, limit=None, peak=50)
    assert compute_memory_sum([one, other]) == MemoryBytes(anon=11, peak=55)
    assert compute_memory_sum([one]) is one
    below = [MemoryBytes(charged=each, limit_above=50) for each in (20, 30)]
    assert compute_memory_sum(below) == MemoryBytes(charged=50, limit_above=50), "of both together"


@pytest.mark.parametrize("text", ["", "a 1\n", "a 1\nb.c_D 20\na 3\n", f"a {2**64 - 1}\n"])
def test_lines_that_are_read_at_once_say_what_they_say_one_by_one(text):
    assert parse_flat_keyed(text, source="x") == parse_flat_keyed(f"\n{text}", source="x")


@pytest.mark.parametrize(
    "text", ["a 1\nb\n", "a  1\n", "a 1 b 2\n", "a ١\n", f"a {'1' * 21}\n", "a\n1\n", "a 1\r\n"]
)
def test_lines_of_another_kind_are_refused_wherever_they_stand(text):
    with pytest.raises(ParseError):
        parse_flat_keyed(text, source="x")


@pytest.mark.parametrize("number", ["", "x", "-1", "1_0", "1 2", "9" * 21])
def test_a_number_of_memory_stat_that_is_none_is_an_error_wherever_it_stands(number):
    with pytest.raises(ParseError):
        parse_memory_stat_v1(f"total_cache 10\ntotal_rss {number}\ntotal_swap 1\n")
    with pytest.raises(ParseError):
        parse_memory_stat_v2(f"anon 1\nfile 2\nshmem {number}\n")


def test_a_name_of_memory_stat_is_a_whole_word_at_the_start_of_a_line():
    text = "total_cache 10\nmy_total_rss 1\ntotal_rss_huge 2\ntotal_rss 20\n"
    assert parse_memory_stat_v1(text).anon == 20
