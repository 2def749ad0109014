"""Jobs made by whole columns are those that are made one by one, and lose the same."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.formats.swf.fields import FIELDS, UNKNOWN
from jobfeatures.formats.swf.firstpass import columns_of, numbering_of
from jobfeatures.formats.swf.lines import format_job
from jobfeatures.formats.swf.makejobs import format_jobs, make_jobs
from jobfeatures.joblogs.loggedjob import JobBatch, JobRecord
from jobfeatures.records.model import UNLIMITED, JobState
from tests.jobfeatures.jobrecords import any_records

# Any of these beside other jobs means that no column is all whole numbers, or of jobs that ran and ended.
ODD = (
    JobRecord(batch_system="x", job_id="odd"),
    JobRecord(
        batch_system="x", job_id="odd", submit_secs=1.5, start_secs=2, end_secs=9, run_secs=3, suspended_secs=2,
        state=JobState.SUSPENDED, total_cpus=0, used_cpu_secs=UNKNOWN, used_memory_bytes=1, think_secs=3,
        requested_memory_bytes=UNLIMITED, wall_limit_secs=UNLIMITED, cpu_limit_secs=7, preceding_job_id="7",
    ),
)  # fmt: skip
NEAR = st.integers(0, 3)


@st.composite
def plain(draw):
    """Return what nearly all jobs of a log are: they waited, ran and ended, with whole numbers, few of them different."""
    submit, waited, ran = draw(NEAR), draw(NEAR), draw(NEAR)
    return JobRecord(
        batch_system="x", job_id="1", submit_secs=submit, start_secs=submit + waited, end_secs=submit + waited + ran,
        run_secs=draw(st.sampled_from([ran, float(ran), None])), state=draw(st.sampled_from([JobState.COMPLETED, JobState.FAILED])), total_cpus=draw(st.integers(1, 3)),
        used_cpu_secs=draw(NEAR | st.just(0.1)), used_memory_bytes=draw(NEAR) * 1024, wall_limit_secs=draw(NEAR) * 60,
        requested_memory_bytes=draw(NEAR) * 2**20, user=draw(st.sampled_from(["a", "b", None])),
    )  # fmt: skip


RECORDS = st.lists(plain(), min_size=1, max_size=8) | st.lists(
    plain() | any_records(state=st.sampled_from(JobState)), min_size=1, max_size=8
)


def made(records, is_cpu):
    lost = Counter()
    numbering = numbering_of(None)
    jobs = columns_of(JobBatch.of(records))
    columns = make_jobs(
        jobs,
        range(1, len(records) + 1),
        {},
        0,
        numbering,
        lambda name, count=1: lost.update({name: count}),
        is_cpu,
    )
    return columns, lost


@given(RECORDS, st.sampled_from(ODD), st.booleans())
def test_a_job_is_the_same_whatever_stands_beside_it(records, odd, is_cpu):
    together, lost = made(records, is_cpu)
    beside, all_lost = made([*records, odd], is_cpu)
    _, odd_lost = made([odd], is_cpu)
    assert len(together) == len(beside) == len(FIELDS)
    for name, column, other in zip(FIELDS, together, beside, strict=True):
        assert [(each, type(each)) for each in column] == [(each, type(each)) for each in other[:-1]], name
    assert all_lost == lost + odd_lost


@given(
    st.lists(
        st.lists(st.sampled_from([0, 1, 1.0, -1, 0.5]), min_size=18, max_size=18), min_size=1, max_size=4
    )
)
def test_lines_of_columns_are_those_of_each_job(rows):
    assert list(format_jobs(list(zip(*rows, strict=True)))) == [format_job(tuple(row)) for row in rows]
