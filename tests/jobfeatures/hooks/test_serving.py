"""Requests of hooks, handed over by the shell or by a file, and what becomes of them."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobfeatures.errors import Rejected
from jobfeatures.hooks.request import Request
from jobfeatures.hooks.serving import ALIVE_SECS, KEPT_SECS, UNFINISHED_SECS, HookRequests
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.system.clock import SystemClock

LIBRARY = Path(__file__).parents[3] / "packaging/common/hook.sh"


class Served:
    """Keeps what was asked for; raises what it is told to."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.error: Exception | None = None
        self.problem: Rejected | None = None

    def __call__(self, request: Request, note: Callable[[Rejected], None]) -> None:
        if self.problem is not None:
            note(self.problem)
        if self.error is not None:
            raise self.error
        self.requests.append(request)

    @property
    def seen(self) -> list[tuple[str, str]]:
        return [(each.action, each.environ.get("SLURM_JOB_ID", "")) for each in self.requests]


@pytest.fixture
def tree(tmp_path: Path) -> FeatureTree:
    return FeatureTree(str(tmp_path / "root"))


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def intake(tree, clock, served) -> HookRequests:
    made = HookRequests(tree, clock, served)
    made.beat()
    return made


@pytest.fixture
def put(tree, clock) -> Callable[..., Path]:
    """Return a function that leaves a request, told some seconds before now."""

    def put(action: str, job_id: str, *, age_secs: float = 0.0, end: bytes = b"end\0") -> Path:
        path = Path(tree.intake_path, f"slurm-{job_id}.{action}")
        path.write_bytes(
            b"jobfeatures 1\0%s\0slurm\0SLURM_JOB_ID=%s\0" % (action.encode(), job_id.encode()) + end
        )
        os.utime(path, (clock.now - age_secs,) * 2)
        return path

    return put


def left(tree: FeatureTree) -> set[str]:
    return set(os.listdir(tree.intake_path)) - {"alive", "wait"}


def test_requests_are_taken_oldest_first_and_are_gone_then(intake, tree, served, put, clock):
    put("publish", "2", age_secs=1)
    put("remove", "1", age_secs=2)
    put("publish", "1", age_secs=3)
    intake.take()
    assert served.seen == [("publish", "1"), ("remove", "1"), ("publish", "2")]
    assert served.requests[0].reported_at_secs == clock.now - 3
    assert left(tree) == set()


def test_a_request_is_taken_once_it_is_finished(intake, tree, served, put, clock):
    put("publish", "1", end=b"SLURM_JOB_")
    intake.take()
    assert (served.seen, left(tree)) == ([], {"slurm-1.publish"})
    path = put("publish", "1")
    path.write_bytes(b"")
    os.utime(path, (clock.now,) * 2)
    intake.take()
    assert (served.seen, left(tree)) == ([], {"slurm-1.publish"})
    put("publish", "1")
    intake.take()
    assert served.seen == [("publish", "1")]


def test_a_request_whose_hook_died_while_writing_is_counted_and_taken_away(intake, tree, served, put):
    put("publish", "1", end=b"", age_secs=UNFINISHED_SECS + 1)
    intake.take()
    assert (served.seen, left(tree)) == ([], set())
    assert tree.hook_failures()["publish", "environment"] == 1


@pytest.mark.parametrize("there", ["link", "folder", "pipe"])
def test_what_is_no_file_costs_the_others_nothing(intake, tree, served, put, there):
    path = Path(tree.intake_path, "slurm-1.publish")
    if there == "link":
        path.symlink_to("/etc/passwd")
    elif there == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    put("publish", "2")
    intake.take()
    assert served.seen == [("publish", "2")]


def test_what_a_full_disk_hindered_is_done_once_there_is_space_and_counted_once(intake, tree, served, put):
    served.error = OSError(errno.ENOSPC, "No space left on device")
    put("publish", "1")
    for _ in range(3):
        intake.take()
    assert left(tree) == {"slurm-1.publish.again"}
    assert tree.hook_failures()["publish", "enospc"] == 1
    served.error = None
    intake.take(again=False)
    assert served.seen == [], "only now and then"
    intake.take()
    assert (served.seen, left(tree)) == ([("publish", "1")], set())


