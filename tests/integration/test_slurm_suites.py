"""Slurm 24.11 and 26.05, of Debian's later suites: one job of each kind, against the server's words and the kernel's files.

All jobs run at once (tests/labs/slurm/kinds.py); here what was seen is judged. On control groups v1 in namespaces, with
accounting and slurmrestd; on v2 in a virtual machine, without. JOBFEATURES_CAPTURES names a folder that gets what the
servers said, by version.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from datetime import UTC
from functools import partial
from pathlib import Path

import pytest

from jobfeatures.batch.slurm.groups import checked_sluid
from jobfeatures.joblogs.loggedjob import Notes
from jobfeatures.logkinds import read_log, write_log
from tests.integration.playedjobs import (
    check_directories,
    check_remaining,
    check_suspension,
    info_of,
    series_of,
)

pytestmark = pytest.mark.timeout(3000)  # all of it happens before the first test
LOST = "missing from batch node"  # what Slurm 26.05 says of a suspended job that it loses: now and then, on a busy machine
SUITE = Path(__file__).parents[1] / "labs/slurm/suite.sh"
SETTINGS = {
    "SLURM_LAB_NODES": "3",
    "SLURM_LAB_CPUS": "32",
    "SLURM_LAB_MEM": "8000",
    "SLURM_LAB_GPUS": "2",
    "SLURM_LAB_TRES": "gres/gpu",  # without which slurmctld's own pages say 0 GPUs
}
MIB = 2**20
# By kind: user, account, partition, CPUs on the node, memory, wall limit (None: unlimited; `pace` times that on a
# slow machine), state at the end.
JOBS = {
    "plain": ("alice", "physics", "batch", 2, 120 * MIB, 420, "COMPLETED"),
    "array": ("bob", "atlas", "batch", 1, 50 * MIB, 300, "COMPLETED"),
    "steps": ("alice", "physics", "batch", 2, 100 * MIB, 360, "COMPLETED"),
    "exclusive": ("bob", "atlas", "batch", 32, 70 * MIB, 300, "COMPLETED"),
    "mem_per_cpu": ("alice", "physics", "batch", 3, 120 * MIB, 300, "COMPLETED"),
    "unlimited": ("bob", "atlas", "long", 1, 40 * MIB, None, "COMPLETED"),
    "suspended": ("alice", "physics", "batch", 1, 40 * MIB, 540, "COMPLETED"),
    "requeued": ("bob", "atlas", "batch", 1, 40 * MIB, 480, "COMPLETED"),
    "gpus": ("bob", "atlas", "batch", 1, 40 * MIB, 300, "COMPLETED"),
    "cancelled": ("alice", "physics", "batch", 1, 40 * MIB, 300, "CANCELLED"),
    "failed": ("bob", "atlas", "batch", 1, 40 * MIB, 300, "FAILED"),
    "timeout": ("alice", "physics", "batch", 1, 40 * MIB, 60, "TIMEOUT"),
    "oom": ("bob", "atlas", "batch", 1, 64 * MIB, 300, "OUT_OF_MEMORY"),
    "named_like_a_sluid": ("alice", "physics", "batch", 1, 40 * MIB, 300, "COMPLETED"),
    "named_like_a_record": ("bob", "atlas", "batch", 1, 40 * MIB, 300, "COMPLETED"),
    "exported": ("alice", "physics", "batch", 1, 40 * MIB, 300, "COMPLETED"),
    "het": ("alice", "physics", "batch", 1, None, 300, "COMPLETED"),
    "salloc": ("bob", "atlas", "batch", 1, 60 * MIB, 240, "COMPLETED"),
}
UIDS = {"alice": 6001, "bob": 6002}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("sid", "v1"), id="26.05, v1"),
        pytest.param(("trixie", "v1"), id="24.11, v1", marks=pytest.mark.long),
        pytest.param(("sid", "v2"), id="26.05, v2", marks=pytest.mark.long),
        pytest.param(("trixie", "v2"), id="24.11, v2", marks=pytest.mark.long),
    ],
)
def seen(request, tmp_path_factory):
    """Bring the lab up, play all jobs, and return what was seen."""
    suite, groups = request.param
    if os.geteuid() != 0:
        pytest.skip("a private Slurm needs root: slurmd starts jobs as other users")
    if not shutil.which("debootstrap") or (groups == "v2" and not shutil.which("linux.uml")):
        pytest.skip("needs debootstrap, and user-mode-linux for control groups v2")
    for _ in range(2):
        found, said = play(tmp_path_factory.mktemp("suite") / "lab", suite, groups)
        print(said)
        if LOST not in said:
            break
    return {**found, "groups": groups, "has_accounting": groups == "v1", "is_26": suite == "sid"}


def play(lab: Path, suite: str, groups: str) -> tuple[dict, str]:
    """Play all jobs in a lab of its own; return what was seen, and what was printed."""
    for folder in lab.parents[:3]:
        folder.chmod(0o755)  # alice and bob are to reach it
    environ = {**os.environ, **SETTINGS, "SLURM_LAB_REST": "1"}
    if suite == "sid":
        environ["SLURM_LAB_EXTRA"] = "MetricsType=metrics/openmetrics"
    kinds = ["python3", "/opt/lab/slurm/kinds.py"]
    try:
        if groups == "v1":
            run(SUITE, "up", suite, lab, environ=environ)
            said = run(lab / "in", *kinds, "/var/kinds", environ=environ)
            folder = lab / "upper/var/kinds"
        else:
            environ |= {
                "SLURM_LAB_DB": "0",
                "SLURM_LAB_REST": "0",
                "UML_TIMEOUT": "2700",
                "SLURM_LAB_AGE": "3000",
            }
            script = f"/opt/lab/slurm/up.sh && KINDS_PATIENCE=1000 KINDS_PACE=5 {' '.join(kinds)} /mnt"
            said = run(SUITE, "machine", suite, lab, "bash", "-c", script, environ=environ)
            folder = lab / "share"
        found = json.loads((folder / "seen.json").read_text())
        if captures := os.environ.get("JOBFEATURES_CAPTURES"):
            target = Path(captures) / f"{found['version']}-{groups}"
            shutil.copytree(folder / "captured", target, dirs_exist_ok=True)
            shutil.copy(folder / "seen.json", target)
    finally:
        run(SUITE, "down", lab)
    return found, said


def run(*command: object, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(list(map(str, command)), env=environ, capture_output=True, text=True, timeout=2900)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def jobs(seen, *without: str) -> list[tuple[str, str]]:
    """Return kind and id of each job, but for those of these kinds."""
    return [(kind, job_id) for kind, ids in seen["ids"].items() if kind not in without for job_id in ids]


series, info = partial(series_of, "slurm"), partial(info_of, "slurm")


def told_by(seen, kind: str, run: int = 0) -> list[dict[str, str]]:
    """Return what the jobs of a kind read at their first line."""
    return [told for name, told in seen["told"].items() if re.match(rf"{kind}\.\d+\.{run}\.", name)]


def number(field: object) -> int:
    """Return one of the numbers of Slurm's JSON."""
    return field["number"] if isinstance(field, dict) else field


