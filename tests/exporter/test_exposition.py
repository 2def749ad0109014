import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.exposition import Family, Metric, choose_format, escape, format_value, labels, render

GAUGE = Metric("batch_job_processes", "gauge", "Processes of the job.", ("job_id",))
COUNTER = Metric(
    "batch_job_cpu_seconds", "counter", 'CPU "time"\nof \\ the job.', ("job_id", "mode"), "seconds"
)
INFO = Metric("batch_job", "info", "Who.", ("name",))

FAMILIES = [
    Family(GAUGE, [(labels(job_id="1"), 3), (labels(job_id="2"), 0)]),
    Family(COUNTER, [(labels(job_id="1", mode="user"), 1.5)]),
    Family(INFO, [(labels(name='a "quoted"\nname \\ ü'), 1)]),
    Family(Metric("batch_node_processes", "gauge", "None."), [("", 7)]),
    Family(Metric("batch_node_never", "gauge", "No samples: not shown."), []),
]


def test_the_text_format_is_exactly_this():
    assert render(FAMILIES, openmetrics=False).decode() == (
        "# HELP batch_job_processes Processes of the job.\n"
        "# TYPE batch_job_processes gauge\n"
        'batch_job_processes{job_id="1"} 3\n'
        'batch_job_processes{job_id="2"} 0\n'
        '# HELP batch_job_cpu_seconds_total CPU "time"\\nof \\\\ the job.\n'
        "# TYPE batch_job_cpu_seconds_total counter\n"
        'batch_job_cpu_seconds_total{job_id="1",mode="user"} 1.5\n'
        "# HELP batch_job_info Who.\n"
        "# TYPE batch_job_info gauge\n"
        'batch_job_info{name="a \\"quoted\\"\\nname \\\\ ü"} 1\n'
        "# HELP batch_node_processes None.\n"
        "# TYPE batch_node_processes gauge\n"
        "batch_node_processes 7\n"
    )


def test_openmetrics_is_exactly_this():
    assert render(FAMILIES[:3], openmetrics=True).decode() == (
        "# TYPE batch_job_processes gauge\n"
        "# HELP batch_job_processes Processes of the job.\n"
        'batch_job_processes{job_id="1"} 3\n'
        'batch_job_processes{job_id="2"} 0\n'
        "# TYPE batch_job_cpu_seconds counter\n"
        "# UNIT batch_job_cpu_seconds seconds\n"
        '# HELP batch_job_cpu_seconds CPU \\"time\\"\\nof \\\\ the job.\n'
        'batch_job_cpu_seconds_total{job_id="1",mode="user"} 1.5\n'
        "# TYPE batch_job info\n"
        "# HELP batch_job Who.\n"
        'batch_job_info{name="a \\"quoted\\"\\nname \\\\ ü"} 1\n'
        "# EOF\n"
    )


@pytest.mark.parametrize(("openmetrics", "parse"), [(False, parse_text), (True, parse_openmetrics)])
def test_prometheus_client_reads_both(openmetrics, parse):
    families = list(parse(render(FAMILIES, openmetrics=openmetrics).decode()))
    samples = {(s.name, tuple(s.labels.items())): s.value for family in families for s in family.samples}
    assert samples[("batch_job_cpu_seconds_total", (("job_id", "1"), ("mode", "user")))] == 1.5
    assert samples[("batch_job_info", (("name", 'a "quoted"\nname \\ ü'),))] == 1


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.floats() | st.integers(-(2**53), 2**53),
    st.booleans(),
)
def test_any_label_and_any_number_come_back(text, value, openmetrics):
    body = render([Family(GAUGE, [(labels(job_id=text), value)])], openmetrics=openmetrics).decode()
    parse = parse_openmetrics if openmetrics else parse_text
    [sample] = next(iter(parse(body))).samples
    assert sample.labels == {"job_id": text}
    assert sample.value == value or (math.isnan(sample.value) and math.isnan(value))


@given(st.text(), st.booleans())
def test_no_label_breaks_the_page(text, openmetrics):
    body = render([Family(GAUGE, [(labels(job_id=text), 1)])], openmetrics=openmetrics)
    assert body.decode("utf-8").count("\n") == (4 if openmetrics else 3)


def test_bytes_that_are_no_text_are_shown_as_such():
    assert escape(b"caf\xe9".decode("utf-8", "surrogateescape")) == "caf\ufffd"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.5, "1.5"),
        (2**70, str(2**70)),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_written_as_both_formats_read_them(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("text/plain;version=0.0.4", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
        ("*/*", False),
    ],
)
def test_the_accept_header_chooses_the_format(accept, openmetrics):
    chosen, content_type = choose_format(accept)
    assert chosen is openmetrics
    assert content_type.startswith("application/openmetrics-text" if openmetrics else "text/plain")
