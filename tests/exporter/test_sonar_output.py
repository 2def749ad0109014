"""Documents of this machine: by command, and by the daemon through real sinks."""

import json
import logging
import os
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.formats.sonar.validate import validate_envelope
from jobfeatures.settings.resolve import load_config
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from tests.running import free_port, started, until

pytestmark = pytest.mark.program

CLUSTER = "hpc.example.org"
QUIET = ["--node.name", "n1", "--batch.sources", "", "--gpu.drivers", "none"]


@pytest.fixture(autouse=True)
def _logging_as_before():
    """A command sets up logging for its own process; here that is ours."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def run(capsys, *arguments):
    """Return status and the one document that a command prints."""
    status = main([*arguments, *QUIET])
    return status, json.loads(capsys.readouterr().out)


def test_a_flag_that_a_document_of_the_node_does_not_use_is_named(capsys, tmp_path):
    flag = f"--spool.directory={tmp_path}"
    main(["sonar", "sysinfo", "--cluster", CLUSTER, flag, *QUIET])
    assert (
        "--spool.directory is not used: sysinfo finds jobs by their control groups" in capsys.readouterr().err
    )
    main(["sonar", "sysinfo", "--cluster", CLUSTER, *QUIET])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("profile", ["current", "seed"])
@pytest.mark.parametrize("command", ["sample", "sysinfo"])
def test_a_command_prints_one_valid_document_and_nothing_else(capsys, command, profile):
    status, document = run(capsys, "sonar", command, "--cluster", CLUSTER, "--sonar.profile", profile)
    assert status == 0
    assert validate_envelope(document, profile=profile, strict=True) == []
    attributes = document["data"]["attributes"]
    assert (document["data"]["type"], attributes["cluster"], attributes["node"]) == (command, CLUSTER, "n1")


def test_a_sample_shows_this_process_at_work(capsys):
    """It burns CPU time while it is looked at, so both figures are above 0."""
    code = "while True: pass"
    with started([sys.executable, "-c", code]) as burner:
        _, document = run(capsys, "sonar", "sample", "--cluster", CLUSTER, "--no-sonar.exclude-system-jobs")
    processes = {
        each.get("pid"): each for job in document["data"]["attributes"]["jobs"] for each in job["processes"]
    }
    assert processes[burner.pid]["cpu_util"] > 1
    assert processes[burner.pid]["ppid"] == os.getpid()
    assert processes[os.getpid()]["resident_memory"] > 1024


def test_logs_go_to_standard_error_and_a_pipe_gets_json_alone():
    done = subprocess.run(
        [sys.executable, "-m", "jobfeatures_exporter", "sonar", "sysinfo", "--cluster", CLUSTER, *QUIET, "--log.level", "debug"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads(done.stdout)["data"]["type"] == "sysinfo"
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("command", ["sample", "sysinfo"])
def test_where_nothing_can_be_read_the_document_says_so_and_the_status_too(capsys, tmp_path, command):
    paths = ["--path.procfs", str(tmp_path), "--path.sysfs", str(tmp_path), "--path.cgroup", str(tmp_path)]
    status, document = run(capsys, "sonar", command, "--cluster", CLUSTER, *paths)
    assert status == 1
    assert document.keys() == {"meta", "errors"}
    assert validate_envelope(document, profile="current", strict=True) == []


def test_a_cluster_without_a_name_is_a_wrong_setting(capsys):
    assert main(["sonar", "sample", *QUIET]) == 2
    assert "sonar.cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["--cluster", "no cluster"], "sonar.cluster"),
        (["--cluster", CLUSTER, "--node.name", "under_score"], "node.name"),
    ],
)
def test_a_name_that_is_none_is_a_wrong_setting(capsys, arguments, key):
    assert main(["sonar", "sysinfo", *QUIET, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert key in printed.err


# --- the daemon ------------------------------------------------------------------------


class Server:
    """A real HTTP server that can be away."""

    def __init__(self) -> None:
        self.taken = []
        self.is_up = True
        self.refusals = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.is_up:
                    outer.taken.append((self.path, json.loads(body)))
                else:
                    outer.refusals += 1
                self.send_response(200 if outer.is_up else 503)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/api"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def make_daemon(tmp_path):
    made = []

    def make(**settings):
        flags = {
            "features.publish": "false",
            "batch.sources": "",
            "gpu.drivers": "none",
            "node.name": "n1",
            "sonar.cluster": CLUSTER,
            "sonar.sample_interval": "200ms",
            "sonar.topology": "",
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        made.append(Daemon(load_config(ExporterConfig, flags=flags, environ={})))
        made[-1].start()
        return made[-1]

    yield make
    for daemon in made:
        daemon.stop()


def test_the_daemon_sends_samples_and_its_configuration(make_daemon, server, tmp_path):
    daemon = make_daemon(
        sonar__sinks="http,tree", sonar__http_url=server.url, sonar__tree_directory=str(tmp_path / "tree")
    )
    until(lambda: len(server.taken) >= 4)
    kinds = dict(server.taken)
    assert kinds.keys() == {"/api/sample", "/api/sysinfo"}
    for document in kinds.values():
        assert validate_envelope(document, profile="current", strict=True) == []
    files = until(lambda: {path.name for path in (tmp_path / "tree").rglob("*.json")})
    assert files <= {"0+sample-n1.json", "0+sysinfo-n1.json"}
    text = daemon.exposition(openmetrics=False).decode()
    assert 'batch_exporter_sink_sent_total{sink="http",type="sample"}' in text
    assert 'batch_node_info{model="' in text


def test_what_a_server_missed_arrives_when_it_is_back_though_the_daemon_was_restarted(
    make_daemon, server, tmp_path
):
    server.is_up = False
    settings = {
        "sonar__sinks": "http",
        "sonar__http_url": server.url,
        "sonar__spool_directory": str(tmp_path / "spool"),
    }
    first = make_daemon(**settings)
    until(lambda: server.refusals and first.context().sinks[0].waiting >= 3)
    first.stop()
    waiting = sorted((tmp_path / "spool/http").glob("*.envelope"))
    assert len(waiting) >= 3
    stored = [json.loads(path.read_bytes().partition(b"\n")[2]) for path in waiting]
    server.is_up = True
    make_daemon(**settings)
    until(lambda: len(server.taken) >= len(stored))
    assert [document for _, document in server.taken[: len(stored)]] == stored


def test_one_daemon_shows_what_another_sends_it(make_daemon):
    page, documents = free_port(), free_port()
    argv = [
        sys.executable,
        "-m",
        "jobfeatures_exporter",
        "serve",
        "--web.listen-address",
        f"127.0.0.1:{page}",
    ]
    argv += ["--sonar.listen", f"127.0.0.1:{documents}", "--no-features.publish", *QUIET]
    with started(argv):
        make_daemon(
            node__name="c1-7", sonar__sinks="http", sonar__http_url=f"http://127.0.0.1:{documents}",
            sonar__sample_interval="1s",
        )  # fmt: skip

        def text():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{page}/sonar/metrics", timeout=30) as answer:
                    return answer.read().decode()
            except OSError:
                return ""

        shown = until(lambda: (found := text()) and 'node="c1-7"' in found and found)
    assert f'cluster="{CLUSTER}"' in shown


def test_a_scrape_goes_on_while_a_sink_hangs(make_daemon):
    daemon = make_daemon(sonar__sinks="http", sonar__http_url=f"http://127.0.0.1:{free_port()}")
    until(lambda: daemon.context().sinks[0].failed)
    assert 'batch_exporter_sink_spooled{sink="http"}' in daemon.exposition(openmetrics=False).decode()


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"sonar__sinks": "http"}, "sonar.http_url"),
        ({"sonar__sinks": "tree"}, "sonar.tree_directory"),
        ({"sonar__sinks": "stdout", "sonar__cluster": None}, "sonar.cluster"),
        ({"sonar__sinks": "stdout", "sonar__spool_max_bytes": "0"}, "sonar.spool_max_bytes"),
    ],
)
def test_settings_that_cannot_work_end_the_program_before_anything_starts(make_daemon, settings, key):
    with pytest.raises(ConfigurationError) as raised:
        make_daemon(**settings)
    assert raised.value.key == key
