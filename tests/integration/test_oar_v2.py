"""OAR 2.6.1, of Debian 13, on control groups v2: one job of each kind, against OAR's words and the kernel's files.

All jobs run at once (tests/labs/oar/trixie/kinds.py); here what was seen is judged: of a daemon that reads OAR's files, as
its unit starts it, and of one that asks the controller role. JOBFEATURES_CAPTURES names a folder that gets what OAR said.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.playedjobs import (
    check_directories,
    check_remaining,
    check_suspension,
    info_of,
    series_of,
)

pytestmark = pytest.mark.timeout(3300)  # all of it happens before the first test
SUITE = Path(__file__).parents[1] / "labs/oar/trixie/suite.sh"
# By kind: user, project, queue, cores, wall limit in seconds, state and exit code at the end as OAR tells them.
JOBS = {
    "plain": ("alice", "physics", "default", 2, 1620, "COMPLETED"),
    "array": ("bob", "default", "default", 1, 1500, "COMPLETED"),
    "several_cores": ("bob", "atlas", "default", 3, 1560, "COMPLETED"),
    "besteffort": ("alice", "default", "besteffort", 1, 1500, "COMPLETED"),
    "preempted": ("bob", "default", "besteffort", 1, 1500, "PREEMPTED"),
    "suspended": ("alice", "default", "default", 1, 1740, "COMPLETED"),
    "deleted": ("alice", "default", "default", 1, 1500, "CANCELLED"),
    "failed": ("bob", "default", "default", 1, 1500, "FAILED"),
    "crashed": ("bob", "default", "default", 1, 1500, "FAILED"),
    "overtime": ("alice", "default", "default", 1, 60, "TIMEOUT"),
    "signalled": ("bob", "default", "default", 1, 1500, "FAILED"),
    "prolonged": ("alice", "default", "default", 1, 1500, "COMPLETED"),
    "moldable": ("bob", "default", "default", 2, 1440, "COMPLETED"),
    "container": ("alice", "default", "default", 2, 1680, "COMPLETED"),
    "inner": ("alice", "default", "default", 1, 1200, "COMPLETED"),
    "named_like_a_file": ("alice", "default", "default", 1, 1500, "COMPLETED"),
    "named_like_a_command": ("alice", "p;q|r", "default", 1, 1500, "COMPLETED"),
    "interactive": ("bob", "default", "default", 1, 1380, "COMPLETED"),
    "cosystem": ("bob", "default", "default", 1, 1500, "COMPLETED"),  # it has no control group
    "preempting": (
        "alice",
        "default",
        "default",
        1,
        1320,
        "COMPLETED",
    ),  # begins once the others were looked at
    "held": ("bob", "atlas", None, None, 93784, "CANCELLED"),  # never began
}
UIDS = {"alice": 6001, "bob": 6002}
FILES, ASKING = "127.0.0.1:9819", "127.0.0.1:9829"
LIVE = tuple(kind for kind in JOBS if kind not in ("overtime", "preempting", "held"))
SHOWN = tuple(kind for kind in LIVE if kind != "cosystem")


def play(lab: Path, machine: str, pace: int, *kinds: str) -> dict:
    """Play jobs, all kinds unless some are named; return what was seen, which is in a folder below LAB too."""
    if os.geteuid() != 0:
        pytest.skip("a private OAR needs root: its nodes start jobs as other users")
    if not shutil.which("debootstrap"):
        pytest.skip("needs debootstrap")
    for folder in lab.parents[:3]:
        folder.chmod(0o755)  # OAR and its users are to reach it
    command = (machine, lab, "env", f"KINDS_PACE={pace}", "python3", "/opt/lab/kinds.py", "/mnt", *kinds)
    environ = {**os.environ, "UML_TIMEOUT": "3000"}
    done = subprocess.run([SUITE, *command], capture_output=True, text=True, timeout=3200, env=environ)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    print(done.stdout)
    found = json.loads((lab / "seen/seen.json").read_text())
    assert found["failures"] == []
    return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict:
    """Play all jobs, and return what was seen."""
    lab = tmp_path_factory.mktemp("oar") / "lab"
    found = play(lab, "none", 1)
    if captures := os.environ.get("JOBFEATURES_CAPTURES"):
        target = Path(captures) / f"oar-{found['version']}"
        shutil.copytree(lab / "seen/captured", target, dirs_exist_ok=True)
        shutil.copy(lab / "seen/seen.json", target)
    shutil.rmtree(lab)
    return found


def jobs(seen, kinds=JOBS) -> Iterator[tuple[str, str]]:
    """Return kind and id of each job of these kinds."""
    return ((kind, job_id) for kind in kinds for job_id in seen["ids"][kind])


series, info = partial(series_of, "oar"), partial(info_of, "oar")


def test_every_kind_of_job_ran_and_ended_as_it_should(seen):
    assert seen["version"] == "2.6.1"
    assert seen["ids"].keys() == JOBS.keys()
    assert {kind: len(ids) for kind, ids in seen["ids"].items() if len(ids) != 1} == {"array": 2}
    by_id = {str(each["job_id"]): each for each in seen["table"]}
    words = {"COMPLETED": "Terminated", "FAILED": "Terminated"}
    for kind, job_id in jobs(seen):
        assert by_id[job_id]["state"] == words.get(JOBS[kind][-1], "Error"), kind
    assert seen["alive"] == 32, "no hook has put the node out of service"


@pytest.mark.parametrize("of", ["page", "asking"])
def test_labels_are_oars(seen, of):
    page = seen["live"][of]
    for kind, job_id in jobs(seen, SHOWN):
        server, found = seen["live"]["server"][job_id], info(page, job_id)
        user, project, queue, *_ = JOBS[kind]
        assert (found["user"], found["uid"]) == (user, str(UIDS[user]))
        assert (found["account"], found["accounting"]) == (project, "cgroup"), kind
        assert (server["owner"], server["project"], server["queue"]) == (user, project, queue)
        # files do not tell the queue
        assert found["partition"] == (queue if of == "asking" else "")
        assert found["name"] == (server["name"] or ""), kind


@pytest.mark.parametrize("of", ["page", "asking"])
def test_tasks_of_an_array_name_it(seen, of):
    first, second = seen["ids"]["array"]
    for number, job_id in enumerate((first, second), 1):
        found = info(seen["live"][of], job_id)
        assert (found["array_job_id"], found["array_task_id"]) == (first, str(number))
        assert seen["live"]["server"][job_id]["array_id"] == int(first)
    for _, job_id in jobs(seen, [kind for kind in SHOWN if kind != "array"]):
        assert info(seen["live"][of], job_id)["array_job_id"] == ""


@pytest.mark.parametrize("of", ["page", "asking"])
def test_limits_and_allocations_are_oars(seen, of):
    page, looked = seen["live"][of], (seen["live"]["at"], seen["live"]["until"])
    for kind, job_id in jobs(seen, SHOWN):
        server = seen["live"]["server"][job_id]
        *_, cores, wall, _ = JOBS[kind]
        assert (
            series(page, "batch_job_allocated_cpus", job_id) == [cores] == [len(server["assigned_resources"])]
        )
        assert series(page, "batch_job_wall_limit_seconds", job_id) == [wall] == [server["walltime"]]
        [start] = series(page, "batch_job_start_time_seconds", job_id)
        if of == "asking":
            assert start == server["startTime"]
        else:  # when its files were made; OAR starts it, then makes them, then runs the prologue and the job
            [first] = [int(told["at"].split()[0]) for told in told_by(seen, kind) if told["job_id"] == job_id]
            # A file's time is of the kernel's coarse clock, which lags by a tick.
            assert server["startTime"] - 1 <= start <= first, kind
        [remaining] = series(page, "batch_job_remaining_seconds", job_id, basis="wall_limit")
        check_remaining(remaining, start + wall, looked)
    [prolonged] = seen["ids"]["prolonged"]
    assert series(seen["suspended"]["asking"], "batch_job_wall_limit_seconds", prolonged) == [2100]
    assert series(seen["suspended"]["page"], "batch_job_wall_limit_seconds", prolonged) == [1500], (
        "files lack it"
    )


def told_by(seen, kind: str) -> list[dict[str, str]]:
    """Return what the jobs of a kind read at their first lines."""
    return [told for name, told in seen["told"].items() if name.startswith(f"{kind}.")]


def figures(kernel: dict) -> dict[str, float]:
    """Return what the kernel's files say of a job."""
    cpu = dict(line.split() for line in kernel["cpu.stat"].splitlines())
    found = {"cpu": int(cpu["usage_usec"]) / 1e6, "processes": len(kernel["processes"])}
    if "memory.stat" in kernel:  # where v2 has that controller
        stat = dict(line.split() for line in kernel["memory.stat"].splitlines())
        found |= {"anon": int(stat["anon"]), "charged": int(kernel["memory.current"])}
    return found


