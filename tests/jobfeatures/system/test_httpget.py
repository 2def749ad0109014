"""One question to real sockets that answer badly."""

import contextlib
import itertools
import socket
import ssl
import threading
import time

import pytest

from jobfeatures.errors import SourceError
from jobfeatures.system import httpget
from jobfeatures.system.httpget import HttpStatusError, TlsSpokenError, fetch_text


@pytest.fixture
def serve():
    """Return a function that answers one request with these bytes, and returns the address."""
    threads = []

    def start(*chunks, close=True, trickle=()):
        listener = socket.create_server(("127.0.0.1", 0))

        def answer():
            connection, _ = listener.accept()
            with listener, connection:
                connection.recv(65536)
                with contextlib.suppress(OSError):  # the client has given up
                    for chunk in itertools.chain(chunks, trickle):
                        connection.sendall(chunk)
                if not close:
                    connection.recv(1)  # until the client goes

        threads.append(threading.Thread(target=answer, daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/x"

    yield start
    for thread in threads:
        thread.join(60)


def test_the_body_is_returned(serve):
    assert fetch_text(serve(b"HTTP/1.1 200 OK\r\n\r\nab\xff"), {"q": "a b"}) == "ab\ufffd"


def test_a_status_that_is_no_success_has_the_servers_words(serve):
    with pytest.raises(HttpStatusError, match=r"418 teapot: 'no\\x1b'") as raised:
        fetch_text(serve(b"HTTP/1.1 418 teapot\r\nContent-Length: 3\r\n\r\nno\x1b"))
    assert (raised.value.status, raised.value.body) == (418, "no\x1b")


def test_a_redirect_is_not_followed(serve):
    target = serve(b"HTTP/1.1 200 OK\r\n\r\nsecret")
    with pytest.raises(HttpStatusError) as raised:
        fetch_text(
            serve(b"HTTP/1.1 302 Found\r\nLocation: " + target.encode() + b"\r\nContent-Length: 0\r\n\r\n")
        )
    assert raised.value.status == 302
    assert fetch_text(target) == "secret"  # nobody had asked it


def test_an_answer_without_an_end_is_given_up(serve, monkeypatch):
    monkeypatch.setattr(httpget, "MAX_BYTES", 1000)
    with pytest.raises(SourceError, match="larger than 1000 bytes"):
        fetch_text(serve(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 2000))
    with pytest.raises(SourceError, match=r"no answer after 0.2 s"):
        fetch_text(serve(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", close=False), timeout_secs=0.2)


# The timeout of a socket is that of one read: bytes that come one by one would renew it.
@pytest.mark.parametrize(
    "chunks", [[b"HTTP/1.1 200 OK\r\nX: "], [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"]]
)
def test_an_answer_that_comes_byte_by_byte_is_given_up(serve, chunks):
    class Trickle:
        def __iter__(self):
            yield from chunks
            while True:  # until the client has gone
                time.sleep(0.05)
                yield b"x"

    with pytest.raises(SourceError, match=r"no answer after 0.2 s"):
        fetch_text(serve(trickle=Trickle()), timeout_secs=0.2)


@pytest.mark.parametrize(
    "answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
def test_what_is_no_answer_is_a_source_error(serve, answer):
    with pytest.raises(SourceError):
        fetch_text(serve(answer))


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x", "x", "http://[", "http://x:y/"])
def test_only_http_is_asked(url):
    with pytest.raises(SourceError):
        fetch_text(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x: Connection refused"),
        ("http://a.invalid/", "http://a.invalid/: "),
    ],
)
def test_why_nobody_answers_is_said_in_the_systems_words(url, said):
    with pytest.raises(SourceError) as caught:
        fetch_text(url)
    assert str(caught.value).startswith(said)
    assert "urlopen" not in str(caught.value)
    assert "Errno" not in str(caught.value)


def test_a_port_of_another_protocol_says_what_it_said(serve):
    with pytest.raises(SourceError, match=r"the server does not answer in HTTP, but with 'SSH-2.0-x\\x1b"):
        fetch_text(serve(b"SSH-2.0-x\x1b\r\n"))


@pytest.mark.parametrize("speaks", [True, False])
def test_a_server_that_answers_plain_http_with_bad_request_is_tried_for_tls(serve, monkeypatch, speaks):
    """As servers written in Go, nginx and Apache do."""
    monkeypatch.setattr(httpget.Server, "speaks_tls", lambda _self: speaks)
    with pytest.raises(TlsSpokenError if speaks else HttpStatusError):
        fetch_text(
            serve(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
        )


@pytest.mark.parametrize(("code", "is_helped"), [(2, True), (10, False), (18, True), (20, True), (62, False)])
def test_a_certificate_of_an_issuer_that_nobody_knows_needs_its_ca(monkeypatch, code, is_helped):
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_code, error.verify_message = code, "self-signed certificate"
    monkeypatch.setattr(httpget.Server, "_connection", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(SourceError, match="certificate is refused: self-signed certificate") as caught:
        fetch_text("https://127.0.0.1:1")
    assert ("name its CA" in str(caught.value)) == is_helped
