"""Slurm 26.05 as sites set it up on control groups v2: wherever its groups lie, pages have the kernel's figures.

A virtual machine plays it (tests/labs/slurm/sites.py); here what was seen is judged.
"""

from __future__ import annotations

import re
from functools import partial

import pytest

from tests.integration.playedjobs import info_of, series_of
from tests.integration.slurmmachine import play_in_machine

pytestmark = pytest.mark.timeout(1500)
MIB = 2**20
PLACES = {  # where the group of slurmstepd is, by node
    "lab2": "slurm.slice",
    "lab3": "one.slice/one-two.slice/one-two-three.slice",
    "lab4": "system.slice",
    "lab5": r"kubepods.slice/.*/cri-containerd-\w{64}.scope/system.slice",
    "lab6": r"docker/\w{64}/nested.slice/deeper.slice",
    "lab7": "lxc.payload.101/system.slice",
    "lab8": "machine.slice/machine-node8.scope/payload/system.slice",
}


@pytest.fixture(
    scope="module",
    params=[pytest.param("short", id="some"), pytest.param("long", id="all", marks=pytest.mark.long)],
)
def seen(request, tmp_path_factory):
    """Boot the machine, play the jobs of all nodes at once, and return what was seen."""
    return play_in_machine(tmp_path_factory.mktemp("sites") / "lab", "sites.py", request.param)


series, info = partial(series_of, "slurm"), partial(info_of, "slurm")


def jobs(seen) -> list[tuple[str, str, str]]:
    """Return each of our daemons that is to find its node's job, with the node and the job's id."""
    daemons = seen["daemons"].items()
    return [(name, node, seen["ids"][node]) for name, (node, how) in daemons if how != "unnamed"]


def numbers(text: str) -> dict[str, int]:
    """Return the numbers of one of the kernel's files of pairs."""
    return {key: int(value) for key, value in map(str.split, text.splitlines())}


def test_every_node_ran_its_job_where_its_site_puts_it(seen):
    assert seen["failures"] == []
    for node in seen["ids"]:
        job = "job_" if node in ("lab4", "lab6") else "s"
        assert re.fullmatch(rf"{PLACES[node]}/{node}_slurmstepd.scope/{job}\w+", seen["before"][node]["path"])


def test_a_job_is_found_wherever_its_group_is_without_hooks_and_settings(seen):
    for name, node, job_id in jobs(seen):
        found = info(seen["pages"][name], job_id)
        assert (found["user"], found["name"], found["accounting"]) == ("alice", f"of {node}", "cgroup"), name
        assert found["sluid"] == seen["before"][node]["sluid"]


def test_a_page_has_no_job_of_another_node_and_none_that_was_made_by_hand(seen):
    for name, _, job_id in jobs(seen):
        assert set(re.findall(r'[{,]job_id="([^"]*)"', seen["pages"][name])) == {job_id}, name


def test_figures_are_the_kernels(seen):
    """What a user or root has made by hand in the likeness of these jobs counts for none of them."""
    for name, node, job_id in jobs(seen):
        page = seen["pages"][name]
        before, after = (seen[each][node]["files"] for each in ("before", "after"))
        cpu = [numbers(each["cpu.stat"])["usage_usec"] / 1e6 for each in (before, after)]
        assert cpu[0] - 0.2 <= sum(series(page, "batch_job_cpu_seconds_total", job_id)) <= cpu[1] + 0.1, name
        anon = [numbers(each["memory.stat"])["anon"] for each in (before, after)]
        [shown] = series(page, "batch_job_memory_bytes", job_id, component="anon")
        assert min(anon) - MIB <= shown <= max(anon) + MIB, name
        assert 35 * MIB < shown < 60 * MIB, "35 MiB of its own, and its interpreters'"
        assert series(page, "batch_job_memory_limit_bytes", job_id) == [120 * MIB], name
        assert series(page, "batch_job_memory_peak_bytes", job_id) == pytest.approx(
            [int(after["memory.peak"])], abs=MIB
        )
        assert series(page, "batch_job_oom_kills_total", job_id) == [0]


def test_processes_are_counted_from_outside_inside_and_a_namespace_apart(seen):
    for name, node, job_id in jobs(seen):
        counted = {seen[each][node]["processes"] for each in ("before", "after")}
        assert set(series(seen["pages"][name], "batch_job_processes", job_id)) <= counted, name
        assert min(counted) >= 4  # two shells or so, and two programs
        if "pids.current" in seen["before"][node]["files"]:
            threads = {int(seen[each][node]["files"]["pids.current"]) for each in ("before", "after")}
            assert set(series(seen["pages"][name], "batch_job_threads", job_id)) <= threads, name
        assert sum(series(seen["pages"][name], "batch_job_io_read_bytes_total", job_id)) > 0, name


def test_steps_are_told(seen):
    for name, _, job_id in jobs(seen):
        page = seen["pages"][name]
        steps = set(re.findall(rf'batch_job_step_cpu_seconds_total\{{.*job_id="{job_id}",step="(\w+)"', page))
        assert steps >= {"batch", "0"}, name


def test_a_job_asks_for_its_remaining_time_by_what_its_whole_group_has_used(seen):
    """Its script and its step have used a second each; of its session alone it would be less."""
    for node in {node for _, node, _ in jobs(seen)}:
        text = seen["told"][node]
        [used] = re.findall(r"^cpu_limit \d+ \((\d+) s used by control group (?:/\S+)", text, re.MULTILINE)
        assert 2 <= int(used) <= numbers(seen["before"][node]["files"]["cpu.stat"])["usage_usec"] / 1e6 + 1, (
            node
        )


def test_doctor_finds_the_jobs(seen):
    for name in {each for each, _, _ in jobs(seen)} & seen["doctor"].keys():
        said = seen["doctor"][name][1]
        lines = re.findall(r"(?m)^(ok|note|WRONG) +(.*)$", said)
        assert ("ok", "slurm: answers: 1 job on this node") in lines, (name, said)
        assert not [line for mark, line in lines if mark == "WRONG" and "jobs" in line], (name, said)


def test_a_container_that_nothing_names_is_told_and_what_to_set(seen):
    name = "lab7 unnamed"
    if name not in seen["daemons"]:
        return  # it takes a minute
    page, job_id, path = seen["pages"][name], seen["ids"]["lab7"], f"/{PLACES['lab7']}"
    assert info(page, job_id)["accounting"] == ""
    assert series(page, "batch_job_cpu_seconds_total", job_id) == []
    assert 'batch_node_jobs_without_group{reason="no_group_found"} 1\n' in page
    [wrong] = re.findall(r"(?m)^WRONG +slurm jobs: (.*\n.*)$", seen["doctor"][name][1])
    assert f"slurmd's control group is {path}/lab7_slurmstepd.scope/" in wrong
    assert 'set batch.cgroup_parents = ["/lxc.payload.' in wrong


def test_nothing_is_left_of_a_job_that_has_ended(seen):
    assert seen["left"] == []
    for page in seen["last"].values():
        assert "batch_job_info{" not in page
