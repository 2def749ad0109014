"""A node that is only scraped: what it never imports, for memory is the jobs', and how many series it has at rest."""

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.docs.pages import text_of
from tests.running import free_port

SERVED = """
import os, signal, socket, sys, threading, time

def scrape():
    host, port = sys.argv[1].split(":")
    page = b""
    while not all(b'source_up{source="%s"} 1' % each in page for each in (b"hooks", b"spool")):
        try:
            connection = socket.create_connection((host, int(port)), 60)
        except OSError:
            time.sleep(0.05)
            continue
        connection.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
        page = connection.makefile("rb").read()
    print(*sys.modules, flush=True)
    print(page.decode(), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=scrape, daemon=True).start()
from jobfeatures_exporter.cli import main
sys.exit(main(["serve", "--web.listen-address", *sys.argv[1:]]))
"""

ABSENT = {
    "batch systems that are not here": [
        *(f"jobfeatures.batch.{name}.source" for name in ("slurm", "lsf", "htcondor", "gridengine", "pbs")),
        *(
            "jobfeatures.batch.oar.source",
            "jobfeatures.batch.htcondor.scratch",
            "jobfeatures.formats.classad",
        ),
        *(f"jobfeatures.batch.{name}.groupnames" for name in ("slurm", "htcondor")),
    ],
    "what the controller role does": [
        *(
            "jobfeatures.records.administration",
            "jobfeatures.joblogs.loggedjob",
            "jobfeatures.records.schedulequality",
        ),
        *(f"jobfeatures_exporter.{name}" for name in ("controller", "cluster.sums")),
        *(
            f"jobfeatures_exporter.scrape.collectors.controller.{name}"
            for name in ("queue", "schedule", "scheduler", "fairshare")
        ),
    ],
    "what is not switched on": [
        *(f"jobfeatures_exporter.scrape.collectors.{name}" for name in ("processes", "gpudetail")),
        *(f"jobfeatures_exporter.scrape.profiles.{name}" for name in ("ceems", "jobstats", "treydock")),
        *(f"jobfeatures_exporter.sampling.power.{name}" for name in ("dcmi", "hwmon")),
        "jobfeatures_exporter.startup.receiver",
        *(f"jobfeatures_exporter.sinks.{name}" for name in ("keeper", "spool", "http", "kafka")),
        *("jobfeatures_exporter.sonar.sender", "jobfeatures.publish.cloudsource"),
    ],
    "GPUs": [
        *(
            f"jobfeatures_exporter.sampling.gpu.{name}"
            for name in ("nvidia", "amd", "intel", "drm", "fdinfo")
        ),
        *("pynvml", "pyrsmi"),
    ],
    "what people and other listeners ask for": [
        *("aiohttp", "jobfeatures_exporter.web.app", "jobfeatures_exporter.web.pages", "yaml", "bcrypt"),
        *("jobfeatures.publish.http.server", "jobfeatures_exporter.web.ownsocket"),
    ],
    "large modules of Python": [
        "email",
        "http.client",
        "multiprocessing",
        "platform",
        "urllib.request",
        "xml",
    ],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return the modules of a daemon on a node without jobs and GPUs once its sources have answered, and its lines."""
    folder = tmp_path_factory.mktemp("node")
    given = [f"127.0.0.1:{free_port()}", "--features.root", folder / "features", "--gpu.drivers", "none"]
    given += ["--batch.sources", "spool", "--spool.directory", folder]
    given += ["--path.cgroup", folder]  # without the jobs that other tests have on this machine
    done = subprocess.run([sys.executable, "-c", SERVED, *given], capture_output=True, text=True)
    modules, _, page = done.stdout.partition("\n")
    assert ("batch_node_cpu_seconds" in page, done.returncode) == (True, 0), done.stderr
    return set(modules.split()), [line for line in page.splitlines() if re.match(r"[a-z]\w+(\{.*\})? ", line)]


@pytest.mark.program
@pytest.mark.parametrize("what", ABSENT)
def test_a_node_that_is_only_scraped_imports_none_of(what, served):
    imported, _ = served
    assert "jobfeatures_exporter.scrape.collectors.node" in imported
    assert sorted(imported.intersection(ABSENT[what])) == []


@pytest.mark.program
def test_a_node_at_rest_has_as_many_series_as_the_pages_say(served):
    # Processes of other tests may be jobs here; of cores there are as many as the machine has.
    lines = [each for each in served[1] if not re.match(r"batch_job_|batch_node_core_|\w+_waste_", each)]
    [said] = re.findall(r"A node has about (\d+) series", text_of("docs/prometheus.md"))
    assert len(lines) == pytest.approx(int(said), abs=8), "\n".join(lines)
    assert len(lines) <= 90
    assert [each for each in lines if "reason=" in each and "process_reader" not in each] == []


def test_what_is_not_imported_is_there():
    ours = [each for names in ABSENT.values() for each in names if each.startswith("jobfeatures")]
    assert [each for each in ours if find_spec(each) is None] == []
