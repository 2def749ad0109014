"""A real Grid Engine: its jobs have no control groups, and are found by their group and their shepherd."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from jobfeatures.batch.gridengine.clustersource import GridEngineCluster
from jobfeatures.batch.gridengine.source import GridEngineSource
from jobfeatures.errors import SourceError
from jobfeatures.logkinds import read_log
from jobfeatures.records.model import JobKey, JobState
from jobfeatures.system.clock import SystemClock
from tests.configured import settings_for
from tests.docs.pages import blocks_in, text_of
from tests.docs.test_runs import fits, steps_of

LABS = Path(__file__).parents[1] / "labs/gridengine"
HOOKS = Path(__file__).parents[2] / "packaging/gridengine"
BIN = Path(sys.executable).parent
SYSTEM_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


@dataclass
class GridEngine:
    """A running cell. Users run its commands with a clean environment."""

    environ: dict[str, str]
    submitted: list[str] = field(default_factory=list)

    def run(self, *command: str, user: str = "alice", stdin: str | None = None) -> str:
        environ = {"HOME": f"/home/{user}", "USER": user, "PATH": "/usr/bin:/bin", **self.environ}
        argv = [shutil.which("runuser", path=SYSTEM_PATH), "-u", user, "--", *command]
        done = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=240, cwd="/", input=stdin
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str, user: str = "alice") -> str:
        """Submit a job and return its number."""
        output = self.run(
            "qsub", "-terse", "-wd", f"/home/{user}", "-o", "/dev/null", "-j", "y", *options,
            user=user, stdin=f"#!/bin/bash\n{script}\n",
        )  # fmt: skip
        number = re.match(r"\d+", output)[0]
        self.submitted.append(number)
        return number

    def submit_many(self, number: int, *options: str, user: str = "alice") -> None:
        """Submit jobs that are no tasks of an array."""
        loop = (
            'n=$0; while [ $((n -= 1)) -ge 0 ]; do qsub -terse -b y -o /dev/null -j y "$@" true || exit; done'
        )
        for start in range(0, number, 20):
            output = self.run("/bin/sh", "-c", loop, str(min(20, number - start)), *options, user=user)
            self.submitted += output.split()

    def delete_all(self) -> None:
        if self.submitted:
            subprocess.run(["qdel", *self.submitted], env={**os.environ, **self.environ}, capture_output=True)


@pytest.fixture(scope="module")
def lab():
    """Start Grid Engine once; stop it at the end unless it was running before."""
    if os.geteuid() != 0:
        pytest.skip("a private Grid Engine needs root: execd starts jobs as other users")
    if not Path("/usr/lib/gridengine/sge_execd").exists():
        pytest.skip("Grid Engine is not installed: tests/labs/gridengine/install.sh")
    up = subprocess.run([LABS / "up.sh"], capture_output=True, text=True, timeout=240)
    assert up.returncode == 0, up.stdout + up.stderr
    environ = dict(re.findall(r"(SGE_\w+)=(\S+)", Path(re.search(r"\. (\S+)$", up.stdout)[1]).read_text()))
    yield environ
    if "already up" not in up.stdout:
        subprocess.run([LABS / "down.sh"], capture_output=True, timeout=240, check=False)


@pytest.fixture
def gridengine(lab):
    found = GridEngine(lab)
    yield found
    found.delete_all()


@pytest.fixture(params=["found", "stated"])
def exporter(request, gridengine, start_exporter, tmp_path):
    """Return the daemon, which finds execd's directory by itself or is told."""
    flags = ["--batch.sources", "", "--features.root", str(tmp_path / "f"), "--sample.interval", "1s",
             "--jobs.retain", "0s"]  # fmt: skip
    if request.param == "stated":
        [spool] = Path(gridengine.environ["SGE_ROOT"]).glob("spool/execd/*/active_jobs")
        flags += ["--gridengine.spool-directory", str(spool.parent)]
    return start_exporter(*flags)


