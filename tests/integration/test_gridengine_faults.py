"""What a real Grid Engine's faults cost the jobs of a node: its spool directory and the shepherds tell, not the master."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.configured import settings_for
from tests.integration import test_gridengine as grid
from tests.integration.conftest import until

lab, gridengine = grid.lab, grid.gridengine
LONG = bool(os.environ.get("JOBFEATURES_LONG"))  # Grid Engine may take a minute to start jobs again

pytestmark = pytest.mark.timeout(600)
APART = 500 if LONG else 50  # waiting jobs that are no tasks of an array: up to a second each
MASTER, NODE = "qmaster", "execd"
KEPT = ("spooldb", "spool/qmaster")  # what the master knows


class Daemons:
    """Those of the cell, to be stopped, held and robbed of what they know."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.lab = Path(environ["SGE_ROOT"])
        self._environ = {
            **environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "JOBFEATURES_SETTINGS": f"{self.lab}/hook-settings",
        }  # fmt: skip

    def _pid(self, name: str) -> int | None:
        try:
            pid = int((self.lab / f"run/{name}.pid").read_text())
            program = Path(f"/proc/{pid}/comm").read_text().strip()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return None
        return pid if program == f"sge_{name}" and state != "Z" else None

    def hold(self, name: str) -> None:
        os.kill(self._pid(name), signal.SIGSTOP)

    def let_go(self, name: str) -> None:
        if pid := self._pid(name):
            os.kill(pid, signal.SIGCONT)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        os.kill(self._pid(name), how)
        until(lambda: self._pid(name) is None, 60)

    def start(self, name: str) -> None:
        if self._pid(name) is None:
            pid_file = {f"SGE_{name.upper()}_PIDFILE": f"{self.lab}/run/{name}.pid"}
            subprocess.run([f"sge_{name}"], env={**self._environ, **pid_file}, check=True, timeout=240)
        until(lambda: self._pid(name) is not None, 60)
        until(
            lambda: subprocess.run(["qconf", "-sh"], env=self._environ, capture_output=True).returncode == 0,
            60,
        )

    def keep_state(self, folder: Path) -> None:
        for name in KEPT:
            shutil.copytree(self.lab / name, folder / name)

    def put_back_state(self, folder: Path) -> None:
        """Have the master know what it knew when the copy was made, as after a lost disk."""
        for name in KEPT:
            shutil.rmtree(self.lab / name)
            shutil.copytree(folder / name, self.lab / name)
            subprocess.run(["chown", "-R", "sgeadmin:sgeadmin", self.lab / name], check=True)

    def restore(self) -> None:
        for name in (MASTER, NODE):
            self.let_go(name)
            self.start(name)


@dataclass
class Job:
    """A job whose end a test decides."""

    id: str
    folder: Path
    go: Path
    values: dict[str, str]

    def end(self) -> None:
        self.go.touch()
        until(lambda: not self.go.exists(), 60)


@pytest.fixture(scope="module")
def hooked(lab):
    """Set our prolog and epilog; return the folder of features, which users can read."""
    cell = grid.GridEngine(lab)
    features = Path(lab["SGE_ROOT"]) / "features"
    shutil.rmtree(features, ignore_errors=True)
    settings = features.with_name("hook-settings")
    command = f"JOBFEATURES_COMMAND={grid.BIN}/jobfeatures\nJOBFEATURES_FEATURES_ROOT={features}\n"
    settings.write_text(f"{command}JOBFEATURES_HOOK_TIMEOUT=10\n")
    settings.chmod(0o644)
    for hook in ("prolog", "epilog"):
        grid.manage(cell, "qconf", "-mattr", "queue", hook, f"root@{grid.HOOKS}/{hook}.sh", "all.q")
    yield features
    for hook in ("prolog", "epilog"):
        grid.manage(cell, "qconf", "-mattr", "queue", hook, "NONE", "all.q")
    settings.unlink()


@pytest.fixture
def daemons(gridengine, hooked):
    found = Daemons(gridengine.environ)
    yield found
    found.restore()
    grid.manage(gridengine, "qmod", "-c", "all.q")


