import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.records.metrics import Metric
from jobfeatures_exporter.families.exposition import (
    Family,
    choose_format,
    escape,
    format_value,
    histogram_samples,
    render,
    takes,
)

GAUGE = Metric("batch_job_processes", "gauge", "Processes of the job.", ("job_id",))
COUNTER = Metric(
    "batch_job_cpu_seconds", "counter", 'CPU "time"\nof \\ the job.', ("job_id", "mode"), "seconds"
)
PLAIN = Metric("batch_job_processes", "gauge", "Processes of the job.")
INFO = Metric("batch_job", "info", "Who.", ("name",))

FAMILIES = [
    Family(GAUGE, [(("1",), 3), (("2",), 0)]),
    Family(COUNTER, [(("1", "user"), 1.5)]),
    Family(INFO, [(('a "quoted"\nname \\ ü',), 1)]),
    Family(Metric("batch_node_processes", "gauge", "None."), [((), 7)]),
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


EDGES = [
    0, -0.0, 0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2**53, 2**53 + 1, 2**64 - 1,
    2**64, -(2**63), 10**300, 0.1, 1e-7, 1e16, 1e22, 1 / 3, math.nan, math.inf, -math.inf,
]  # fmt: skip
numbers = st.sampled_from(EDGES) | st.floats() | st.integers(-(2**70), 2**70)


def is_same(value, read):
    """Return whether a number came back as the float that is nearest to it, with its sign."""
    if math.isnan(value):
        return math.isnan(read)
    return float(read) == float(value) and math.copysign(1, read) == math.copysign(1, value)


@given(
    st.lists(
        st.tuples(st.text(st.characters(exclude_categories=["Cs"])), numbers),
        max_size=8,
        unique_by=lambda x: x[0],
    ),
    st.booleans(),
)
def test_any_labels_and_any_numbers_come_back_whatever_stands_beside_them(pairs, openmetrics):
    samples = [((text,), value) for text, value in pairs]
    body = render([Family(GAUGE, samples)], openmetrics=openmetrics).decode()
    parse = parse_openmetrics if openmetrics else parse_text
    found = [sample for family in parse(body) for sample in family.samples]
    assert [sample.labels["job_id"] for sample in found] == [text for text, _ in pairs]
    assert all(is_same(value, sample.value) for (_, value), sample in zip(pairs, found, strict=True))


@given(st.lists(numbers, min_size=1))
def test_a_family_is_written_number_by_number_as_each_alone(values):
    lines = (
        render([Family(PLAIN, [((), value) for value in values])], openmetrics=False).decode().splitlines()
    )
    assert lines[2:] == [f"batch_job_processes {format_value(value)}" for value in values]


def test_an_integer_beyond_any_float_does_not_end_the_page():
    body = render([Family(PLAIN, [((), 10**400), ((), 0.5)])], openmetrics=False).decode()
    assert f"batch_job_processes {10**400}\nbatch_job_processes 0.5\n" in body


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_any_meaning_comes_back(meaning, openmetrics):
    body = render([Family(Metric("a", "gauge", meaning), [((), 1)])], openmetrics=openmetrics).decode()
    [family] = (parse_openmetrics if openmetrics else parse_text)(body)
    expected = meaning if openmetrics else meaning.strip()  # its reader strips the line
    assert family.documentation.strip() == expected.strip()


def test_another_exporters_names_stand_verbatim():
    made = [
        Family(Metric("cgroup_cpu_user_seconds", "counter", "A.", verbatim=True), [((), 1)]),
        Family(Metric("namedprocess_cpu_seconds_total", "counter", "B.", verbatim=True), [((), 2)]),
        Family(Metric("cgroup_info", "gauge", "C.", verbatim=True), [((), 1)]),
    ]
    assert render(made, openmetrics=False).decode() == (
        "# HELP cgroup_cpu_user_seconds A.\n# TYPE cgroup_cpu_user_seconds counter\ncgroup_cpu_user_seconds 1\n"
        "# HELP namedprocess_cpu_seconds_total B.\n# TYPE namedprocess_cpu_seconds_total counter\n"
        "namedprocess_cpu_seconds_total 2\n"
        "# HELP cgroup_info C.\n# TYPE cgroup_info gauge\ncgroup_info 1\n"
    )
    openmetrics = render(made, openmetrics=True).decode()
    assert [(each.name, each.type) for each in parse_openmetrics(openmetrics)] == [
        ("cgroup_cpu_user_seconds", "unknown"),
        ("namedprocess_cpu_seconds", "counter"),
        ("cgroup_info", "gauge"),
    ]
    assert "\nnamedprocess_cpu_seconds_total 2\n" in openmetrics


@given(st.text(), st.booleans())
def test_no_label_breaks_the_page(text, openmetrics):
    body = render([Family(GAUGE, [((text,), 1)])], openmetrics=openmetrics)
    assert body.decode("utf-8").count("\n") == (4 if openmetrics else 3)


def test_bytes_that_are_no_text_are_shown_as_such():
    assert escape(b"caf\xe9".decode("utf-8", "surrogateescape")) == "caf\ufffd"
    assert escape("half \ud83d") == "half \ufffd"  # as "\\ud83d" in JSON is read
    assert escape(b"caf\xc3\xa9".decode("ascii", "surrogateescape")) == "café"


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
        ("application/openmetrics-text;version=0.0.1;q=0", False),
        (" application/openmetrics-text ; q=0.5 , text/plain ;q=0.2", True),
        ("application/vnd.google.protobuf;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5", True),
    ],
)
def test_the_accept_header_chooses_the_format(accept, openmetrics):
    chosen, content_type = choose_format(accept)
    assert chosen is openmetrics
    assert content_type.startswith("application/openmetrics-text" if openmetrics else "text/plain")
    assert choose_encoder(accept)[1].startswith(content_type)  # what the common library would say