def test_what_could_not_be_done_is_given_up_at_the_end_of_its_job_or_in_time(
    intake, tree, served, put, clock
):
    served.error = OSError(errno.ENOSPC, "No space left on device")
    put("publish", "1")
    put("publish", "2")
    intake.take()
    served.error = None
    put("remove", "1", age_secs=-1)
    served.error = None
    intake.take(again=False)
    assert left(tree) == {"slurm-2.publish.again"}, "job 1 has ended"
    served.error = OSError(errno.ENOSPC, "No space left on device")
    clock.now += KEPT_SECS + 1
    intake.take()
    assert left(tree) == set()


def test_a_job_that_another_writer_holds_is_tried_again_soon_in_its_order_and_delays_no_other(
    clock, tree, served, put
):
    held = {"1"}

    def serve(request: Request, note: Callable[[Rejected], None]) -> None:
        if request.environ["SLURM_JOB_ID"] in held:
            note(Rejected("environment", "told when it is done"))
            raise TimeoutError("locked by another process")
        served(request, note)

    intake = HookRequests(tree, clock, serve)
    intake.beat()
    put("publish", "1", age_secs=3)
    put("remove", "1", age_secs=2)
    put("publish", "2", age_secs=1)
    intake.take()
    assert served.seen == [("publish", "2")]
    assert left(tree) == {"slurm-1.publish", "slurm-1.remove"}
    assert set(tree.hook_failures().values()) == {0}, "nothing has failed"
    held.clear()
    intake.take()
    assert served.seen[1:] == [("publish", "1"), ("remove", "1")]
    assert left(tree) == set()


def test_a_file_that_is_missing_elsewhere_is_a_failure_of_the_request(intake, tree, served, put):
    served.error = FileNotFoundError(errno.ENOENT, "No such file or directory")
    put("publish", "1")
    intake.take()
    assert left(tree) == {"slurm-1.publish.again"}
    assert tree.hook_failures()["publish", "write"] == 1


def test_a_fault_of_ours_costs_one_request(intake, tree, served, put, caplog):
    served.error = ValueError("bug")
    put("publish", "1")
    intake.take()
    served.error = None
    put("publish", "2")
    intake.take()
    assert (served.seen, left(tree)) == ([("publish", "2")], set())
    assert tree.hook_failures()["publish", "other"] == 1


def test_how_long_hooks_may_count_on_us_is_told_in_one_width(intake, tree, clock):
    alive = Path(tree.intake_path, "alive")
    assert alive.read_text().split() == [f"{int(clock.now + ALIVE_SECS):011}", f"{os.getpid():010}"]
    clock.now += 5
    intake.beat()
    assert alive.read_text().startswith(f"{int(clock.now + ALIVE_SECS):011} ")


def test_a_folder_that_others_may_enter_is_not_used(tree, clock, served, put):
    tree.prepare()
    os.chmod(tree.intake_path, 0o777)
    with pytest.raises(Exception, match="writable by others"):
        HookRequests(tree, clock, served).beat()


def test_what_of_a_request_cannot_be_read_is_told_and_counted_once(intake, tree, served, put, caplog):
    served.problem = Rejected("environment", "not a number", field="SLURM_JOB_UID", text="x")
    served.error = OSError(errno.ENOSPC, "No space left on device")
    put("publish", "7")
    intake.take()
    served.error = None
    intake.take()
    assert served.seen == [("publish", "7")]
    assert [each.reason for each in caplog.records] == ["enospc", "environment"]
    counts = tree.hook_failures()
    assert (counts["publish", "environment"], counts["publish", "enospc"]) == (1, 1)


# ---------------------------------------------------------------- as a thread, with the shell


@pytest.fixture
def running(tree, tmp_path) -> Iterator[tuple[HookRequests, Served]]:
    """Run an intake that makes and removes directories of jobs."""
    seen = Served()

    def serve(request: Request, note: Callable[[Rejected], None]) -> None:
        seen(request, note)
        folder = Path(tree.root, "jobfeatures", f"slurm-{request.environ['SLURM_JOB_ID']}")
        if request.action == "publish":
            folder.mkdir()
        else:
            folder.rmdir()

    tree.prepare()
    made = HookRequests(tree, SystemClock(), serve)
    thread = threading.Thread(target=made.run)
    thread.start()
    deadline = time.monotonic() + 60
    while not Path(tree.intake_path, "alive").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield made, seen
    made.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert left(tree) == set()
    assert not Path(tree.intake_path, "alive").exists()


