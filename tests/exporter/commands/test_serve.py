"""What a node that is only scraped never imports: its memory is the jobs', and it starts at every boot."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.running import free_port

SERVED = """
import os, signal, socket, sys, threading, time

def scrape():
    host, port = sys.argv[1].split(":")
    while True:
        try:
            connection = socket.create_connection((host, int(port)), 60)
            break
        except OSError:
            time.sleep(0.05)
    connection.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
    page = connection.makefile("rb").read()
    print(b"batch_node_cpu_seconds" in page, *sys.modules, flush=True)
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
        *(
            f"jobfeatures_exporter.{name}"
            for name in ("sampling.exits.taskstats", "sampling.exits.exitcounts", "startup.receiver")
        ),
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
def imported(tmp_path_factory):
    """Return the modules of a daemon on a node without jobs and GPUs, after its first scrape."""
    folder = tmp_path_factory.mktemp("node")
    given = [f"127.0.0.1:{free_port()}", "--features.root", folder / "features", "--gpu.drivers", "none"]
    given += ["--batch.sources", "spool", "--spool.directory", folder]
    given += ["--path.cgroup", folder]  # without the jobs that other tests have on this machine
    done = subprocess.run([sys.executable, "-c", SERVED, *given], capture_output=True, text=True)
    shown, *modules = done.stdout.split()
    assert (shown, done.returncode) == ("True", 0), done.stderr
    return set(modules)


@pytest.mark.program
@pytest.mark.parametrize("what", ABSENT)
def test_a_node_that_is_only_scraped_imports_none_of(what, imported):
    assert "jobfeatures_exporter.scrape.collectors.node" in imported
    assert sorted(imported.intersection(ABSENT[what])) == []


def test_what_is_not_imported_is_there():
    ours = [each for names in ABSENT.values() for each in names if each.startswith("jobfeatures")]
    assert [each for each in ours if find_spec(each) is None] == []
