"""The whole way with a real Slurm: published, read by the job, shown, forgotten."""

import os
import re
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Slurm, put_hooks

ROOT = Path(__file__).parents[2]
GROUPS = Path("/sys/fs/cgroup")
MIB = 2**20

# What the prolog could not learn at once comes with the daemon's next poll.
READ_FEATURES = """
for _ in $(seq 1200); do [ -e $JOBFEATURES/wall_limit_secs ] && break; sleep 0.2; done
for key in total_cpu; do echo $key=$(cat $MACHINEFEATURES/$key); done
for key in allocated_cpu job_id jobstart_secs wall_limit_secs cpu_limit_secs max_rss_bytes; do
  echo $key=$(cat $JOBFEATURES/$key)
done
echo start=$(date +%s)
echo uid=$(id -u)
echo status_owner=$(stat -c %u $JOBSTATUS)
echo remaining=$({command} remaining)
echo got=$({command} get wall_limit_secs)
sleep {secs}
"""


@pytest.fixture
def read_features():
    """Return the script of a job that reads its features, with whatever Python its user may run."""
    command = f"{Path(sys.executable).parent}/jobfeatures"
    tried = subprocess.run(
        ["/usr/sbin/runuser", "-u", "alice", "--", command, "--version"], capture_output=True, check=False
    )
    if tried.returncode != 0:
        command = f"env PYTHONPATH={ROOT} /usr/bin/python3 -m jobfeatures"

    def script(secs: float = 0) -> str:
        return READ_FEATURES.format(command=command, secs=secs)

    return script


def values_of(output: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in output.read_text().splitlines() if "=" in line)


def test_a_job_reads_its_features_and_is_shown_and_is_gone_after_it_ends(
    slurm, slurm_exporter, read_features, until, tmp_path
):
    output = Path("/home/alice/features.out")
    output.unlink(missing_ok=True)
    began = int(time.time())
    job_id = slurm.submit(
        read_features(8), "-n2", "-t", "7", "--mem=120", "-J", 'weird | "name" ü', output=output
    )
    slurm.wait(job_id, "RUNNING")

    job = {"job_id": job_id, "batch_system": "slurm"}
    # Slurm calls it running while its prolog runs. The script and its sleep; slurmstepd may count too.
    until(lambda: sum(slurm_exporter.series("batch_job_processes", **job).values()) >= 2)
    info = until(lambda: slurm_exporter.info(job_id).get("name") and slurm_exporter.info(job_id))
    assert info["user"] == "alice"
    assert info["uid"] == "6001"
    assert info["account"] == "physics"
    assert info["partition"] == "batch"
    assert info["name"] == 'weird | \\"name\\" ü'
    assert info["batch_system"] == "slurm"
    assert info["accounting"] == "cgroup"
    assert list(slurm_exporter.series("batch_job_allocated_cpus", **job).values()) == [2]
    assert list(slurm_exporter.series("batch_job_wall_limit_seconds", **job).values()) == [420]
    [remaining] = slurm_exporter.series("batch_job_remaining_seconds", basis="wall_limit", **job).values()
    assert began + 420 - time.time() - 1 <= remaining <= 420
    assert len(slurm_exporter.series("batch_job_cpu_seconds_total", **job)) == 2
    assert slurm_exporter.series("batch_job_memory_bytes", component="anon", **job)

    slurm.wait(job_id, "COMPLETED", "COMPLETING")
    told = until(lambda: output.exists() and values_of(output))
    assert told["allocated_cpu"] == "2"
    assert told["job_id"] == job_id
    assert told["wall_limit_secs"] == told["got"] == "420", output.read_text()
    assert told["cpu_limit_secs"] == "840"
    assert told["max_rss_bytes"] == str(120 * 2**20)
    assert told["status_owner"] == told["uid"] == "6001"
    assert began - 1 <= int(told["jobstart_secs"]) <= int(told["start"])
    assert began + 420 - time.time() - 1 <= int(told["remaining"]) <= 420
    assert int(told["total_cpu"]) > 0

    until(lambda: not (slurm.features / f"jobfeatures/slurm-{job_id}").exists())
    assert not (slurm.features / f"jobstatus/slurm-{job_id}").exists()
    assert not (slurm.features / f"exports/slurm-{job_id}").exists()
    until(lambda: not slurm_exporter.info(job_id))
    assert not slurm_exporter.series("batch_job_cpu_seconds_total", **job)


