"""The listeners of features and of Sonar's documents with the web configuration's TLS, and nothing else of it."""

import os
from contextlib import asynccontextmanager

import pytest

from jobfeatures.publish.http.server import FeatureServer
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.startup.receiver import Ingest
from jobfeatures_exporter.web.config import WebSettings
from jobfeatures_exporter.web.listener import Listeners
from tests.configured import configured
from tests.exporter.web.standins import HASH, Site

TLS = f"tls_server_config: {{cert_file: server.pem, key_file: server.key}}\nbasic_auth_users: {{alice: {HASH}}}\n"


@asynccontextmanager
async def features(listeners, tmp_path):
    tree = FeatureTree(str(tmp_path / "features"))
    tree.prepare()
    tree.write_machine({"total_cpu": "8"})
    tree.write_job(JobKey("slurm", "12"), {"allocated_cpu": "4"})
    tree.make_status(JobKey("slurm", "12"), os.getuid())
    token = tree.make_token(JobKey("slurm", "12"))
    server = FeatureServer(tree)
    async with listeners.listening("features", server, "127.0.0.1:0") as address:
        yield address, f"/jobfeatures/{token}/allocated_cpu"


@asynccontextmanager
async def sonar(listeners, tmp_path):
    ingest = Ingest(configured(sonar_listen="127.0.0.1:0"))
    async with ingest.running(listeners) as address:
        yield address, "/sample"


@pytest.mark.parametrize(
    ("name", "opened", "status"), [("features", features, 200), ("sonar", sonar, 405)]
)  # Sonar's takes POST only
async def test_it_speaks_tls_where_it_is_told_to_and_keeps_its_own_users(
    write_config, authority, tmp_path, name, opened, status
):
    listeners = Listeners(WebSettings(config_file=write_config(TLS), config_for=(name,)))
    async with opened(listeners, tmp_path) as (address, path):
        site = Site(listeners, address, authority)
        answer = await site.get(path, tls=site.client())
        assert (answer.status, answer.headers["Server"]) == (status, "jobfeatures")
        with pytest.raises(OSError, match=r".*"):
            await site.get(path)
        [counted] = listeners.status().listeners
        assert (counted.name, counted.answers) == (name, {status: 1})


@pytest.mark.parametrize(("name", "opened", "status"), [("features", features, 200), ("sonar", sonar, 405)])
async def test_else_it_does_not(write_config, authority, tmp_path, name, opened, status):
    other = "sonar" if name == "features" else "features"
    listeners = Listeners(WebSettings(config_file=write_config(TLS), config_for=(other,)))
    async with opened(listeners, tmp_path) as (address, path):
        assert (await Site(listeners, address, authority).get(path)).status == status
