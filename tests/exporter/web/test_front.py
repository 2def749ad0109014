"""The page as it is served: when it is made, what it may load, what it costs."""

import asyncio
import re
import subprocess
import sys
import threading

import pytest
from aiohttp import web

from jobfeatures.status.board import StatusView
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.web import app as front
from jobfeatures_exporter.web.app import KINDS, front_routes, read_asset
from jobfeatures_exporter.web.pages import CONTENT_SECURITY_POLICY
from tests.configured import configured


class StandIn:
    """Counts how often the page is made, and how many at once."""

    def __init__(self, wait=None):
        self.made, self.at_once, self.most_at_once = 0, 0, 0
        self.wait = wait
        self.lock = threading.Lock()

    def html(self, asked=None):
        with self.lock:
            self.made += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        if self.wait is not None:
            self.wait.wait(60)
        with self.lock:
            self.at_once -= 1
        return f"<p>page {self.made}</p>"


@pytest.fixture
def client_of(aiohttp_client):
    async def make(shown):
        app = web.Application()
        app.add_routes(front_routes(shown))
        return await aiohttp_client(app)

    return make


async def test_pages_that_are_asked_for_at_once_are_one(client_of):
    go = threading.Event()
    shown = StandIn(go)
    client = await client_of(shown)
    asked = [asyncio.create_task(client.get("/")) for _ in range(20)]
    while not shown.made:
        await asyncio.sleep(0.01)
    go.set()
    texts = {await (await each).text() for each in asked}
    assert shown.most_at_once == 1
    assert len(texts) == shown.made <= 3  # one, unless the machine stood still for seconds


async def test_a_later_page_is_a_new_one(client_of, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(front.time, "monotonic", lambda: now[0])
    shown = StandIn()
    client = await client_of(shown)
    first = await (await client.get("/")).text()
    assert await (await client.get("/")).text() == first
    now[0] += front.MIN_INTERVAL_SECS
    assert await (await client.get("/")).text() != first
    assert shown.made == 2


async def test_a_page_that_could_not_be_made_is_made_anew(client_of):
    class Failing(StandIn):
        def html(self, asked=None):
            self.made += 1
            if self.made == 1:
                raise RuntimeError
            return "<p>well</p>"

    client = await client_of(Failing())
    assert (await client.get("/")).status == 500
    assert await (await client.get("/")).text() == "<p>well</p>"


async def test_the_page_may_load_its_own_files_and_nothing_else(client_of):
    client = await client_of(StandIn())
    response = await client.get("/")
    assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
    assert "'unsafe" not in CONTENT_SECURITY_POLICY
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-store"


async def test_the_page_is_compressed_for_who_takes_that(client_of):
    client = await client_of(StandIn())
    response = await client.get("/", headers={"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert await response.text() == "<p>page 1</p>"
    plain = await client.get("/", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    assert await plain.text() == "<p>page 1</p>"


async def test_a_job_that_nobody_knows_has_a_page_in_words_and_the_status_of_one_that_is_not_there(client_of):
    class Empty(StandIn):
        def html(self, asked=None):
            return None

    response = await (await client_of(Empty())).get("/job/%3Cb%3E7")
    text = await response.text()
    assert (response.status, response.content_type) == (404, "text/html")
    assert "is unknown here" in text
    assert "&lt;b&gt;7" in text
    assert 'href="../"' in text


@pytest.mark.parametrize("name", KINDS)
async def test_the_files_of_the_page_are_served_as_what_they_are(client_of, name):
    response = await (await client_of(StandIn())).get(f"/{name}")
    assert response.status == 200
    assert response.content_type == KINDS[name]
    assert await response.text() == read_asset(name)


@pytest.mark.parametrize("path", ["/page.py", "/pages/page.css", "/node.py"])
async def test_no_other_file_is_served(client_of, path):
    assert (await (await client_of(StandIn())).get(path)).status == 404


@pytest.mark.program
def test_a_daemon_whose_page_nobody_opens_has_nothing_of_it_in_memory():
    code = "import sys, jobfeatures_exporter.startup.serve, jobfeatures_exporter.node.daemon, jobfeatures_exporter.controller.daemon, jobfeatures_exporter.web.app; print(*sys.modules)"
    loaded = loaded_by(code)
    assert "jobfeatures_exporter.web.app" in loaded
    assert not {
        name
        for name in loaded
        if name.startswith(("jobfeatures_exporter.web.pages", "jobfeatures_exporter.cluster.overview"))
    }
    assert "jobfeatures_exporter.cluster.draincurves" not in loaded


@pytest.mark.program
def test_the_daemon_of_a_node_has_in_memory_only_what_it_needs():
    loaded = loaded_by("import sys, jobfeatures_exporter.startup.serve; print(*sys.modules)")
    assert "jobfeatures_exporter.node.daemon" in loaded
    unneeded = {
        *("numpy", "matplotlib", "yaml", "bcrypt", "rich", "tqdm"),
        *("importlib.metadata", "importlib.resources"),  # 2 MB
        *(
            "jobfeatures_exporter.controller.daemon",
            "jobfeatures_exporter.controller.livequality",
            "jobfeatures_exporter.startup.receiver",
        ),
        *(
            "jobfeatures_exporter.web.configfile.options",
            "jobfeatures_exporter.web.configfile.basicauth",
            "jobfeatures_exporter.sonar.sender",
        ),
        *(
            "jobfeatures.publish.http.server",
            "jobfeatures.analysis.schedule.live.ongoing",
            "jobfeatures.analysis.simulate",
        ),
    }
    assert unneeded & loaded == set()


def loaded_by(code):
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(output.stdout.split())


@pytest.fixture
def daemon(tmp_path):
    made = Daemon(
        configured(
            features_root=str(tmp_path / "features"),
            batch_sources=("spool",),
            spool_directory=str(tmp_path),
            sample_interval_secs=3600.0,
            node_name="n1.example",
        )
    )
    yield made
    made.stop()


def test_opening_the_page_takes_no_sample_while_the_last_one_is_recent(daemon):
    requested = []
    daemon.sampling.sample()
    daemon.board.samples.wanted.set = lambda: requested.append("a sample")
    text = daemon.html()
    assert requested == []
    assert re.search(r"<h1>n1\.example</h1>", text)
    assert "logical cores" in text


def test_a_page_without_any_sample_in_time_says_so(daemon, monkeypatch):
    monkeypatch.setattr(daemon.board.samples, "wait_for_fresh", lambda *_: None)
    assert "not read yet" in daemon.html()


def test_names_that_are_withheld_are_not_on_the_page(tmp_path, make_job):
    daemon = Daemon(
        configured(
            features_root=str(tmp_path / "features"),
            batch_sources=("spool",),
            spool_directory=str(tmp_path),
            privacy="withhold",
        )
    )
    job = make_job(user="geheimrat", name="secret-project", account="hidden")
    daemon.board.jobs = {job.key: job}
    daemon.board.statuses.view = {
        job.key: StatusView(problem="status: belongs to uid 1896543217, not to 1896543218")
    }
    daemon.sampling.sample()
    text = daemon.html()
    daemon.stop()
    assert job.key.job_id in text
    assert not re.search("geheimrat|secret-project|hidden|189654321", text)
