"""The command: what it prints, and how it ends."""

import http.server
import json
import os
import threading
import time

import pytest

from jobfeatures.check import fetching as reading
from jobfeatures.cli import main

FILES = {
    "machinefeatures": {"total_cpu": "16", "hs06": "171.04"},
    "jobfeatures": {
        "allocated_cpu": "4", "hs06_job": "42.76", "jobstart_secs": str(int(time.time()) - 60), "job_id": "7",
        "wall_limit_secs": "3600", "cpu_limit_secs": "14400", "max_rss_bytes": "2000000000",
        "max_swap_bytes": "1000000000", "scratch_limit_bytes": "20000000000",
    },
    "jobstatus": {"used_CPU": "3"},
}  # fmt: skip
VARIABLES = ("MACHINEFEATURES", "JOBFEATURES", "JOBSTATUS")


@pytest.fixture
def provider(tmp_path, monkeypatch):
    """Three good directories, in the environment of a job; what pytest made above them is not looked at."""
    rights_of = reading.read_rights
    monkeypatch.setattr(reading, "read_rights", lambda path: rights_of(path)[:1])
    mask = os.umask(0o022)  # a good one can be read by the job
    for folder, values in FILES.items():
        (tmp_path / folder).mkdir()
        for name, value in values.items():
            (tmp_path / folder / name).write_text(f"{value}\n")
        monkeypatch.setenv(folder.upper(), str(tmp_path / folder))
    yield tmp_path
    os.umask(mask)


def test_a_good_provider_passes(provider, capsys):
    assert main(["check"]) == 0
    text = capsys.readouterr().out
    assert text.count("0 errors, 0 warnings") == 3
    assert "shutdowntime: is missing" in text


def test_an_error_is_an_exit_status_and_a_warning_is_not(provider, capsys):
    (provider / "machinefeatures/hs06").unlink()
    assert main(["check"]) == 0
    (provider / "machinefeatures/total_cpu").write_text("16.0\n")
    assert main(["check"]) == 1
    assert "not_an_integer" in capsys.readouterr().out


def test_what_cannot_be_read_outweighs_errors(provider, capsys):
    (provider / "machinefeatures/total_cpu").write_text("16.0\n")
    assert main(["check", str(provider / "machinefeatures"), str(provider / "gone")]) == 2
    text = capsys.readouterr().out
    assert "cannot be read: No such file or directory" in text
    assert "not_an_integer" in text


def test_values_are_compared_across_directories(provider, capsys):
    (provider / "jobfeatures/allocated_cpu").write_text("17\n")
    assert main(["check", str(provider / "jobfeatures")]) == 0
    assert main(["check", str(provider / "jobfeatures"), str(provider / "machinefeatures")]) == 1
    assert "allocated_exceeds_total" in capsys.readouterr().out
    (provider / "jobfeatures/allocated_cpu").write_text("2\n")
    assert main(["check"]) == 1  # three CPUs in use, and two allocated
    assert "status_rejected" in capsys.readouterr().out


def test_several_jobs_and_statuses_are_paired_by_name(provider, capsys):
    for number, cpus in (("1", "4"), ("2", "2")):
        os.mkdir(provider / f"jobfeatures/slurm-{number}")
        os.mkdir(provider / f"jobstatus/slurm-{number}")
        (provider / f"jobfeatures/slurm-{number}/allocated_cpu").write_text(f"{cpus}\n")
        (provider / f"jobstatus/slurm-{number}/used_CPU").write_text("3\n")
    paths = [
        str(provider / f"{folder}/slurm-{number}")
        for folder in ("jobfeatures", "jobstatus")
        for number in (1, 2)
    ]
    assert main(["check", "--format", "json", *paths]) == 1
    locations = json.loads(capsys.readouterr().out)["locations"]
    rejected = [
        each["location"]
        for each in locations
        if any(finding["rule"] == "status_rejected" for finding in each["findings"])
    ]
    assert rejected == [str(provider / "jobstatus/slurm-2")]