def test_array_tasks_are_jobs_of_their_own(slurm, slurm_exporter, until):
    array = slurm.submit("sleep 300", "--array=1-2", "--mem=50", user="bob")
    found = slurm.wait(array, "RUNNING")
    assert len(found) == 2
    for raw_id in found:
        info = until(
            lambda raw_id=raw_id: (
                slurm_exporter.info(raw_id).get("array_task_id") and slurm_exporter.info(raw_id)
            )
        )
        assert info["array_job_id"] == array
        assert info["user"] == "bob"
        assert (slurm.features / f"jobfeatures/slurm-{raw_id}/job_id").read_text() == f"{raw_id}\n"
    assert {slurm_exporter.info(raw_id)["array_task_id"] for raw_id in found} == {"1", "2"}


def test_the_components_of_a_het_job_are_jobs_of_their_own(slurm, start_exporter, until):
    """Slurm starts them on different nodes; this exporter looks at both of the emulated ones."""
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features),
        "--batch.interval", "2s", "--sample.interval", "1s", environ=slurm.environ,
    )  # fmt: skip
    het = slurm.run(
        "sbatch", "--parsable", "-D", "/home/alice", "-o", "/dev/null", "-n1", "--mem=50", ":", "-n1", "--mem=70",
        user="alice",
        stdin="#!/bin/bash\nsrun --het-group=0,1 sh -c 'echo $JOBFEATURES > het.$SLURM_PROCID; sleep 300'\n",
    ).strip()  # fmt: skip
    slurm.submitted.append(het)
    first, second = het, str(int(het) + 1)
    for rank, raw_id in enumerate((first, second)):
        told = Path(f"/home/alice/het.{rank}")
        until(lambda told=told: told.exists() and told.read_text(), 60)
        assert told.read_text() == f"{slurm.features}/jobfeatures/slurm-{raw_id}\n"
        told.unlink()
    for raw_id, memory in ((first, 50), (second, 70)):
        info = until(
            lambda raw_id=raw_id: exporter.info(raw_id).get("het_job_id") and exporter.info(raw_id),
            60,
        )
        assert info["het_job_id"] == first
        key = slurm.features / f"jobfeatures/slurm-{raw_id}/max_rss_bytes"
        until(key.exists)
        assert key.read_text() == f"{memory * 2**20}\n"


def test_jobs_of_several_users_and_their_steps_are_kept_apart(slurm, slurm_exporter, until):
    burn = "srun -n1 --overlap sh -c 'while :; do :; done' & sleep 300"
    busy = slurm.submit(burn, "-n1", "--mem=50", user="alice")
    idle = slurm.submit("sleep 300", "-n1", "--mem=50", user="bob")
    slurm.wait(busy, "RUNNING")
    slurm.wait(idle, "RUNNING")

    def cpu(job_id):
        return sum(slurm_exporter.series("batch_job_cpu_seconds_total", job_id=job_id).values())

    until(lambda: cpu(busy) > 2)
    assert cpu(idle) < 1
    seen = [cpu(busy)]
    for _ in range(5):
        time.sleep(0.6)
        seen.append(cpu(busy))
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]
    assert slurm_exporter.info(busy)["user"] == "alice"
    assert slurm_exporter.info(idle)["user"] == "bob"
    slurm.run("scancel", busy)
    until(lambda: not slurm_exporter.info(busy))
    assert slurm_exporter.info(idle)


def test_a_hostile_job_name_does_not_reach_other_labels(slurm, slurm_exporter, until):
    bad = slurm.submit(
        "sleep 300", "--mem=50", "-J", "x\nJobId=1 JobName=y UserId=root(0) Account=root", user="bob"
    )
    slurm.wait(bad, "RUNNING")
    info = until(lambda: slurm_exporter.info(bad))
    time.sleep(3)
    info = slurm_exporter.info(bad)
    assert info["uid"] == "6002"
    assert info["account"] in ("atlas", "")
    assert info["user"] in ("bob", "")
    assert not slurm_exporter.info("1") or slurm_exporter.info("1")["user"] != "root"
    assert (slurm.features / f"jobfeatures/slurm-{bad}").is_dir()


