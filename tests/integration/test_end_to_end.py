"""From a clean Debian 12 to one again: installed, secured, scraped, shown, warned of, removed.

One boot of a system with systemd as process 1, in namespaces. What happens there is in
tests/labs/endtoend/scenario.py; here it is judged. It reaches no network, so the Prometheus that
scrapes runs in it, and its page is carried to a browser here. JOBFEATURES_PICTURES names a folder that gets
a screenshot.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path

import bcrypt
import pytest
import yaml
from makepackages.layout import NAME, PREFIX

from tests.integration.debian import clean_debian
from tests.integration.test_web_security import make_certificate

pytestmark = pytest.mark.timeout(1600)  # all of it happens in the first test
ROOT = Path(__file__).parents[2]
EXAMPLE = f"{PREFIX}/share/grafana/prometheus.yml"
STEP_SECS = 2
CONFIGURATION = {
    f"etc/{NAME}",
    *(f"etc/{NAME}/{name}" for name in ("config.toml", "controller.toml", "web.yml")),
}
OURS = {f"etc/{NAME}/tls.crt", f"etc/{NAME}/tls.key"}  # the administrator's, of whom no package knows
ACCOUNTS = {"etc/passwd", "etc/shadow", "etc/group", "etc/gshadow"}
STATE = {f"var/lib/{NAME}"}
NOTED = re.compile(r"var/lib/apt/.*|var/lib/systemd/.*")  # by the boot and by apt
# Panels without data, and why.
ABSENT = {
    "GPU use": "no card",
    "GPU memory": "no card",
    "Power": "no counter of energy",
    "Power by part": "no counter of energy",
    "Power of machines": "power.sources is off by default",
    "Block devices": "control groups of v1, and Slurm makes none of blkio's",
    "Waiting": "needs control groups v2",
    "CPUs by step": "jobs.steps is off by default",
    "Memory by step": "jobs.steps is off by default",
    "Cores": "collector.cores is off by default",
    "CPUs by command": "collector.processes is off by default",
    "Memory by command": "collector.processes is off by default",
    "Network of its nodes": "no job has the node to itself",
    "File systems of its nodes": "no job has the node to itself",
}


@pytest.fixture(scope="module")
def shared(packages, tmp_path_factory):
    """Return the folder with what the machine gets, and in which it leaves what it has to show."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian: prometheus)")
    folder = tmp_path_factory.mktemp("shared")
    folder.chmod(0o755)
    labs = ROOT / "tests/labs"
    for file in (packages.deb, program, labs / "endtoend/scenario.py", labs / "monitoring/panels.py"):
        shutil.copy(file, folder)
    password = secrets.token_hex(8)
    (folder / "password").write_text(password)
    (folder / "hash").write_bytes(bcrypt.hashpw(password.encode(), bcrypt.gensalt(10)))
    make_certificate(folder, "server", make_certificate(folder, "ca", ca=True))
    (folder / "dashboards").mkdir()
    for name in ("node", "job"):
        shutil.copy(ROOT / f"grafana/dashboards/{name}.json", folder / "dashboards")
    (folder / "absent.json").write_text(json.dumps(sorted(ABSENT)))
    (folder / "prometheus.yml").write_text(json.dumps(adapted(packaged_text(packages, EXAMPLE))))
    return folder


def packaged_text(packages, path: str) -> str:
    archive = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", packages.deb], check=True, capture_output=True
    ).stdout
    command = ["tar", "--extract", "--to-stdout", f".{path}"]
    return subprocess.run(command, check=True, capture_output=True, input=archive).stdout.decode()


def adapted(text: str) -> dict:
    """Return the packaged example with this test's files, a node that stands there, and less patience."""
    config = yaml.safe_load(text)
    config["global"] |= {"scrape_interval": f"{STEP_SECS}s", "evaluation_interval": f"{STEP_SECS}s"}
    config["scrape_configs"] = [nodes] = [
        each for each in config["scrape_configs"] if each["job_name"] == "batch_nodes"
    ]
    del nodes["http_sd_configs"], nodes["scrape_timeout"]
    nodes["static_configs"] = [{"targets": ["localhost:9819"], "labels": {"__meta_batch_node": "vm"}}]
    nodes["tls_config"]["ca_file"] = "/mnt/ca.pem"
    nodes["basic_auth"]["password_file"] = "/mnt/password"
    return config


@pytest.fixture(scope="module")
def machine(shared, tmp_path_factory):
    """Let it all happen; return what was seen, and all files of the system before, after removal, and after purge."""
    with clean_debian(tmp_path_factory.mktemp("debian") / "root") as debian:
        files = [debian.files()]
        print(debian.boot("python3.11 /mnt/scenario.py /mnt", shared))
        files.append(debian.files())
        debian.run("apt-get", "purge", "-qy", NAME)
        files.append(debian.files())
    return json.loads((shared / "seen.json").read_text()), files


@pytest.fixture
def seen(machine):
    """What each step of the scenario saw."""
    return machine[0]


@pytest.fixture
def changed(machine):
    """What is other than before, after the removal and after the purge; but for what a boot and apt note."""
    before, *later = machine[1]
    return [
        {
            name
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name) and not NOTED.fullmatch(name)
        }
        for after in later
    ]


