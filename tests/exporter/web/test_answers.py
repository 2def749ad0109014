"""What programs get: the same from the web server and without it."""

import gzip

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures_exporter.web.answers import make_answerers

from .test_app import StandInDaemon


async def get(daemon, path, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await make_answerers(daemon)[path](named)


async def test_metrics_are_text_by_default():
    answer = await get(StandInDaemon(), "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert len(list(parse_text(answer.body.decode()))) == 1


async def test_metrics_are_openmetrics_where_accepted():
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.1"
    answer = await get(StandInDaemon(), "/metrics", accept=accept)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert len(list(parse_openmetrics(answer.body.decode()))) == 1


async def test_a_long_page_is_compressed_where_accepted():
    plain = await get(StandInDaemon(2000), "/metrics")
    packed = await get(StandInDaemon(2000), "/metrics", accept_encoding="gzip")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


async def test_healthy_answers_before_ready():
    daemon = StandInDaemon(ready=False)
    assert (await get(daemon, "/-/healthy")).status == 200
    answer = await get(daemon, "/-/ready")
    assert (answer.status, answer.body) == (503, b"not ready\nslurm has not answered yet\n")


async def test_ready_tells_what_fails():
    daemon = StandInDaemon()
    daemon.problems = lambda: ["slurm has failed for 70 s: scontrol: no end after 10 s"]
    answer = await get(daemon, "/-/ready")
    assert (answer.status, answer.body) == (
        200,
        b"ready\nslurm has failed for 70 s: scontrol: no end after 10 s\n",
    )