@pytest.mark.parametrize("name", ["JobId=99 JobState=FAILED NumCPUs=7", "x JobState=COMPLETED"])
def test_a_name_that_imitates_fields_costs_its_job_nothing(slurm, slurm_exporter, until, name):
    job_id = slurm.submit("sleep 300", "--mem=50", "-t", "9", "-J", name, user="bob")
    slurm.wait(job_id, "RUNNING")
    folder = slurm.features / f"jobfeatures/slurm-{job_id}"
    until((folder / "wall_limit_secs").exists)
    until(lambda: slurm_exporter.info(job_id).get("user") == "bob")
    assert (folder / "wall_limit_secs").read_text() == "540\n"
    assert (folder / "max_rss_bytes").read_text() == f"{50 * 2**20}\n"
    info = until(lambda: (found := slurm_exporter.info(job_id)).get("name") == name and found)
    assert info["account"] == "atlas"


def test_published_directories_belong_to_root_and_only_jobstatus_to_the_user(slurm, until):
    job_id = slurm.submit("sleep 300", "--mem=50", user="bob")
    slurm.wait(job_id, "RUNNING")
    features = slurm.features / f"jobfeatures/slurm-{job_id}"
    until(features.is_dir)
    for path in (features, *features.iterdir()):
        found = path.stat()
        assert found.st_uid == 0
        assert stat.S_IMODE(found.st_mode) == (0o755 if path.is_dir() else 0o644)
    assert (slurm.features / f"jobstatus/slurm-{job_id}").stat().st_uid == 6002


@pytest.mark.parametrize(
    "settings",
    [
        "export JOBFEATURES_COMMAND=/no/such/command",
        "export JOBFEATURES_COMMAND=/bin/false",
        "export JOBFEATURES_COMMAND={lab}/hang",
        "export JOBFEATURES_FEATURES_ROOT=/proc/nowhere",
        "export JOBFEATURES_FEATURES_ROOT=/dev/full",
        "export JOBFEATURES_SLURM_SCONTROL={lab}/hang",
        "export JOBFEATURES_HOOK_TIMEOUT_WRONG=1 JOBFEATURES_HOOK_ASK=sometimes",
    ],
)
def test_a_prolog_never_fails_or_delays_a_job(slurm, settings):
    hang = slurm.lab / "hang"
    hang.write_text("#!/bin/bash\nexec sleep 60\n")
    hang.chmod(0o755)
    (slurm.lab / "hook-settings").write_text(
        "unset JOBFEATURES_HOOK_TIMEOUT\n" + settings.format(lab=slurm.lab) + "\n"
    )
    output = Path("/home/alice/ran.out")
    output.unlink(missing_ok=True)
    started = time.monotonic()
    job_id = slurm.submit("echo ran", "--mem=50", output=output)
    slurm.wait(job_id, "COMPLETED")
    assert time.monotonic() - started < 20  # far below the hanging command's 60 s
    assert output.read_text() == "ran\n"
    assert re.search(
        r"State=(IDLE|MIXED|ALLOCATED)\b", slurm.run("scontrol", "-o", "show", "node", slurm.node)
    )


@pytest.mark.long
def test_a_task_ends_as_without_hooks(slurm):
    folder = Path(slurm.run("mktemp", "-d", "/home/alice/ends.XXXXXX", user="alice").strip())
    programs = {"no-first-line": "exit 5", "no-interpreter": "#!/no/such", "not-executable": "#!/bin/sh"}
    commands = ["/no/such", "/etc", *(f"./{name}" for name in programs), "sh -c 'exit 3'", "sh -c 'kill $$'"]
    commands += ["printf '<%s>' 'a b' '' '*'", "sh -c 'pwd; umask; echo $A'"]
    script = "#!/bin/sh\nexport A=1\n" + "".join(
        f"srun -Q {each} 2>/dev/null; echo $?\n" for each in commands
    )
    try:
        for name, text in programs.items():
            (folder / name).write_text(f"{text}\n")
            (folder / name).chmod(0o644 if name == "not-executable" else 0o755)
        ends = []
        for is_hooked in (True, False):
            for hook in ("prolog", "taskprolog", "epilog"):
                (slurm.lab / f"scripts/{hook}.d/jobfeatures").chmod(0o755 if is_hooked else 0o644)
            (folder / "script").write_text(script)
            slurm.run(
                "sbatch",
                "--wait",
                "-D",
                str(folder),
                "-o",
                f"{is_hooked}.out",
                f"{folder}/script",
                user="alice",
            )
            ends.append((folder / f"{is_hooked}.out").read_text())
        assert ends[0] == ends[1]
        assert ends[0].split()[:5] == ["2", "13", "8", "2", "13"]
    finally:
        shutil.rmtree(folder)