def test_every_kind_of_job_ran_and_ended_as_it_should(seen):
    assert seen["failures"] == []
    assert seen["ids"].keys() == JOBS.keys()
    assert {job_id: seen["ended_states"][job_id] for _, job_id in jobs(seen)} == {
        job_id: JOBS[kind][-1] for kind, job_id in jobs(seen)
    }


def test_labels_are_the_servers(seen):
    page = seen["live"]["page"]
    for kind, job_id in jobs(seen):
        server = seen["live"]["server"][job_id]
        user, account, partition, *_ = JOBS[kind]
        found = info(page, job_id)
        assert (
            (found["user"], found["uid"])
            == (user, str(UIDS[user]))
            == (server["user_name"], str(server["user_id"]))
        )
        assert (found["account"], found["partition"]) == (
            account if seen["has_accounting"] else found["account"],
            partition,
        )
        assert (server["account"] or "", server["partition"]) == (found["account"], found["partition"])
        assert found["name"] == server["name"], kind
        assert found["accounting"] == "cgroup"
        if seen["is_26"]:
            assert checked_sluid(found["sluid"])
            assert found["sluid"] == server["step_id"]["sluid"]
        else:
            assert found["sluid"] == ""


def test_tasks_of_an_array_and_components_of_a_heterogeneous_job_are_jobs_of_their_own(seen):
    page = seen["live"]["page"]
    for name, job_id in seen["array_tasks"].items():
        found = info(page, job_id)
        assert f"{found['array_job_id']}_{found['array_task_id']}" == name
    first, second = seen["ids"]["het"]
    assert [info(page, each)["het_job_id"] for each in (first, second)] == [first, first]
    assert {told["job_id"] for told in told_by(seen, "het")} == {first, second}
    assert {told["JOBFEATURES"].split()[0].rpartition("-")[2] for told in told_by(seen, "het")} == {
        first,
        second,
    }


