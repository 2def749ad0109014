"""What is new in Slurm 26.05, on a real one in a virtual machine (tests/labs/slurm/news.py); here what was seen is judged."""

from __future__ import annotations

import re
from functools import partial

import pytest

from tests.integration.playedjobs import info_of, series_of
from tests.integration.slurmmachine import play_in_machine

pytestmark = [pytest.mark.timeout(1500), pytest.mark.long]
MIB = 2**20


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Boot the machine, play the jobs, and return what was seen."""
    return play_in_machine(tmp_path_factory.mktemp("news") / "lab", "news.py")


series, info = partial(series_of, "slurm"), partial(info_of, "slurm")


def memory(seen, moment, name):
    """Return a job's allocated memory by the server, by the page, as the job reads it, and its limit by kernel and page."""
    found, job_id = seen[moment], seen["ids"][name]
    server = found["server"][job_id]["memory_per_node"]["number"] * MIB
    kernel = int(found["kernel"][name]["memory.max"])
    page = [
        each
        for shown in ("batch_job_allocated_memory_bytes", "batch_job_memory_limit_bytes")
        for each in series(found["page"], shown, job_id)
    ]
    return server, page[0], int(found["features"][name]["max_rss_bytes"]), kernel, page[1]


def test_every_job_was_played(seen):
    assert seen["failures"] == []


def test_a_memory_limit_that_is_lowered_while_the_job_runs_is_told_at_once(seen):
    assert memory(seen, "live", "lowered") == (400 * MIB,) * 5
    assert memory(seen, "lowered", "lowered") == (250 * MIB,) * 5


def test_a_limit_that_slurm_lowers_by_itself_is_told(seen):
    """--mem-update: what the job has used and half as much, after a minute; the kernel's limit is 30 MiB at least."""
    assert f"max_rss_bytes={200 * MIB}" in seen["first"]["updating"]
    server, allocated, told, kernel, limit = memory(seen, "updated", "updating")
    assert server == allocated == told < 200 * MIB
    assert kernel == limit == max(server, 30 * MIB)


def test_steps_of_srun_async_and_stepmgr_have_their_features_and_are_counted(seen):
    assert seen["steps"] == ["2", "2", "2"]
    page, job_id = seen["live"]["page"], seen["ids"]["updating"]
    steps = set(re.findall(rf'batch_job_step_cpu_seconds_total\{{.*job_id="{job_id}",step="(\w+)"', page))
    assert steps >= {"batch", "0", "1", "2"}
    used = {
        key: int(value)
        for key, value in map(str.split, seen["live"]["kernel"]["updating"]["cpu.stat"].splitlines())
    }
    assert sum(series(page, "batch_job_cpu_seconds_total", job_id)) == pytest.approx(
        used["usage_usec"] / 1e6, abs=1.0
    )


def test_features_are_there_at_the_first_line_where_the_prolog_runs_in_the_job(seen):
    """PrologFlags=RunInJob,DeferBatch: within the job's own memory, which Slurm makes 30 MiB at least."""
    for name, text in seen["first"].items():
        told = dict(line.split("=", 1) for line in text.splitlines())
        assert told["job_id"] == seen["ids"][name]
        assert told["wall_limit_secs"] == "540"
        asked = {"lowered": 400, "updating": 200, "small": 10}[name]
        assert told["max_rss_bytes"] == str(asked * MIB), name
        assert "oom_kill 0" in seen["live"]["kernel"][name]["memory.events"].splitlines()


def test_an_external_job_is_known_and_has_no_figures(seen):
    page, job_id = seen["live"]["page"], seen["ids"]["external"]
    found = info(page, job_id)
    assert (found["user"], found["accounting"]) == ("alice", "")
    assert series(page, "batch_job_allocated_memory_bytes", job_id) == [50 * MIB]
    assert series(page, "batch_job_cpu_seconds_total", job_id) == []
    assert 'batch_node_jobs_without_group{reason="no_group_expected"} 1\n' in page
    assert not re.findall(r'batch_node_jobs_without_group\{reason="no_group_found"\} [^0]', page)
    assert not re.findall(r"(?m)^WRONG +slurm jobs", seen["doctor"])


@pytest.mark.parametrize("name", ["dirs", "dir_confs", "tmpfs"])
def test_a_namespace_with_a_run_of_its_own_hides_features_and_doctor_says_so(seen, name):
    found = seen["hidden"][name]
    assert found["seen"] == "none"
    kind = "namespace/tmpfs (job_container.conf)" if name == "tmpfs" else "namespace/linux (namespace.yaml)"
    assert (
        f"{kind} gives each job a /run of its own, in which it cannot find /run/jobfeatures"
        in found["doctor"]
    )


def test_a_namespace_with_other_folders_hides_nothing(seen):
    found = seen["hidden"]["elsewhere"]
    assert found["seen"] == "/run/jobfeatures/jobfeatures"
    assert "gives each job a /" not in found["doctor"]