def test_a_restarted_daemon_keeps_live_jobs_and_drops_dead_ones(slurm, start_exporter, until):
    live = slurm.submit("sleep 60", "--mem=50")
    slurm.wait(live, "RUNNING")
    features = slurm.features / "jobfeatures"
    until((features / f"slurm-{live}").is_dir)
    (features / "slurm-99999").mkdir()  # its epilog never ran
    (features / "slurm-99999/job_id").write_text("99999\n")
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--batch.interval", "1s", environ=slurm.environ,
    )  # fmt: skip
    until(lambda: not (features / "slurm-99999").exists())
    assert (features / f"slurm-{live}").is_dir()
    assert exporter.info(live)["user"] == "alice"


def test_an_unreachable_controller_costs_nothing_but_its_age(slurm, start_exporter, until, tmp_path):
    live = slurm.submit("sleep 60", "--mem=50")
    slurm.wait(live, "RUNNING")
    features = slurm.features / "jobfeatures"
    until((features / f"slurm-{live}").is_dir)
    (features / "slurm-99999").mkdir()
    broken = tmp_path / "scontrol"
    broken.write_text("#!/bin/sh\necho 'Unable to contact slurm controller (connect failure)' >&2; exit 1\n")
    broken.chmod(0o755)
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--batch.interval", "500ms", "--slurm.scontrol", str(broken), environ=slurm.environ,
    )  # fmt: skip
    until(lambda: exporter.series("batch_exporter_source_failures_total", source="slurm").popitem()[1] >= 2)
    assert (features / "slurm-99999").is_dir()
    assert exporter.info(live)["user"] == "alice"  # the prolog's record tells
    assert exporter.series("batch_job_cpu_seconds_total", job_id=live)


def test_a_job_reads_its_features_from_an_address_where_its_site_says_so(slurm, start_exporter, until):
    """DIRAC's pilot takes addresses only; the task prolog hands them to the job's user alone."""
    address = "127.0.0.1:17920"
    (slurm.lab / "hook-settings").write_text(
        f"export JOBFEATURES_FEATURES_LISTEN_ADDRESS={address} JOBFEATURES_FEATURES_FORM=http\n"
    )
    exporter = start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--features.listen-address", address, "--features.form", "http", "--sample.interval", "1s",
        environ=slurm.environ,
    )  # fmt: skip
    output = Path("/home/alice/http.out")
    output.unlink(missing_ok=True)
    read = (
        "import os, urllib.request as u;"
        "r = lambda v, k: print(k + '=' + u.urlopen(os.environ[v] + '/' + k).read().decode().strip());"
        "r('MACHINEFEATURES', 'total_cpu'); r('JOBFEATURES', 'wall_limit_secs'); r('JOBFEATURES', 'job_id');"
        "w = u.Request(os.environ['JOBSTATUS'] + '/used_CPU', data=b'1', method='PUT'); u.urlopen(w);"
        "print('form=' + os.environ['JOBFEATURES'].split(':')[0])"
    )
    # The limit has to be asked for, and comes with the daemon's answer.
    script = f'for i in $(seq 240); do /usr/bin/python3 -c "{read}" && break; sleep 0.5; done\necho done=1\nsleep 10'
    job_id = slurm.submit(script, "-t", "7", "--mem=100", output=output)
    slurm.wait(job_id, "RUNNING")
    told = until(lambda: output.exists() and "done=1" in output.read_text() and values_of(output))
    assert told.get("form") == "http", output.read_text() + exporter.log.read_text()
    assert told["wall_limit_secs"] == "420"
    assert told["job_id"] == job_id
    until(lambda: exporter.series("batch_job_status_used_cpus", job_id=job_id))
    assert (slurm.features / f"jobstatus/slurm-{job_id}/used_CPU").stat().st_uid == 6001
    lines = slurm.features / f"exports/slurm-{job_id}"
    assert stat.S_IMODE(lines.stat().st_mode) == 0o400
    assert lines.stat().st_uid == 6001


HOG = """
import time
time.sleep({secs})
taken = []
while True:
    taken.append(bytearray(2**22))
    time.sleep(0.005)
"""


