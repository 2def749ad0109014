"""slurmrestd, by stand-ins that listen on a socket and on TCP."""

from __future__ import annotations

import base64
import json
import os
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.batch.slurm.clustersource import make_cluster_source
from jobfeatures.batch.slurm.json.rest import Rest, offered_versions, read_token, user_of_token
from jobfeatures.batch.slurm.site import ask_in_prolog, is_here
from jobfeatures.batch.slurm.source import make_source
from jobfeatures.errors import ConfigurationError, ParseError, SourceError
from jobfeatures.records.model import Job, JobKey, JobState, NodeNotice
from jobfeatures.system.httpget import Response
from tests.configured import settings_for

FIXTURES = Path(__file__).parents[4] / "fixtures" / "slurm" / "json"
TOKEN = f"e30.{base64.urlsafe_b64encode(json.dumps({'sun': 'alice'}).encode()).decode().rstrip('=')}.c2ln"


def fixture(name: str) -> bytes:
    return (FIXTURES / f"{name}.json").read_bytes()


def one_job(job_id: str) -> bytes:
    """Return an answer about one job, constructed from the captured one about all."""
    document = json.loads(fixture("jobs-v0.0.38"))
    document["jobs"] = [each for each in document["jobs"] if str(each["job_id"]) == job_id]
    return json.dumps(document).encode()


class Restd(threading.Thread):
    """Answers by path; logs requests and their headers."""

    def __init__(self, address) -> None:
        super().__init__(daemon=True)
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        rest = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                rest.asked.append(self.path)
                rest.headers.append(dict(self.headers))
                status, body = rest.answers.get(self.path, (404, b"Unable find requested URL."))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def address_string(self):
                return "peer"

            def log_message(self, *_):
                pass

        family = socketserver.UnixStreamServer if isinstance(address, str) else socketserver.TCPServer
        self.server = family(address, Handler)
        self.start()

    def run(self) -> None:
        self.server.serve_forever(0.01)

    def offer(self, version: str) -> None:
        """Serve all answers about the captured cluster."""
        found = {
            "ping": (200, b"{}"),
            "job/1": (200, one_job("1")),
            "job/2": (200, fixture("job-array-v0.0.38")),
        }
        found["job/999"] = (500, fixture("job-missing-v0.0.38"))
        for name in ("jobs", "nodes", "partitions", "reservations"):
            found[name] = (200, fixture(f"{name}-v0.0.38"))
        found["node/labE1"] = found["nodes"]
        self.answers = {f"/slurm/{version}/{path}": answer for path, answer in found.items()}
        self.answers[f"/slurmdb/{version}/jobs?start_time=uts1795264000"] = (
            200,
            fixture("accounting-v0.0.38"),
        )


@pytest.fixture
def rest(sockets):
    server = Restd(str(sockets / "rest.sock"))
    server.offer("v0.0.38")
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def config(sockets, rest):
    return settings_for(
        "slurm", slurm_ask="rest", slurm_rest_url=f"unix:{sockets}/rest.sock", batch_timeout_secs=60.0
    )


def keys(*ids: str) -> set[JobKey]:
    return {JobKey("slurm", each) for each in ids}


def test_a_node_asks_job_by_job_and_never_for_the_queue(config, rest, clock):
    source = make_source(config, clock, "labE1")
    clock.now = 1795268000.0
    table = source.poll_jobs(keys("1", "2", "999"))
    assert {key.job_id: job.state for key, job in table.jobs.items()} == {
        "1": JobState.RUNNING,
        "2": JobState.PENDING,
    }
    assert table.jobs[JobKey("slurm", "1")].allocated_cpus == 2
    assert table.complete
    assert table.node == NodeNotice(False, (1795271348,), 4)
    assert not any(path.endswith("/jobs") for path in rest.asked)
    assert is_here(config)


def test_the_version_is_tried_from_the_newest_on_and_kept(config, rest, clock):
    source = make_source(config, clock, "labE1")
    source.poll_jobs(keys("1"))
    pings = [path for path in rest.asked if path.endswith("/ping")]
    assert pings == [f"/slurm/v0.0.{number}/ping" for number in (46, 45, 44, 43, 42, 41, 40, 39, 38)]
    rest.asked.clear()
    clock.advance(1000)
    source.poll_jobs(keys("1"))
    assert not any(path.endswith("/ping") for path in rest.asked)


def as_26_11(document):
    """Return what v0.0.46 makes of it, constructed from its published fields: what it lacks beside v0.0.45."""
    for job in document.get("jobs", ()):
        job["runtime"] = job.pop("container_type", None)
    for partition in document.get("partitions", ()):
        del partition["defaults"]["memory_per_cpu"]
        for name in ("memory_per_cpu", "shares", "oversubscribe"):
            del partition["maximums"][name]
    return document


