"""A pilot that was given addresses: `report` and `check` against a running daemon."""

import os
import re
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.running import free_port, started, until

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a job its token"),
]


@pytest.fixture
def daemon(tmp_path):
    """The metrics address and the environment of a daemon that serves features, with one job."""
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool/j1.xml").write_text(
        f"<Job><Id>j1</Id><State>Running</State><User>root</User><StartTime>{int(time.time()) - 60}</StartTime>"
        f"<Processors>1</Processors><TaskGroup><Task><Process>{os.getpid()}</Process></Task></TaskGroup></Job>"
    )
    metrics = f"127.0.0.1:{free_port()}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("JOB", "MACHINE"))}
    environ["JOBFEATURES_FEATURES_ROOT"] = str(tmp_path / "features")
    environ["JOBFEATURES_FEATURES_LISTEN_ADDRESS"] = f"127.0.0.1:{free_port()}"
    options = ["--batch.sources", "spool", "--spool.directory", str(tmp_path / "spool")]
    command = [
        sys.executable,
        "-m",
        "jobfeatures_exporter",
        "serve",
        *options,
        "--web.listen-address",
        metrics,
    ]
    with started(command, env=environ, stderr=subprocess.DEVNULL):
        yield metrics, environ


def run(environ, *arguments):
    command = [sys.executable, "-m", "jobfeatures", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def test_a_report_to_an_address_reaches_the_metrics_and_the_checker_finds_no_fault(daemon):
    metrics, environ = daemon
    lines = until(lambda: run(environ, "env", "--batch", "spool", "--job", "j1", "--http").stdout)
    told = dict(re.findall(r"export (\w+)=(\S+)", lines))
    assert told["JOBSTATUS"].startswith("http://")
    environ = {**environ, **told}
    until(lambda: run(environ, "report", "--used-cpu", "1", "--first-exp-job-end", "+3600").returncode == 0)
    assert run(environ, "report", "--can-postpone-last-job", "true").returncode == 0
    refused = run({**environ, "JOBFEATURES": ""}, "report", "--used-cpu", "9")
    assert refused.returncode == 2
    assert "more than the 1 allocated" in refused.stderr

    def shown():
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60) as response:
            page = response.read().decode()
        return 'batch_job_status_can_postpone{batch_system="spool",job_id="j1"} 1' in page

    until(shown)
    checked = run(environ, "check")
    assert checked.returncode == 1  # this job has no limits; the probe wants them
    assert set(re.findall(r"\[(http_\w+|status_\w+);", checked.stdout)) == set()
