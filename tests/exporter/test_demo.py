"""The demonstration as its user runs it: started, scraped, ended."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import psutil
import pytest

from tests.running import until

pytestmark = pytest.mark.program


@pytest.fixture
def start_demo(tmp_path):
    """Return a function that starts the demo with a folder of its own for temporary files."""
    started, said = [], []

    def start(*arguments, listen=("--web.listen-address", "127.0.0.1:0")):
        temporary = tmp_path / "tmp"
        temporary.mkdir(exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "jobfeatures_exporter",
            "demo",
            *listen,
            *arguments,
        ]
        environ = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ, text=True
        )
        started.append(process)
        text = ""
        while "Ctrl-C" not in text:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            text += line
        said.append(text)
        return process, re.search(r"http://(\S+)/metrics", text)[1], temporary

    start.said = said
    yield start
    for process in started:
        process.kill()
        process.communicate()


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as response:
        return response.read().decode()


def jobs_with(page, name, *parts):
    """Return job id → value of the demo's series with this name whose labels contain the parts."""
    lines = [
        line
        for line in page.splitlines()
        if line.startswith(name + "{") and all(part in line for part in ('job_id="demo.', *parts))
    ]
    return {re.search(r'job_id="([^"]*)"', line)[1]: float(line.rpartition(" ")[2]) for line in lines}


def without_neighbours(errors: str) -> str:
    """Return what is said, without lines on the groups of labs that run on this machine beside the demo."""
    return re.sub(r"(?m)^.*control groups below \S+ look like jobs, but are ignored: .*\n", "", errors)


def test_the_demo_shows_four_jobs_and_leaves_nothing_behind(start_demo):
    process, address, temporary = start_demo()
    family = until(lambda: len(found := psutil.Process(process.pid).children(recursive=True)) >= 4 and found)

    def complete():
        page = scrape(address)
        reported = jobs_with(page, "batch_job_kill_waste_core_seconds", 'basis="reported"')
        burning = jobs_with(page, "batch_job_cpu_seconds_total", 'mode="user"')
        return page if reported and len(burning) == 4 and max(burning.values()) > 1 else None

    page = until(complete)
    info = [line for line in page.splitlines() if re.match(r'batch_job_info\{.*job_id="demo\.', line)]
    names = {re.search(r',name="([^"]*)"', line)[1] for line in info}
    assert names == {
        "burns one CPU",
        "grows its memory",
        "pilot with several payloads",
        "near its wall limit",
    }
    for series in (
        "batch_job_processes",
        "batch_job_threads",
        "batch_job_allocated_cpus",
        "batch_job_wall_limit_seconds",
        "batch_job_start_time_seconds",
    ):
        assert len(jobs_with(page, series)) == 4, series
    assert all(value > 0 for value in jobs_with(page, "batch_job_memory_bytes", 'component="anon"').values())
    remaining = jobs_with(page, "batch_job_remaining_seconds", 'basis="wall_limit"')
    assert len(remaining) == 4
    assert all(0 < value <= 7200 for value in remaining.values())
    assert min(remaining.values()) <= 90
    for series in ("batch_job_draining_waste_core_seconds", "batch_job_kill_waste_core_seconds"):
        assert len(jobs_with(page, series)) == 4, series
    [pilot] = jobs_with(page, "batch_job_draining_waste_core_seconds", 'basis="reported"')
    assert jobs_with(page, "batch_job_status_age_seconds")[pilot] < 15
    assert 1 <= jobs_with(page, "batch_job_status_used_cpus")[pilot] <= 4
    assert "\nbatch_exporter_failed_collectors 0\n" in page

    features = next(temporary.glob("jobfeatures-demo-*")) / "features"
    assert (features / f"jobfeatures/spool-{pilot}/allocated_cpu").read_text() == "4\n"
    assert (features / f"jobfeatures/spool-{pilot}/wall_limit_secs").read_text() == "7200\n"
    assert (features / "machinefeatures/total_cpu").read_text() == f"{max(os.cpu_count(), 8)}\n"
    assert (features / f"jobstatus/spool-{pilot}/used_CPU").read_text().strip().isdigit()

    with urllib.request.urlopen(f"http://{address}/", timeout=60) as response:
        title = re.search("<h1>(.*?)</h1>", response.read().decode())[1]
    assert ("as if it had 8 CPUs" in title) == (os.cpu_count() < 8)

    family = {*family, *psutil.Process(process.pid).children(recursive=True)}
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert without_neighbours(errors) == ""
    assert list(temporary.iterdir()) == []
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family))


def test_the_demo_takes_the_next_port_where_its_own_is_taken_and_says_so(start_demo):
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # something else has it
            stack.enter_context(socket.create_server(("127.0.0.1", 9819)))
        process, address, temporary = start_demo(listen=())
        port = int(address.removeprefix("127.0.0.1:"))
        assert port > 9819
        [text] = start_demo.said
        assert text.startswith(
            f"127.0.0.1:9819 is taken: 127.0.0.1:{port} is used; --web.listen-address names another\n"
        )
        process.send_signal(signal.SIGHUP)  # as where its terminal is closed
        process.communicate(timeout=60)
        assert process.returncode == 0
        assert list(temporary.iterdir()) == []


def test_an_address_that_was_asked_for_and_is_taken_is_named_with_its_flag(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "jobfeatures_exporter",
                "demo",
                "--web.listen-address",
                f"127.0.0.1:{port}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "choose another port with --web.listen-address" in done.stderr


def test_the_payloads_end_even_when_the_demo_is_killed(start_demo):
    process, _, _ = start_demo()
    family = until(lambda: len(found := psutil.Process(process.pid).children(recursive=True)) >= 4 and found)
    process.kill()
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family))


def test_a_wrong_setting_of_the_demo_is_named_before_anything_starts(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "jobfeatures_exporter", "demo", "--sample.interval", "soon"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "sample.interval" in done.stderr
    assert "Traceback" not in done.stderr