def test_slurm_26_11_tells_the_same_by_the_fields_of_v0_0_46(config, rest, clock, caplog):
    told = []
    for version, change in (("v0.0.45", lambda document: document), ("v0.0.46", as_26_11)):
        rest.answers = {f"/slurm/{version}/ping": (200, b"{}")}
        for kind in ("jobs", "nodes", "partitions"):
            document = change(json.loads(fixture(f"{kind}-26.05-v0.0.45")))
            rest.answers[f"/slurm/{version}/{kind}"] = (200, json.dumps(document).encode())
        source = make_cluster_source(config, clock, 5.0)
        queue, cluster = source.poll_queue(), source.poll_cluster()
        told.append((queue.jobs, cluster.nodes, cluster.partitions))
    assert told[0] == told[1]
    assert all(told[0])
    assert "newer than" not in caplog.text


def test_a_server_that_was_replaced_is_asked_for_its_version_again(config, rest, clock):
    source = make_source(config, clock, None)
    source.poll_jobs(keys("1"))
    rest.offer("v0.0.41")
    clock.advance(1000)
    with pytest.raises(SourceError, match=r"has no .*404"):
        source.poll_jobs(keys("1"))
    assert source.poll_jobs(keys("1")).complete


def test_unknown_versions_are_reported(config, rest, clock):
    paths = {"/slurm/v0.0.36/jobs": {}, "/slurmdb/v0.0.36/jobs": {}}
    rest.answers = {"/openapi/v3": (200, json.dumps({"paths": paths}).encode())}
    with pytest.raises(
        SourceError, match=r"offers versions v0\.0\.36 .* supported are v0\.0\.37 to v0\.0\.46"
    ):
        make_source(config, clock, None).poll_jobs(keys("1"))


def offer_later(rest, document):
    paths = {f"/slurm/{version}/jobs": {} for version in ("v0.0.100", "v0.0.99")}
    rest.answers = {
        "/openapi/v3": (200, json.dumps({"paths": paths}).encode()),
        "/slurm/v0.0.99/jobs": (200, json.dumps(document).encode()),
    }


def test_a_later_version_is_read_if_its_fields_fit_with_one_warning(config, rest, clock, caplog):
    offer_later(rest, json.loads(fixture("jobs-26.05-v0.0.45")))
    source = make_cluster_source(config, clock, 5.0)
    for _ in range(3):
        assert len(source.poll_queue().jobs) == 10
        clock.advance(1000)
    assert caplog.text.count("v0.0.99 of Slurm's REST API is newer than v0.0.46") == 1


@pytest.mark.parametrize("field", ["job_id", "job_state", "name", "cpus", "time_limit", "nodes"])
def test_a_later_version_that_lacks_a_field_is_refused_by_its_name(config, rest, clock, field):
    document = json.loads(fixture("jobs-26.05-v0.0.45"))
    del document["jobs"][3][field]
    offer_later(rest, document)
    with pytest.raises(SourceError, match=rf"v0\.0\.99 .* lacks the field jobs\[3\]\.{field}"):
        make_cluster_source(config, clock, 5.0).poll_queue()


def test_an_error_that_is_not_an_unknown_id_proves_nothing(config, rest, clock):
    """A token that slurmctld refuses: captured, "Unable to find JobId=1", "Unspecified error", -1."""
    refused = json.loads(fixture("job-missing-v0.0.38"))
    refused["errors"][0] |= {"error_number": -1, "error": "Unspecified error"}
    rest.answers["/slurm/v0.0.38/job/1"] = (500, json.dumps(refused).encode())
    source = make_source(config, clock, None)
    table = source.poll_jobs(keys("1", "2"))
    assert not table.complete
    assert "Unspecified error" in str(table.rejected)
    assert JobKey("slurm", "1") not in table.jobs


def test_a_job_under_anothers_number_is_not_taken(config, rest, clock):
    rest.answers["/slurm/v0.0.38/job/999"] = (200, one_job("1"))
    table = make_source(config, clock, None).poll_jobs(keys("999"))
    assert table.jobs == {}
    assert not table.complete


def test_a_bad_record_stays_in_the_table_as_unknown(config, rest, clock):
    document = json.loads(one_job("1"))
    document["jobs"][0]["cpus"] = {}
    document["jobs"][0]["job_state"] = 5
    rest.answers["/slurm/v0.0.38/job/1"] = (200, json.dumps(document).encode())
    table = make_source(config, clock, None).poll_jobs(keys("1"))
    assert table.jobs[JobKey("slurm", "1")].state is JobState.UNKNOWN
    assert "job_state" in str(table.rejected[0])


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"[]", b'{"jobs": 1}'])
def test_an_invalid_answer_is_reported(config, rest, clock, body):
    rest.answers["/slurm/v0.0.38/jobs"] = (200, body)
    with pytest.raises(SourceError):
        make_cluster_source(config, clock, 5.0).poll_queue()


def test_the_controller_role_has_the_queue_the_nodes_and_accounting(config, rest, clock):
    cluster = make_cluster_source(config, clock, 5.0)
    assert len(cluster.poll_queue().jobs) == 10
    assert [node.name for node in cluster.poll_cluster().nodes] == ["labE1", "labE2"]
    assert len(cluster.poll_accounting(1795264000.9).records) == 47
    rest.answers["/slurm/v0.0.38/nodes"] = (500, b'{"errors": [{"description": "down"}], "nodes": []}')
    with pytest.raises(SourceError, match="down"):
        cluster.poll_cluster()