@pytest.mark.parametrize("secs", [0.3, 1.5])
def test_a_short_job_that_is_killed_for_want_of_memory_shows_its_kill_and_its_peak_or_nothing(
    slurm, slurm_exporter, secs
):
    script = f"/usr/bin/python3 - <<'END'\n{HOG.format(secs=secs)}\nEND\n"
    told: dict[str, str] = {}
    attempts = 0
    # Of a group of v1 that went before a look nothing is known, which a busy machine may bring about.
    while "oom_kills_total" not in told or int(told.get("memory_peak_bytes", 0)) < 0.9 * 64 * 2**20:
        assert (attempts := attempts + 1) < 6, told
        job_id = slurm.submit(script, "-n1", "-t", "7", "--mem=64", "-J", "hog")
        slurm.wait(job_id, "OUT_OF_MEMORY")
        told = last_shown(slurm_exporter, job_id)
        assert int(told.get("oom_kills_total", 1)) >= 1
        assert int(told.get("memory_peak_bytes", 0)) <= 64 * 2**20


def last_shown(exporter, job_id: str) -> dict[str, str]:
    """Return the figures of a job on the last page that has it, by their names; none if there is no such page."""
    figure = re.compile(rf'batch_job_(\w+){{batch_system="slurm",job_id="{job_id}"}} (\S+)')
    told: dict[str, str] = {}
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        now = dict(figure.findall(exporter.get()))
        if told and not now:
            break
        told = now or told
        time.sleep(0.1)
    return told


# --- two clusters on one host -----------------------------------------------------------------


@pytest.fixture
def start_other_cluster(slurm):
    """Return a function that starts a second Slurm here, of another cluster and with a node of its own.

    Its first job has the given number; its hooks publish below `features`.
    """
    lab, up = slurm.lab.with_name("other"), ROOT / "tests/labs/slurm/up.sh"
    environ = {
        **os.environ, "SLURM_LAB": str(lab), "SLURM_LAB_CLUSTER": "other", "SLURM_LAB_PREFIX": "other", "SLURM_LAB_NODES": "1",
        "SLURM_LAB_DB": "0", "SLURM_LAB_BASEPORT": "17900",
    }  # fmt: skip
    started = []

    def start(job_id: str, features: Path) -> Slurm:
        (lab / "scripts").mkdir(parents=True)
        for hook in ("prolog", "taskprolog", "epilog"):
            (lab / f"scripts/{hook}.d").mkdir()
        put_hooks(lab, features)
        subprocess.run(
            [up], env={**environ, "SLURM_LAB_EXTRA": f"FirstJobId={job_id}"}, check=True, timeout=240
        )
        started.append(Slurm({"SLURM_CONF": f"{lab}/etc/slurm.conf"}, features, lab, "other1"))
        return started[-1]

    yield start
    subprocess.run([up.with_name("down.sh"), "--purge"], env=environ, check=True, timeout=240)


def two_jobs_of_one_number(
    slurm, start_other_cluster, features: Path, told: Path, until
) -> tuple[Slurm, str]:
    """Have each cluster run a job, of alice and later of bob; return the other cluster, and the jobs' number."""
    told.unlink(missing_ok=True)
    burn = "for i in $(seq {}); do head -c 50000000 /dev/zero | sha1sum; done >/dev/null\nsleep 600"
    job_id = slurm.submit(burn.format(1), "-n1", "--mem=60", "-J", "one")
    slurm.wait(job_id, "RUNNING")
    until((slurm.features / f"jobfeatures/slurm-{job_id}/max_rss_bytes").exists)
    other = start_other_cluster(job_id, features)
    script = f"echo told=$JOBFEATURES\n{burn.format(3)}"
    assert other.submit(script, "-n1", "--mem=80", "-J", "another", user="bob", output=told) == job_id
    until(lambda: told.exists() and "told=" in told.read_text())
    return other, job_id


def kernel_cpu_secs(node: str, job_id: str) -> float:
    """Return the CPU time of the group that a node's slurmd has made for a job."""
    v1, v2 = f"cpuacct/slurm_{node}/uid_*", f"system.slice/{node}_slurmstepd.scope"
    [file] = [*GROUPS.glob(f"{v1}/job_{job_id}/cpuacct.usage"), *GROUPS.glob(f"{v2}/job_{job_id}/cpu.stat")]
    found = file.read_text().split()
    return int(found[0]) / 1e9 if len(found) == 1 else int(found[1]) / 1e6