OM = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        # As Prometheus 3.5 asks whose scrape_protocols name the text format first.
        (f"text/plain;version=0.0.4;q=0.6,{OM};version=1.0.0;escaping=allow-utf-8;q=0.5,*/*;q=0.4", False),
        (f"text/plain;q=0.9,{OM};q=0.1", False),
        (f"{OM};q=0.5,text/plain", False),
        (f"text/plain;q=0.5,{OM};q=0.5", True),  # as much: whatever comes first
        (f"text/plain,{OM};q=1.000", True),
        (f"{OM};q=0.4,*/*;q=0.9", False),  # all others are liked more
        (f"{OM};q=0.4,text/*;q=0.9", False),
        (f"{OM};q=0.4,text/*;q=0.3,*/*", True),
        ("text/plain;q=0.3,*/*;q=0.8", True),
        ("application/*,text/plain;q=0.9", True),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        (f"{OM};version=1.0.0;q=0.2,{OM};version=0.0.1;q=0.1,{OM};version=2.0.0,text/plain;q=0.5", False),
        (f"{OM};version=2.0.0", True),  # the closest there is
        (f"text/plain;version=1.0.0;q=0.9,text/plain;version=0.0.4;q=0.1,{OM};version=1.0.0;q=0.5", True),
        (f'{OM.upper()};Version="1.0.0";Q=0.5,Text/Plain;q=0.4', True),
        (f'{OM};x="a,b;q=0.1";q=0.9,text/plain;q=0.5', True),
        (f'text/plain;q=0.9;x="a;q=0",{OM};q=0.5', False),
        (f"{OM};q=0,*/*", False),
        (f"{OM};q=much,text/plain;q=0.9", True),
        (f";, ;;, {OM}", True),
        (";", False),
    ],
)
def test_the_format_that_is_liked_most_is_chosen(accept, openmetrics):
    assert choose_format(accept)[0] is openmetrics


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("gzip", True),
        ("gzip;q=0", False),
        ("deflate, gzip;q=0.5", True),
        ("identity, gzip;q=0.5", False),
        ("identity;q=0.5, gzip", True),
        ("*", False),
        ("", False),
    ],
)
def test_a_coding_is_used_where_it_is_named_and_liked_no_less_than_none(header, found):
    assert takes(header, "gzip") is found


@pytest.mark.parametrize("header", ['"' * 8000, ',"' * 4000, ";q=" * 2700, '"\\' * 4000, "a;" * 4000])
def test_a_long_header_costs_little(header):
    assert choose_format(header) == choose_format("")


@given(st.text(max_size=60))
def test_any_accept_header_has_a_format(accept):
    assert choose_format(accept)[1].endswith("; charset=utf-8")


HISTOGRAM = Metric("batch_waits_seconds", "histogram", "Waits.", ("partition", "le"), "seconds")


def test_a_histogram_has_its_classes_sum_and_count():
    family = Family(HISTOGRAM, histogram_samples(('a"',), (1, 2.5), (3, 4, 9), 77))
    assert render([family], openmetrics=False).decode() == (
        "# HELP batch_waits_seconds Waits.\n"
        "# TYPE batch_waits_seconds histogram\n"
        'batch_waits_seconds_bucket{partition="a\\"",le="1.0"} 3\n'
        'batch_waits_seconds_bucket{partition="a\\"",le="2.5"} 4\n'
        'batch_waits_seconds_bucket{partition="a\\"",le="+Inf"} 9\n'
        'batch_waits_seconds_sum{partition="a\\""} 77\n'
        'batch_waits_seconds_count{partition="a\\""} 9\n'
    )


@given(
    st.dictionaries(st.text(), st.lists(st.integers(0, 100), min_size=4, max_size=4), min_size=1, max_size=5),
    st.integers() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_prometheus_client_reads_any_histogram_in_both_formats(counts, total):
    samples = []
    for name, each in counts.items():
        cumulative = [sum(each[: place + 1]) for place in range(4)]
        samples += histogram_samples((name,), (0.5, 1, 60), cumulative, abs(total))
    families = [Family(HISTOGRAM, samples)]
    for parse, openmetrics in ((parse_text, False), (parse_openmetrics, True)):
        [found] = list(parse(render(families, openmetrics=openmetrics).decode()))
        assert found.type == "histogram"
        assert len(found.samples) == 6 * len({escape(name) for name in counts})


def test_a_histogram_needs_no_labels_and_a_summary_is_one():
    bare = Metric("batch_waits_seconds", "histogram", "Waits.", ("le",), "seconds")
    family = Family(bare, histogram_samples((), (1,), (0, 0), 0))
    quantiles = Family(Metric("batch_x_ratio", "summary", "X.", ("quantile",)), [(("0.5",), 0.25)])
    found = list(parse_openmetrics(render([family, quantiles], openmetrics=True).decode()))
    assert [(each.type, len(each.samples)) for each in found] == [("histogram", 4), ("summary", 1)]
