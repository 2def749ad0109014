"""The daemon with what comes in: from a request and a file to the page."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from jobfeatures_exporter.cli import main
from jobfeatures_exporter.model.snapshot import Kind
from jobfeatures_exporter.startup.receiver import PATH, Ingest
from jobfeatures_exporter.startup.serve import make_ingest
from jobfeatures_exporter.web.listener import Listeners
from tests.configured import configured


class Scraped:
    """Stands for the daemon, whose own pages are not asked for."""

    is_ready = True

    def problems(self):
        return []

    def exposition(self, *, openmetrics, web=None):
        return b""


def config(**changes):
    everything = {"jobs_kinds": tuple(each.value for each in Kind), "metrics_max_series": 0}
    return configured(**everything | changes)


@pytest.mark.parametrize("users", [False, True])
async def test_what_is_posted_and_what_lies_in_the_folder_is_on_the_page(users, make, site, tmp_path):
    password = tmp_path / "users"
    password.write_text("one:secret\n")
    password.chmod(0o600)
    day = tmp_path / "tree" / "2027" / "01" / "15"
    day.mkdir(parents=True)
    (day / "0+sample-c1-8.json").write_text(json.dumps(make.sample("c1-8")))
    made = config(
        sonar_listen="127.0.0.1:0",
        sonar_directory=str(tmp_path / "tree"),
        sonar_users_file=str(password) if users else None,
    )
    ingest = Ingest(made, site.clock)
    async with (
        Listeners().serving(Scraped(), "127.0.0.1:0", ingest.routes) as web,
        ingest.running(Listeners()) as address,
        aiohttp.ClientSession() as session,
    ):
        headers = {"Content-Type": "application/json"}
        if users:
            headers["Authorization"] = "Basic b25lOnNlY3JldA=="  # one:secret
        async with session.post(f"http://{address}/sample", json=make.sample(), headers=headers) as answer:
            assert answer.status == 200
        text = ""
        async with asyncio.timeout(60):
            while 'node="c1-8"' not in text:
                async with session.get(f"http://{web}{PATH}") as answer:
                    text = await answer.text()
                    assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert 'node="c1-7"' in text


def test_nothing_listens_and_no_page_is_there_unless_asked_for():
    assert make_ingest(config()) is None


@pytest.mark.parametrize("role", ["node", "controller"])
@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--sonar.listen", ":9821"], "sonar.listen: an address other than loopback needs passwords"),
        (["--sonar.listen", "0.0.0.0:9821"], "sonar.listen: an address other than loopback needs passwords"),
        (
            ["--sonar.listen", "127.example.org:9821"],
            "sonar.listen: an address other than loopback needs passwords",
        ),
        (["--sonar.listen", "127.0.0.1:9821", "--sonar.users-file", "/no/such"], "sonar.users_file"),
        (["--sonar.max-nodes", "0"], "sonar.max_nodes"),
    ],
)
def test_settings_that_contradict_each_other_are_named(role, flags, named, capsys):
    assert main(["check-config", "--role", role, *flags]) == 2
    assert named in capsys.readouterr().err


async def test_the_producer_of_limits_in_minutes_is_taken_from_the_settings(make, site):
    document = make.envelope("job", slurm_jobs=[make.job(time_limit=62)])
    document["meta"]["producer"] = "slurm-monitor"
    made = config(sonar_listen="127.0.0.1:0", sonar_minutes_from="slurm-monitor")
    ingest = Ingest(made, site.clock)
    async with (
        Listeners().serving(Scraped(), "127.0.0.1:0", ingest.routes) as web,
        ingest.running(Listeners()) as address,
        aiohttp.ClientSession() as session,
    ):
        for kind, each in (("sample", make.sample()), ("job", document)):
            async with session.post(f"http://{address}/{kind}", json=each) as answer:
                assert answer.status == 200
        async with session.get(f"http://{web}{PATH}") as answer:
            text = await answer.text()
    [line] = [each for each in text.splitlines() if each.startswith("batch_job_wall_limit_seconds{")]
    assert line.endswith(" 3600")
