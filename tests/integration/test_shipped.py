"""What is shipped, together and as it is: units, the certificate of the page, /sd, the example for Prometheus, rules, dashboards.

Nothing is changed but names of folders. Prometheus scrapes each minute, so this takes some. Names of nodes are no
hosts of this machine: a proxy leads to them, so that Prometheus asks for c1:9819 and sees its certificate.
"""

import contextlib
import json
import os
import re
import selectors
import shlex
import shutil
import socket
import socketserver
import subprocess
import threading
import time
from pathlib import Path

import bcrypt
import pytest
import yaml

from tests.docs.pages import blocks_of
from tests.labs.monitoring.lab import BIN, CONTROLLER, Lab, wait
from tests.labs.monitoring.panels import Checker, panels_of
from tests.labs.monitoring.plan import GIB, MACHINES, Job

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "grafana/prometheus.yml"
UNITS = {CONTROLLER: "jobfeatures-controller.service"}
PASSWORD = "s3cret"
PORT = 9819
LIMIT_SECS, LEFT_SECS = 14_400, 1000  # of job 1020: less than a twelfth of its limit is left for some minutes
CHOSEN = {"batch_system": "slurm", "job_id": "1003"}
OTHERS = {
    "Network of its nodes",
    "File systems of its nodes",
}  # of exporters that the example does not scrape


class Names(socketserver.ThreadingTCPServer):
    """A proxy that knows the names of the lab, as its DNS would."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.places = {}  # name and port → address
        self.asked = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Tunnel(socketserver.StreamRequestHandler):
    def handle(self):
        place = self.rfile.readline().decode().split()[1]
        while self.rfile.readline().strip():
            pass
        self.server.asked.add(place)
        host, _, port = self.server.places[place].rpartition(":")
        with socket.create_connection((host, int(port))) as other, contextlib.suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ends = {self.connection: other, other: self.connection}
            with selectors.DefaultSelector() as ready:  # select() takes no descriptor beyond 1023
                for end in ends:
                    ready.register(end, selectors.EVENT_READ)
                while True:
                    for key, _ in ready.select():
                        if not (data := key.fileobj.recv(65536)):
                            return
                        ends[key.fileobj].sendall(data)


class ShippedLab(Lab):
    """Exporters as their units start them, behind certificates as the page makes them."""

    def start(self):
        self.names = Names()
        start = int(self.began) - LIMIT_SECS + LEFT_SECS
        self.jobs.append(
            Job(1020, "judy", "nearly done", "batch", 1, GIB, start - 60, LIMIT_SECS + 60, LIMIT_SECS,
                start=start, places={"c1": [15]})
        )  # fmt: skip
        super().start()

    def wait_for(self, expression, timeout_secs=420.0):
        """Wait longer than for a Prometheus that scrapes each other second."""
        return super().wait_for(expression, timeout_secs)

    def _start_exporter(self, name, *flags):
        folder = self.directory / "etc" / name
        folder.mkdir(parents=True)
        host = "controller" if name == CONTROLLER else name
        protect(folder, f"{host}.example.org", host)
        unit = (ROOT / "packaging/systemd" / UNITS.get(name, "jobfeatures-exporter.service")).read_text()
        [line] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        line = line.replace("/opt/jobfeatures-exporter/bin", str(BIN)).replace(
            "/etc/jobfeatures-exporter", str(folder)
        )
        settings = {"batch.sources": "slurm", "web.listen-address": "0.0.0.0:0", **by_setting(flags)}
        settings.pop("role", None)  # the unit says it
        environment = {
            **os.environ,
            "PATH": f"{self.directory}/bin:{os.environ['PATH']}",
            "FAKE_NVML": f"{self.directory}/{name}/nvml.txt",
            "LD_LIBRARY_PATH": f"{self.directory}/nvml",
            **{f"JOBFEATURES_{re.sub('[.-]', '_', key).upper()}": each for key, each in settings.items()},
        }
        log = self.directory / f"log/{name}.log"
        with log.open("wb") as output:
            self.processes[name] = subprocess.Popen(shlex.split(line), stderr=output, env=environment)

        def address():
            assert self.processes[name].poll() is None, log.read_text()
            found = re.search(r"msg=listening address=(\S+)", log.read_text())
            return found and found[1]

        self.exporters[name] = wait(address, 180, f"{name} listens")
        self.names.places[f"{host}:{PORT}"] = self.exporters[name]
        self.names.places[f"{host}.example.org:{PORT}"] = self.exporters[name]

    def configuration(self):
        """Return the example with this machine's folders, and the way to the names in it."""
        folder = self.directory / "etc/prometheus"
        folder.mkdir(parents=True)
        certificates = [self.directory / "etc" / name / "tls.crt" for name in self.exporters]
        (folder / "batch-ca.crt").write_text("".join(each.read_text() for each in certificates))
        (folder / "batch-password").write_text(PASSWORD)
        text = EXAMPLE.read_text().replace("/etc/prometheus", str(folder))
        text = text.replace("/opt/jobfeatures-exporter/share/grafana", str(ROOT / "grafana"))
        config = yaml.safe_load(text)
        proxy = f"http://127.0.0.1:{self.names.server_address[1]}"
        for job in config["scrape_configs"]:
            for each in (job, *job.get("http_sd_configs", [])):
                each["proxy_url"] = proxy
        return config


