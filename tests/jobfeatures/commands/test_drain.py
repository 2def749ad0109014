"""The commands, called as an administrator calls them."""

import base64
import functools
import http.server
import json
import os
import re
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jobfeatures.cli import main
from jobfeatures.drains.nodemetrics import NAMES
from jobfeatures.jobs.jobrecords import format_record
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import JobKey, Limits
from jobfeatures.records.series import parse_lines

GOLDEN = (Path(__file__).parents[2] / "fixtures/golden/metrics.txt").read_text(encoding="utf-8")
PAGE = GOLDEN + 'batch_exporter_source_age_seconds{source="spool"} 1\n'  # there it has not answered yet
PAGE = re.sub("(?m)^batch_node_shutdown_time_seconds.*\n", "", PAGE)  # its clock is not this one's
PAGES = {
    "/metrics": PAGE,
    "/early/metrics": GOLDEN,
    "/blind/metrics": "\n".join(line for line in PAGE.split("\n") if "_waste_" not in line),
    "/other/metrics": "node_load1 0.5\n",
}


@pytest.fixture
def tree(tmp_path):
    made = FeatureTree(str(tmp_path / "features"))
    made.prepare()
    made.write_job(JobKey("slurm", "12"), {"job_id": "12", "grace_secs_job": "600"})
    made.write_machine({"total_cpu": "4", "grace_secs": "60"})
    return made


@pytest.fixture
def drain(tree, capsys):
    def run(*arguments):
        action, *rest = arguments
        status = main(["drain", action, "--features.root", tree.root, *rest])
        return status, *capsys.readouterr()

    return run


def value(path):
    return Path(path).read_text() if os.path.exists(path) else None


def test_a_drain_is_set_moved_shown_and_cancelled_and_other_keys_stay(tree, drain):
    shutdown = f"{tree.machine_path}/shutdowntime"
    status, out, _ = drain("set", "--at", "+2h")
    assert status == 0
    assert "this node shuts down at" in out
    first = int(value(shutdown))
    assert drain("set", "--at", str(first + 60))[0] == 0
    assert value(shutdown) == f"{first + 60}\n"
    [shown] = json.loads(drain("show", "--format", "json")[1])["shutdowns"]
    assert (shown["scope"], shown["shutdown_secs"], shown["source"]) == ("node", first + 60, "operator")
    assert shown["set_by"]
    assert "node" in drain("show")[1]
    assert drain("cancel")[0] == 0
    assert value(shutdown) is None
    assert value(f"{tree.machine_path}/total_cpu") == "4\n"
    assert drain("show")[1] == "no shutdown is announced\n"
    assert drain("cancel")[0] == 1


def test_a_drain_of_one_job_stands_in_its_directory_only(tree, drain):
    own = f"{tree.job_path(JobKey('slurm', '12'))}/shutdowntime_job"
    assert drain("set", "--job", "12", "--at", "+1h")[0] == 0
    assert value(own) is not None
    assert value(f"{tree.machine_path}/shutdowntime") is None
    assert drain("cancel", "--job", "12", "--batch", "slurm")[0] == 0
    assert value(own) is None


@pytest.fixture
def limited(tree, make_job, monkeypatch):
    """A job whose limit was 600 s when it began and is 300 s now; it is told its end."""
    monkeypatch.setenv("JOBFEATURES_FEATURES_SHUTDOWN_BY_LIMIT", "true")
    job = make_job(job_id="12", start_secs=10**9, limits=Limits(wall_secs=600))
    tree.write_record(job.key, format_record(job, reported_at_secs=10**9))
    now = replace(job, limits=Limits(wall_secs=300))
    tree.write_known(job.key, format_record(now, reported_at_secs=10**9 + 60))
    return Path(tree.job_path(job.key), "shutdowntime_job")


def test_a_drain_that_is_cancelled_leaves_the_end_that_the_limit_sets_now(drain, limited):
    assert drain("set", "--job", "12", "--at", "+1h", "--force")[0] == 0
    assert drain("cancel", "--job", "12")[0] == 0
    assert limited.read_text() == f"{10**9 + 300}\n"