def test_json_tells_the_same(provider, capsys):
    (provider / "jobfeatures/job_id").write_text("7 8\n")
    assert main(["check", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["errors"], document["warnings"], document["unreadable"]) == (1, 0, 0)
    [finding] = [
        finding
        for each in document["locations"]
        for finding in each["findings"]
        if finding["severity"] == "error"
    ]
    assert finding == {
        "severity": "error",
        "rule": "bad_job_id",
        "key": "job_id",
        "text": "not printable ASCII without blanks: '7 8\\n'",
        "source": "HSF-TN-2016-02, job_id",
    }


def test_nothing_of_what_others_wrote_reaches_the_terminal_raw(provider, capsys):
    (provider / "jobfeatures/job_id").write_bytes(b"\x1b[31m\xff\n")
    (provider / "jobfeatures/na\x1bme\n").write_text("1\n")
    with open(os.fsencode(provider / "jobfeatures") + b"/\xff", "w"):
        pass
    for form in ("text", "json"):
        assert main(["check", "--format", form]) == 1
        text = capsys.readouterr().out
        assert "\x1b" not in text
        assert text.isascii()


def test_without_a_location_and_a_variable_the_usage_is_wrong(monkeypatch, capsys):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert main(["check"]) == 2
    assert "$MACHINEFEATURES" in capsys.readouterr().err


def test_a_relative_path_is_meant_from_here(provider, monkeypatch, capsys):
    monkeypatch.chdir(provider)
    assert main(["check", "machinefeatures"]) == 0
    assert f"{provider}/machinefeatures" in capsys.readouterr().out


def test_the_environment_has_to_name_an_absolute_path(provider, monkeypatch, capsys):
    monkeypatch.setenv("JOBFEATURES", "jobfeatures")
    assert main(["check"]) == 2
    assert "must be an absolute path" in capsys.readouterr().out


@pytest.fixture
def serve():
    """Return a function that serves with a handler's `do_GET`, and gives the address."""
    servers = []

    def start(do_get):
        handler = type(
            "Handler",
            (http.server.BaseHTTPRequestHandler,),
            {"do_GET": do_get, "log_message": lambda *_: None},
        )
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(handler, status, body, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def test_a_good_server_passes(serve, capsys):
    def get(handler):
        value = FILES["machinefeatures"].get(handler.path.rpartition("/")[2])
        if value is None:
            return answer(handler, 404, b"", Content_Length="0")
        body = f"{value}\n".encode()
        return answer(
            handler, 200, body, Content_Type="text/plain", Content_Length=str(len(body)), ETag='"1"'
        )

    assert main(["check", f"{serve(get)}/machinefeatures"]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


def test_a_server_that_answers_everything_with_a_page_is_found_out(serve, capsys):
    def get(handler):
        answer(handler, 200, b"<html>not found</html>", Content_Type="text/html")

    assert main(["check", "--as", "machine", serve(get)]) == 1
    text = capsys.readouterr().out
    for rule in ("http_missing_key", "http_content_type", "http_content_length", "http_no_cache_headers"):
        assert rule in text


def test_a_server_that_never_ends_is_left(serve, capsys):
    asked = threading.Event()
    ended = threading.Event()

    def get(handler):
        handler.send_response(200)
        handler.end_headers()
        asked.set()
        ended.wait(60)

    address = serve(get)
    try:
        while not asked.is_set():  # in this time a busy machine may not even ask
            assert main(["check", "--timeout", "0.3", "--as", "job", address]) == 2
    finally:
        ended.set()
    assert "not finished after 0.3 s" in capsys.readouterr().out


def test_one_that_is_not_there_does_not_keep_others_from_being_judged(provider, capsys):
    assert main(["check", "http://127.0.0.1:1/machinefeatures", str(provider / "jobstatus")]) == 2
    text = capsys.readouterr().out
    assert "cannot be read" in text
    assert "0 errors, 0 warnings, 0 notes" in text


def test_rights_are_judged_by_mode_also_by_root(provider, capsys, monkeypatch):
    (provider / "machinefeatures/hs06").chmod(0o600)
    os.chmod(provider / "jobfeatures", 0o777)
    assert main(["check", "--format", "json"]) == 1
    found = {
        (each["rule"], each["key"])
        for location in json.loads(capsys.readouterr().out)["locations"]
        for each in location["findings"]
        if each["severity"] == "error"
    }
    assert found == {("closed_to_job", "hs06"), ("open_to_all", "")}


def test_the_text_that_is_meant_is_said_or_seen(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reading, "read_rights", lambda path: ())
    for name, value in (("log_cores", 8), ("phys_cores", 4)):
        (tmp_path / name).write_text(f"{value}\n")
        (tmp_path / name).chmod(0o644)
    assert main(["check", str(tmp_path)]) == 0
    assert main(["check", "--profile", "2016", str(tmp_path)]) == 1
    assert "total_cpu: is missing" in capsys.readouterr().out


def test_the_folders_above_are_looked_at(tmp_path):
    closed = tmp_path / "closed"
    (closed / "jobfeatures").mkdir(parents=True)
    closed.chmod(0o700)
    rights = reading.read_rights(str(closed / "jobfeatures"))
    assert [each.path for each in rights][:2] == [str(closed / "jobfeatures"), str(closed)]
    assert rights[1].mode & 0o777 == 0o700
    assert rights[-1].path == "/"
