"""Elements to jobs. Expected values are counted by hand from the documents."""

from __future__ import annotations

import pytest

from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.sss.job import parse_document
from jobfeatures.records.model import UNLIMITED, Job, JobKey, JobState, Limits
from tests.jobfeatures.formats.sss.documents import parse_jobs, tasks

MIB, GIB = 2**20, 2**30


def test_the_very_simple_example(sss_fixtures):
    jobs, rejected = parse_jobs((sss_fixtures / "very_simple.xml").read_bytes(), source="s")
    assert rejected == []
    assert jobs == [
        Job(
            key=JobKey("spool", "demo.17.0"),
            state=JobState.PENDING,
            user="ada",
            total_cpus=8,
            allocated_cpus=8,
            limits=Limits(wall_secs=7200),
        )
    ]


def test_the_moderate_example(sss_fixtures):
    jobs, rejected = parse_jobs((sss_fixtures / "moderate.xml").read_bytes(), source="s")
    assert rejected == []
    assert jobs == [
        Job(
            key=JobKey("spool", "demo.18.0"),
            state=JobState.COMPLETED,
            name="Light Ice",
            user="grace",
            account="glaciology",
            partition="night",
            start_secs=1700000000,
            end_secs=1700000900,
            total_cpus=16,
            allocated_cpus=16,
            limits=Limits(wall_secs=3600, memory_bytes=2 * GIB),
        )
    ]


def test_a_group_with_defaults_on_one_of_its_nodes(sss_fixtures):
    document = parse_document(
        (sss_fixtures / "job_group.xml").read_bytes(), source="s", node="node12.site.org"
    )
    assert document.jobs == (
        Job(
            key=JobKey("spool", "voyage.0"),
            state=JobState.RUNNING,
            name="chart the course",
            user="keiko",
            account="Exploration",
            partition="batch",
            submit_secs=1690000000,
            start_secs=1690000100,
            nodes=("node1", "node12"),
            total_cpus=2,
            limits=Limits(wall_secs=3600, cpu_secs=UNLIMITED, memory_bytes=1024 * MIB),
            processes=frozenset({80209}),
        ),
        Job(
            key=JobKey("spool", "voyage.1"),
            state=JobState.PENDING,
            user="sulu",
            account="Exploration",
            submit_secs=1690000000,
            total_cpus=12,  # 12 or 16
            limits=Limits(wall_secs=12 * 3600, cpu_secs=UNLIMITED, memory_bytes=512 * MIB),
        ),
    )
    assert document.rejected == (Rejected("s", "column 5: unknown element here", 60, "Telescope"),)
    assert document.warnings == ()


def test_typographic_quotes_are_refused_at_their_line_and_column(sss_fixtures):
    with pytest.raises(ParseError) as caught:
        parse_jobs((sss_fixtures / "typographic_quotes.xml").read_bytes(), source="f.xml")
    assert str(caught.value) == "f.xml:4: column 20: not well-formed (invalid token)"


def test_an_id_is_taken_without_blanks_around_it():
    jobs, _ = parse_jobs(b"<Job><Id> a/b </Id></Job>", source="s")
    assert jobs == [Job(key=JobKey("spool", "a/b"))]


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("Idle", JobState.PENDING),
        ("Hold", JobState.PENDING),
        ("NotQueued", JobState.PENDING),
        ("Unstarted", JobState.PENDING),
        ("Running", JobState.RUNNING),
        ("Active", JobState.RUNNING),
        ("Suspended", JobState.SUSPENDED),
        ("Completed", JobState.COMPLETED),
        ("", JobState.UNKNOWN),
    ],
)
def test_states(read_one, word, state):
    assert read_one(f"<State>{word}</State>").state is state


def test_an_unknown_state_is_a_warning_and_the_job_lives():
    document = parse_document(b"<Job><Id>1</Id>\n<State>running</State></Job>", source="s")
    assert [job.state for job in document.jobs] == [JobState.UNKNOWN]
    assert document.rejected == ()
    assert [(note.line, note.field, note.text) for note in document.warnings] == [(2, "State", "running")]


