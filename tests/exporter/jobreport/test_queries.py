"""Every question is PromQL, whatever the job is called. The parser is Prometheus's grammar in another language."""

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures_exporter.jobreport import queries
from jobfeatures_exporter.jobreport.asking import ReportQuestion, ask_all
from jobfeatures_exporter.scrape.collectors import COLLECTORS
from tests.exporter.jobreport.server import FakePrometheus, job_series
from tests.exporter.jobreport.test_report import QUESTION, two_nodes

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@given(names, names, names)
def test_names_stay_inside_their_quotes(job, cluster, system):
    question = ReportQuestion(job=job, at_secs=1e9, since_secs=3600, batch_system=system, cluster=cluster)
    for text in queries.find_jobs(job, question.matchers(), 3600.0):
        promql_parser.parse(text)
    promql_parser.parse(queries.last(queries.LAST, queries.selector_of(system, [job, "x"]), 60.0))


@pytest.mark.parametrize("text", ["12", "a.b[3]", "a|b", "-", "ü", "1 2"])
def test_a_name_is_matched_as_it_is(text):
    [wanted] = job_series(text)
    others = job_series("12x") + job_series("aXb[3]")
    server = FakePrometheus([wanted, *others])
    assert server(queries.last((queries.PROOF,), queries.selector_of("slurm", [text]), 9), 0).series == (
        wanted,
    )


def test_all_questions_of_a_report_are_promql_and_name_the_job():
    server = two_nodes()
    ask_all(server, QUESTION)
    for text, _ in server.asked:
        promql_parser.parse(text)
        assert '"12"' in text or 'uuid=~"' in text
        assert "s]" in text or "s:" in text or text.startswith("timestamp(")


def test_the_metrics_are_the_collectors():
    declared = {metric for collector in COLLECTORS.values() for metric in collector.metrics}
    assert {*queries.LAST, *queries.HIGHEST, *queries.RESETTABLE, *queries.OF_CARDS} <= declared


@pytest.mark.parametrize(("range_secs", "step"), [(1, 1), (500, 1), (501, 2), (604_800, 1210)])
def test_a_range_is_looked_at_in_a_bounded_number_of_steps(range_secs, step):
    assert queries.step_secs(range_secs) == step


@pytest.mark.parametrize(
    ("job", "array"), [("12_3", "12"), ("12[3]", "12"), ("12.3", "12"), ("1234[]", None), ("12", None)]
)
def test_a_task_of_an_array_has_several_spellings(job, array):
    asked = queries.find_jobs(job, "", 60.0)
    assert len(asked) == 2 + (array is not None) + (job == "12.3")  # which is a job of HTCondor's too
    if array is not None:
        assert f'array_job_id="{array}",array_task_id="3"' in asked[2]
