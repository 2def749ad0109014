"""The pieces that are shipped beside each other: what one is set to, the others go by."""

import re
from pathlib import Path

import pytest
import yaml

from jobfeatures_exporter.config import ExporterConfig
from tests.docs.pages import blocks_of, queries_in

ROOT = Path(__file__).parents[2]
PROMETHEUS = yaml.safe_load((ROOT / "grafana/prometheus.yml").read_text())
ENDED = "batch_job_end_time_seconds"


def test_dashboards_know_the_interval_at_which_the_example_scrapes():
    """Grafana makes $__rate_interval of it: four of them, and a rate over one has nothing to compare."""
    [source] = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["jsonData"]["timeInterval"] == PROMETHEUS["global"]["scrape_interval"]


def test_the_controller_is_asked_where_its_service_listens():
    port = ExporterConfig().web_listen_address.rpartition(":")[2]
    unit = (ROOT / "packaging/systemd/jobfeatures-controller.service").read_text()
    assert "listen-address" not in unit  # so it is the default's port, here and on the pages
    jobs = {each["job_name"]: each for each in PROMETHEUS["scrape_configs"]}
    [discovery] = jobs["batch_nodes"]["http_sd_configs"]
    asked = [discovery["url"], *jobs["batch_controller"]["static_configs"][0]["targets"]]
    asked += re.findall(r"controller\.example\.org:[0-9]+/sd", (ROOT / "docs/controller.md").read_text())
    assert {re.search(r":([0-9]+)(?:/|\Z)", each)[1] for each in asked} == {port}
    assert len(asked) > 2


def test_the_certificate_that_is_made_has_the_name_by_which_nodes_are_listed():
    page = (ROOT / "docs/security.md").read_text()
    [names] = re.findall(r'subjectAltName=([^"]+)"', page)
    assert ExporterConfig().cluster.sd_host == "name"
    assert "DNS:$(hostname -s)" in names.split(",")  # what node.name is, where it is not set


@pytest.mark.parametrize("page", ["README.md", "docs/examples.md"])
def test_queries_about_what_jobs_hold_leave_out_those_that_have_ended(page):
    asked = [
        query
        for block in blocks_of("promql")
        if block.place.startswith(page)
        for query in queries_in(block)
        if "batch_job_allocated_cpus" in query or "batch_job_cpu_seconds_total" in query
    ]
    assert asked
    assert [query for query in asked if ENDED not in query] == []