def compare_with_kernel(seen, kinds) -> set[str]:
    """Return which figures could be compared.

    Jobs wait and use nothing: what is the same before and after the page is what the page has to say.
    """
    page, compared = seen["live"]["page"], set()
    for kind, job_id in jobs(seen, kinds):
        before, after = (figures(seen["live"][each][job_id]) for each in ("before", "after"))
        cpu = sum(series(page, "batch_job_cpu_seconds_total", job_id))
        assert before["cpu"] - 0.05 <= cpu <= after["cpu"] + 0.05, kind
        for name, shown, labels in (
            ("anon", "batch_job_memory_bytes", {"component": "anon"}),
            ("charged", "batch_job_memory_charged_bytes", {}),
            ("processes", "batch_job_processes", {}),
        ):
            if before.get(name) == after.get(name) is not None:
                near = 2**20 if name == "charged" else 0  # the kernel charges in portions
                assert series(page, shown, job_id, **labels) == pytest.approx([before[name]], abs=near), (
                    kind,
                    name,
                )
                compared.add(name)
        for name, shown in (
            ("rchar", "batch_job_io_read_bytes_total"),
            ("wchar", "batch_job_io_written_bytes_total"),
        ):
            moved = [io for _, io in seen["live"]["before"][job_id]["processes"].values()]
            least = sum(int(re.search(rf"{name}: (\d+)", io)[1]) for io in moved)
            [found] = series(page, shown, job_id)
            assert least <= found, (kind, name)
    [busy] = seen["ids"]["plain"]
    assert sum(series(page, "batch_job_io_written_bytes_total", busy)) > 10_000_000
    assert sum(series(page, "batch_job_cpu_seconds_total", busy)) > 0.1
    return compared


