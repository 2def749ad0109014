"""Where `top` asks, what it takes for the page of a node, and whose processes it reads."""

import os
import socket
from pathlib import Path

import pytest

from jobfeatures.errors import ParseError, SourceError
from jobfeatures.records.metrics import NODE_READ_AT
from jobfeatures.settings.access import Access
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.sampling.host.procfs import read_stat
from jobfeatures_exporter.top import pages as module
from jobfeatures_exporter.top.pages import DaemonPages, address_of, is_here, metrics_address, parse_page

GOLDEN = Path(__file__).parents[2] / "fixtures/golden"


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://n1:9819", "http://n1:9819/metrics"),
        ("http://n1:9819/", "http://n1:9819/metrics"),
        ("http://n1:9819/metrics", "http://n1:9819/metrics"),
        ("http://n1:9819/metrics/", "http://n1:9819/metrics/"),
        ("https://proxy/nodes/n1/", "https://proxy/nodes/n1/metrics"),
        ("https://proxy/scrape?target=n1", "https://proxy/scrape?target=n1"),
        ("http://[::1]:9819", "http://[::1]:9819/metrics"),
    ],
)
def test_the_address_of_a_daemon_leads_to_its_metrics(given, asked):
    assert metrics_address(given) == asked


def test_the_own_daemon_is_asked_where_it_listens():
    assert address_of(":9819") == address_of("0.0.0.0:9819") == "http://127.0.0.1:9819/metrics"


def test_the_page_of_a_node_is_taken():
    page = (GOLDEN / "metrics.txt").read_text(encoding="utf-8")
    assert parse_page(page).one(NODE_READ_AT) == 1799999999.75


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!DOCTYPE html>\n<title>n1</title>", "not a metrics page of jobfeatures-exporter, but begins with '<!DOCTYPE html>'"),
        ("", "not a metrics page of jobfeatures-exporter, but begins with ''"),
        ("# HELP go_gc_duration_seconds A summary\n", "jobfeatures-exporter, but begins with '# HELP go_gc"),
        ('batch_exporter_source_up{source="slurm-queue"} 1\nbatch_queue_jobs 7\n', "name the daemon of one node"),
    ],
)  # fmt: skip
def test_what_is_no_page_of_a_node_is_refused(page, said):
    with pytest.raises(SourceError, match=r"http://n1: ") as caught:
        parse_page(page, source="http://n1")
    assert said in str(caught.value)


def test_a_broken_page_is_named_with_its_line():
    with pytest.raises(ParseError, match="http://n1"):
        parse_page("batch_node_cores x\n", source="http://n1")


def test_a_daemon_is_of_this_machine_by_its_address_and_its_time_of_boot():
    booted = read_stat("/proc").boot_time_secs + 1.0
    assert is_here("http://127.0.0.1:9819/metrics", booted)
    assert is_here(f"http://{socket.gethostname()}:9819/metrics", booted)
    assert is_here("http://[::1]:9819/metrics", booted)
    assert not is_here("http://other:9819/metrics", booted)
    assert not is_here("http://127.0.0.1:9819/metrics", booted + 60)  # a tunnel to another
    assert not is_here("http://127.0.0.1:9819/metrics", None)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9820/metrics", "its page lists them: http://127.0.0.1:9820/"),
        ("unix:/run/own.sock", "top --local queries the batch systems, too"),
    ],
)
def test_a_job_without_a_control_group_is_listed_by_its_page(url, said):
    """As in the demonstration: only the daemon knows which process its batch system named."""
    made = DaemonPages(Access(url), load_config(ExporterConfig, flags={}, file=None))
    assert made.without_processes == f"none found by its control group; {said}"


def test_all_processes_are_listed(monkeypatch):
    monkeypatch.setattr(module, "is_here", lambda *_, **_more: True)
    made = DaemonPages(
        Access("http://127.0.0.1:9819/metrics"), load_config(ExporterConfig, flags={}, file=None)
    )
    assert os.getpid() in made.processes().processes
    made.close()
