"""The command against a stand-in server on a real socket: what it asks, and what it says when something is wrong."""

import base64
import json
import re
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from jobfeatures_exporter.cli import main
from tests.exporter.jobreport.server import FakePrometheus
from tests.exporter.jobreport.test_report import END, NOW, job_series, two_nodes, values_of
from tests.exporter.web.authority import Authority


class StandIn:
    """Answers as Prometheus does, or with whatever `answer` is: (status, headers, body)."""

    def __init__(self, context=None):
        self.prometheus, self.answer, self.requests = two_nodes(), None, []
        standin = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                standin.requests.append((self.path, dict(self.headers)))
                status, headers, body = standin.answer or standin.evaluate(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def evaluate(self, path):
        query = parse_qs(urlsplit(path).query)
        answer = self.prometheus(query["query"][0], float(query["time"][0]))
        result = [
            {
                "metric": {"__name__": each.name, **each.labels} if each.name else each.labels,
                "value": [0, str(each.value)],
            }
            for each in answer.series
        ]
        document = {
            "status": "success",
            "data": {"resultType": "vector", "result": result},
            "warnings": list(answer.warnings),
        }
        return 200, {}, json.dumps(document).encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def server():
    made = StandIn()
    yield made
    made.close()


def report(server, *more):
    return main(["report", "12", "--prometheus", server.url, "--at", str(int(NOW)), *more])


def test_text_and_json_of_a_job(server, capsys):
    assert report(server) == 0
    text = capsys.readouterr()
    assert text.out.startswith("Job      slurm 12\n")
    assert text.err == ""
    assert report(server, "--format", "json") == 0
    [job] = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["job_id"], job["cpus"]["used_secs"], job["wall_limit_secs"]) == ("12", 14_760, 86_400)
    assert {hint["name"] for hint in job["hints"]} >= {"memory_unused", "gpu_idle"}


def test_no_limit_is_no_number_in_json(server, capsys):
    server.prometheus = FakePrometheus(job_series(values=values_of(wall="+Inf")), seen=END)
    assert report(server, "--format", "json") == 0
    [job] = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["wall_limit_secs"], job["wall_limit_is_unlimited"]) == (None, True)


def test_a_job_that_is_not_there_is_status_1(server, capsys):
    assert main(["report", "13", "--prometheus", server.url, "--since", "2h"]) == 1
    said = capsys.readouterr()
    assert "no samples of job '13' in the last 2 h" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    "evil",
    [
        "\x1b]0;x\x07\x1b[31m",
        'a"} or vector(1) or {b="',
        "x\ny{} 1\r",
        "\u202ex\u2066",
        "\\",
        "\ud800",
        "<b>{{ . }}",
        "y" * 5000,
    ],
)
def test_labels_that_somebody_else_chose_move_no_cursor_and_leave_no_quotes(server, capsys, evil):
    labels = dict.fromkeys(("user", "account", "partition", "job_name", "site"), evil)
    server.prometheus = FakePrometheus(
        job_series(node=f"{evil}:9819", values=values_of(), **labels), seen=END
    )
    assert report(server, "--cluster-label", "site") == 0
    said = capsys.readouterr()
    assert [each for each in said.out + said.err if not each.isprintable() and each != "\n"] == []
    for question, _ in server.prometheus.asked:
        outside = re.sub(r'"(?:[^"\\\n]|\\.)*"', "", question)
        assert '"' not in outside
        assert "vector" not in outside
    assert report(server, "--cluster-label", "site", "--format", "json") == 0
    [job] = json.loads(capsys.readouterr().out)["jobs"]
    assert job["job_id"] == "12"


