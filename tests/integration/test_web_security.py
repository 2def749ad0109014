"""The listener's protection against real programs: Prometheus, curl, openssl, systemd's way to hand sockets over."""

import datetime
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import bcrypt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.certificates import make_extensions

BIN = Path(sys.executable).parent
PASSWORD = "s3cret: with a colon"
DAY = datetime.timedelta(days=1)


def make_certificate(folder, name, signer=None, *, ca=False, serial=None):
    """Write NAME.pem and NAME.key; return what signs others."""
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signing = signer or (subject, key)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
    )
    if not ca:
        names = [x509.DNSName("localhost"), x509.DNSName(f"{name}.example")]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for extension, critical in make_extensions(key.public_key(), signing.public_key(), is_authority=ca):
        builder = builder.add_extension(extension, critical=critical)
    certificate = builder.sign(signing, hashes.SHA256())
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    (folder / f"{name}.key").chmod(0o600)
    return subject, key


@pytest.fixture
def web_config(tmp_path):
    """A web configuration of everything, and its certificates beside it."""
    folder = tmp_path / "web"
    folder.mkdir()
    signer = make_certificate(folder, "ca", ca=True)
    for name in ("server", "client", "other"):
        make_certificate(folder, name, signer)
    stored = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
    path = folder / "web.yml"
    path.write_text(
        "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"
        "  client_allowed_sans: [client.example]\n  min_version: TLS13\n"
        f"basic_auth_users:\n  prometheus: {stored}\n"
        "http_server_config:\n  headers:\n    Strict-Transport-Security: max-age=300\n"
    )
    path.chmod(0o600)
    return path


@pytest.fixture
def start_protected(tmp_path, web_config, until):
    """Return a function that starts a daemon with the web configuration; it gives process, address and log."""
    started = []

    def start(*flags):
        log = tmp_path / "protected.log"
        command = [BIN / "jobfeatures-exporter", "serve", "--web.listen-address", "localhost:0",
                   "--web.config.file", web_config, "--batch.sources", "",
                   "--features.root", tmp_path / "features", *flags]  # fmt: skip
        with log.open("wb") as output:
            started.append(subprocess.Popen([*map(str, command)], stderr=output))

        def port():
            assert started[-1].poll() is None, log.read_text()
            match = re.search(r"msg=listening address=\S+:(\d+)", log.read_text())
            return match and match[1]

        return started[-1], f"localhost:{until(port)}", log

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


def client_of(folder, name="client"):
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


def test_prometheus_scrapes_with_tls_a_client_certificate_and_a_password(
    prometheus, start_protected, web_config, until
):
    _, address, log = start_protected()
    folder = web_config.parent

    def settings(name="client", password=PASSWORD):
        return {
            "scheme": "https",
            "tls_config": {
                "ca_file": str(folder / "ca.pem"),
                "cert_file": str(folder / f"{name}.pem"),
                "key_file": str(folder / f"{name}.key"),
            },
            "basic_auth": {"username": "prometheus", "password": password},
        }

    query = prometheus(address, client=settings())
    until(lambda: 1.0 in query('up{job="batch_nodes"}').values())
    until(lambda: any(value > 1 for value in query('batch_exporter_web_requests_total{code="200"}').values()))
    assert sum(query("batch_exporter_web_rejected_total").values()) == 0
    # A new certificate while it scrapes: Prometheus goes on, and new connections are shown the new one.
    with socket.create_connection(("localhost", int(address.rpartition(":")[2]))) as plain:
        old = _serial(plain, folder)
    signer = make_certificate(folder, "ca2", ca=True)
    make_certificate(folder, "server", signer)
    (folder / "ca.pem").write_bytes((folder / "ca.pem").read_bytes() + (folder / "ca2.pem").read_bytes())
    with socket.create_connection(("localhost", int(address.rpartition(":")[2]))) as plain:
        assert _serial(plain, folder) != old
    assert "web configuration reloaded" in log.read_text()


def _serial(plain, folder):
    with client_of(folder).wrap_socket(plain, server_hostname="localhost") as spoken:
        return spoken.getpeercert()["serialNumber"]


def test_curl_is_told_why_it_may_not(start_protected, web_config):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    _, address, _ = start_protected()
    folder = web_config.parent

    def curl(*flags, name="client", user=f"prometheus:{PASSWORD}"):
        command = [
            "curl", "-s", "-o", "/dev/null", "-D", "-", "--cacert", folder / "ca.pem", "--cert",
            folder / f"{name}.pem", "--key", folder / f"{name}.key", "-u", user, *flags,
            f"https://{address}/metrics",
        ]  # fmt: skip
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        return done.returncode, done.stdout

    status, headers = curl()
    assert (status, headers.split()[1]) == (0, "200")
    assert "Strict-Transport-Security: max-age=300" in headers
    assert curl(user="prometheus:wrong")[1].split()[1] == "401"
    assert curl(user="nobody:x")[1].split()[1] == "401"
    assert curl(name="other")[0] != 0  # a name that is not allowed
    assert curl("--tls-max", "1.2")[0] != 0