def of(job_id: str) -> dict[str, str]:
    return {"batch_system": "gridengine", "job_id": job_id}


def test_a_job_of_two_processes_is_seen_with_its_user_and_its_cpu_time_and_seen_to_end(
    gridengine, exporter, until
):
    number = gridengine.submit("(while :; do :; done) & sleep 60")
    # at first there may be the shepherd alone, which does not say whose job it is
    until(lambda: exporter.series("batch_job_info", accounting="processes", uid="6001", **of(number)))
    # the shepherd, the script, the loop and the sleep
    until(lambda: list(exporter.series("batch_job_processes", **of(number)).values()) == [4])
    [first] = exporter.series("batch_job_cpu_seconds_total", mode="user", **of(number)).values()
    until(
        lambda: (
            exporter.series("batch_job_cpu_seconds_total", mode="user", **of(number)).popitem()[1]
            > first + 0.5
        )
    )
    [anon] = exporter.series("batch_job_memory_bytes", component="anon", **of(number)).values()
    assert anon > 0
    gridengine.run("qdel", number)
    until(lambda: not exporter.series("batch_job_info", **of(number)))


def test_the_tasks_of_an_array_are_jobs_of_their_own(gridengine, exporter, until):
    number = gridengine.submit("sleep 60", "-t", "2-3", user="bob")
    for task in ("2", "3"):
        until(lambda task=task: exporter.series("batch_job_info", uid="6002", **of(f"{number}.{task}")))
    assert not exporter.series("batch_job_info", **of(number))


def pids_of(*argv: str) -> list[int]:
    """Return the processes with this command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes() == "\0".join((*argv, "")).encode():
                found.append(int(pid))
    return found


def test_a_process_that_leaves_its_session_and_its_parent_stays_the_jobs(gridengine, exporter, until):
    mark = f"0.{time.monotonic_ns()}"  # sleep adds its arguments up
    number = gridengine.submit(f"setsid sh -c 'sleep 61 {mark} & exit'; sleep 60")
    until(lambda: list(exporter.series("batch_job_processes", **of(number)).values()) == [4])
    [orphan] = pids_of("sleep", "61", mark)
    stat = Path(f"/proc/{orphan}/stat").read_text().rpartition(")")[2].split()
    assert stat[1] == "1"  # its parent has ended


def test_what_the_user_runs_beside_the_job_is_not_the_jobs(gridengine, exporter, until):
    """Not even with the job's number in its environment, which is what a user may write."""
    ahead = gridengine.submit("sleep 60", "-h")
    beside = subprocess.Popen(
        [shutil.which("runuser", path=SYSTEM_PATH), "-u", "alice", "--", "sleep", "60"],
        env={"PATH": "/usr/bin:/bin", "JOB_ID": ahead, "SGE_TASK_ID": "undefined"},
    )
    try:
        gridengine.run("qrls", ahead)
        # the shepherd, the script and its sleep
        until(lambda: list(exporter.series("batch_job_processes", **of(ahead)).values()) == [3])
        beside_too = gridengine.submit("sleep 60")  # a look that is certainly later
        until(lambda: exporter.series("batch_job_info", **of(beside_too)))
        assert list(exporter.series("batch_job_processes", **of(ahead)).values()) == [3]
    finally:
        beside.terminate()
        beside.wait()


# --- what jobs are told ---------------------------------------------------------------


