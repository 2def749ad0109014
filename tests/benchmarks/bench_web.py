"""What protection costs a scrape: plain, with a password, over TLS, and with both; and with new connections.

Ways take turns, round by round, in one process: a daemon that shows the same page of so many
series, and a client in a thread that reads it whole. The page is made before: what is measured
is the listener alone. The quickest round counts, which the machine's other work has disturbed least; `ratio` is
over plain on a kept connection.

Usage: python tests/benchmarks/bench_web.py [--series 5000] [--scrapes 20] [--rounds 25]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import datetime
import http.client
import ssl
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from jobfeatures_exporter.web.config import WebSettings

sys.path.insert(0, str(Path(__file__).parents[2]))

import bcrypt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from jobfeatures_exporter.web import listener
from jobfeatures_exporter.web.listener import Listeners

USER, PASSWORD = "prometheus", "secret"
NO_LIMIT = 10**6


class Shown:
    """A daemon whose page is made already."""

    is_ready = True

    def problems(self):
        return []

    def __init__(self, series: int) -> None:
        self.page = b"".join(
            b'batch_job_cpu_seconds_total{batch_system="slurm",job_id="%d",mode="user"} 12345.67\n' % number
            for number in range(series)
        )

    def exposition(self, *, openmetrics: bool, web: object = None) -> bytes:
        del openmetrics
        return self.page

    def html(self) -> str:
        return ""


def make_certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    (folder / "key.pem").chmod(0o600)


def make_ways(folder: Path) -> dict[str, str | None]:
    """Return the web configuration of each way."""
    stored = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
    tls = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
    users = f"basic_auth_users: {{{USER}: {stored}}}\n"
    ways: dict[str, str | None] = {"plain": None}
    for name, text in (("password", users), ("tls", tls), ("tls+password", tls + users)):
        ways[name] = str(folder / f"{name}.yml")
        (folder / f"{name}.yml").write_text(text)
        (folder / f"{name}.yml").chmod(0o600)
    return ways


def scrape(connection: http.client.HTTPConnection, size: int) -> None:
    code = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    connection.request("GET", "/metrics", headers={"Authorization": f"Basic {code}"})
    response = connection.getresponse()
    if response.status != 200 or len(response.read()) != size:
        raise SystemExit(f"answered with {response.status}")


def measure(port: int, tls: ssl.SSLContext | None, scrapes: int, size: int, *, kept: bool) -> float:
    """Return seconds a scrape, over one connection or over one each."""

    def connect() -> http.client.HTTPConnection:
        if tls is None:
            return http.client.HTTPConnection("localhost", port, timeout=60)
        return http.client.HTTPSConnection("localhost", port, timeout=60, context=tls)

    connection = connect()
    scrape(connection, size)
    began = time.perf_counter()
    for _ in range(scrapes):
        if not kept:
            connection.close()
            connection = connect()
        scrape(connection, size)
    took = time.perf_counter() - began
    connection.close()
    return took / scrapes


async def run(series: int, scrapes: int, rounds: int) -> dict[tuple[str, bool], list[float]]:
    listener.RATE = listener.CLIENT_RATE = NO_LIMIT
    times: dict[tuple[str, bool], list[float]] = {}
    shown = Shown(series)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificate(folder)
        client = ssl.create_default_context(cafile=str(folder / "cert.pem"))
        async with AsyncExitStack() as stack:
            ports = {}
            for way, path in make_ways(folder).items():
                config = WebSettings(config_file=path)
                serving = Listeners(config).serving(shown, "127.0.0.1:0")
                address = await stack.enter_async_context(serving)
                ports[way] = int(address.rpartition(":")[2])
            for _ in range(rounds):
                for way, port in ports.items():
                    tls = client if way.startswith("tls") else None
                    for kept in (True, False):
                        secs = await asyncio.to_thread(
                            measure, port, tls, scrapes, len(shown.page), kept=kept
                        )
                        times.setdefault((way, kept), []).append(secs)
    return times


def time_password(cost: int, rounds: int) -> float:
    stored = bcrypt.hashpw(b"x", bcrypt.gensalt(cost))
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        bcrypt.checkpw(b"y", stored)
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--series", type=int, default=5000)
    parser.add_argument("--scrapes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=25)
    given = parser.parse_args()
    times = asyncio.run(run(given.series, given.scrapes, given.rounds))
    plain = min(times["plain", True])
    print(f"{given.series} series, {len(Shown(given.series).page) / 1024:.0f} KiB a page")
    for (way, kept), found in times.items():
        best = min(found)
        said = "kept connection" if kept else "new connection each"
        print(f"{way:>13}, {said:<20} {best * 1e3:7.2f} ms a scrape   ratio {best / plain:.2f}")
    print(
        f"a password that is not known yet (bcrypt, cost 10): {time_password(10, given.rounds) * 1e3:.0f} ms, once"
    )


if __name__ == "__main__":
    main()