def test_limits_and_allocations_are_the_servers(seen):
    page, looked = seen["live"]["page"], (seen["live"]["at"], seen["live"]["until"])
    for kind, job_id in jobs(seen):
        server = seen["live"]["server"][job_id]
        *_, cpus, memory, wall, _ = JOBS[kind]
        wall = wall and wall * seen["pace"]
        if kind == "het":
            memory = (50 if job_id == seen["ids"]["het"][0] else 70) * MIB
        assert series(page, "batch_job_allocated_cpus", job_id) == [cpus] == [number(server["cpus"])]
        assert series(page, "batch_job_allocated_memory_bytes", job_id) == [memory], kind
        limit = server["time_limit"]
        expected = float("inf") if limit["infinite"] else limit["number"] * 60
        assert series(page, "batch_job_wall_limit_seconds", job_id) == [expected] == [wall or float("inf")]
        start = number(server["start_time"])
        assert series(page, "batch_job_start_time_seconds", job_id) == [start]
        remaining = series(page, "batch_job_remaining_seconds", job_id, basis="wall_limit")
        if wall is None:
            assert remaining in ([], [float("inf")])
        else:
            check_remaining(*remaining, start + wall, looked)
    assert series(page, "batch_job_whole_node", seen["ids"]["exclusive"][0]) == [1]


def figures(kernel: dict) -> dict[str, float]:
    """Return what the kernel's files say of a job, on either version of control groups."""
    if "cpuacct.usage" in kernel:
        stat = dict(line.split() for line in kernel["memory.stat"].splitlines())
        found = {
            "cpu": int(kernel["cpuacct.usage"]) / 1e9,
            "anon": int(stat["total_rss"]),
            "charged": int(kernel["memory.usage_in_bytes"]),
            "peak": int(kernel["memory.max_usage_in_bytes"]),
            "limit": int(kernel["memory.limit_in_bytes"]),
        }
    else:
        stat = dict(line.split() for line in kernel["memory.stat"].splitlines())
        cpu = dict(line.split() for line in kernel["cpu.stat"].splitlines())
        found = {
            "cpu": int(cpu["usage_usec"]) / 1e6,
            "anon": int(stat["anon"]),
            "charged": int(kernel["memory.current"]),
            "limit": int(kernel["memory.max"]),
        }
        if "memory.peak" in kernel:
            found["peak"] = int(kernel["memory.peak"])
    found["processes"] = len(kernel["processes"])
    return found


SHOWN = {
    "anon": ("batch_job_memory_bytes", {"component": "anon"}),
    "charged": ("batch_job_memory_charged_bytes", {}),
    "limit": ("batch_job_memory_limit_bytes", {}),
    "processes": ("batch_job_processes", {}),
}