def test_a_hangup_reads_the_file_again_and_a_broken_one_leaves_the_old(start_protected, web_config, until):
    process, address, log = start_protected()
    good = web_config.read_text()
    web_config.write_text(good.replace("RequireAndVerifyClientCert", "RequireSomething"))
    process.send_signal(signal.SIGHUP)
    until(lambda: "client_auth_type: must be one of" in log.read_text())
    request = urllib.request.Request(f"https://{address}/-/healthy")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, context=client_of(web_config.parent), timeout=240)
    web_config.write_text(good)
    process.send_signal(signal.SIGHUP)
    until(lambda: "web configuration reloaded" in log.read_text())


@pytest.mark.parametrize("command", ["serve", "check-config"])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_text(""), "is empty"),
        (lambda path: path.write_text("tls_server_config:\n  cert_file: ["), "is not YAML"),
        (lambda path: path.unlink(), "cannot be read: No such file"),
        (lambda path: (path.parent / "server.key").write_text(""), "key_file: cannot read"),
        (lambda path: (path.parent / "server.pem").write_text("half"), "key_file: cannot use"),
        (lambda path: (path.parent / "ca.pem").unlink(), "client_ca_file: cannot read"),
    ],
)
def test_a_file_of_no_use_is_one_line_and_status_2(web_config, tmp_path, command, spoil, said):
    spoil(web_config)
    done = subprocess.run(
        [BIN / "jobfeatures-exporter", command, "--web.config.file", web_config, "--batch.sources", "",
         "--features.root", tmp_path / "features", "--web.listen-address", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"jobfeatures-exporter: web.config_file: {web_config}:")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not (tmp_path / "features").exists()


def test_systemds_sockets_are_taken_by_the_real_program(tmp_path, until):
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("systemd-socket-activate is not installed (Debian: systemd)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [activate, "-l", f"127.0.0.1:{port}", BIN / "jobfeatures-exporter", "serve", "--web.systemd-socket",
             "--batch.sources", "", "--features.root", tmp_path / "features"],
            stderr=output, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    def answer():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/healthy", timeout=240) as response:
                return response.read()
        except OSError:
            assert process.poll() is None, log.read_text()
            return b""

    try:
        until(lambda: answer() == b"healthy\n")
    finally:
        process.terminate()
        process.wait(60)


def test_without_sockets_the_program_says_so(tmp_path):
    done = subprocess.run(
        [BIN / "jobfeatures-exporter", "serve", "--web.systemd-socket", "--batch.sources", "",
         "--features.root", tmp_path / "features"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("jobfeatures-exporter: web.systemd_socket: systemd passed no socket")


@pytest.mark.parametrize("mode", ["none", "hash", "withhold"])
def test_a_running_daemon_says_no_names_where_they_are_hidden(start_exporter, tmp_path, until, mode):
    spool, key = tmp_path / "spool", tmp_path / "privacy.key"
    spool.mkdir()
    names = ("hostileuser", "hostileaccount", "hostilejob")
    (spool / "job.xml").write_text(
        f"<Job><Id>j.1</Id><Name>{names[2]}</Name><State>Running</State><User>{names[0]}</User>"
        f"<Account>{names[1]}</Account><StartTime>{int(time.time())}</StartTime><Processors>1</Processors>"
        f"<TaskGroup><Task><Process>{os.getpid()}</Process></Task></TaskGroup></Job>"
    )
    key.write_bytes(b"0123456789abcdef")
    key.chmod(0o600)
    exporter = start_exporter(
        "--batch.sources", "spool", "--spool.directory", str(spool), "--features.root",
        str(tmp_path / "features"), "--privacy", mode, "--privacy-key-file", str(key),
        "--collector.processes", "--metrics.profile", "treydock,jobstats,slurm-job-exporter,process-exporter",
    )  # fmt: skip
    until(lambda: exporter.info("j.1"))
    text = until(lambda: exporter.get() if "batch_job_command" in exporter.get() else "") + exporter.get("/")
    found = {name for name in names if name in text}
    assert found == (set(names) if mode == "none" else set())
    info = exporter.info("j.1")
    if mode == "hash":
        assert re.fullmatch(r"user-[0-9a-f]{12}", info["user"])
        assert info["uid"] == ""
