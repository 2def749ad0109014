"""The units under a real systemd, which is process 1: start, scrape, reload, watchdog, sockets, stop, rights."""

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLAIN_JOB = 'batch_system="spool",job_id="7"'  # known by its process
GROUP_JOB = 'batch_system="slurm",job_id="9"'  # known by its control groups


def system_python() -> str:
    """Return an interpreter outside of /root and /home, which the units hide, if it can use our libraries."""
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    for name in (f"/usr/bin/python3.{sys.version_info[1]}", "/usr/bin/python3"):
        if Path(name).exists() and subprocess.run([name, "-c", version]).returncode == 0:
            return name
    return str(Path(sys.executable).resolve())


# Two boots: on control groups v1, as fast as this machine is, and on v2, in User Mode Linux.
STEPS = (
    ("started", "hardened_against_not", "told", "reloaded", "watched", "stopped", "refused", "activated", "controller"),
    ("started", "told", "unprivileged", "ended"),
)  # fmt: skip


@pytest.fixture(scope="module")
def seen(request):
    """Return a function that gives what the scenario saw in one of the boots."""

    @functools.cache
    def see(number):
        python = system_python()
        script = (
            f"{python} /mnt/project/tests/labs/systemd/scenario.py /mnt/project/packaging/systemd"
            f" /mnt/project/packaging/systemd-variants /mnt/lib {python} {' '.join(STEPS[number])}\n"
        )
        if number == 0:
            if not python.startswith("/usr/bin/"):
                pytest.skip("needs Debian's Python to be of this version")
            printed = request.getfixturevalue("run_in_container")(script)
        else:
            if not Path("/lib/systemd/systemd").exists() or shutil.which("dbus-daemon") is None:
                pytest.skip("needs Debian's systemd and dbus")
            printed = request.getfixturevalue("run_in_machine")(script, "-s")
        return json.loads(printed.splitlines()[-1])

    return see


@pytest.fixture
def facts(seen):
    """What the first boot gave."""
    return seen(0)


@pytest.fixture
def more_facts(seen):
    """What the second boot gave."""
    return seen(1)


def names(series):
    return {each.partition("{")[0] for each in series}


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_every_step_of_the_scenario_came_to_its_end(seen, number):
    assert {name: found["failed"] for name, found in seen(number).items() if "failed" in found} == {}
    assert set(seen(number)) == set(STEPS[number])


def test_the_service_is_active_when_it_says_that_it_is_ready(facts):
    found = facts["started"]
    assert (found["ActiveState"], found["SubState"], found["NRestarts"]) == ("active", "running", "0")
    assert found["StatusText"].startswith("serving on 127.0.0.1:9819: ")


def test_the_hardened_service_shows_jobs_and_what_their_processes_read(facts):
    found = facts["started"]["page"]
    mine = {each.partition("{")[0] for each in found if PLAIN_JOB in each}
    assert {"batch_job_cpu_seconds_total", "batch_job_io_read_bytes_total", "batch_job_info"} <= mine


def test_it_publishes_features_and_gives_the_status_to_the_jobs_user(facts):
    found, told = facts["started"], facts["told"]
    assert found["features"]["wall_limit_secs"] == "3600"
    assert found["features"]["hs06_job"] == f"{100 * 2 / found['cpus']:g}"
    assert found["status_owner"] == "daemon"
    assert told["said"] == ""
    assert told["seen"] == [f"batch_job_status_used_cpus{{{PLAIN_JOB}}} 2"]
    assert found["modes"]["jobfeatures"] == "0o755"
    assert found["modes"]["tokens"] == "0o700"


def test_it_has_no_rights_but_those_that_are_named(facts):
    status = dict(re.findall(r"^(\w+):\s*(.*)$", facts["started"]["process"], re.MULTILINE))
    # CAP_CHOWN 0, CAP_DAC_OVERRIDE 1, CAP_FOWNER 3, CAP_SYS_PTRACE 19, CAP_PERFMON 38, CAP_BPF 39: linux/capability.h
    lasting = 1 | 1 << 1 | 1 << 3 | 1 << 19
    assert (
        int(status["CapEff"], 16) == int(status["CapPrm"], 16) == lasting
    )  # the last two are given up at once
    assert int(status["CapBnd"], 16) == lasting | 1 << 38 | 1 << 39
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_hardening_takes_no_series_and_makes_nothing_unreadable(facts):
    found = facts["hardened_against_not"]
    assert set(found["service"]["unreadable"]) <= set(found["plain"]["unreadable"])
    fewer = names(found["plain"]["series"]) - names(found["service"]["series"])
    assert {name for name in fewer if not name.endswith("_by_reason_total")} == set()  # only what has counted
    for job in (PLAIN_JOB, GROUP_JOB):
        series = {each for each in found["plain"]["series"] if job in each}
        assert len(series) > 10
        assert series <= set(found["service"]["series"])