def test_cpu_memory_and_io_are_the_kernels(seen):
    """Jobs wait and use nothing: what is the same before and after the page is what the page has to say."""
    page, compared = seen["live"]["page"], 0
    for kind, job_id in jobs(seen, "suspended", "timeout"):
        before, after = (figures(seen["live"][each][job_id]) for each in ("before", "after"))
        [*cpu] = series(page, "batch_job_cpu_seconds_total", job_id)
        assert before["cpu"] - 0.05 <= sum(cpu) <= after["cpu"] + 0.05, kind
        for name, (shown, labels) in SHOWN.items():
            if before.get(name) == after.get(name) is not None:
                near = MIB if name == "charged" else 0  # the kernel charges in portions
                assert series(page, shown, job_id, **labels) == pytest.approx([before[name]], abs=near), (
                    kind,
                    name,
                )
                compared += 1
        [peak] = series(page, "batch_job_memory_peak_bytes", job_id) or [after.get("peak", 0)]
        assert peak <= after.get("peak", peak)
        for name, shown in (
            ("rchar", "batch_job_io_read_bytes_total"),
            ("wchar", "batch_job_io_written_bytes_total"),
        ):
            moved = [
                (comm, int(re.search(rf"{name}: (\d+)", io)[1]))
                for comm, io in seen["live"]["after"][job_id]["processes"].values()
            ]
            least = sum(
                each for comm, each in moved if comm != "slurmstepd"
            )  # which did most before it was the job's
            [found] = series(page, shown, job_id)
            # Of steps, and where a machine is slow, processes have been seen that are gone by now.
            is_bounded = kind != "steps" and seen["groups"] == "v1"
            most = sum(each for _, each in moved) if is_bounded else math.inf
            assert least <= found <= most, (kind, name)
    assert compared > 50
    [busy] = seen["ids"]["plain"]
    assert sum(series(page, "batch_job_io_written_bytes_total", busy)) > 10_000_000


def test_steps_are_shown_by_their_names(seen):
    [job_id] = seen["ids"]["steps"]
    steps = set(
        re.findall(
            rf'batch_job_step_cpu_seconds_total\{{.*job_id="{job_id}",step="(\w+)"', seen["live"]["page"]
        )
    )
    assert "batch" in steps
    assert any(map(str.isdigit, steps)), "the one that waits, whichever was first"


def test_a_job_finds_its_features_at_its_first_line(seen):
    for kind, (user, *_, cpus, memory, minimum, _) in JOBS.items():
        wall = minimum and minimum * seen["pace"]
        if kind == "exported":
            continue
        for told in told_by(seen, kind):
            assert told["user"] == user
            assert (told["allocated_cpu"], told["wrote"]) == (str(cpus), "True"), kind
            assert told.get("wall_limit_secs") == (None if wall is None else str(wall)), kind
            assert told.get("cpu_limit_secs") == (None if wall is None else str(wall * cpus)), kind
            assert seen["submitted_secs"] - 1 <= int(told["jobstart_secs"]) <= int(told["at"].split()[0])
            if memory is not None:
                assert told.get("max_rss_bytes") == str(memory), kind
    assert len(told_by(seen, "requeued", run=1)) == 1


def test_directories_hold_each_key_and_only_the_job_writes_its_status(seen):
    for kind, job_id in jobs(seen, "oom", "timeout"):
        user, *_, cpus, memory, wall, _ = JOBS[kind]
        wall = wall and wall * seen["pace"]
        found = seen["live"]["features"][job_id]
        start = number(seen["live"]["server"][job_id]["start_time"])
        if kind == "het":
            memory = (50 if job_id == seen["ids"]["het"][0] else 70) * MIB
        expected = {"allocated_cpu": cpus, "job_id": job_id, "jobstart_secs": start, "max_rss_bytes": memory}
        if wall is not None:
            expected |= {"wall_limit_secs": wall, "cpu_limit_secs": wall * cpus}
        check_directories(f"slurm-{job_id}", found, expected, UIDS[user])
        assert seen["writers"][job_id] == {each: each == user for each in UIDS}, kind