def test_a_job_that_is_told_no_shutdown_time_cannot_be_drained(drain, limited, monkeypatch):
    assert drain("set", "--job", "12", "--at", "+1h", "--force")[0] == 0
    monkeypatch.setenv("JOBFEATURES_FEATURES_LEAVE_OUT", "shutdowntime_job")
    status, _, err = drain("set", "--job", "12", "--at", "+2h", "--force")
    assert (status, "features.leave_out excludes shutdowntime_job" in err) == (2, True)
    assert drain("cancel", "--job", "12")[0] == 0
    assert not limited.exists()


def test_a_number_that_two_schedds_gave_names_a_job_once_one_is_left(tree, drain, capsys):
    one, other = JobKey("htcondor", "17.0@a.b"), JobKey("htcondor", "17.0@schedd2@a.b")
    for key in (one, other):
        tree.write_job(key, {"job_id": "17.0"})
    status, _, err = drain("set", "--job", "17.0", "--at", "+1h")
    assert (status, "17.0@a.b, 17.0@schedd2@a.b" in err) == (2, True)
    assert drain("set", "--job", other.job_id, "--at", "+1h")[0] == 0
    assert value(f"{tree.job_path(one)}/shutdowntime_job") is None
    assert main(["show", "17.0", "--features.root", tree.root]) == 0
    assert capsys.readouterr().out.count("job_id 17.0") == 2
    tree.remove_job(one)
    assert drain("cancel", "--job", "17.0")[0] == 0
    assert value(f"{tree.job_path(other)}/shutdowntime_job") is None


def test_the_promise_that_was_published_is_kept(tree, drain):
    assert drain("set", "--at", "+61")[0] == 0
    status, _, err = drain("set", "--at", "+30")
    assert status == 1
    assert "grace_secs promises them 60 s" in err
    assert drain("set", "--job", "12", "--at", "+300")[0] == 1
    assert drain("set", "--job", "12", "--at", "+300", "--force")[0] == 0
    assert drain("set", "--at", "1000")[0] == 1  # in the past


@pytest.mark.parametrize(("profile", "stays"), [("2014", False), ("both", True), ("2016", True)])
def test_a_shutdown_time_that_has_come_is_taken_away_without_a_daemon_where_2014_wants_it(
    tree, drain, clock, monkeypatch, profile, stays
):
    monkeypatch.setattr("jobfeatures.commands.drain.SystemClock", lambda: clock)
    file = Path(tree.machine_path, "shutdowntime")
    assert drain("set", "--at", "+2h", "--features.profile", profile)[0] == 0
    assert drain("expire", "--features.profile", profile)[0] == 0
    assert file.exists()  # it has not come yet
    assert drain("set", "--at", "+1m", "--force", "--features.profile", profile)[0] == 0
    clock.advance(60)
    assert file.exists()
    assert drain("expire", "--features.profile", profile)[0] == 0
    assert file.exists() == stays


def test_where_no_shutdown_is_announced_nothing_is_made(tmp_path):
    root = tmp_path / "none"
    assert main(["drain", "expire", "--features.root", str(root), "--features.profile", "2014"]) == 0
    assert not root.exists()


def test_without_a_promise_the_operator_is_told(tree, drain):
    tree.write_machine({"total_cpu": "4"})
    status, _, err = drain("set", "--at", "+30")
    assert status == 0
    assert "grace_secs is not set" in err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("set", "--at", "tomorrow"), 2, "--at"),
        (("set", "--at", "+1h", "--job", "77"), 1, "nothing is published here"),
        (("set", "--at", "+1h", "--batch", "slurm"), 2, "can be used only with --job"),
        (("plan", "--nodes", "x"), 2, "needs --prometheus"),
        (("plan", "--metrics", "file:///etc/passwd"), 2, "--metrics"),
        (("plan", "--metrics", "http://h", "--prometheus", "http://h"), 2, "cannot be combined with"),
        (("plan", "--metrics.user", "ann"), 2, "--metrics.password-file"),
        (("plan", "--metrics", "http://127.0.0.1:1/metrics"), 1, "127.0.0.1:1"),
        (("plan", "--before", "1000"), 2, "--before"),
    ],
)
def test_what_cannot_be_done_is_said(drain, arguments, status, said):
    found, _, err = drain(*arguments)
    assert found == status
    assert said in err