def test_an_end_time_counts_only_for_a_job_that_has_ended(read_one):
    assert read_one("<State>Running</State><EndTime>5</EndTime>").end_secs is None
    assert read_one("<State>Completed</State><EndTime>5</EndTime>").end_secs == 5


# --- which value counts -------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "processors"),
    [
        ("<Processors>3</Processors>", 3),
        ("<Requested><Processors>3</Processors></Requested>", 3),
        ('<Requested><Processors op="EQ">3</Processors></Requested>', 3),
        ('<Requested><Processors op="GE">3</Processors></Requested>', None),
        ('<Requested><Processors op="LE">3</Processors></Requested>', None),
        ("<Requested><Processors>3</Processors></Requested><Processors>4</Processors>", 4),
        ("<Delivered><Processors>5</Processors></Delivered><Processors>4</Processors>", 5),
        ("<Delivered><Processors>5</Processors><Processors>6</Processors></Delivered>", None),
        ("<Requested><Processors>3</Processors><Processors>4</Processors></Requested>", None),
        ('<Requested><Processors>3</Processors><Processors conj="Or">4</Processors></Requested>', None),
        ('<Requested><Processors preference="1">3</Processors></Requested>', None),
        ('<Requested><Memory>1</Memory><Processors conj="Or">4</Processors></Requested>', None),
        ("<Processors>0</Processors>", 0),
    ],
)
def test_processors(read_one, content, processors):
    job = read_one(content)
    assert (job.total_cpus, job.allocated_cpus) == (processors, processors)


@pytest.mark.parametrize(
    ("content", "memory_bytes"),
    [
        ("<Memory>1</Memory>", MIB),
        ('<Memory units="B">1000.9</Memory>', 1000),
        ('<Memory units="KB">1.5</Memory>', 1536),
        ('<Memory units="GB">1e1</Memory>', 10 * GIB),
        ('<Memory units="TB">.5</Memory>', 2**39),
        ('<Memory units="EB">7.9</Memory>', 9108079886394091110),
        ('<Memory units="NB">1E-27</Memory>', 1),
        ('<Memory units="DB">0</Memory>', 0),
        ('<Memory context="Dedicated">2</Memory>', 2 * MIB),
        ('<Memory context="Used">2</Memory>', None),
        ('<Memory metric="Average">2</Memory>', None),
        ("<Delivered><Memory>2</Memory></Delivered>", None),
        ("<Requested><Memory>2</Memory></Requested><Memory>1</Memory>", 2 * MIB),
        ('<Requested><Memory op="LE">2</Memory></Requested>', 2 * MIB),
        ('<Requested><Memory op="LT">2</Memory></Requested>', 2 * MIB),
        ('<Requested><Memory op="GE">2</Memory></Requested>', None),
        ('<Requested><Memory op="GT">2</Memory></Requested>', None),
        ('<Requested><Memory op="NE">2</Memory></Requested>', None),
        ('<Requested><Memory op="Match">2</Memory></Requested>', None),
        ('<Requested><Memory op="GE">1</Memory><Memory op="LE">4</Memory></Requested>', 4 * MIB),
        ('<Requested><Memory op="LE">4</Memory><Memory op="LE">3</Memory></Requested>', 3 * MIB),
        ('<Requested><Memory preference="2">4</Memory><Memory preference="1">3</Memory></Requested>', None),
        ('<ResourceLimit name="MaxMemory">3</ResourceLimit><Memory>1</Memory>', 3 * MIB),
        ('<ResourceLimit name="MaxMemorySize">3</ResourceLimit>', 3 * MIB),
        ('<ResourceLimit name="MaxMemory">Unlimited</ResourceLimit><Memory>1</Memory>', UNLIMITED),
        (
            (
                '<ResourceLimit name="MaxMemory" type="Soft">3</ResourceLimit>'
                '<ResourceLimit name="MaxMemory" type="Hard">4</ResourceLimit>'
            ),
            4 * MIB,
        ),
        ('<ResourceLimit name="MaxMemory" type="Soft">3</ResourceLimit>', 3 * MIB),
        (
            '<ResourceLimit name="MaxMemory">3</ResourceLimit><ResourceLimit name="MaxMemory">2.5</ResourceLimit>',
            5 * MIB // 2,
        ),
        ('<ResourceLimit name="OpenFiles">many</ResourceLimit>', None),
    ],
)
def test_memory_limits(read_one, content, memory_bytes):
    assert read_one(content).limits == Limits(memory_bytes=memory_bytes)