def test_cpu_and_io_are_the_kernels(seen):
    waiting = [kind for kind in SHOWN if kind not in ("suspended", "signalled")]
    assert "processes" in compare_with_kernel(seen, waiting)


@pytest.mark.long
def test_memory_is_the_kernels_where_slices_have_that_controller(tmp_path):
    if not shutil.which("linux.uml"):
        pytest.skip("needs user-mode-linux")
    kinds = ("plain", "several_cores")
    assert compare_with_kernel(play(tmp_path / "lab", "uml", 10, *kinds), kinds) >= {"anon", "charged"}


def test_what_a_job_starts_is_in_its_slice_wherever_it_goes(seen):
    for kind, job_id in jobs(seen, SHOWN):
        uid, kernel = UIDS[JOBS[kind][0]], seen["live"]["before"][job_id]
        top, *scopes = kernel["groups"]
        assert top == f"oar-u{uid}.slice/oar-u{uid}-j{job_id}.slice"
        assert scopes, "OAR gives each login a scope of its own"
        comms = [comm for comm, _ in kernel["processes"].values()]
        assert "flock" in comms or kind in ("preempted", "suspended", "deleted", "signalled"), kind
    [plain], [shell] = seen["ids"]["plain"], seen["ids"]["interactive"]
    assert "sleep" in [comm for comm, _ in seen["live"]["before"][plain]["processes"].values()], (
        "a session of its own"
    )
    assert len(seen["live"]["before"][shell]["groups"]) == 3, (
        "two scopes: what waits for the user, and the shell"
    )