def by_setting(flags):
    """Return flags as settings: --a.b-c=d, --a.b-c d, --a.b-c."""
    found = {}
    words = list(flags)
    while words:
        key, equals, value = words.pop(0).removeprefix("--").partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") else "true"
        found[key] = value
    return found


def protect(folder, full, short):
    """Take the steps of the page: a certificate, and a password's hash in web.yml, named in config.toml."""
    [block] = [each.text for each in blocks_of("sh") if "openssl req -x509" in each.text]
    command = re.search(r"openssl req.*?tls\.crt", block, re.DOTALL)[0]
    command = command.replace("$(hostname -f)", full).replace("$(hostname -s)", short)
    subprocess.run(["sh", "-c", command], cwd=folder, check=True, capture_output=True)
    stored = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (folder / "web.yml").write_text(
        "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n"
        f"basic_auth_users:\n  prometheus: {stored}\n"
    )
    for name in ("web.yml", "tls.key"):
        (folder / name).chmod(0o600)
    for name in ("config.toml", "controller.toml"):
        (folder / name).write_text(f'[web]\nconfig_file = "{folder}/web.yml"\n')


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    for program in ("prometheus", "cc", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: prometheus, gcc, openssl)")
    with ShippedLab(tmp_path_factory.mktemp("lab") / "lab") as running:
        yield running


def alert(lab, name, job_id):
    found = lab.ask("alerts")["alerts"]
    return next(
        (
            each
            for each in found
            if (each["labels"]["alertname"], each["labels"].get("job_id"), each["state"])
            == (name, job_id, "firing")
        ),
        None,
    )


@pytest.mark.timeout(900)
def test_prometheus_finds_the_nodes_by_their_names_and_believes_their_certificates(lab):
    lab.wait_for('count(up{job="batch_nodes"} == 1) == 5')
    names = {machine.name for machine in MACHINES}
    assert {each["metric"]["instance"] for each in lab.query("up == 1")} >= names
    assert {f"{name}:{PORT}" for name in names} <= lab.names.asked, "asked by NodeName, at the unit's port"
    assert f"controller.example.org:{PORT}" in lab.names.asked
    targets = lab.ask("targets")["activeTargets"]
    assert {each["scrapeInterval"] for each in targets} == {"1m"}
    assert [each["lastError"] for each in targets if each["health"] != "up"] == []


@pytest.mark.timeout(900)
def test_an_alert_of_the_rules_fires(lab):
    found = wait(lambda: alert(lab, "BatchJobNearWallLimit", "1020"), 420, "the alert fires")
    assert found["labels"]["user"] == "judy"


@pytest.mark.timeout(900)
def test_dashboards_show_something_at_the_interval_that_is_shipped(lab):
    [source] = yaml.safe_load((ROOT / "grafana/provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    minutes = int(source["jsonData"]["timeInterval"].removesuffix("m"))
    missing = {
        (path.stem, panel["title"]): panel
        for path in sorted((ROOT / "grafana/dashboards").glob("*.json"))
        for panel in panels_of(json.loads(path.read_text()))
        if panel["title"] not in OTHERS
    }
    assert len(missing) > 150
    seen = Checker(lab, CHOSEN, 60 * minutes)
    deadline = time.monotonic() + 1200
    while missing and time.monotonic() < deadline:
        missing = {place: panel for place, panel in missing.items() if not seen.has_data(panel)}
        if missing:
            time.sleep(10)
    assert sorted(missing) == [], "panels without data"
