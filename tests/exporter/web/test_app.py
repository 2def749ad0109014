import asyncio
import gzip

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.records.metrics import Metric
from jobfeatures_exporter.families.exposition import Family, render
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

    def exposition(self, *, openmetrics, web=None):
        return render([self.family], openmetrics=openmetrics)

    def html(self, asked=None):
        return '<a href="metrics">Metrics</a>'


async def get(aiohttp_client, daemon, path, **headers):
    client = await aiohttp_client(make_app(daemon), auto_decompress=False)
    return await client.get(path, headers={"Accept-Encoding": "identity", **headers})


async def test_headers_that_stand_twice_count_together(aiohttp_client):
    client = await aiohttp_client(make_app(StandInDaemon(2000)), auto_decompress=False)
    asked = [("Accept", "text/plain;q=0.1"), ("Accept", "application/openmetrics-text;version=1.0.0")]
    response = await client.get("/metrics", headers=[*asked, ("Accept-Encoding", "gzip")])
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert gzip.decompress(await response.read()).endswith(b"# EOF\n")


async def test_the_first_page_leads_to_the_metrics(aiohttp_client):
    response = await get(aiohttp_client, StandInDaemon(), "/")
    assert 'href="metrics"' in await response.text()


async def test_a_port_in_use_is_a_wrong_setting():
    async with Listeners().serving(StandInDaemon(), "127.0.0.1:0") as address:
        with pytest.raises(ConfigurationError, match="listen_address"):
            async with Listeners().serving(StandInDaemon(), address):
                await asyncio.sleep(0)