@pytest.fixture
def node(daemons, gridengine, hooked, start_exporter):
    """Return a function that starts the daemon of the node."""

    def start(*flags: str):
        return start_exporter(
            "--batch.sources", "gridengine", "--features.root", str(hooked), "--batch.interval", "1s",
            "--batch.refresh", "1s", "--sample.interval", "1s", "--jobs.retain", "0s", *flags,
            environ=gridengine.environ,
        )  # fmt: skip

    return start


@pytest.fixture
def submit(gridengine, hooked):
    """Return a function that submits a job whose end the test decides, and waits for its features."""
    made = []

    def submit(user: str = "alice") -> Job:
        go = Path(f"/home/{user}/gridengine.go.{len(made)}")
        go.unlink(missing_ok=True)
        made.append(go)
        script = f"until [ -e {go} ]; do sleep 0.2; done; rm {go}"
        number = gridengine.submit(script, "-l", "h_rt=1000", user=user)
        folder = hooked / f"jobfeatures/gridengine-{number}"
        until((folder / "wall_limit_secs").exists, 180)
        return Job(number, folder, go, values_in(folder))

    yield submit
    for go in made:
        go.unlink(missing_ok=True)


def values_in(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def check_whole(exporter, job: Job, uid: str = "6001") -> None:
    assert values_in(job.folder) == job.values
    assert exporter.series("batch_job_info", uid=uid, **grid.of(job.id))
    assert exporter.series("batch_job_cpu_seconds_total", **grid.of(job.id))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_an_array_of_2000_tasks_and_10000_that_wait_are_counted_and_those_that_run_are_told(
    node, gridengine, hooked, controller
):
    cluster = controller()
    node()

    def jobs(state: str) -> float:
        return sum(cluster.series("batch_queue_jobs", batch_system="gridengine", state=state).values())

    def published() -> set[str]:
        return {path.name for path in (hooked / "jobfeatures").iterdir()}

    until(lambda: jobs("RUNNING") == 0 and published() == set(), 60)
    before = jobs("PENDING")
    array = gridengine.submit("sleep 3000", "-t", "1-2000")
    gridengine.submit("true", "-h", "-t", f"1-{10_000 - APART}", user="bob")
    gridengine.submit_many(APART, "-h", user="bob")
    until(lambda: jobs("RUNNING") == 4, 60)
    until(lambda: jobs("PENDING") == before + 1996 + 10_000, 60)
    until(lambda: published() == {f"gridengine-{array}.{task}" for task in range(1, 5)}, 60)
    gridengine.run("qdel", array, "-t", "1-4")
    until(lambda: published() == {f"gridengine-{array}.{task}" for task in range(5, 9)}, 60)
    until(lambda: jobs("PENDING") == before + 1992 + 10_000, 60)
    gridengine.delete_all()
    until(lambda: jobs("PENDING") == before, 60)
    until(lambda: published() == set(), 60)


def is_up(exporter, source: str) -> bool:
    return list(exporter.series("batch_exporter_source_up", source=source).values()) == [1]


@pytest.fixture
def controller(gridengine, start_exporter):
    """Return a function that starts the controller role."""

    def start(*flags: str):
        return start_exporter(
            "--role", "controller", "--batch.sources", "gridengine", "--controller.interval", "1s", *flags,
            environ=gridengine.environ,
        )  # fmt: skip

    return start


@pytest.fixture
def epilog(gridengine, hooked):
    """Return a function that makes a script the queue's epilog; ours is that again at the end."""

    def use(status: int) -> None:
        script = hooked.parent / "fails"
        script.write_text(f"#!/bin/sh\nexit {status}\n")
        script.chmod(0o755)
        grid.manage(gridengine, "qconf", "-mattr", "queue", "epilog", f"root@{script}", "all.q")

    def use_ours() -> None:
        grid.manage(gridengine, "qconf", "-mattr", "queue", "epilog", f"root@{grid.HOOKS}/epilog.sh", "all.q")

    use.ours = use_ours
    yield use
    use_ours()


@pytest.mark.parametrize(
    "status",
    [pytest.param(1, marks=pytest.mark.long, id="queue in error"), pytest.param(99, id="scheduled anew")],
)
def test_where_the_epilog_fails_directories_go_all_the_same_and_the_next_run_is_told_anew(
    node, controller, submit, epilog, gridengine, hooked, status
):
    exporter, cluster = node(), controller()

    def errors() -> float:
        return sum(cluster.series("batch_cluster_nodes", partition="all.q", state="ERROR").values())

    epilog(status)
    job = submit()
    until(lambda: exporter.info(job.id))
    (hooked / f"jobstatus/gridengine-{job.id}/of-the-first-run").touch()
    epilog.ours()  # for later runs: this one keeps what held when it began
    job.end()
    if status == 1:
        until(lambda: errors() == 1, 60)
        until(lambda: not job.folder.exists(), 60)
        until(lambda: not exporter.info(job.id), 60)
        grid.manage(gridengine, "qmod", "-c", "all.q")

    def is_later() -> bool:
        try:
            return int(values_in(job.folder)["jobstart_secs"]) > int(job.values["jobstart_secs"])
        except (OSError, KeyError, ValueError):
            return False

    until(is_later, 120)
    until(lambda: exporter.info(job.id), 60)
    if status == 1:  # its end was seen, between the others there may be no look
        assert not any((hooked / f"jobstatus/gridengine-{job.id}").iterdir())
    until(lambda: errors() == 0, 60)
    job.end()
    until(lambda: not job.folder.exists(), 60)


@pytest.mark.long
def test_without_a_master_the_controller_role_says_so_and_then_goes_on(daemons, controller, submit):
    cluster = controller()
    sources = ("gridengine-queue", "gridengine-nodes")
    job = submit()

    def running() -> float:
        return sum(cluster.series("batch_queue_jobs", batch_system="gridengine", state="RUNNING").values())

    until(lambda: running() == 1, 60)
    for away, back in ((daemons.stop, daemons.start), (daemons.hold, daemons.let_go)):
        away(MASTER)
        until(lambda: not any(is_up(cluster, each) for each in sources), 180)
        back(MASTER)
        until(lambda: all(is_up(cluster, each) for each in sources), 180)
        until(lambda: running() == 1, 60)
    job.end()
    until(lambda: running() == 0, 60)


def test_without_the_accounting_file_the_rest_goes_on_and_what_was_moved_away_is_still_told(
    gridengine, daemons, controller, monkeypatch
):
    accounting = daemons.lab / "default/common/accounting"
    moved = accounting.with_name("accounting.0")
    moved.unlink(missing_ok=True)

    def begin_without():
        """Return a controller that misses the file: ends of earlier jobs are written late, and would make it anew."""
        accounting.unlink(missing_ok=True)
        cluster = controller()
        until(
            lambda: (
                "accounting: No such file" in cluster.log.read_text() or is_up(cluster, "gridengine-schedule")
            ),
            180,
        )
        until(lambda: is_up(cluster, "gridengine-queue") and is_up(cluster, "gridengine-nodes"), 180)
        return None if is_up(cluster, "gridengine-schedule") else cluster

    cluster = until(begin_without, 300)
    began = time.time() - 1
    for name, each in gridengine.environ.items():
        monkeypatch.setenv(name, each)
    source = grid.GridEngineCluster(settings_for("gridengine"), grid.SystemClock(), 60)

    def ends() -> list[str]:
        return [each.job_id for each in source.poll_accounting(began).records]

    first = gridengine.submit("exit 3")
    until(lambda: is_up(cluster, "gridengine-schedule"), 180)
    until(lambda: ends() == [first], 180)
    accounting.rename(moved)
    assert ends() == [first]
    second = gridengine.submit("exit 3")
    until(lambda: ends() == [first, second], 180)


@pytest.mark.long
def test_half_an_answer_takes_and_changes_nothing(node, daemons, submit, tmp_path):
    qstat, how = tmp_path / "qstat", tmp_path / "how"
    qstat.write_text(
        "#!/bin/bash\n"
        f'[ $(cat {how}) = whole ] && exec /usr/bin/qstat "$@"\n'
        f'out=$(mktemp -p {tmp_path}); /usr/bin/qstat "$@" >$out; echo >>{tmp_path}/cuts\n'
        f"n=$(wc -l <{tmp_path}/cuts); head -c $(($(stat -c %s $out) * (n * 37 % 100) / 100)) $out\n"
    )
    qstat.chmod(0o755)
    (tmp_path / "qhost").symlink_to("/usr/bin/qhost")
    how.write_text("whole")
    exporter = node("--gridengine.qstat", str(qstat))
    stays, ends = submit(), submit("bob")
    until(lambda: exporter.info(ends.id).get("user") and exporter.info(stays.id).get("user"))
    how.write_text("half")
    cuts = tmp_path / "cuts"
    until(lambda: cuts.exists() and len(cuts.read_text()) >= 2, 90)
    check_whole(exporter, stays)
    ends.end()
    until(lambda: not ends.folder.exists(), 60)
    check_whole(exporter, stays)
    how.write_text("whole")
    until(lambda: exporter.info(stays.id).get("user") == "alice", 90)


@pytest.mark.parametrize("fault", [pytest.param("stopped", marks=pytest.mark.long), "held"])
def test_a_master_that_is_away_costs_live_jobs_nothing_and_jobs_end_without_it(node, daemons, submit, fault):
    exporter = node()
    stays, ends = submit(), submit("bob")
    until(lambda: exporter.info(ends.id) and exporter.info(stays.id))
    (daemons.stop if fault == "stopped" else daemons.hold)(MASTER)
    check_whole(exporter, stays)
    ends.end()
    until(lambda: not ends.folder.exists(), 60)
    until(lambda: not exporter.info(ends.id), 60)
    check_whole(exporter, stays)
    (daemons.start if fault == "stopped" else daemons.let_go)(MASTER)
    check_whole(exporter, stays)
    if LONG:
        later = submit("bob")
        until(lambda: exporter.info(later.id), 60)
    stays.end()
    until(lambda: not stays.folder.exists(), 60)


@pytest.mark.long
def test_a_node_without_execd_keeps_its_jobs_and_their_ends_are_seen(node, daemons, submit):
    exporter = node()
    stays, ends = submit(), submit("bob")
    until(lambda: exporter.info(ends.id) and exporter.info(stays.id))
    daemons.stop(NODE, signal.SIGKILL)
    ends.end()
    until(lambda: not exporter.info(ends.id), 60)
    until(lambda: not ends.folder.exists(), 60)
    check_whole(exporter, stays)
    daemons.start(NODE)
    check_whole(exporter, stays)
    if LONG:
        later = submit("bob")
        until(lambda: exporter.info(later.id), 60)
    stays.end()
    until(lambda: not stays.folder.exists(), 60)


@pytest.mark.long
def test_a_master_that_lost_its_state_ends_what_it_does_not_know_and_gives_the_number_to_another_user(
    node, daemons, submit, gridengine, hooked, tmp_path
):
    before = submit("bob")
    before.end()
    until(lambda: not before.folder.exists(), 60)
    daemons.stop(MASTER)
    daemons.keep_state(tmp_path)
    daemons.start(MASTER)
    exporter = node()
    lost = submit()
    until(lambda: exporter.info(lost.id))
    status = hooked / f"jobstatus/gridengine-{lost.id}"
    subprocess.run(["runuser", "-u", "alice", "--", "touch", status / "of-alice"], check=True)
    daemons.hold(NODE)  # it would be told at once to end what the master does not know
    daemons.stop(MASTER, signal.SIGKILL)
    daemons.put_back_state(tmp_path)
    daemons.start(MASTER)
    time.sleep(3)  # three looks
    check_whole(exporter, lost)
    daemons.let_go(NODE)
    until(lambda: not lost.folder.exists(), 120)
    until(lambda: not exporter.info(lost.id), 60)
    again = submit("bob")
    assert again.id == lost.id
    until(lambda: exporter.series("batch_job_info", uid="6002", **grid.of(again.id)), 60)
    check_whole(exporter, again, "6002")
    assert status.stat().st_uid == 6002
    assert list(status.iterdir()) == []
