"""A log in pieces tells the same as the whole, here and on Dask."""

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.analysis.schedule.choosing import Filter, ScheduleError
from jobfeatures.analysis.schedule.document import make_document
from jobfeatures.analysis.schedule.eet import Mode
from jobfeatures.analysis.schedule.jobarrays import from_records, from_swf
from jobfeatures.analysis.schedule.partitions import evaluate_partitions, merge_repeated, split_by_user
from jobfeatures.analysis.schedule.result import Options
from jobfeatures.analysis.schedule.shares import ShareRules
from jobfeatures.formats.swf.columns import read_pieces
from jobfeatures.joblogs.folding import EARLIER_RUN, REPORTED_AGAIN
from jobfeatures.joblogs.loggedjob import JobRecord
from tests.jobfeatures.evaluated import summarise

FIELDS = ("user", "group", "queue", "partition")


class Here:
    """Runs functions at once, in this process."""

    def submit(self, function, *arguments):
        return function(*arguments)

    def gather(self, found):
        return found


def evaluated(files, options, **how):
    return evaluate_partitions(files, options, FIELDS, read, runner=Here(), **how)


def read(path):
    return from_swf(next(read_pieces(path, sys.maxsize)), path)


def whole_of(name, options):
    return make_document(summarise(name, [read(name)], options, FIELDS), FIELDS)


def line(number, submit, user, cpus=1, runtime=60, wait=30, group=1):
    return f"{number} {submit} {wait} {runtime} {cpus} -1 -1 {cpus} -1 -1 1 {user} {group} -1 {1 + number % 2} 1 -1 -1"


def assert_same(whole, found):
    """Compare what is told of a log; users come in another order, so sums of floats do too."""
    assert_alike(without_names(whole), without_names(found))


def without_names(document):
    return {name: value for name, value in document.items() if name not in {"log", "warnings"}}