def test_a_job_finds_its_features_at_its_first_line(seen):
    for kind, (user, *_, cores, wall, _) in JOBS.items():
        if kind == "held":
            continue
        told = told_by(seen, kind)
        assert {each["job_id"] for each in told} == {job_id for _, job_id in jobs(seen, [kind])}
        for each in told:
            assert (each["user"], each["wrote"]) == (user, "True"), kind
            values = {
                name: int(each[name]) for name in ("allocated_cpu", "wall_limit_secs", "cpu_limit_secs")
            }
            assert values == {"allocated_cpu": cores, "wall_limit_secs": wall, "cpu_limit_secs": wall * cores}


def test_without_a_daemon_the_hooks_do_all(seen):
    [told] = told_by(seen, "hooked")
    assert (told["allocated_cpu"], told["wall_limit_secs"], told["wrote"]) == ("1", "300", "True")
    assert seen["left_by_hooks"] == []


def test_directories_hold_each_key_and_only_the_job_writes_its_status(seen):
    for kind, job_id in jobs(seen, SHOWN):
        user, *_, cores, wall, _ = JOBS[kind]
        found = seen["live"]["features"][job_id]
        [start] = series(seen["live"]["page"], "batch_job_start_time_seconds", job_id)
        expected = {
            "allocated_cpu": cores,
            "job_id": job_id,
            "jobstart_secs": int(start),
            "wall_limit_secs": wall,
        }
        expected["cpu_limit_secs"] = wall * cores
        check_directories(f"oar-{job_id}", found, expected, UIDS[user])
        assert seen["writers"][job_id] == {each: each == user for each in UIDS}, kind


def test_a_suspended_job_stands_still_and_goes_on(seen):
    [job_id] = seen["ids"]["suspended"]
    cpu = [
        sum(series(seen[each]["page"], "batch_job_cpu_seconds_total", job_id))
        for each in ("suspended", "still_suspended", "resumed")
    ]
    assert seen["suspended"]["server"][job_id]["state"] == "Suspended"
    assert seen["suspended"]["before"][job_id]["cgroup.freeze"] == "1\n"
    for of in ("asking", "page"):  # whose files do not tell it, but its control group
        assert series(seen["suspended"][of], "batch_job_state", job_id, state="SUSPENDED") == [1]
        assert series(seen["resumed"][of], "batch_job_state", job_id, state="RUNNING") == [1]
        left, later, resumed = (
            series(seen[each][of], "batch_job_remaining_seconds", job_id, basis="wall_limit")[0]
            for each in ("suspended", "still_suspended", "resumed")
        )
        assert left == later, of
        stood_secs = seen["still_suspended"]["at"] - seen["suspended"]["at"]
        ran_secs = seen["resumed"]["until"] - seen["resumed"]["server"][job_id]["startTime"] - stood_secs
        assert resumed >= 1740 - ran_secs - 3, of  # what it stood still belongs to its limit
    check_suspension(cpu)


def test_nothing_is_left_and_there_were_no_ghosts(seen):
    assert (seen["left"], seen["left_of_oar"]) == ([], [])
    every = {job_id for kind, job_id in jobs(seen) if kind != "held"}
    assert set(seen["ever"][ASKING]) == every
    assert set(seen["ever"][FILES]) == every  # that of type cosystem by its prologue alone
    for job_id, lines in seen["last"][FILES].items():
        ended = series("\n".join(lines), "batch_job_end_time_seconds", job_id)
        assert len(ended) == 1 or job_id in seen["ids"]["cosystem"], job_id


