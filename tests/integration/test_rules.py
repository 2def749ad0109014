"""Rules and the example configuration as they are shipped, in a real Prometheus that scrapes a cluster at work."""

import re
import shutil
import subprocess
from pathlib import Path

import bcrypt
import pytest
import yaml

from tests.integration.test_web_security import make_certificate
from tests.labs.monitoring.lab import Lab, wait
from tests.labs.monitoring.plan import GIB, Job

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "grafana/prometheus.yml"
PASSWORD = "s3cret"
LIMIT_SECS, LEFT_SECS = 18_000, 1500  # of job 1020: a twelfth of its limit is left when the lab starts


class ProtectedLab(Lab):
    """The lab as the example configuration wants it: TLS, a password, nodes found by the controller."""

    def start(self):
        self.web = self.directory / "web"
        self.web.mkdir(parents=True)
        make_certificate(self.web, "server", make_certificate(self.web, "ca", ca=True))
        (self.web / "password").write_text(PASSWORD)
        stored = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (self.web / "web.yml").write_text(
            "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n"
            f"basic_auth_users:\n  prometheus: {stored}\n"
        )
        (self.web / "web.yml").chmod(0o600)
        start = int(self.began) - LIMIT_SECS + LEFT_SECS
        self.jobs.append(
            Job(1020, "judy", "nearly done", "batch", 1, GIB, start - 60, LIMIT_SECS + 60, LIMIT_SECS,
                start=start, places={"c1": [15]})
        )  # fmt: skip
        super().start()

    def _start_exporter(self, name, *flags):
        super()._start_exporter(name, "--web.config.file", str(self.web / "web.yml"), *flags)
        self.exporters[name] = self.exporters[name].replace("127.0.0.1", "localhost")

    def configuration(self):
        """Return the example with this machine's names, and with names found that no DNS knows."""
        text = EXAMPLE.read_text()
        for theirs, ours in (
            ("controller.example.org:9819", self.exporters["controller"]),
            ("/etc/prometheus/batch-ca.crt", str(self.web / "ca.pem")),
            ("/etc/prometheus/batch-password", str(self.web / "password")),
            ("/opt/jobfeatures-exporter/share/grafana/rules", str(ROOT / "grafana/rules")),
            ("interval: 1m", "interval: 2s"),
            ("scrape_timeout: 10s", "scrape_timeout: 2s"),
            ("refresh_interval: 5m", "refresh_interval: 2s"),
        ):
            assert theirs in text
            text = text.replace(theirs, ours)
        config = yaml.safe_load(text)
        config["scrape_configs"][0]["relabel_configs"] += [
            {
                "source_labels": ["__meta_batch_node"],
                "regex": name,
                "target_label": "__address__",
                "replacement": address,
            }
            for name, address in self.exporters.items()
        ]
        return config


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    for program in ("prometheus", "cc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: prometheus, gcc)")
    with ProtectedLab(tmp_path_factory.mktemp("lab") / "lab") as running:
        yield running


def alerts(lab, name):
    """Return the alerts of a name that fire, by job."""
    return {
        each["labels"].get("job_id", ""): each
        for each in lab.ask("alerts")["alerts"]
        if each["labels"]["alertname"] == name and each["state"] == "firing"
    }


def test_promtool_finds_no_fault_in_the_example(tmp_path):
    """Files that it names have to be there for promtool: those of the example are put below a folder."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    text = EXAMPLE.read_text().replace("/opt/jobfeatures-exporter/share/grafana", str(ROOT / "grafana"))
    for name in set(re.findall(r"/etc/prometheus/(batch-[\w.-]+)", text)):
        (tmp_path / name).touch()
    make_certificate(tmp_path, "ca", ca=True)
    shutil.copy(tmp_path / "ca.pem", tmp_path / "batch-ca.crt")
    file = tmp_path / "prometheus.yml"
    file.write_text(text.replace("/etc/prometheus/", f"{tmp_path}/"))
    check = ["promtool", "check", "config", str(file)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 rule files found" in done.stdout


def test_the_example_scrapes_nodes_that_the_controller_names_by_tls_and_a_password(lab):
    lab.wait_for('count(up{job="batch_nodes"} == 1) == 5')
    assert {each["metric"]["instance"] for each in lab.query('up{job="batch_nodes"} == 1')} == {
        "c1", "c2", "c3", "g1", "w1",
    }  # fmt: skip
    assert [each["metric"]["node"] for each in lab.query('batch_node_cores{node="g1"}')] == ["g1"]
    assert lab.query('up{job="batch_controller"} == 1')
    assert not lab.query("batch_node_core_cpu_seconds_total"), "dropped while it is taken in"
    assert lab.query("batch_node_cpu_seconds_total")


def test_an_alert_fires_and_ends_with_its_job(lab):
    found = wait(lambda: alerts(lab, "BatchJobNearWallLimit").get("1020"), 120, "the alert fires")
    assert found["labels"]["user"] == "judy"
    assert found["labels"]["severity"] == "info"
    assert (
        "slurm job 1020 (nearly done) of judy on c1 reaches its wall limit in"
        in (found["annotations"]["description"])
    )
    assert "1002" not in alerts(lab, "BatchJobNearWallLimit"), "that one has hours"
    lab.end(1020)
    # Three minutes later: a scrape that fails ends no alert.
    wait(lambda: "1020" not in alerts(lab, "BatchJobNearWallLimit"), 300, "the alert ends")


def test_no_rule_fails_on_real_series(lab):
    """None matches many to many, which promtool cannot know."""
    rules = [rule for group in lab.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 100
    for rule in rules:
        assert rule["health"] != "err", rule.get("lastError")
        lab.query(rule["query"])  # those whose group is not due yet too; raises what Prometheus says


# Of what is off by default, has no factor of the site, needs minutes, or is counted by exporters that the example does not scrape.
ABSENT = re.compile(
    "held_clock|profiled|gpu_xids|emissions|batch_suspended|instructions_per_cycle|gflops|whole_node|infiniband|batch_network|nfs|lustre|gpfs"
)


def test_most_recording_rules_give_something_on_a_cluster_at_work(lab):
    wait(lambda: lab.query("job:batch_cpu_efficiency:ratio_avg1h"), 60, "the last of a chain")
    names = [
        rule["name"] for group in lab.ask("rules")["groups"] for rule in group["rules"] if "state" not in rule
    ]
    later = {name for name in names if name.endswith(("1d", "rate1h"))}  # need more than seconds of history
    missing = set(names)

    def are_there() -> bool:
        nonlocal missing
        missing = {name for name in missing - later if not ABSENT.search(name) and not lab.query(name)}
        return not missing

    try:
        wait(are_there, 120, "all others give something")
    except TimeoutError:
        assert missing == set()