def test_a_suspended_job_stands_still_and_goes_on(seen):
    [job_id] = seen["ids"]["suspended"]
    cpu = [
        sum(series(seen[each]["page"], "batch_job_cpu_seconds_total", job_id))
        for each in ("suspended", "still_suspended", "resumed")
    ]
    assert series(seen["suspended"]["page"], "batch_job_state", job_id, state="SUSPENDED") == [1]
    assert seen["suspended"]["server"][job_id]["job_state"] == ["SUSPENDED"]
    assert series(seen["resumed"]["page"], "batch_job_state", job_id, state="RUNNING") == [1]
    check_suspension(cpu)


def test_how_jobs_ended_is_shown_while_they_are_still_shown(seen):
    last = {job_id: "\n".join(lines) for job_id, lines in seen["last"].items()}
    for kind, job_id in jobs(seen):
        state = re.search(r'state="(\w+)"', last[job_id])[1]
        assert state == JOBS[kind][-1], kind
    [hog] = seen["ids"]["oom"]
    kills = series(last[hog], "batch_job_oom_kills_total", hog)
    assert not kills or kills[0] >= 1  # of a group of v1 that went before a look it is not known
    peaks = series(last[hog], "batch_job_memory_peak_bytes", hog)
    assert not peaks or 0.9 * 64 * MIB <= peaks[0] <= 64 * MIB
    [requeued] = seen["ids"]["requeued"]
    assert series(last[requeued], "batch_job_restarts", requeued) == [1]


def test_nothing_is_left_and_there_were_no_ghosts(seen):
    assert seen["left"] == []
    assert set(seen["ever"]) == {job_id for _, job_id in jobs(seen)}


