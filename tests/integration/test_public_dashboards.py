"""Queries of public dashboards give numbers over the names of other exporters, in a real Prometheus.

`JOBFEATURES_DATA` may hold ``dashboards/PROFILE``, which is not ours to distribute: dashboards (``*.json``), queries
filled in by hand, one a line (``*.promql``), and recording rules (``*.yml``). Tried with Jobstats'
grafana/Single_Job_Stats.json (dfc9aa0, 2026-06-13), CEEMS' slurm-single-job-metrics.json (14be007, 2025-08-07), and
96 queries and 17 rules of TrailblazingTurtle (8f24fd6, 2026-04-28): 79 ask for names that are told, `cluster` is a label
of the scrape there, and one is for programs outside /cvmfs, which the page has none of.
Which names each panel asks for stands in docs/dashboards.py.
"""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jobfeatures_exporter.scrape.profiles import PROFILES

pytestmark = pytest.mark.integration
GOLDEN = Path(__file__).parents[1] / "fixtures/golden/profiles"
FOLDER = Path(os.environ.get("JOBFEATURES_DATA", "/none")) / "dashboards"
JOB = "1234"  # of the golden pages: on control groups v2, with one GPU and a MIG instance of another
CLUSTER = {"target_label": "cluster", "replacement": "c"}
VALUES = {"JobID": JOB, "jobid": JOB, "host": ".*", "gpu": ".*", "interval": "1m", "__rate_interval": "1m"}


def queries(dashboard: object) -> Iterator[str]:
    """Yield the expressions of all panels."""
    if isinstance(dashboard, dict):
        if dashboard.get("expr"):
            yield dashboard["expr"]
        dashboard = list(dashboard.values())
    if isinstance(dashboard, list):
        for each in dashboard:
            yield from queries(each)


def filled(expression: str) -> str:
    """Return an expression with values for Grafana's variables."""
    return re.sub(
        r"\$\{(\w+)\}|\$(\w+)", lambda found: VALUES.get(found[1] or found[2], found[0]), expression
    )


@pytest.fixture
def serve():
    """Return a function that serves a page as an exporter, its counters growing, and returns the address."""
    started = []

    def start(page: str) -> str:
        began = time.monotonic()

        def grown(line: str) -> str:
            name, _, value = line.rpartition(" ")
            secs = time.monotonic() - began
            return f"{name} {float(value) + secs}" if re.match(r"(?!#)\w+_total\b", line) else line

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write("".join(f"{grown(line)}\n" for line in page.splitlines()).encode())

            def log_message(self, *_words: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"127.0.0.1:{server.server_port}"

    yield start
    for each in started:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize("profile", ["jobstats", "ceems", "slurm-job-exporter"])
def test_queries_for_names_that_are_told_give_numbers(profile, serve, prometheus, until):
    folder = FOLDER / profile
    asked = [
        filled(query)
        for file in sorted(folder.glob("*.json"))
        for query in queries(json.loads(file.read_text()))
    ]
    asked += [line for file in sorted(folder.glob("*.promql")) for line in file.read_text().splitlines()]
    if not asked:
        pytest.skip(f"JOBFEATURES_DATA has no dashboards/{profile}")
    rules = sorted(folder.glob("*.yml"))
    recorded = {name for file in rules for name in re.findall(r"record\W+([\w:]+)", file.read_text())}
    told = {metric.sample_name for metric in PROFILES[profile].metrics} | recorded
    ask = prometheus(
        serve((GOLDEN / f"{profile}.txt").read_text()), client={"relabel_configs": [CLUSTER]}, rules=rules
    )
    until(lambda: ask("count_over_time(up[1m]) > 8"))
    known = [each for each in asked if told.issuperset(names := re.findall(r"[\w:]+(?=\{)", each)) and names]
    assert len(known) > 5
    assert [query for query in known if not ask(query)] == []
    assert [name for name in recorded if not ask(name)] == []