def shell(root: str, text: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the hooks' functions for job 7; the command is one that says that it was run."""
    return subprocess.run(
        ["bash", "-pc", f". {LIBRARY}; hook_job=7 hook_root={root} hook_limit=20\n{text}"],
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "LC_ALL": "C", **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.program
def test_a_hook_has_its_work_done_without_starting_anything(running, tree):
    _, served = running
    # no program can be found, and no process is made
    done = shell(
        tree.root, "PATH=/nonexistent; ulimit -u 0 2>/dev/null; hook_do publish slurm SLURM_JOB_ID; echo $?"
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert Path(tree.root, "jobfeatures/slurm-7").is_dir()
    done = shell(tree.root, "hook_do remove slurm SLURM_JOB_ID; echo $?")
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert served.seen == [("publish", "7"), ("remove", "7")]
    assert not Path(tree.root, "jobfeatures/slurm-7").exists()


@pytest.mark.program
def test_what_the_daemon_could_not_do_is_told(running, tree):
    _, served = running
    served.error = OSError(errno.ENOSPC, "No space left on device")
    done = shell(tree.root, "hook_do publish slurm SLURM_JOB_ID; echo $?")
    served.error = None
    assert done.stdout == "1\n"
    assert "the daemon could not publish" in done.stderr
    done = shell(tree.root, "hook_do remove slurm SLURM_JOB_ID")


@pytest.mark.program
@pytest.mark.parametrize(
    "alive", [None, "", "junk", "00000000001 {pid:010}", "99999999999 4194999999", "99999999999 1x"]
)
def test_without_a_living_daemon_the_command_is_run(tree, alive):
    tree.prepare()
    os.mkfifo(f"{tree.intake_path}/wait")
    if alive is not None:
        Path(tree.intake_path, "alive").write_text(alive.format(pid=os.getpid()) + "\n")
    done = shell(tree.root, 'hook_run() { echo "run $*"; }\nhook_do publish slurm SLURM_JOB_ID')
    assert (done.stdout, done.stderr) == ("run publish slurm\n", "")
    assert left(tree) == set()


@pytest.mark.program
@pytest.mark.parametrize("job", ["", "../7", "7/..", "7 8", "7\n", "*", "7" * 200])
def test_a_job_with_an_odd_name_is_left_to_the_command(tree, job):
    tree.prepare()
    os.mkfifo(f"{tree.intake_path}/wait")
    Path(tree.intake_path, "alive").write_text(f"99999999999 {os.getpid():010}\n")
    done = shell(
        tree.root, "hook_run() { echo run; }\nhook_job=$JOB\nhook_do publish slurm SLURM_JOB_ID", JOB=job
    )
    assert done.stdout == "run\n"
    assert left(tree) == set()


@pytest.mark.program
def test_a_daemon_that_dies_meanwhile_leaves_the_work_to_the_command(tree):
    tree.prepare()
    os.mkfifo(f"{tree.intake_path}/wait")
    with subprocess.Popen(["sleep", "600"]) as mortal:
        Path(tree.intake_path, "alive").write_text(f"99999999999 {mortal.pid:010}\n")
        threading.Timer(0.2, lambda: (mortal.kill(), mortal.wait())).start()
        done = shell(tree.root, 'hook_run() { echo "run $*"; }\nhook_do publish slurm SLURM_JOB_ID')
    assert done.stdout == "run publish slurm\n"


@pytest.mark.program
def test_what_a_busy_daemon_has_not_done_in_time_is_left_to_it_and_counted(tree):
    tree.prepare()
    tree.hook_failures()
    os.mkfifo(f"{tree.intake_path}/wait")
    Path(tree.intake_path, "alive").write_text(f"99999999999 {os.getpid():010}\n")
    done = shell(tree.root, "hook_limit=0.05; hook_do publish slurm SLURM_JOB_ID; echo $?; wait")
    assert done.stdout == "1\n"
    assert "publish is left to the daemon" in done.stderr
    assert left(tree) == {"slurm-7.publish"}
    deadline = time.monotonic() + 60
    while tree.hook_failures()["publish", "daemon"] != 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.program
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_root_hands_nothing_over_to_another_user(tree):
    tree.prepare()
    os.mkfifo(f"{tree.intake_path}/wait")
    Path(tree.intake_path, "alive").write_text(f"99999999999 {os.getpid():010}\n")
    os.chown(tree.intake_path, 6001, -1)
    assert shell(tree.root, "hook_run() { echo run; }\nhook_do publish slurm SLURM_JOB_ID").stdout == "run\n"