def test_a_job_of_several_clusters_is_status_2_and_says_what_to_add(server, capsys):
    server.prometheus = FakePrometheus(
        [*job_series(site="a", values=values_of()), *job_series(site="b", values=values_of())], seen=END
    )
    assert report(server, "--cluster-label", "site") == 2
    assert "--cluster 'b'" in capsys.readouterr().err
    assert report(server, "--cluster-label", "site", "--cluster", "b") == 0
    assert "on b" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {}, b"no"), "give --prometheus.user and --prometheus.password-file"),
        ((403, {}, b""), "user and password, or token"),
        ((302, {"Location": "http://elsewhere/"}, b""), "redirects are not followed"),
        ((404, {}, b"<html>"), "is this the address of a Prometheus server"),
        ((200, {}, b"<html>"), "is this the address of a Prometheus server"),
        ((200, {}, b'{"status":"success","data":{"resultType":"matrix","result":[]}}'), "not a Prometheus vector"),
        ((503, {}, b'{"status":"error","error":"query timed out"}'), "query timed out"),
        ((400, {}, b'{"status":"error","error":"parse error: unknown function with name \\"last_over_time\\""}'), "too old"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_explained_in_one_line(server, capsys, answer, said):
    server.answer = answer
    assert report(server) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert server.url in error


def test_nobody_there_is_said(server, capsys):
    server.close()
    assert report(server) == 1
    assert "refused" in capsys.readouterr().err
    server.server, server.close = None, lambda: None


def test_a_server_that_does_not_answer_is_waited_for_as_long_as_said(capsys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert main(["report", "12", "--prometheus", url, "--prometheus.timeout", "200ms"]) == 1
    assert f"{url}/api/v1/query: no answer after 0.2 s" in capsys.readouterr().err


@pytest.fixture
def secret(tmp_path):
    def write(text, mode=0o600):
        path = tmp_path / "secret"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return write


def test_a_password_and_a_token_are_sent_as_headers(server, secret):
    file = secret("pass:wörd\n")
    assert report(server, "--prometheus.user", "ann", "--prometheus.password-file", file) == 0
    sent = server.requests[-1][1]["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent).decode() == "ann:pass:wörd"
    assert report(server, "--prometheus.token-file", secret("tok.en\n")) == 0
    assert server.requests[-1][1]["Authorization"] == "Bearer tok.en"


def test_a_server_with_a_certificate_of_its_own_is_trusted_by_file(tmp_path, capsys):
    authority = Authority(tmp_path)
    certificate, key = authority.make("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = StandIn(context)
    try:
        assert report(server) == 1
        assert (
            "is refused: unable to get local issuer certificate; name its CA (ca-file)"
            in capsys.readouterr().err
        )
        assert report(server, "--prometheus.ca-file", str(authority.path)) == 0
    finally:
        server.close()


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--prometheus", "ftp://x"], "--prometheus"),
        (["--prometheus", "http://user:pw@x"], "--prometheus"),
        (["--prometheus.user", "ann"], "--prometheus.password-file"),
        (["--prometheus.password-file", "/x"], "--prometheus.user"),
        (["--prometheus.token-file", "/no/such/file"], "--prometheus.token-file"),
        (["--prometheus.ca-file", "/no/such/file"], "--prometheus.ca-file"),
        (["--prometheus", "https://x", "--prometheus.ca-file", "/no/such/file"], "--prometheus.ca-file"),
        (["--prometheus", "https://x", "--prometheus.cert-file", "/no/such/file"], "--prometheus.cert-file"),
        (["--prometheus", "https://x", "--prometheus.key-file", "/no/such/file"], "--prometheus.key-file"),
        (["--prometheus.timeout", "0"], "--prometheus.timeout"),
        (["--since", "soon"], "--since"),
        (["--at", "yesterday"], "--at"),
        (["--cluster-label", 'a"b'], "--cluster-label"),
    ],
)
def test_a_wrong_flag_is_status_2_with_its_name(flags, named, capsys):
    assert main(["report", "12", *flags]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"jobfeatures-exporter: {named}: ")
    assert said.count("\n") == 1


def test_a_secret_that_others_may_read_is_refused(server, secret, capsys):
    for mode in (0o644, 0o620):
        assert report(server, "--prometheus.token-file", secret("tok", mode)) == 2
        assert "only its owner" in capsys.readouterr().err
    assert report(server, "--prometheus.token-file", secret("two\nlines")) == 2
    assert server.requests == []
