"""What the client makes of servers: good ones, slow ones, broken ones."""

import contextlib
import http.server
import itertools
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from jobfeatures import client
from jobfeatures.client import (
    Features,
    FeaturesError,
    FeaturesUnreachableError,
    FeaturesValueError,
    StatusWriter,
)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the last component of the path."""

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if self.path == "/job/":
            self.reply(200, b"wall_limit_secs\n")
        elif name == "wall_limit_secs":
            self.reply(200, b"3600\n")
        elif name == "moved":
            self.reply(302, b"", Location="wall_limit_secs")
        elif name == "long":
            self.reply(200, b"1" * 5000)
        elif name == "cut":
            self.reply(200, b"17", **{"Content-Length": "10"})
        elif name == "unsized":
            self.reply(200, b"5\n", **{"Content-Length": ""})
        elif name == "broken":
            self.reply(500, b"oops")
        elif name == "forbidden":
            self.reply(403, b"no")
        elif name == "garbage":
            self.wfile.write(b"what?\r\n\r\n")
        else:
            self.reply(404, b"<html>not here</html>")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("torn"):
            self.wfile.write(b"HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        else:
            self.do_GET()

    def reply(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/job"
        server.shutdown()
        thread.join()


def test_values_come_over_http(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # is not to be asked
    for base in (address, f"{address}/"):
        features = Features(job=base)
        assert features.get("job", "wall_limit_secs") == "3600"
        assert features.get("job", "cpu_limit_secs") is None
    assert features.get("job", "moved") == "3600"
    assert features.get("job", "unsized") == "5"


def test_an_expired_token_is_not_a_missing_key(address: str) -> None:
    with pytest.raises(FeaturesUnreachableError, match="token may have expired; in a job that runs"):
        Features(job=address.replace("/job", "/gone")).get("job", "cpu_limit_secs")


@pytest.mark.parametrize("key", ["broken", "forbidden", "garbage", "cut"])
def test_a_server_in_trouble_is_unreachable_not_absent(address: str, key: str) -> None:
    with pytest.raises(FeaturesUnreachableError, match=key):
        Features(job=address).get("job", key)


def test_a_long_answer_is_refused(address: str) -> None:
    with pytest.raises(FeaturesValueError):
        Features(job=address).get("job", "long")


def test_nobody_listening_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(FeaturesUnreachableError):
            Features(job=f"http://127.0.0.1:{port}").get("job", "job_id")


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT_SECS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(FeaturesUnreachableError):
            Features(job=f"http://127.0.0.1:{port}").get("job", "job_id")


def test_a_server_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.count(step=client.TIMEOUT_SECS)  # no single reading takes that long
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: next(times)))

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            while True:
                connection.sendall(b"1")
                stopped.wait(0.01)

    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        with pytest.raises(FeaturesUnreachableError, match="transfer took longer than"):
            Features(job=f"http://127.0.0.1:{listener.getsockname()[1]}").get("job", "job_id")
        thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("location", ["http://[", "http://host:port/", "http://"])
def test_addresses_that_mean_nothing_are_an_error_of_ours(location: str) -> None:
    with pytest.raises(FeaturesError):
        Features(job=location).get("job", "job_id")


@pytest.mark.parametrize("path", ["moved", "wall_limit_secs", "broken", "garbage", "gone"])
def test_what_another_server_answers_is_no_status_written(address: str, path: str) -> None:
    with StatusWriter(f"{address}/{path}") as writer, pytest.raises(OSError, match=address):
        writer.amend(used_CPU=1)


def test_a_refusal_that_breaks_off_is_a_refusal(address: str) -> None:
    with StatusWriter(f"{address}/torn") as writer, pytest.raises(ValueError, match="closed before the end"):
        writer.amend(used_CPU=1)
