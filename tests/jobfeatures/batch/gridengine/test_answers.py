"""What qstat tells a node: captured answers, and faults that versions and users put into them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.gridengine.answers import (
    RequestedLimits,
    notice_of,
    parse_asked_jobs,
    parse_host_queues,
    parse_xml,
    text_of,
)
from jobfeatures.batch.gridengine.asking import with_wall_limit
from jobfeatures.errors import ParseError
from jobfeatures.records.model import UNLIMITED, Job, JobKey, NodeNotice

FIXTURES = Path(__file__).parents[3] / "fixtures/gridengine"
JOBS = (FIXTURES / "qstat-j.xml").read_bytes()
QUEUES = (FIXTURES / "qstat-f.xml").read_bytes()
JOB = Job(key=JobKey("gridengine", "10"), partition="all.q")


def job(limits: str, number: str = "10") -> bytes:
    """Return a constructed answer about one job, in the shape of the captured ones."""
    return (
        "<?xml version='1.0'?>\n<detailed_job_info><djob_info><element>"
        f"<JB_job_number>{number}</JB_job_number><JB_hard_resource_list>{limits}</JB_hard_resource_list>"
        "</element></djob_info></detailed_job_info>"
    ).encode()


def request(name: str, value: str) -> str:
    return (
        f"<qstat_l_requests><CE_name>{name}</CE_name><CE_stringval>{value}</CE_stringval></qstat_l_requests>"
    )


def queues(*described: tuple[str, str, str]) -> bytes:
    """Return a constructed answer: name, state and h_rt of each queue."""
    lists = "".join(
        f"<Queue-List><name>{name}</name><slots_used>0</slots_used><slots_total>4</slots_total>"
        f'<state>{state}</state><resource name="h_rt" type="qf">{limit}</resource></Queue-List>'
        for name, state, limit in described
    )
    return f"<?xml version='1.0'?><job_info><queue_info>{lists}</queue_info></job_info>".encode()


def test_captured_jobs_and_their_limits():
    answers, rejected = parse_asked_jobs(JOBS)
    assert answers == {"10": RequestedLimits(1000), "11": RequestedLimits(UNLIMITED)}
    assert rejected == []


def test_jobs_that_the_master_does_not_know():
    answers, _ = parse_asked_jobs((FIXTURES / "qstat-j-unknown.xml").read_bytes())
    assert answers == {"998": RequestedLimits(known=False), "999": RequestedLimits(known=False)}


def test_an_element_without_a_name_stands_around_unknown_jobs_of_older_versions():
    """Constructed: the shape of Sun Grid Engine 6.2."""
    data = b"<?xml version='1.0'?>\n<unknown_jobs xmlns:xsd=\"x\">\n<>\n<ST_name>99</ST_name>\n</>\n</unknown_jobs>"
    assert parse_asked_jobs(data)[0] == {"99": RequestedLimits(known=False)}


def test_the_least_of_both_limits_counts():
    assert parse_asked_jobs(job(request("h_rt", "1::1") + request("s_rt", "3600")))[0][
        "10"
    ] == RequestedLimits(3600)
    assert parse_asked_jobs(job(request("h_rt", "INFINITY")))[0]["10"] == RequestedLimits(UNLIMITED)
    assert parse_asked_jobs(job(request("h_vmem", "4G")))[0]["10"] == RequestedLimits(UNLIMITED)


def test_a_limit_that_cannot_be_read_is_unknown_not_absent():
    answers, rejected = parse_asked_jobs(job(request("h_rt", "soon")))
    assert answers["10"] == RequestedLimits(None)
    assert rejected[0].field == "h_rt"


def test_newer_engines_leave_wrappings_out():
    """Constructed after what Grid Scheduler and UGE 8.6 print."""
    requests = "".join(
        f"<CE_name>{name}</CE_name><CE_stringval>{value}</CE_stringval><CE_doubleval>1.0</CE_doubleval>"
        for name, value in (("h_rt", "14400"), ("mem", "4G"), ("s_rt", "3600"))
    )
    flat = f"<JB_job_number>748172</JB_job_number><JB_hard_resource_list>{requests}</JB_hard_resource_list>"
    other = "<JB_job_number>748173</JB_job_number>"
    jobs = f"<djob_info>{flat}</djob_info><djob_info>{other}</djob_info><djob_info>{flat}{other}</djob_info>"
    answer = f"<?xml version='1.0'?><detailed_job_info>{jobs}</detailed_job_info>"
    found, [both] = parse_asked_jobs(answer.encode())
    assert found == {"748172": RequestedLimits(3600), "748173": RequestedLimits(UNLIMITED)}
    assert both.text == "748172 748173"


def test_a_job_without_a_number_costs_itself_only():
    data = JOBS.replace(b"<JB_job_number>10<", b"<JB_job_number>ten<")
    answers, rejected = parse_asked_jobs(data)
    assert answers.keys() == {"11"}
    assert len(rejected) == 1


def test_a_captured_queue_that_is_disabled_drains_the_node():
    answers, _ = parse_host_queues(QUEUES)
    queue = answers["all.q"]
    assert (queue.host, queue.states, queue.slots, queue.used_slots) == ("vm", "d", 4, 3)
    assert queue.wall_secs is UNLIMITED
    assert notice_of(answers) == NodeNotice(draining=True)


@pytest.mark.parametrize(
    ("states", "draining"),
    [
        (["d", "dau"], True),
        (["d", ""], False),
        (["D"], True),
        (["o"], True),
        (["a"], False),
        (["au"], False),
        (["E"], False),
        (["S"], False),
        ([""], False),
    ],
)
def test_a_node_drains_when_all_its_queues_were_closed_on_purpose(states, draining):
    data = queues(*((f"q{number}@n1", state, "INFINITY") for number, state in enumerate(states)))
    assert notice_of(parse_host_queues(data)[0]) == NodeNotice(draining=draining)


def test_a_host_without_queues_has_nothing_to_say():
    assert notice_of({}) is None
    assert notice_of(parse_host_queues(queues())[0]) is None


def test_a_bad_queue_costs_itself_only():
    answers, rejected = parse_host_queues(
        queues(("q@n1", "", "1:0:0"), ("x", "d", "1"), ("y@n1", "", "soon"))
    )
    assert answers.keys() == {"q"}
    assert len(rejected) == 2


@pytest.mark.parametrize(
    ("asked", "limit", "wall"),
    [
        (RequestedLimits(UNLIMITED), "2:0:0", 7200),
        (RequestedLimits(1000), "2:0:0", 1000),
        (RequestedLimits(UNLIMITED), "INFINITY", UNLIMITED),
        (RequestedLimits(None), "INFINITY", None),
        (RequestedLimits(UNLIMITED), "NONE", None),
        (RequestedLimits(known=False), "2:0:0", None),
        (None, "2:0:0", None),
    ],
)
def test_the_wall_limit_is_the_least_of_what_was_asked_for_and_the_queues(asked, limit, wall):
    queue = parse_host_queues(queues(("all.q@n1", "", limit)))[0]["all.q"]
    assert with_wall_limit(JOB, asked, queue).limits.wall_secs == wall


def test_without_its_queue_a_number_counts_and_no_limit_is_not_known():
    assert with_wall_limit(JOB, RequestedLimits(1000), None).limits.wall_secs == 1000
    assert with_wall_limit(JOB, RequestedLimits(UNLIMITED), None).limits.wall_secs is None


# --- what is not quite XML --------------------------------------------------------------


def test_a_banner_before_the_answer_is_passed_over():
    assert parse_asked_jobs(b"Welcome to node1 <please>\n" + JOBS) == parse_asked_jobs(JOBS)


def test_control_characters_and_foreign_encodings_do_no_harm():
    root = parse_xml(
        b"<?xml version='1.0'?><a><b>x\x01\x1by</b><c>\xfc</c><d>&#252;</d></a>", {"a"}, "it", source="x"
    )
    assert [text_of(root, name) for name in "bcd"] == ["xy", "ü", "ü"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"error: commlib error: got select error (Connection refused)\n",
        b"<?xml version='1.0'?>",
        JOBS[: len(JOBS) // 2],
        b"<?xml version='1.0'?><a>&unknown;</a>",
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
        b"<?xml version='1.0'?><a><b></a>",
    ],
)
def test_what_is_no_answer_is_an_error(data):
    for parse in (parse_asked_jobs, parse_host_queues):
        with pytest.raises(ParseError):
            parse(data)


def test_an_answer_to_another_question_is_an_error():
    with pytest.raises(ParseError):
        parse_asked_jobs(QUEUES)
    with pytest.raises(ParseError):
        parse_host_queues(JOBS)


@given(st.binary(max_size=200), st.integers(0, len(JOBS)), st.sampled_from([JOBS, QUEUES]))
def test_damaged_answers_are_answers_or_parse_errors(noise, place, data):
    for parse in (parse_asked_jobs, parse_host_queues):
        for damaged in (noise, data[:place] + noise + data[place:], data[:place]):
            try:
                parse(damaged)
            except ParseError:
                pass