def test_a_reload_takes_effect_in_the_same_process_and_loses_no_scrape(facts):
    found = facts["reloaded"]
    assert found["before"]["hs06"] == "100"
    assert found["taken"]
    assert found["said"] == ""
    assert found["after_good"][1] > found["before"]["metric"][1]
    assert found["same_process"]
    assert found["scraper"]["answers"] > 10
    assert found["scraper"]["failures"] == []
    assert 'msg="this setting needs a restart: sample.interval"' in found["log"]
    assert 'changed="machine.hs06,metrics.max_series"' in found["log"]


def test_counters_never_fall_over_a_reload(facts):
    assert facts["reloaded"]["scraper"]["falls"] == []


def test_a_bad_configuration_is_told_and_the_old_one_stays(facts):
    found = facts["reloaded"]
    assert found["after_bad"] == [0, found["after_good"][1]]
    assert found["hs06_after_bad"] == "250"
    assert found["status_after_bad"]["ActiveState"] == "active"
    lines = [line for line in found["log"].splitlines() if "level=error" in line]
    wrong = "/etc/jobfeatures-exporter/config.toml:4: web.listen_addres: there is no such setting"
    assert [line for line in lines if wrong not in line] == []
    assert any("logger=jobfeatures_exporter.startup.reloader" in line for line in lines)
    assert found["mended"][0] == 1


def test_the_watchdog_lets_a_living_service_live_and_replaces_one_that_hangs(facts):
    found = facts["watched"]
    assert found["quiet"]["NRestarts"] == "0"
    assert found["quiet"]["MainPID"] == found["start"]["MainPID"]
    assert int(found["again"]["NRestarts"]) >= 1
    assert found["back"]
    assert not found["same"]
    assert found["features"] == "7"
    assert "most recent call first" in found["log"]  # what each thread was doing


def test_it_may_raise_its_limit_of_descriptors_as_the_need_grows(facts):
    assert 64 < facts["watched"]["quiet"]["fds"] <= 4096


def test_it_stops_without_a_complaint_and_leaves_the_features(facts):
    found = facts["stopped"]
    assert (found["ActiveState"], found["Result"], found["ExecMainStatus"]) == ("inactive", "success", "0")
    assert "job_id" in found["features"]
    assert "msg=stopped" in found["log"]


def test_a_wrong_setting_fails_the_start_once_with_one_line(facts):
    found = facts["refused"]
    assert (found["ActiveState"], found["ExecMainStatus"], found["NRestarts"]) == ("failed", "2", "0")
    file, said = (
        "/etc/jobfeatures-exporter/config.toml:12",
        "there is no such setting; did you mean web.listen_address?",
    )
    said_here = [
        line for line in found["log"].splitlines() if not line.startswith("ts=")
    ]  # not of the run before
    assert said_here == [f"jobfeatures-exporter: {file}: web.listen_addres: {said}"]


def test_the_first_scrape_starts_the_service_and_none_is_refused_while_it_restarts(facts):
    found = facts["activated"]
    assert found["socket"]["ActiveState"] == "active"
    assert found["before"] != "active"
    assert found["first"] == "healthy\n"
    assert found["restart"]["ActiveState"] == "active"
    assert found["scraper"]["answers"] > 2
    assert found["scraper"]["failures"] == []


def test_without_root_everything_is_measured_and_nothing_published(more_facts):
    found = more_facts["unprivileged"]
    assert found["uid"] == "990"
    assert found["ActiveState"] == "active"
    assert found["features_owner"] == [0, 0]
    rooted = {each for each in more_facts["told"]["series"] if PLAIN_JOB in each}
    assert len(rooted) > 10
    assert rooted - set(found["series"]) == set()
    assert not [each for each in found["series"] if "unreadable_readings_by_kind" in each]


def test_the_controller_runs_without_root_and_without_any_right(facts):
    found = facts["controller"]
    assert (found["ActiveState"], found["uid"]) == ("active", "990")
    assert found["up"]['batch_exporter_source_up{source="slurm-queue"}'] == 1
    assert "slurm-queue answers" in found["status"]["StatusText"]
    assert found["reload"] == ""
    assert (found["stop"]["Result"], found["stop"]["ExecMainStatus"]) == ("success", "0")


def test_the_directories_of_a_job_that_has_ended_are_taken_away_though_its_user_owns_one(more_facts):
    found = more_facts["ended"]
    assert found["before"] == ["used_CPU"]
    assert found["gone"]
    assert not re.search(r"batch_features_write_failures_total(\{.*\})? [1-9]", found["page"])