@pytest.mark.parametrize(
    ("content", "wall_secs"),
    [
        ("<Duration>60</Duration>", 60),
        ("<State>Running</State><Duration>60</Duration>", 60),
        ("<State>Completed</State><Duration>60</Duration>", None),
        ("<State>Completed</State><Requested><Duration>90</Duration></Requested><Duration>60</Duration>", 90),
        ("<Delivered><Duration>60</Duration></Delivered>", None),
        ('<Duration units="minutes">2</Duration>', 120),
        ('<Requested><Duration units="days">1</Duration></Requested>', 86400),
    ],
)
def test_wall_limits(read_one, content, wall_secs):
    assert read_one(content).limits.wall_secs == wall_secs


def test_the_other_limits(read_one):
    job = read_one('<Swap>2</Swap><Disk units="GB">3</Disk><ResourceLimit name="CPUTime">100</ResourceLimit>')
    assert job.limits == Limits(cpu_secs=100, swap_bytes=2 * MIB, scratch_bytes=3 * GIB)
    job = read_one('<Disk units="GB">3</Disk><ResourceLimit name="MaxDisk">unlimited</ResourceLimit>')
    assert job.limits.scratch_bytes is UNLIMITED


@pytest.mark.parametrize(
    ("content", "account", "partition"),
    [
        ("<Account>a</Account><Queue>q</Queue>", "a", "q"),
        ("<Project>p</Project><Account>a</Account><Partition>z</Partition><Queue>q</Queue>", "p", "z"),
        ("<Requested><Account>a</Account></Requested><Delivered><Account>b</Account></Delivered>", "b", None),
        ('<Requested><Queue op="Match">q.*</Queue></Requested><Project/>', None, None),
    ],
)
def test_accounts_and_partitions(read_one, content, account, partition):
    job = read_one(content)
    assert (job.account, job.partition) == (account, partition)


# --- defaults ------------------------------------------------------------------------


def read_group(defaults: str, job: str) -> Job:
    data = f"<JobGroup><JobDefaults>{defaults}</JobDefaults><Job><Id>1</Id>{job}</Job></JobGroup>"
    jobs, notes = parse_jobs(data.encode(), source="s")
    assert notes == []
    return jobs[0]


def test_a_default_holds_unless_the_job_says_otherwise():
    defaults = (
        "<User>a</User><State>Running</State><Requested><Duration>5</Duration><Memory>1</Memory></Requested>"
    )
    job = read_group(defaults, "<User>b</User><Requested><Memory>2</Memory></Requested>")
    assert (job.user, job.state, job.limits) == (
        "b",
        JobState.RUNNING,
        Limits(wall_secs=5, memory_bytes=2 * MIB),
    )


def test_resource_limits_are_inherited_by_name():
    limits = '<ResourceLimit name="CPUTime">9</ResourceLimit><ResourceLimit name="MaxDisk">1</ResourceLimit>'
    job = read_group(limits, '<ResourceLimit name="MaxDisk">2</ResourceLimit>')
    assert job.limits == Limits(cpu_secs=9, scratch_bytes=2 * MIB)


def test_large_defaults_are_not_multiplied_by_many_jobs():
    defaults = "<JobDefaults>" + tasks(*["<Process>77</Process>"] * 1000) + "</JobDefaults>"
    few, many = ("<Job><Id>1</Id></Job>" * count for count in (10, 10_000))
    assert len(parse_jobs(f"<JobGroup>{defaults}{few}</JobGroup>".encode(), source="s")[0]) == 10
    with pytest.raises(ParseError, match="JobDefaults: column 11: too large for 10000 jobs"):
        parse_jobs(f"<JobGroup>{defaults}{many}</JobGroup>".encode(), source="s")


