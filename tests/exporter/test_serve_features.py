"""The daemon with its listener for features: a job from its publication to the figures of its waste."""

import json
import os
import pwd
import re
import stat
import sys
import time
import urllib.error
import urllib.request

import pytest

from jobfeatures.cli import main
from jobfeatures.client import Features
from jobfeatures.records.model import Job, JobKey, JobState, Limits
from jobfeatures_exporter.cli import main as exporter_main
from tests.jobfeatures.formats.sss.jobwriter import format_job
from tests.running import PATIENCE_SECS, free_port, started, until

pytestmark = pytest.mark.program

KEY = JobKey("spool", "pilot.1")


@pytest.fixture
def daemon(tmp_path):
    """Start `serve` with the listener on; gives the folders and the two addresses."""
    spool = tmp_path / "spool"
    spool.mkdir()
    root = tmp_path / "features"
    web, features = (f"127.0.0.1:{free_port()}" for _ in range(2))
    argv = [sys.executable, "-X", "importtime", "-m", "jobfeatures_exporter", "serve"]
    argv += ["--batch.sources", "spool"]
    argv += ["--spool.directory", str(spool), "--features.root", str(root), "--sample.interval", "1s"]
    argv += ["--web.listen-address", web, "--features.listen-address", features, "--features.form", "http"]
    log = tmp_path / "log"  # a pipe that nobody reads could be full
    with log.open("w") as output, started(argv, stderr=output) as process:
        until(lambda: process.poll() is not None or answers(f"http://{web}/-/ready"))
        yield type(
            "Running", (), {"spool": spool, "root": root, "web": web, "features": features, "log": log}
        )
        process.terminate()
        status = process.wait(PATIENCE_SECS)
    assert status == 0, log.read_text()
    assert "Traceback" not in log.read_text()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.read().decode()
    except OSError:
        return None


def request(method, url, body):
    sent = urllib.request.Request(url, body, method=method)
    with urllib.request.urlopen(sent, timeout=60) as response:
        return response.status


def start_job(daemon):
    now = int(time.time())
    job = Job(
        key=KEY,
        state=JobState.RUNNING,
        user=pwd.getpwuid(os.getuid()).pw_name,
        uid=os.getuid(),
        start_secs=now - 600,
        allocated_cpus=8,
        limits=Limits(wall_secs=7200),
        processes=frozenset({os.getpid()}),
    )
    temporary = daemon.spool / ".new"
    temporary.write_text(format_job(job))
    temporary.rename(daemon.spool / "pilot.1.xml")
    exports = daemon.root / "exports" / KEY.directory_name
    until(exports.exists)
    assert stat.S_IMODE(exports.stat().st_mode) == 0o400
    lines = exports.read_text().splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


def test_a_job_reads_its_features_and_tells_its_status_over_http(daemon, capsys, monkeypatch):
    environ = start_job(daemon)
    features = Features.from_environment(environ)
    assert features.get("machine", "total_cpu") == str(os.cpu_count())
    assert features.get("job", "allocated_cpu") == "8"
    assert features.get("job", "wall_limit_secs") == "7200"
    assert features.remaining(time.time()).seconds > 6000

    now = int(time.time())
    status = {"used_CPU": 5, "last_job_start": now - 600, "add_uncom_time": 500}
    status |= {"first_exp_job_end": now + 3600, "last_exp_job_end": now + 4000, "add_final_exp_waste": 1200}
    assert request("PUT", environ["JOBSTATUS"], json.dumps(status).encode()) == 204
    assert (daemon.root / "jobstatus" / KEY.directory_name / "used_CPU").read_text() == "5\n"

    def reported():
        page = answers(f"http://{daemon.web}/metrics") or ""
        found = [
            line for line in page.splitlines() if 'basis="reported"' in line and 'job_id="pilot.1"' in line
        ]
        values = {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in found}
        return values if "batch_job_kill_waste_core_seconds" in values else None

    waste = until(reported)
    # The worked example of the draft's formulas: 3 idle × 3600 s + 1200, and 500 + 5 × 600 s.
    assert waste["batch_job_draining_waste_core_seconds"] == pytest.approx(12000, abs=150)
    assert waste["batch_job_kill_waste_core_seconds"] == pytest.approx(3500, abs=250)

    monkeypatch.setenv("JOBFEATURES_FEATURES_ROOT", str(daemon.root))
    arguments = ["env", "--batch", "spool", "--job", "pilot.1"]
    assert main([*arguments, "--http"]) == 0
    urls = capsys.readouterr().out
    assert f"export JOBFEATURES={environ['JOBFEATURES']}\n" in urls
    assert main(arguments) == 0  # as features.form says
    assert capsys.readouterr().out == urls
    assert main([*arguments, "--local"]) == 0
    assert f"export JOBFEATURES={daemon.root}/jobfeatures/spool-pilot.1\n" in capsys.readouterr().out

    (daemon.spool / "pilot.1.xml").unlink()
    until(lambda: answers(f"{environ['JOBFEATURES']}/job_id") is None)
    assert 'batch_features_http_answers_total{status="204"} 1' in answers(f"http://{daemon.web}/metrics")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        request("PUT", environ["JOBSTATUS"], json.dumps(status).encode())


def test_env_says_so_where_a_job_has_no_addresses(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JOBFEATURES_FEATURES_ROOT", str(tmp_path / "features"))
    assert main(["env", "--batch", "slurm", "--job", "1", "--http"]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--features.form", "http"], "features.form"),
        (["--features.listen-address", "127.0.0.1:0"], "features.listen_address"),
    ],
)
def test_a_listener_that_cannot_be_is_a_wrong_setting(arguments, named, tmp_path, capsys):
    base = ["--batch.sources", "", "--features.root", str(tmp_path), "--web.listen-address", "127.0.0.1:0"]
    assert exporter_main(["serve", *base, *arguments]) == 2
    assert named in capsys.readouterr().err


def test_a_daemon_that_is_scraped_has_loaded_nothing_that_only_others_need(daemon):
    """Each costs every node its memory: psutil 4 MiB."""
    assert "batch_node_cores" in answers(f"http://{daemon.web}/metrics")
    loaded = set(re.findall(r"(?m)^import time: .*\| +(\S+)$", daemon.log.read_text()))
    assert "jobfeatures_exporter.node.daemon" in loaded
    assert loaded & {"psutil", "textual", "rich", "numpy", "matplotlib", "prometheus_client"} == set()