def manage(gridengine, *command: str) -> str:
    """Run a command as root, who manages the cell."""
    environ = {**os.environ, **gridengine.environ}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def hooked(gridengine):
    """Set our prolog and epilog; return the folder of features, which users can read."""
    lab = Path(gridengine.environ["SGE_ROOT"])
    features = lab / "features"
    shutil.rmtree(features, ignore_errors=True)
    settings = lab / "hook-settings"
    settings.write_text(
        f"JOBFEATURES_COMMAND={BIN}/jobfeatures\n"
        f"JOBFEATURES_FEATURES_ROOT={features}\n"
        "JOBFEATURES_HOOK_TIMEOUT=10\n"  # the values count here; the default is tried elsewhere
    )
    settings.chmod(0o644)
    for hook in ("prolog", "epilog"):
        manage(gridengine, "qconf", "-mattr", "queue", hook, f"root@{HOOKS}/{hook}.sh", "all.q")
    yield features
    gridengine.delete_all()
    deadline = time.monotonic() + 240
    while any(lab.glob("spool/execd/*/active_jobs/*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    for hook in ("prolog", "epilog"):
        manage(gridengine, "qconf", "-mattr", "queue", hook, "NONE", "all.q")
    settings.unlink()


@pytest.fixture
def told(tmp_path_factory):
    """Return a script that writes what a job is told, and a function that reads it."""
    folder = Path("/home/alice")
    names = "wall_limit_secs cpu_limit_secs allocated_cpu max_rss_bytes job_id jobstart_secs"
    script = (
        f"{{ echo $JOBFEATURES; for k in {names}; do"
        ' echo "$k=$(cat $JOBFEATURES/$k)"; done; } >told.$JOB_ID.$SGE_TASK_ID.new 2>&1\n'
        "mv told.$JOB_ID.$SGE_TASK_ID.new told.$JOB_ID.$SGE_TASK_ID\nsleep 60"
    )

    def read(number: str, task: str = "undefined") -> list[str]:
        path = folder / f"told.{number}.{task}"
        return path.read_text().splitlines() if path.exists() else []

    yield script, read
    for path in folder.glob("told.*"):
        path.unlink()


def test_a_job_is_told_its_features_by_the_prolog_and_forgotten_by_the_epilog(
    gridengine, hooked, told, until
):
    script, read = told
    started = int(time.time())
    number = gridengine.submit(
        script, "-N", "a$(x)b", "-pe", "smp", "2", "-l", "h_cpu=0:30:0,h_vmem=1g,h_rt=1::1,s_rt=1000"
    )
    place, *lines = until(lambda: read(number))
    values = dict(line.partition("=")[::2] for line in lines)
    assert place == f"{hooked}/jobfeatures/gridengine-{number}"
    assert started - 1 <= int(values.pop("jobstart_secs")) <= time.time()
    assert values == {
        "wall_limit_secs": "1000",
        "cpu_limit_secs": "3600",
        "allocated_cpu": "2",
        "max_rss_bytes": "2000000000",
        "job_id": number,
    }
    gridengine.run("qdel", number)
    until(lambda: not Path(place).exists())


def test_a_job_sees_what_the_page_shows(gridengine, hooked):
    [block] = [
        each
        for each in blocks_in(text_of("docs/batch/gridengine.md"))
        if each.language == "console" and "qsub" in each.text
    ]
    folder = gridengine.run("mktemp", "-d", "/home/alice/five.XXXXXX").strip()
    try:
        for command, expected in steps_of(block):
            printed = gridengine.run("/bin/bash", "-c", f"cd {folder} && {command}")
            assert fits(expected, printed), printed
    finally:
        shutil.rmtree(folder)


ENDS = [  # options, script → the state in the queue, or failed and exit_status of accounting
    (("-b", "y", "-shell", "n", "/no/such/program"), "", "Eqw"),
    (("-b", "y", "-shell", "n", "/etc"), "", "Eqw"),
    ((), "exit 100", "Eqw"),
    (("-b", "y", "/no/such/program"), "", ("0", "127")),
    (("-b", "y", "/etc/passwd"), "", ("0", "126")),
    ((), "exit 3", ("0", "3")),
    ((), "kill -TERM $$", ("100", "143")),
]


@pytest.mark.long
@pytest.mark.parametrize("hooks", ["hooked", "lab"])
def test_a_job_ends_or_waits_with_an_error_as_without_hooks(gridengine, hooks, request, until):
    request.getfixturevalue(hooks)

    def submitted(options, script):
        if not script:
            number = gridengine.run(
                "qsub", "-terse", "-wd", "/tmp", "-o", "/dev/null", "-j", "y", *options
            ).strip()
            gridengine.submitted.append(number)
            return number
        return gridengine.submit(script, *options)

    def ended(number, wanted):
        state = re.search(rf"^ *{number} .*? alice +(\S+) ", gridengine.run("qstat"), re.MULTILINE)
        if wanted == "Eqw":
            return state is not None and state[1] == "Eqw"
        found = gridengine.run("/bin/sh", "-c", f"qacct -j {number} 2>/dev/null || true")
        return tuple(re.findall(r"^(?:failed|exit_status) +(\d+)", found, re.MULTILINE)) == wanted

    jobs = {submitted(options, script): wanted for options, script, wanted in ENDS}
    for number, wanted in jobs.items():
        until(lambda number=number, wanted=wanted: ended(number, wanted))


def test_an_array_s_task_is_told_its_own_features_whatever_its_user_sets(gridengine, hooked, told, until):
    script, read = told
    hostile = {
        "JOBFEATURES_FEATURES_ROOT": "/tmp/elsewhere",
        "JOBFEATURES_COMMAND": "/bin/false",
        "JOBFEATURES_SETTINGS": "/dev/null",
        "SGE_JOB_SPOOL_DIR": "/tmp",
        "JOB_ID": "1",
        "PATH": "/nonexistent",
    }
    number = gridengine.submit(
        f"PATH=/usr/bin:/bin\n{script}",
        *("-t", "2-2", "-v", ",".join(f"{name}={value}" for name, value in hostile.items())),
    )
    place, *lines = until(lambda: read(number, "2"))
    assert place == f"{hooked}/jobfeatures/gridengine-{number}.2"
    assert f"job_id={number}.2" in lines
    gridengine.run("qdel", number)
    until(lambda: not Path(place).exists())


def test_a_node_s_daemon_tells_a_job_without_hooks_and_forgets_it(
    gridengine, start_exporter, tmp_path, until
):
    features = tmp_path / "features"
    exporter = start_exporter(
        "--batch.sources", "gridengine", "--features.root", str(features), "--sample.interval", "1s",
        "--batch.interval", "1s", "--jobs.retain", "0s", environ=gridengine.environ,
    )  # fmt: skip
    number = gridengine.submit("sleep 60", "-N", "named", "-A", "physics", "-l", "h_rt=100")
    place = features / f"jobfeatures/gridengine-{number}"
    until((place / "wall_limit_secs").exists)
    assert (place / "wall_limit_secs").read_text().strip() == "100"
    info = until(lambda: exporter.info(number))
    assert info["user"] == "alice"
    assert info["account"] == "physics"
    gridengine.run("qdel", number)
    until(lambda: not place.exists())
    until(lambda: not exporter.info(number))


def test_source_and_attribution_agree_about_identities(gridengine, exporter, until):
    plain = gridengine.submit("sleep 60")
    array = gridengine.submit("sleep 60", "-t", "1-1")
    for job_id in (plain, f"{array}.1"):
        until(lambda job_id=job_id: exporter.series("batch_job_info", **of(job_id)))
    table = make(gridengine).poll_jobs(())
    assert {JobKey("gridengine", plain), JobKey("gridengine", f"{array}.1")} == table.jobs.keys()
    assert table.complete
    assert {job.state for job in table.jobs.values()} == {JobState.RUNNING}


def make(gridengine, factory=GridEngineSource, *more):
    os.environ.update(gridengine.environ)  # the commands need it
    return factory(settings_for("gridengine"), SystemClock(), *(more or (os.uname().nodename,)))


# --- the queue and the cluster --------------------------------------------------------


@pytest.fixture
def controller(gridengine, start_exporter):
    return start_exporter(
        "--role", "controller", "--batch.sources", "gridengine", "--controller.interval", "1s",
        environ=gridengine.environ,
    )  # fmt: skip


def value(exporter, name, **labels):
    found = list(exporter.series(name, batch_system="gridengine", **labels).values())
    assert len(found) <= 1
    return found[0] if found else None


def test_waiting_jobs_and_a_disabled_queue_are_seen_by_the_controller_role(gridengine, controller, until):
    held = gridengine.submit("sleep 60", "-h", "-t", "1-3")
    running = gridengine.submit("sleep 60", "-pe", "smp", "2")
    until(lambda: value(controller, "batch_queue_jobs", partition="", state="PENDING") == 3)
    until(lambda: value(controller, "batch_queue_jobs", partition="all.q", state="RUNNING") == 1)
    assert value(controller, "batch_queue_cpus", partition="all.q", state="RUNNING") == 2
    assert value(controller, "batch_queue_pending_jobs", partition="", reason="Held") == 3
    until(lambda: value(controller, "batch_cluster_nodes", partition="all.q", state="MIXED") == 1)
    manage(gridengine, "qmod", "-d", "all.q")
    try:
        until(lambda: value(controller, "batch_cluster_nodes_flagged", partition="all.q", flag="DRAIN") == 1)
        assert make(gridengine).poll_jobs(()).node.draining
    finally:
        manage(gridengine, "qmod", "-e", "all.q")
    until(lambda: value(controller, "batch_cluster_nodes_flagged", partition="all.q", flag="DRAIN") == 0)
    assert not make(gridengine).poll_jobs(()).node.draining
    for number in (held, running):
        gridengine.run("qdel", number)
    until(lambda: not value(controller, "batch_queue_jobs", partition="all.q", state="RUNNING"))


def test_the_end_of_a_job_is_told_by_accounting(gridengine, until):
    before = time.time() - 1
    number = gridengine.submit("exit 3", "-N", "fails")
    cluster = make(gridengine, GridEngineCluster, 20)

    def record():
        with contextlib.suppress(SourceError):  # no job has ended before, and there is no file yet
            found = [each for each in cluster.poll_accounting(before).records if each.key.job_id == number]
            return found and found[0]
        return None

    found = until(record)
    assert (found.state.value, found.exit_status, found.name, found.user) == ("FAILED", 3, "fails", "alice")
    assert found.end_secs >= found.start_secs >= before - 1
    job = cluster.poll_queue().jobs[JobKey("gridengine", number)]
    assert (job.state, job.end_secs) == (JobState.FAILED, found.end_secs)


ROUNDED = ("used_cpu_secs", "user_cpu_secs", "system_cpu_secs")


def test_qacct_s_text_is_the_log_that_the_accounting_file_is(gridengine, until):
    """Of jobs that ended well, by a status, a signal, a limit; of an array and a parallel job."""
    numbers = [
        gridengine.submit(script, *options)
        for script, *options in (
            ("sleep 1", "-N", "odd-name"),
            ("exit 3",),
            ("kill -TERM $$",),
            ("sleep 60", "-l", "h_rt=2"),
            ("true", "-t", "1-2"),
            ("true", "-pe", "smp", "2", "-A", "physics"),
        )
    ]
    path = Path(gridengine.environ["SGE_ROOT"]) / gridengine.environ["SGE_CELL"] / "common/accounting"

    def lines():
        text = path.read_text() if path.exists() else ""
        found = [line for line in text.splitlines(keepends=True) if line.count(":") > 40]
        mine = [line for line in found if line.split(":")[5] in numbers]
        return mine if len(mine) == len(numbers) + 1 else None

    of_file = list(read_log(until(lines, 120), "gridengine", source="file"))
    told = "".join(gridengine.run("qacct", "-j", number) for number in numbers)
    of_text = list(read_log(told.splitlines(keepends=True), "qacct", source="qacct"))
    by_id = {each.job_id: replace(each, used_memory_bytes=None) for each in of_file}
    assert len(by_id) == len(of_file) == len(of_text)
    for each in of_text:
        known = by_id[each.job_id]
        for name in ROUNDED:
            assert getattr(each, name) == pytest.approx(getattr(known, name), abs=0.0006)
        assert replace(each, **{name: getattr(known, name) for name in ROUNDED}) == known
