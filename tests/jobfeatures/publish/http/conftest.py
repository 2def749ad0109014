"""A listener on a tree with one job, and readers that block as those of jobs do."""

from __future__ import annotations

import asyncio
import http.client
import os
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from jobfeatures.publish.http import server as module
from jobfeatures.publish.http.connectiontable import ConnectionLimits, ConnectionTable
from jobfeatures.publish.http.server import FeatureServer
from jobfeatures.publish.http.webserver import listening
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey

KEY = JobKey("slurm", "12")


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Site:
    """A tree with one job, its listener, and what it answers."""

    def __init__(self, tree: FeatureTree, token: str, server: FeatureServer, address: str) -> None:
        self.tree, self.token, self.server, self.address = tree, token, server, address
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.url = f"http://{address}"
        self.job = f"/jobfeatures/{token}"
        self.status = f"/jobstatus/{token}"
        self.status_folder = tree.status_path(KEY)

    async def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send one request in a thread; underscores in headers' names stand for dashes."""
        return await asyncio.to_thread(self._ask, method, path, body, headers)

    def _ask(self, method, path, body, headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(
                method, path, body, {name.replace("_", "-"): value for name, value in headers.items()}
            )
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.ask("GET", path, **headers)


@pytest.fixture
def tree(tmp_path):
    made = FeatureTree(str(tmp_path / "features"))
    made.prepare()
    made.write_machine({"total_cpu": "8", "shutdowntime": "1900000000"})
    made.write_job(KEY, {"allocated_cpu": "4", "wall_limit_secs": "420"})
    made.make_status(KEY, os.getuid())
    return made


@pytest.fixture
def serve(tree, monkeypatch):
    """Return a context manager that serves the tree, with limits of one's own."""

    @asynccontextmanager
    async def serve_tree(tls=None, **limits):
        token = tree.make_token(KEY)
        for name, limit in {"job_rate": 10_000.0, **limits}.items():
            monkeypatch.setattr(module, name.upper(), limit)
        bounds = ConnectionLimits(connections=module.CONNECTIONS, idle_secs=module.IDLE_SECS)
        monkeypatch.setattr(FeatureServer, "limits", bounds)
        server = FeatureServer(tree)
        table = ConnectionTable(bounds)
        async with listening(server, "127.0.0.1:0", tls, table=table) as address:
            site = Site(tree, token, server, address)
            site.connections = table
            yield site

    return serve_tree


@pytest.fixture
async def site(serve):
    async with serve() as served:
        yield served
