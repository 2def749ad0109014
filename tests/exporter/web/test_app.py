import asyncio
import gzip

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures.errors import ConfigurationError
from jobfeatures.metrics import Metric
from jobfeatures_exporter.exposition import Family, render
from jobfeatures_exporter.web.app import make_app
from jobfeatures_exporter.web.listener import Listeners

GAUGE = Metric("batch_job_processes", "gauge", "Processes of the job.", ("job_id",))


class StandInDaemon:
    """A daemon that shows a given number of series."""

    def __init__(self, series=1, ready=True):
        self.is_ready = ready
        self.family = Family(GAUGE, [((str(number),), 1) for number in range(series)])

    def problems(self):
        return [] if self.is_ready else ["slurm has not answered yet"]

    def exposition(self, *, openmetrics):
        return render([self.family], openmetrics=openmetrics)

    def html(self, asked=None):
        return '<a href="metrics">Metrics</a>'


async def get(aiohttp_client, daemon, path, **headers):
    client = await aiohttp_client(make_app(daemon), auto_decompress=False)
    return await client.get(path, headers={"Accept-Encoding": "identity", **headers})


async def test_metrics_are_text_by_default(aiohttp_client):
    response = await get(aiohttp_client, StandInDaemon(), "/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert len(list(parse_text((await response.read()).decode()))) == 1


async def test_metrics_are_openmetrics_where_accepted(aiohttp_client):
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.1"
    response = await get(aiohttp_client, StandInDaemon(), "/metrics", Accept=accept)
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert len(list(parse_openmetrics((await response.read()).decode()))) == 1


async def test_a_long_page_is_compressed_where_accepted(aiohttp_client):
    plain = await (await get(aiohttp_client, StandInDaemon(2000), "/metrics")).read()
    response = await get(aiohttp_client, StandInDaemon(2000), "/metrics", **{"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(await response.read()) == plain


async def test_healthy_answers_before_ready(aiohttp_client):
    client = await aiohttp_client(make_app(StandInDaemon(ready=False)))
    assert (await client.get("/-/healthy")).status == 200
    answer = await client.get("/-/ready")
    assert (answer.status, await answer.text()) == (503, "not ready\nslurm has not answered yet\n")


async def test_ready_tells_what_fails(aiohttp_client):
    daemon = StandInDaemon()
    daemon.problems = lambda: ["slurm has failed for 70 s: scontrol: no end after 10 s"]
    client = await aiohttp_client(make_app(daemon))
    answer = await client.get("/-/ready")
    assert answer.status == 200
    assert await answer.text() == "ready\nslurm has failed for 70 s: scontrol: no end after 10 s\n"


async def test_the_first_page_leads_to_the_metrics(aiohttp_client):
    response = await get(aiohttp_client, StandInDaemon(), "/")
    assert 'href="metrics"' in await response.text()


async def test_a_port_in_use_is_a_wrong_setting():
    async with Listeners().serving(make_app(StandInDaemon()), "127.0.0.1:0") as address:
        with pytest.raises(ConfigurationError, match="listen_address"):
            async with Listeners().serving(make_app(StandInDaemon()), address):
                await asyncio.sleep(0)