def has_figures(exporter, shown: str, node: str, job_id: str, memory_mib: int) -> bool:
    """Return whether a job is shown with what the kernel has of a node's job: CPU time, and its limit."""
    cpu = exporter.series("batch_job_cpu_seconds_total", job_id=shown).values()
    limit = exporter.series("batch_job_memory_limit_bytes", job_id=shown).values()
    kernel = kernel_cpu_secs(node, job_id)
    return list(limit) == [memory_mib * MIB] and kernel - 0.1 < sum(cpu) < kernel + 1e-6


def owner(exporter, shown: str) -> tuple[str, ...]:
    found = exporter.info(shown)
    return tuple(found.get(name, "-") for name in ("user", "name", "place"))


def refused_hooks(exporter) -> float:
    return sum(exporter.series("batch_features_hook_failures_by_reason_total", reason="cluster").values())


def daemon_flags(features: Path) -> list[str]:
    return [
        "--batch.sources", "slurm", "--features.root", str(features),
        "--batch.interval", "2s", "--sample.interval", "1s", "--jobs.retain", "0s",
    ]  # fmt: skip


def test_two_clusters_jobs_of_one_number_below_one_root_are_two_and_the_first_keeps_its_features(
    slurm, start_exporter, start_other_cluster, until
):
    """A daemon for all nodes of this host, also when it is started again."""
    told = Path("/home/bob/told.out")
    exporter = start_exporter(*daemon_flags(slurm.features), environ=slurm.environ)
    other, job_id = two_jobs_of_one_number(slurm, start_other_cluster, slurm.features, told, until)
    shown, folder = f"{job_id}@{other.node}", slurm.features / f"jobfeatures/slurm-{job_id}"

    def two_are_told() -> None:
        until(lambda: owner(exporter, job_id) == ("alice", "one", ""))
        until(lambda: owner(exporter, shown) == ("", "", other.node))
        until(lambda: has_figures(exporter, job_id, slurm.node, job_id, 60))
        until(lambda: has_figures(exporter, shown, other.node, job_id, 80))
        until(lambda: refused_hooks(exporter) == 1)
        assert (folder / "max_rss_bytes").read_text() == f"{60 * MIB}\n"

    two_are_told()
    exporter.process.terminate()
    exporter.process.wait(60)
    exporter = start_exporter(*daemon_flags(slurm.features), environ=slurm.environ)
    two_are_told()
    assert told.read_text() == "told=\n"
    other.cancel_all()
    until(lambda: not other.run("squeue", "-h") and not exporter.info(shown))  # its epilog has run
    assert folder.is_dir()
    assert owner(exporter, job_id) == ("alice", "one", "")
    slurm.cancel_all()
    until(lambda: not folder.exists() and not exporter.info(job_id))


def test_a_daemon_for_each_of_two_clusters_tells_its_own_job_of_a_number_alone(
    slurm, slurm_exporter, start_exporter, start_other_cluster, until
):
    told, features = Path("/home/bob/told.out"), slurm.lab / "features-other"
    other, job_id = two_jobs_of_one_number(slurm, start_other_cluster, features, told, until)
    flags = (*daemon_flags(features), "--node.name", other.node)
    exporter = start_exporter(*flags, environ=other.environ)
    until(lambda: owner(slurm_exporter, job_id) == ("alice", "one", ""))
    until(lambda: owner(exporter, job_id) == ("bob", "another", ""))
    until(lambda: has_figures(slurm_exporter, job_id, slurm.node, job_id, 60))
    until(lambda: has_figures(exporter, job_id, other.node, job_id, 80))
    for each, mib in ((slurm.features, 60), (features, 80)):
        assert (each / f"jobfeatures/slurm-{job_id}/max_rss_bytes").read_text() == f"{mib * MIB}\n"
    for daemon in (slurm_exporter, exporter):
        assert set(re.findall(r'[{,]job_id="([^"]*)"', daemon.get())) == {job_id}
        assert refused_hooks(daemon) == 0
    assert told.read_text() == f"told={features}/jobfeatures/slurm-{job_id}\n"
    other.cancel_all()
    until(lambda: not (features / f"jobfeatures/slurm-{job_id}").exists())
    assert (slurm.features / f"jobfeatures/slurm-{job_id}").is_dir()