def test_an_id_of_two_batch_systems_has_to_be_told_apart(tree, drain):
    tree.write_job(JobKey("spool", "12"), {"job_id": "12"})
    assert drain("set", "--job", "12", "--at", "+1h")[0] == 2
    assert drain("set", "--job", "12", "--batch", "spool", "--at", "+1h")[0] == 0


def test_a_broken_store_is_named_and_nothing_is_published(tree, drain):
    path = Path(tree.drains_path) / "operator.json"
    path.write_text("{")
    path.chmod(0o600)
    status, _, err = drain("set", "--at", "+2h")
    assert status == 1
    assert str(path) in err
    assert value(f"{tree.machine_path}/shutdowntime") is None


# --- plan and victims ---------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = "Basic " + base64.b64encode(b"ann:secret").decode()
        if self.path in PAGES:
            body = PAGES[self.path]
        elif self.path == "/announced/metrics":
            body = f'{PAGE}batch_node_shutdown_time_seconds{{source="slurm"}} {time.time() + 3600}\n'
        elif self.path == "/closed/metrics" and self.headers["Authorization"] == wanted:
            body = PAGE
        elif self.path.startswith("/api/v1/query?query=%7B__name__"):
            result = [
                {
                    "metric": {"__name__": each.name, "instance": name, **each.labels},
                    "value": [0, str(each.value)],
                }
                for each in parse_lines(PAGE, NAMES)
                for name in ("n2:9819", "n1:9819")
            ]
            body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=functools.partial(server.serve_forever, 0.01))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_plan_of_this_node_comes_from_its_daemon(drain, url):
    status, out, _ = drain("plan", "--metrics", f"{url}/metrics", "--format", "json")
    assert status == 0
    [node] = json.loads(out)["nodes"]
    assert [choice["after_secs"] for choice in node["choices"]] == [0, 3000, 5000]
    # Now both are killed: 2400 + 3200. At 3000 s the pilot is: 3200 + 5 × 3000, and 1200 × 3/5 drained.
    # At 5000 s the pilot, which has all CPUs, has drained: 1200.
    assert [choice["waste_core_secs"] for choice in node["choices"]] == [5600, 18_200 + 720, 1200]
    assert node["best"]["after_secs"] == 5000
    text = drain("plan", "--metrics", f"{url}/metrics")[1]
    assert "* cheapest: " in text
    assert "in 01:23:20, wastes 0.33 core hours (mixed)" in text
    assert 'report more waste than is possible, so it is capped: spool pilot "7"' in text
    assert node["nobody_killed"]["after_secs"] == 5000
    assert drain("plan", "--metrics", url)[1].count("* cheapest") == 1  # the daemon's address will do


def test_a_maintenance_that_is_announced_is_told_and_no_later_time_is_offered(drain, url):
    announced = f"{url}/announced/metrics"
    status, out, _ = drain("plan", "--metrics", announced, "--format", "json")
    [node] = json.loads(out)["nodes"]
    assert [round(choice["after_secs"]) for choice in node["choices"]] == [0, 3000, 3600]
    assert (status, node["announced"], node["announced_by"]) == (0, node["choices"][2], "slurm")
    assert node["nobody_killed"] is None
    # The pilot has all CPUs, has drained 1200 × 3600/5000, and loses 3200 + 5 × 3600.
    assert node["announced"]["waste_core_secs"] == pytest.approx(864 + 21_200, abs=20)
    lines = drain("plan", "--metrics", announced)[1].splitlines()
    assert "+ some job is killed at any time" in lines
    (said,) = (line for line in lines if line.startswith("announced by slurm: "))
    assert re.search(r", in (01:00:00|00:59:59), wastes 6\.13 core hours \(mixed\), 1 job killed$", said)


