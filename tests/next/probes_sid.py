"""What Prometheus does by itself; `.ci/run next` runs it with the one of Debian's sid, first on PATH.

Each test is named by a line of docs/behaviour.toml and fails where Prometheus does otherwise by now.
"""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PAGES = {
    "/good": "a 1\n",
    "/twice": "b 1\nb 2\nb 1\n",
    "/info": '# TYPE c info\nc{version="1"} 1\n',
    "/hex": "d 0x1F\n",
}
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Site:
    """A web server with pages, and a list of targets that is answered as it is set."""

    def __init__(self) -> None:
        self.discovery = (200, "[]")
        self.asked: Counter[str] = Counter()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path] += 1
                is_list = self.path == "/sd"
                status, body = site.discovery if is_list else (200, PAGES[self.path])
                self.send_response(status)
                self.send_header("Content-Type", "application/json" if is_list else TEXT)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_words: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, discovery: tuple[int, str]) -> None:
        """Answer so from now on; return when it has been asked for twice."""
        self.discovery = discovery
        asked = self.asked["/sd"]
        wait(lambda: self.asked["/sd"] > asked + 2)


def wait(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.server.shutdown()


@pytest.fixture(scope="module")
def ask(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], list[dict]]]:
    """Start Prometheus; return a function that queries it."""
    folder = tmp_path_factory.mktemp("prometheus")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    pages = [
        {
            "job_name": path[1:],
            "metrics_path": path,
            "scrape_interval": "1s",
            "static_configs": [{"targets": [site.address]}],
        }
        for path in PAGES
    ]
    listed = {"url": f"http://{site.address}/sd", "refresh_interval": "1s"}
    found = {
        "job_name": "found",
        "metrics_path": "/good",
        "scrape_interval": "1s",
        "http_sd_configs": [listed],
    }
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [*pages, found]}))
    command = [
        *("prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"),
        f"--web.listen-address={address}",
    ]

    def ask(path: str) -> list[dict]:
        try:
            with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=20) as response:
                data = json.load(response)["data"]
        except OSError:
            return []
        return data["activeTargets" if path.startswith("targets") else "result"]

    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        wait(lambda: any(each["lastScrape"] > "1" for each in ask("targets?state=active")))
        yield ask
        server.terminate()
    print((folder / "log").read_text()[-3000:])


def value_of(ask: Callable[[str], list[dict]], expression: str) -> float | None:
    found = ask("query?" + urllib.parse.urlencode({"query": expression}))
    return float(found[0]["value"][1]) if found else None


def targets_found(ask: Callable[[str], list[dict]]) -> int:
    return sum(each["labels"]["job"] == "found" for each in ask("targets?state=active"))


def one(site: Site, **labels: object) -> str:
    return json.dumps([{"targets": [site.address], "labels": labels}])


def test_http_sd_takes_a_list_whole_and_keeps_it_on_errors(site: Site, ask):
    site.answer((200, one(site, node="n1")))
    wait(lambda: targets_found(ask) == 1)
    for answer in ((500, "[]"), (503, "no"), (200, "")):
        site.answer(answer)
        assert targets_found(ask) == 1
    site.answer((200, "[]"))
    wait(lambda: targets_found(ask) == 0)


def test_http_sd_refuses_a_list_with_one_bad_entry(site: Site, ask):
    site.answer((200, one(site, node="n1")))
    wait(lambda: targets_found(ask) == 1)
    good = json.loads(one(site, node="n2"))
    for bad in ({**good[0], "labels": {"node": 2}}, {**good[0], "extra": 1}):
        site.answer((200, json.dumps([*good, {"targets": ["127.0.0.1:1"]}, bad])))
        assert targets_found(ask) == 1
    site.answer((200, "[]"))
    wait(lambda: targets_found(ask) == 0)


def test_a_series_that_is_there_twice_costs_no_scrape(ask):
    wait(lambda: value_of(ask, 'up{job="twice"}') is not None)
    assert value_of(ask, 'up{job="twice"}') == 1
    wait(lambda: value_of(ask, "b") is not None)
    assert value_of(ask, "b") == 1


def test_numbers_in_base_16_and_info_in_text_cost_the_scrape(ask):
    for job in ("info", "hex"):
        wait(lambda job=job: value_of(ask, f'up{{job="{job}"}}') is not None)
        assert value_of(ask, f'up{{job="{job}"}}') == 0


def test_promtool_names_repeats_and_wrong_suffixes(tmp_path: Path):
    page = "# HELP d D.\n# TYPE d gauge\nd 1\nd 1\n# HELP e_total E.\n# TYPE e_total gauge\ne_total 1\n"
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
    assert done.returncode == 3
    assert 'e_total non-counter metrics should not have "_total" suffix' in done.stderr
    assert "d metric not unique" in done.stderr