def assert_alike(one, other, where=""):
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name in one:
            assert_alike(one[name], other[name], f"{where}/{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for place, pair in enumerate(zip(one, other, strict=True)):
            assert_alike(*pair, f"{where}/{place}")
    else:
        assert other == (pytest.approx(one, rel=1e-9, abs=1e-9) if isinstance(one, float) else one), where


@pytest.fixture
def write(tmp_path):
    def written(name, lines, *headers):
        path = tmp_path / name
        path.write_text("".join(f"; {each}\n" for each in headers) + "\n".join(lines) + "\n")
        return str(path)

    return written


rows = st.tuples(
    st.integers(-1, 50), st.integers(1, 5), st.integers(-1, 9), st.integers(-1, 40), st.integers(-1, 99)
)


@given(
    jobs=st.lists(rows, min_size=1, max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    chunks=st.integers(1, 5),
    mode=st.sampled_from(list(Mode)),
)
def test_pieces_of_a_log_tell_the_same_as_the_whole(tmp_path_factory, jobs, cuts, chunks, mode):
    folder = tmp_path_factory.mktemp("pieces")
    lines = [line(n, *(job[0], job[1], job[2], job[3], job[4])) for n, job in enumerate(sorted(jobs), 1)]
    bounds = [0, *sorted(min(cut, len(lines)) for cut in cuts), len(lines)]
    pieces = [lines[a:b] for a, b in itertools.pairwise(bounds)]
    names = []
    for number, piece in enumerate([lines, *pieces]):
        (folder / f"{number}.swf").write_text("\n".join(["; MaxProcs: 12", *piece]) + "\n")
        names.append(str(folder / f"{number}.swf"))
    options = Options(mode=mode)
    try:
        whole = whole_of(names[0], options)
    except ScheduleError:
        with pytest.raises(ScheduleError):
            evaluated(names[1:], options, chunks=chunks)
        return
    assert_same(whole, evaluated(names[1:], options, chunks=chunks))


@pytest.fixture
def halves(write):
    """Return the names of a whole log and of its halves, whose times count from zeros of their own."""
    first = [line(n, 10 * n, n % 7, cpus=1 + n % 5) for n in range(200)]
    second = [line(n, 10 * n, n % 11, cpus=1 + n % 3, wait=500) for n in range(200)]
    moved = [line(n, 10 * n + 3000, n % 11, cpus=1 + n % 3, wait=500) for n in range(200)]
    return (
        write("whole.swf", first + moved, "MaxProcs: 20", "UnixStartTime: 1000000"),
        write("a.swf", first, "MaxProcs: 20", "UnixStartTime: 1000000"),
        write("b.swf", second, "MaxProcs: 20", "UnixStartTime: 1003000"),
    )


def test_files_count_from_zeros_of_their_own(halves):
    whole, *parts = halves
    assert_same(whole_of(whole, Options()), evaluated(parts, Options()))


def test_shares_and_filters_are_those_of_the_whole(halves):
    whole, *parts = halves
    for options in (
        Options(rules=ShareRules(default={"cpu": 2000}, users={"3": {"cpu": 500}})),
        Options(rules=ShareRules(groups={"1": {"cpu": 3000}})),
        Options(filters=(Filter("user", frozenset({"3", "5"})),)),
        Options(filters=(Filter("queue", frozenset({"1"})),)),
    ):
        expected = whole_of(whole, options)
        found = evaluated(parts, options)
        assert_same(expected, found)
        for name in ("default", "default_from", "total", "total_from", "users", "unknown_requests"):
            assert found["shares"]["cpu"][name] == expected["shares"]["cpu"][name]


def test_a_file_without_a_time_zero_among_others_that_have_one_is_told(halves, write):
    other = write("c.swf", [line(1, 0, 1)], "MaxProcs: 20")
    with pytest.raises(ScheduleError, match=r"c\.swf: has no UnixStartTime"):
        evaluated([halves[1], other], Options())


def test_without_a_total_it_is_the_most_in_use_on_all_machines(write):
    lines = [line(n, 10 * n, n % 7, cpus=1 + n % 5) for n in range(60)]
    whole = write("g.swf", lines, "UnixStartTime: 5")
    parts = [write(f"g{at}.swf", lines[at : at + 20], "UnixStartTime: 5") for at in (0, 20, 40)]
    assert_same(whole_of(whole, Options()), evaluated(parts, Options()))
    rules = ShareRules(totals={"cpu": 4000})
    assert evaluated(parts, Options(rules=rules))["shares"]["cpu"]["total"] == 4


def test_a_job_of_several_files_is_there_once():
    def log(*runs):
        jobs = [
            JobRecord(
                batch_system="slurm",
                job_id=job,
                user="ann",
                total_cpus=1,
                submit_secs=0,
                start_secs=start,
                end_secs=end,
            )
            for job, start, end in runs
        ]
        return from_records(jobs, "log")

    one, other = log(("1", 5, 9), ("2", 5, 8)), log(("1", 5, 9), ("2", 20, 30), ("3", 5, 9))
    found = merge_repeated([split_by_user(each, 0, 1)[0] for each in (one, other)])
    assert [each.start.tolist() for each in found] == [[], [5, 20, 5]]
    assert found[0].folded == {REPORTED_AGAIN: 1, EARLIER_RUN: 1}


def test_nobody_left_is_told(write):
    with pytest.raises(ScheduleError, match="never started"):
        evaluated([write("e.swf", [line(1, 0, 1, runtime=-1, wait=-1)])], Options())
    with pytest.raises(ScheduleError, match="none of 1 jobs passes --filter"):
        evaluated(
            [write("f.swf", [line(1, 0, 1)], "MaxProcs: 4")],
            Options(filters=(Filter("user", frozenset({"nobody"})),)),
        )


def test_a_share_of_nothing_is_an_error_in_pieces_too(halves):
    rules = ShareRules(users={"3": {"cpu": 0}}, default={"cpu": 1000})
    with pytest.raises(ScheduleError, match="user '3' has a share of 0 cpu"):
        evaluated(halves[1:], Options(rules=rules))
    filters = (Filter("user", frozenset({"3"})),)
    with pytest.raises(ScheduleError, match="user '3' has a share of 0 cpu"):
        evaluated(halves[1:], Options(rules=rules, filters=filters))


@pytest.mark.filterwarnings("default")  # other people's
@pytest.mark.program
def test_dask_runs_the_same_functions_on_workers_of_its_own(halves):
    import distributed

    whole, *parts = halves
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = evaluate_partitions(parts, Options(), FIELDS, read, runner=client, chunks=5)
        with pytest.raises(ScheduleError, match="user '3' has a share of 0 cpu"):
            evaluate_partitions(
                parts, Options(rules=ShareRules(users={"3": {"cpu": 0}})), (), read, runner=client
            )
    assert_same(whole_of(whole, Options()), found)