@pytest.mark.parametrize("command", [("drain", "plan"), ("victims", "--cores", "4")])
def test_advice_that_knows_too_little_names_no_best_and_has_a_status_of_its_own(url, capsys, command):
    unknown = "slurm 12" if command[0] == "drain" else "its cores or its waste are unknown"
    for page, said in (("early", "no answer yet, so jobs may be missing: spool"), ("blind", unknown)):
        assert main([*command, "--metrics", f"{url}/{page}/metrics"]) == 3
        text = capsys.readouterr().out
        assert said in text
        assert "*" not in text
    assert main([*command, "--metrics", f"{url}/early/metrics", "--format", "json"]) == 3
    [node] = json.loads(capsys.readouterr().out)["nodes"]
    assert node.get("best") is None
    assert node["silent_sources"] == ["spool"]
    assert not any(job["needed"] for job in node.get("jobs", []))


@pytest.mark.parametrize("command", [("drain", "plan"), ("victims", "--cores", "4")])
def test_a_node_is_asked_with_a_password_and_another_page_is_refused(url, capsys, tmp_path, command):
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    known = ["--metrics.user", "ann", "--metrics.password-file", str(secret)]
    assert main([*command, "--metrics", f"{url}/closed/metrics", *known]) == 0
    assert main([*command, "--metrics", f"{url}/closed/metrics"]) == 1
    assert main([*command, "--metrics", f"{url}/other/metrics"]) == 1
    assert "not a metrics page of jobfeatures-exporter" in capsys.readouterr().err


def test_victims_of_many_nodes_come_from_prometheus_node_by_node(url, capsys):
    assert main(["victims", "--cores", "4", "--prometheus", url, "--format", "json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [(node["node"], node["freed"]) for node in nodes] == [("n1:9819", 4), ("n2:9819", 4)]


def test_the_plan_of_many_nodes_comes_from_prometheus_and_names_the_order(drain, url):
    status, out, _ = drain(
        "plan", "--prometheus", url, "--nodes", 'n.*"', "--before", "+4h", "--format", "json"
    )
    assert status == 0
    assert [node["node"] for node in json.loads(out)["nodes"]] == ["n1:9819", "n2:9819"]
    assert "order of draining" in drain("plan", "--prometheus", url)[1]
    assert drain("plan", "--prometheus", f"{url}/wrong")[0] == 1


def test_victims_are_the_cheapest_jobs_and_too_few_cores_are_an_exit_status(url, capsys):
    assert main(["victims", "--cores", "4", "--metrics", f"{url}/metrics", "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["nodes"]
    assert [(each["cores"], each["needed"]) for each in found["jobs"]] == [(4, True), (8, False)]
    assert (found["freed"], found["available"], found["kill_waste_core_secs"]) == (4, 12, 2400)
    assert main(["victims", "--cores", "9", "--metrics", f"{url}/metrics"]) == 0
    assert (
        "giving up * frees 12 cores, wasting 1.56 core hours, the least that frees 9; 2 of 2 jobs considered"
        in (capsys.readouterr().out)
    )
    assert main(["victims", "--cores", "100", "--metrics", f"{url}/metrics"]) == 1
    assert "12 of 100 cores" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["victims", "--cores", "0"])


def test_a_plot_needs_matplotlib_and_says_so(drain, url, tmp_path, monkeypatch):
    for each in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, each, None)
    status, _, err = drain("plan", "--metrics", f"{url}/metrics", "--plot", str(tmp_path / "x.png"))
    assert status == 2
    assert "jobfeatures-exporter[analysis]" in err


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_plan_is_drawn(drain, url, tmp_path):
    one, many = tmp_path / "one.png", tmp_path / "many.svg"
    assert drain("plan", "--metrics", f"{url}/metrics", "--plot", str(one))[0] == 0
    assert one.read_bytes().startswith(b"\x89PNG")
    assert drain("plan", "--prometheus", url, "--plot", str(many))[0] == 0
    assert b"<svg" in many.read_bytes()
    assert drain("plan", "--metrics", f"{url}/metrics", "--plot", str(tmp_path / "x.wrong"))[0] == 2