def test_errors_beside_an_answer_are_said_and_the_queue_is_incomplete(config, rest, clock):
    for place in ("jobs", "nodes", "partitions"):
        status, body = rest.answers[f"/slurm/v0.0.38/{place}"]
        document = {**json.loads(body), "errors": [{"description": f"half of the {place}"}]}
        rest.answers[f"/slurm/v0.0.38/{place}"] = (status, json.dumps(document).encode())
    cluster = make_cluster_source(config, clock, 5.0)
    table, found = cluster.poll_queue(), cluster.poll_cluster()
    assert (len(table.jobs), table.complete) == (10, False)
    assert "with an error: 'half of the jobs" in table.rejected[-1].reason
    assert [each.reason.partition("'")[2][:17] for each in found.rejected] == [
        "half of the nodes",
        "half of the parti",
    ]


def test_a_prolog_asks_about_its_job(config, rest):
    job = ask_in_prolog(Job(key=JobKey("slurm", "1")), config, node_name="labE1", timeout_secs=60.0)
    assert job is not None
    assert job.limits.wall_secs == 600
    assert (
        ask_in_prolog(Job(key=JobKey("slurm", "999")), config, node_name="labE1", timeout_secs=60.0) is None
    )
    with pytest.raises(ParseError):
        ask_in_prolog(Job(key=JobKey("slurm", "../x")), config, node_name="labE1", timeout_secs=60.0)


# --- the client ------------------------------------------------------------------


def test_a_token_says_who_asks_over_tcp(tmp_path, clock):
    server = Restd(("127.0.0.1", 0))
    server.offer("v0.0.38")
    path = tmp_path / "token"
    path.write_text(f"SLURM_JWT={TOKEN}\n")
    path.chmod(0o600)
    port = server.server.server_address[1]
    config = settings_for(
        "slurm", slurm_ask="rest", slurm_rest_url=f"http://127.0.0.1:{port}/", slurm_rest_token_file=str(path)
    )
    assert make_source(config, clock, None).poll_jobs(keys("1")).complete
    assert server.headers[-1]["X-SLURM-USER-TOKEN"] == TOKEN
    assert server.headers[-1]["X-SLURM-USER-NAME"] == "alice"
    server.answers = dict.fromkeys(server.answers, (401, b"Authentication failure"))
    with pytest.raises(SourceError, match=r"HTTP status 401.*rest_token_file"):
        make_source(config, clock, None).poll_jobs(keys("1"))
    server.server.shutdown()
    server.server.server_close()


def test_a_token_that_others_may_read_is_not_used(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o640)
    with pytest.raises(SourceError, match="only its owner"):
        read_token(str(path))
    path.chmod(0o600)
    assert read_token(str(path)) == TOKEN
    path.write_text("two\nlines")
    with pytest.raises(SourceError, match="no token"):
        read_token(str(path))
    with pytest.raises(SourceError, match="must be a regular file"):
        read_token(str(tmp_path))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(SourceError, match="must be a regular file"):
        read_token(str(tmp_path / "pipe"))
    with pytest.raises(SourceError, match="No such file"):
        read_token(str(tmp_path / "absent"))


@given(st.text(max_size=40))
def test_any_token_names_a_user_or_none(text):
    name = user_of_token(text)
    assert name is None or name.isascii()


def test_an_answer_that_is_too_large_is_given_up(rest, sockets):
    rest.answers["/large"] = (200, b"x" * 100_000)
    client = Rest(f"unix:{sockets}/rest.sock", max_bytes=50_000)
    with pytest.raises(SourceError, match="larger than 50000 bytes"):
        client.fetch("/large", 60.0)


def test_an_answer_that_is_cut_off_is_none(sockets):
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(4096)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    with socketserver.UnixStreamServer(str(sockets / "half.sock"), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with pytest.raises(SourceError):
            Rest(f"unix:{sockets}/half.sock").fetch("/", 60.0)


def test_a_server_that_never_answers_is_given_up(sockets):
    path = str(sockets / "mute.sock")
    mute = socketserver.UnixStreamServer(path, socketserver.BaseRequestHandler)  # accepts no connection
    with mute, pytest.raises(SourceError, match=r"no answer after 0\.1 s"):
        Rest(f"unix:{path}").fetch("/", 0.1)


def test_a_missing_server_is_reported(config, clock, sockets):
    (sockets / "rest.sock").unlink()
    with pytest.raises(SourceError, match="No such file"):
        make_source(config, clock, None).poll_jobs(keys("1"))


@pytest.mark.parametrize(
    "url", [None, "ftp://x", "http://", "https://user:word@x", "http://x?y", "http://x:port"]
)
def test_an_address_that_is_none_is_refused(url, clock):
    with pytest.raises(ConfigurationError, match=r"slurm\.rest_url"):
        make_source(settings_for("slurm", slurm_ask="rest", slurm_rest_url=url), clock, None)


@given(st.binary(max_size=60))
def test_any_document_offers_versions_or_none(body):
    assert isinstance(offered_versions(Response(200, body)), tuple)