def test_it_is_installed_by_apt_and_starts_nothing_by_itself(seen):
    found = seen["installed"]
    assert (found["ActiveState"], found["UnitFileState"]) == ("inactive", "disabled")
    assert found["commands"] == ["/usr/bin/jobfeatures", "/usr/bin/jobfeatures-exporter"]
    assert found["timers"] == ""  # of the system: what it does at midnight would be taken for ours


def test_what_the_configurations_show_is_valid_as_soon_as_its_comment_signs_are_away(seen):
    lines = seen["configured"].splitlines()
    assert f"web.config_file = /etc/{NAME}/web.yml" in lines
    assert "web.listen_address = :9819" in lines


def test_the_service_starts_and_stays(seen):
    assert (seen["started"]["ActiveState"], seen["started"]["UnitFileState"]) == ("active", "enabled")
    assert (seen["healthy"]["ActiveState"], seen["healthy"]["NRestarts"]) == ("active", "0")
    assert "level=warning" not in seen["healthy"]["journal"]
    assert "level=error" not in seen["healthy"]["journal"]
    assert seen["healthy"]["failures"] == []


def test_nobody_reads_without_the_password_and_no_client_trusts_another_authority(seen):
    found = seen["refused"]
    assert (found["nobody"], found["wrong"], found["right"]) == (401, 401, 200)
    assert "CERTIFICATE_VERIFY_FAILED" in found["untrusted"]


def test_prometheus_scrapes_it_by_the_packaged_example(seen):
    found = seen["scraped"]
    assert (found["target"]["health"], found["target"]["lastError"]) == ("up", "")
    assert found["target"]["scrapeUrl"] == "https://localhost:9819/metrics"
    assert found["target"]["labels"]["instance"] == "vm"
    assert found["samples"] > 100


def test_an_alert_of_the_packaged_rules_fires_for_its_job_and_resolves_when_the_job_has_ended(seen):
    """None is changed: this one does not wait before it fires."""
    labels = seen["alerted"]["labels"]
    assert {name: labels[name] for name in ("batch_system", "job_id", "user", "account")} == {
        "batch_system": "spool", "job_id": "8", "user": "daemon", "account": "physics"
    }  # fmt: skip
    assert seen["alerted"]["annotations"]["summary"] == "Job 8 of daemon is near its wall limit."
    assert seen["resolved"]["left"] == []


def test_all_packaged_rules_can_be_evaluated_on_what_was_scraped(seen):
    assert seen["healthy"]["rules"] > 50
    assert seen["healthy"]["failing"] == []


def test_the_dashboards_of_nodes_and_jobs_show_all_that_is_there(seen):
    assert seen["shown"]["count"] > 45
    assert {title for _, title in seen["shown"]["missing"]} == set(ABSENT)


def test_the_page_is_seen_by_who_logs_in_and_shows_the_jobs(seen, shared, tmp_path):
    found = seen["page_opened"]
    assert found.pop("without a login") == 401
    assert set(found.values()) == {200}
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium")
    playwright_api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright, of the extra browser"
    )
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-quic"])
        page = browser.new_page(viewport={"width": 1300, "height": 1000})

        def answer(route):
            name = route.request.url.rpartition("/")[2] or "index.html"
            route.fulfill(path=shared / "page" / name)

        page.route("**/*", answer)
        page.goto("https://localhost:9819/")
        rows = [
            row.inner_text().split() for row in page.locator("main table").first.locator("tbody tr").all()
        ]
        users = {row[0]: user for row in rows for user in ("www-data", "daemon") if user in row}
        assert users == {"7": "www-data", "8": "daemon", "9": "www-data"}
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("getComputedStyle(document.body).fontFamily").startswith("system-ui")
        pictures = Path(os.environ.get("JOBFEATURES_PICTURES", tmp_path))
        page.screenshot(path=pictures / "installed.png", full_page=True)
        browser.close()


def test_it_reads_its_configuration_again_when_systemd_says_so(seen):
    before, after = seen["reloaded"]
    assert before[0] == after[0] == 1
    assert after[1] > before[1]


def test_an_upgrade_restarts_a_service_that_runs_and_starts_none_that_does_not(seen):
    found = seen["upgraded"]
    states = {
        name: set(found[name]) - {pid_of(found[name])} for name in ("before", "running", "stopped", "started")
    }
    running = {"active", "enabled"}
    assert states == {
        "before": running,
        "running": running,
        "stopped": {"inactive", "enabled"},
        "started": running,
    }
    assert found["answers"]
    assert pid_of(found["running"]) != pid_of(found["before"])
    assert pid_of(found["stopped"]) == "0"


def pid_of(about):
    [pid] = [word for word in about if word.isdigit()]
    return pid


def test_removed_it_leaves_configuration_state_and_accounts_and_nothing_that_runs(seen, changed):
    assert seen["removed"]["unit"] == ["LoadState=not-found", "ActiveState=inactive"]
    assert seen["removed"]["left"] == seen["removed"]["processes"] == []
    assert changed[0] == CONFIGURATION | OURS | ACCOUNTS | STATE


def test_purged_it_leaves_what_the_administrator_brought_and_nothing_else(changed):
    assert changed[1] == OURS | {f"etc/{NAME}"}