def test_no_text_of_a_user_reaches_what_root_runs(seen):
    assert seen["ran"] == []
    [job_id] = seen["ids"]["named_like_a_command"]
    [prologue] = [lines for name, lines in seen["hooks"].items() if name.startswith(f"prologue.{job_id}.")]
    assert prologue[0] == f"{job_id} alice /var/lib/oar/{job_id} 1500"
    assert "OAR_JOB_NAME=$(touch ran) `touch ran`" in prologue, "it was tried"
    named = {line.partition("=")[0] for line in prologue}
    assert not [each for each in named if each.startswith(("JOBFEATURES", "PYTHON", "LD_", "BASH_"))]


def test_machine_features_and_remaining_time_are_told_to_the_job(seen):
    assert int(seen["machinefeatures"]["total_cpu"]) > 0
    [plain] = seen["ids"]["plain"]
    secs, *looked = seen["remaining"]
    [start] = series(seen["live"]["page"], "batch_job_start_time_seconds", plain)
    check_remaining(int(secs), start + 1620, looked)


def test_a_user_has_a_report_of_a_running_job(seen):
    [job] = json.loads(seen["report"])["jobs"]
    assert (job["job_id"], job["user"], job["state"]) == (seen["ids"]["plain"][0], "alice", "RUNNING")
    assert job["wall_limit_secs"] == 1620


def test_the_controller_role_counts_as_oar_does(seen):
    """Its unit runs it, as OAR's user."""
    page, counted = seen["controller"], {}
    for job in seen["queue"].values():
        state = {"Running": "RUNNING", "Hold": "PENDING"}[job["state"]]
        counted[job["queue"], state] = counted.get((job["queue"], state), 0) + 1
    for (queue, state), count in counted.items():
        assert series(page, "batch_queue_jobs", partition=queue, state=state) == [count]
    cores = sum(len(job["assigned_resources"]) for job in seen["queue"].values())
    inner = JOBS["inner"][3]  # which has cores of its container
    assert series(page, "batch_cluster_cpus", kind="allocated") == [cores - inner]
    assert sum(series(page, "batch_cluster_cpus")) == 32
    assert series(page, "batch_queue_waiting_jobs") in ([], [0]), "a job that is held does not wait"


def sonar_jobs(text: str) -> dict[str, dict]:
    documents = [json.loads(line)["data"]["attributes"] for line in text.splitlines()]
    return {str(job["job_id"]): job for each in documents for job in each["slurm_jobs"]}


def test_accounting_becomes_logs_with_oars_figures(seen):
    table = {str(each["job_id"]): each for each in seen["table"]}
    status, said, text = seen["converted"]["swf"]
    assert status == 0, said
    rows = {line.split()[0]: line.split() for line in text.splitlines() if not line.startswith(";")}
    status, said, text = seen["converted"]["sonar"]
    assert status == 0, said
    sonar = sonar_jobs(text)
    asked = sonar_jobs(seen["sonar"])  # of the role, which asks for ended jobs itself
    assert {job_id: job["job_state"] for job_id, job in asked.items()} == {
        job_id: job["job_state"] for job_id, job in sonar.items()
    }
    assert {job_id for _, job_id in jobs(seen)} <= rows.keys() & sonar.keys()
    codes = {"COMPLETED": "1", "CANCELLED": "5"}
    for kind, job_id in jobs(seen):
        row, told, state = rows[job_id], table[job_id], JOBS[kind][-1]
        assert (row[10], sonar[job_id]["job_state"]) == (codes.get(state, "0"), state), kind
        assert (sonar[job_id]["user_name"], sonar[job_id]["account"]) == (told["job_user"], told["project"])
        if kind == "held":
            continue
        wall = 2100 if kind == "prolonged" else JOBS[kind][4]
        assert [JOBS[kind][3], wall] == [told["cpus"], told["walltime"]], kind
        cpus = -1 if kind == "inner" else JOBS[kind][3]  # its container's, which count once
        assert [int(row[place]) for place in (4, 8)] == [cpus, wall], kind
        assert int(row[2]) == told["start_time"] - told["submission_time"], kind
        assert int(row[3]) == told["stop_time"] - told["start_time"], kind
    assert seen["converted"]["sss"][2].count("<Job>") >= len(list(jobs(seen)))