def test_no_variable_of_a_user_reaches_what_root_runs(seen):
    """`sbatch --export` and the submitting shell: they reach the job and its TaskProlog, which runs as the user."""
    [job_id] = seen["ids"]["exported"]
    hooks = {name: lines for name, lines in seen["hooks"].items() if f".{job_id}." in name}
    kinds = {name.split(".")[0] for name in hooks}
    assert kinds == {"prolog", "epilog", "taskprolog"}
    for name, lines in hooks.items():
        if name.startswith(("prolog", "epilog")):
            # Slurm's own SLURM_JOB_STDOUT and the like are texts of the user's too; we read none of them.
            assert [
                line for line in lines if "/home/alice/" in line and not line.startswith("SLURM_")
            ] == [], name
            named = {line.partition("=")[0] for line in lines}
            assert not named & {"BASH_ENV", "ENV", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH"}
            assert not [each for each in named if each.startswith("JOBFEATURES")]
    assert any("JOBFEATURES_SETTINGS=/home/alice/settings" in lines for lines in hooks.values()), (
        "it was tried"
    )
    assert set(seen["ran"].values()) <= {UIDS["alice"]}, "what the user named ran as the user at most"


def test_hooks_are_told_quality_of_service_account_and_sluid_by_26_05(seen):
    """With accounting alone: it knows them. A name, memory and an array's numbers no Prolog is told."""
    for name, lines in seen["hooks"].items():
        kind, job_id, _ = name.split(".", 2)
        told = dict(line.split("=", 1) for line in lines if "=" in line)
        server = seen["live"]["server"].get(job_id)
        if server is None or not seen["is_26"]:
            continue
        # A later run has another, as has the other component of a heterogeneous job, whose tasks have the first one's number.
        if job_id not in seen["ids"]["requeued"] + seen["ids"]["het"]:
            assert told["SLURM_JOB_SLUID"] == server["step_id"]["sluid"], name
        for variable, key in (("SLURM_JOB_QOS", "qos"), ("SLURM_JOB_ACCOUNT", "account")):
            assert told.get(variable) == (server[key] if seen["has_accounting"] else None), (name, variable)
        if kind != "taskprolog":
            assert not {"SLURM_JOB_NAME", "SLURM_MEM_PER_NODE", "SLURM_ARRAY_JOB_ID"} & told.keys(), name


def test_machine_features_and_remaining_time_are_told_to_the_job(seen):
    assert int(seen["machinefeatures"]["total_cpu"]) > 0
    [plain] = seen["ids"]["plain"]
    secs, *looked = seen["remaining"]
    start = number(seen["live"]["server"][plain]["start_time"])
    check_remaining(int(secs), start + 420 * seen["pace"], looked)


def test_a_user_has_a_report_of_a_running_job(seen):
    [job] = json.loads(seen["report"])["jobs"]
    assert (job["job_id"], job["user"], job["state"]) == (seen["ids"]["plain"][0], "alice", "RUNNING")
    assert job["wall_limit_secs"] == 420 * seen["pace"]


def test_the_controller_role_counts_as_squeue_does(seen):
    counted: dict[tuple[str, str], int] = {}
    cpus = 0
    for line in seen["squeue"].splitlines():
        _, state, partition, each, *_ = line.split("|")
        if state in ("RUNNING", "PENDING", "SUSPENDED"):
            counted[partition, state] = counted.get((partition, state), 0) + 1
            cpus += int(each) if state == "RUNNING" else 0
    assert counted
    for (partition, state), count in counted.items():
        assert series(seen["controller"], "batch_queue_jobs", partition=partition, state=state) == [count]
    assert series(seen["controller"], "batch_cluster_cpus", partition="batch", kind="allocated") == [cpus]


# What docs/controller.md compares: Slurm's family, ours, and the factor between them.
ALIKE = (
    ("slurm_partition_jobs_running", "batch_queue_jobs", {"state": "RUNNING"}, 1),
    ("slurm_partition_jobs_pending", "batch_queue_jobs", {"state": "PENDING"}, 1),
    ("slurm_partition_nodes_cpus_alloc", "batch_cluster_cpus", {"kind": "allocated"}, 1),
    ("slurm_partition_nodes_cpus_idle", "batch_cluster_cpus", {"kind": "idle"}, 1),
    ("slurm_partition_nodes_alloc", "batch_cluster_nodes", {"state": "ALLOCATED"}, 1),
    ("slurm_partition_nodes_mixed", "batch_cluster_nodes", {"state": "MIXED"}, 1),
    ("slurm_partition_nodes_mem_alloc", "batch_cluster_memory_bytes", {"kind": "allocated"}, MIB),
)
# No rule rests on it: without AccountingStorageTRES=gres/gpu it is 0, whatever runs.
OF_GPUS = ("slurm_partition_jobs_gpus_alloc", "batch_queue_gpus", {"state": "RUNNING"}, 1)


def test_slurmctlds_own_page_counts_as_the_controller_role_does(seen):
    if not seen["is_26"]:
        assert "slurmctld" not in seen, "24.11 has no such page"
        return
    own = seen["slurmctld"]["partitions"]
    for partition in ("batch", "long"):
        for theirs, ours, labels, factor in (*ALIKE, OF_GPUS):
            [told] = series(own, theirs, partition=partition)
            shown = series(seen["controller"], ours, partition=partition, **labels)
            if "gpus" in theirs and not seen["has_accounting"]:
                assert told == 0, "mend docs/coverage.md if it knows GPUs without accounting"
            else:
                assert sum(shown) == told * factor, ours
    nodes = seen["slurmctld"]["nodes"]
    told = [sum(series(nodes, f"slurm_node_gpus{each}")) for each in ("", "_alloc")]
    cards = [
        sum(series(seen["controller"], "batch_cluster_gpus", partition="batch", kind=kind))
        for kind in ("allocated", "idle")
    ]
    assert told == ([sum(cards), cards[0]] if seen["has_accounting"] else [0, 0])
    assert cards[0] == 3, "one of a job, and two of the exclusive one"
    assert series(nodes, "slurm_node_memory_bytes", node="lab1") == [8000], (
        "MiB: mend docs/controller.md if bytes"
    )


def test_accounting_becomes_logs_with_the_servers_figures(seen):
    if not seen["has_accounting"]:
        return
    if seen["is_26"]:
        states = set(re.findall(r"\x1f(CANCELLED[^\x1f]*)\x1f", seen["sacct"]))
        assert states == {"CANCELLED by 0", "CANCELLED"}, "of a job, and of a step"
    for source in ("sacct.txt", "sacct.json"):
        status, said, text = seen["converted"][f"{source} swf"]
        rows = {line.split()[0]: line.split() for line in text.splitlines() if not line.startswith(";")}
        # Text escapes nothing: the name with a newline costs its line, and is reported.
        assert status == (1 if source == "sacct.txt" else 0), said
        assert rows.keys() == {job_id for _, job_id in jobs(seen)}
        for kind, job_id in jobs(seen):
            assert int(rows[job_id][4]) == JOBS[kind][3], kind
            if JOBS[kind][5] is not None:
                assert int(rows[job_id][8]) == JOBS[kind][5], kind
            completed = {"COMPLETED": "1", "CANCELLED": "5"}.get(JOBS[kind][-1], "0")
            assert rows[job_id][10] == completed, kind
        status, said, text = seen["converted"][f"{source} sonar"]
        told = {
            str(each["job_id"])
            for line in text.splitlines()
            for each in json.loads(line)["data"]["attributes"]["slurm_jobs"]
        }
        assert told >= {job_id for _, job_id in jobs(seen)}
        assert seen["converted"][f"{source} sss"][2].count("\n") >= len(jobs(seen))


CPU_SECS = 5  # column of SWF


def as_swf(seen, kind: str) -> dict[str, list[str]]:
    """Return the rows of SWF that what accounting said becomes, by job."""
    notes = Notes()
    lines = seen["logged"][kind].splitlines(keepends=True)
    found = read_log(lines, kind, source=kind, notes=notes, **({"zone": UTC} if kind == "sacct" else {}))
    rows = list(write_log(notes.accepted_with_passages(found), "swf", notes))
    assert [str(each) for each in notes.shown] == []
    return {line.split()[0]: line.split() for line in rows if not line.startswith(";")}


def said_of(seen, job_id: str) -> str:
    """Return what accounting said of a job and its steps, as text and as JSON."""
    lines = [line for line in seen["logged"]["sacct"].splitlines() if re.match(rf"{job_id}\b", line)]
    found = [
        each for each in json.loads(seen["logged"]["slurmjson"])["jobs"] if str(each["job_id"]) == job_id
    ]
    return "\n".join(
        [*lines, *(json.dumps({"time": each["time"], "steps": each["steps"]}) for each in found)]
    )


def test_logs_by_text_and_by_json_are_the_same_jobs_of_every_kind(seen):
    """Ended in each way, requeued, suspended, resized, arrays, heterogeneous, with GPUs, and those that still live."""
    if not seen["has_accounting"]:
        return
    more = seen["logged"]["ids"]
    by_text, by_json = (as_swf(seen, kind) for kind in ("sacct", "slurmjson"))
    assert by_text.keys() == by_json.keys() == {*seen["logged"]["jobs"], *more.values()}
    for job_id, row in by_text.items():  # text has whole milliseconds
        told, known = (float(each.pop(CPU_SECS)) for each in (row, by_json[job_id]))
        assert told == pytest.approx(known, abs=0.001), said_of(seen, job_id)
    assert by_text == by_json
    assert [by_text[more[name]][3] for name in ("removed", "waiting", "running")] == ["-1"] * 3
    wait, ran = map(int, by_text[more["resized"]][2:4])
    assert (wait >= 0, ran >= 4) == (True, True), "from its first start"