def test_an_id_is_not_inherited():
    data = b"<JobGroup><JobDefaults><Id>1</Id></JobDefaults><Job><Name>n</Name></Job></JobGroup>"
    jobs, rejected = parse_jobs(data, source="s")
    assert jobs == []
    assert [(each.reason, each.field) for each in rejected] == [("column 48: has no Id", "Job")]


# --- nodes and processes -------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "nodes", "allocated"),
    [
        ("<Node>n1</Node>", ("n1",), 4),
        ('<Node aggregation="List">n1, n2,n1</Node>', ("n1", "n2"), None),
        ('<Node aggregation="List" delimiter=";">n1;n2</Node>', ("n1", "n2"), None),
        ('<Node aggregation="Pattern">n.*</Node>', (), None),
        ('<Node aggregation="Range">n[1-3]</Node>', ("n1", "n2", "n3"), None),
        ('<Node aggregation="Range">n[1-1]</Node>', ("n1",), 4),
        ('<Node aggregation="Pattern">n.*</Node><NodeCount>1</NodeCount>', (), 4),
        ('<Node count="2">n</Node>', (), None),
        ("<NodeCount>2</NodeCount>", (), None),
        ("<Delivered><Node>n1</Node><Node>n2</Node></Delivered>", ("n1", "n2"), None),
        ("<Requested><Node>n1</Node></Requested>", (), 4),
        (tasks("<Node>n1</Node>", "<Node>n1</Node>"), ("n1",), 4),
        (tasks("<Node>n1</Node>", "<Node>n2</Node>"), ("n1", "n2"), None),
        ("<TaskGroup><TaskDefaults><Node>n1</Node></TaskDefaults><Task><Id>1</Id></Task></TaskGroup>", ("n1",), 4),
    ],
)  # fmt: skip
def test_processors_of_this_node_are_known_only_for_jobs_on_one_node(read_one, content, nodes, allocated):
    job = read_one(f"<Processors>4</Processors>{content}")
    assert (job.nodes, job.total_cpus, job.allocated_cpus) == (nodes, 4, allocated)


def test_processes_and_sessions(read_one):
    job = read_one(
        "<Session>70</Session>"
        + tasks("<Process>81</Process><Process>82</Process><Session>80</Session>", "<Process>91</Process>")
    )
    assert job.processes == {81, 82, 91}
    assert job.sessions == {70, 80}


def test_the_id_of_a_task_is_not_a_process(read_one):
    assert read_one(tasks("<Id>1234</Id><Node>n1</Node>")).processes == frozenset()


def test_references_to_task_groups_and_tasks_are_accepted(read_one):
    assert (
        read_one("<TaskGroup> tg1</TaskGroup><TaskGroup><Task>1</Task></TaskGroup>").processes == frozenset()
    )


@pytest.mark.parametrize(
    ("content", "processes", "sessions"),
    [
        (tasks("<Node>n1</Node><Process>11</Process>", "<Node>n2</Node><Process>12</Process>"), {11}, set()),
        (tasks("<Node>N1.site</Node><Process>11</Process>"), {11}, set()),
        (tasks("<Node>n10</Node><Process>11</Process>"), set(), set()),
        (tasks("<Process>11</Process>"), {11}, set()),
        ("<Node>n2</Node><Session>20</Session>" + tasks("<Process>11</Process>"), set(), set()),
        ('<Node aggregation="List">n1,n2</Node><Session>20</Session>', set(), set()),
        ("<Node>n1</Node><Session>20</Session>", set(), {20}),
    ],
)
def test_only_ids_of_this_node_count(content, processes, sessions):
    data = f"<Job><Id>1</Id>{content}</Job>".encode()
    job = parse_document(data, source="s", node="n1").jobs[0]
    assert (job.processes, job.sessions) == (processes, sessions)


def test_full_host_names_of_different_domains_are_different_nodes():
    data = f"<Job><Id>1</Id>{tasks('<Node>n1.a.org</Node><Process>11</Process>')}</Job>".encode()
    assert parse_document(data, source="s", node="n1.b.org").jobs[0].processes == frozenset()
