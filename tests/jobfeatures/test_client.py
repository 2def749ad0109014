import ast
import contextlib
import http.server
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures import client
from jobfeatures.client import (
    Features,
    FeaturesError,
    FeaturesLocationError,
    FeaturesUnreachableError,
    FeaturesValueError,
    Remaining,
    StatusWriter,
)
from jobfeatures.status import jobstatus
from jobfeatures.status.directory import read_status
from jobfeatures.status.jobstatus import (
    STATUS_KEYS,
    StatusViolation,
    parse_job_status,
)

NOW = 1_700_000_000
SOURCE = Path(client.__file__).read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    made = tmp_path / "machine"
    made.mkdir()
    return made


@pytest.fixture
def job(tmp_path: Path) -> Path:
    made = tmp_path / "job"
    made.mkdir()
    return made


@pytest.fixture
def features(machine: Path, job: Path) -> Features:
    return Features(machine=str(machine), job=str(job))


def fill(directory: Path, **values: object) -> None:
    for name, value in values.items():
        (directory / name).write_text(f"{value}\n")


# --- the file itself -------------------------------------------------------------------


def pythons() -> list[str]:
    """Return an interpreter of each version that is here: on the path, or in pyenv's folder."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = {}
    for minor in range(6, 30):
        path = shutil.which(f"python3.{minor}")
        inside = sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python3.{minor}"))
        if inside or (path and "/shims/" not in path):
            found[minor] = str(inside[-1]) if inside else str(path)
    found[sys.version_info.minor] = sys.executable
    return [found[minor] for minor in sorted(found)]


@pytest.mark.program
@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_it_works_on_every_python_that_is_here(python: str, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(SOURCE, encoding="utf-8")
    cases = Path(__file__).with_name("clientcases.py")
    done = subprocess.run([python, "-I", "-B", str(cases), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Ran 5 tests" in done.stderr


def test_its_types_name_what_it_has() -> None:
    tree = ast.parse(Path(client.__file__).with_suffix(".pyi").read_text())
    code = ast.parse(SOURCE)

    def public(tree: ast.AST) -> dict[str, list[str]]:
        found = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.FunctionDef) and (
                        each.name[:1] != "_" or each.name == "__init__"
                    ):
                        names = [arg.arg for arg in each.args.args] + [
                            each.args.kwarg.arg if each.args.kwarg else ""
                        ]
                        found[f"{node.name}.{each.name}"] = names
        return found

    assert public(tree) == public(code)


def test_the_file_stands_alone_and_is_understood_by_old_interpreters() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 6))
    imported = set()
    for node in ast.walk(tree):
        assert not isinstance(node, ast.AnnAssign)
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module)
    assert {str(name).split(".")[0] for name in imported} <= sys.stdlib_module_names
    assert not any(str(name).startswith(("jobfeatures", "argparse", "__future__")) for name in imported)


@pytest.mark.program
def test_nothing_heavy_is_imported_before_an_address_is_met(tmp_path: Path) -> None:
    copy = tmp_path / "copied.py"
    copy.write_text(SOURCE)
    script = "import sys; sys.path.insert(0, sys.argv[1]); import copied; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "copied" in loaded
    assert not loaded & {
        "argparse",
        "collections",
        "contextlib",
        "dataclasses",
        "http",
        "re",
        "socket",
        "subprocess",
        "threading",
        "typing",
        "urllib",
        "jobfeatures",
    }


# --- reading ------------------------------------------------------------------------------


def test_a_value_is_read_without_its_newline(features: Features, job: Path, machine: Path) -> None:
    fill(job, job_id="12 34")
    (machine / "hs06").write_text("171.04")
    (machine / "two").write_text("1\n\n")
    assert features.get("job", "job_id") == "12 34"
    assert features.get("machine", "hs06") == "171.04"
    assert features.get("machine", "two") == "1\n"
    assert features.get("machine", "job_id") is None


def test_variables_may_be_unset_or_empty(job: Path) -> None:
    fill(job, allocated_cpu=4)
    features = Features.from_environment({"JOBFEATURES": f"{job}/", "MACHINEFEATURES": ""})
    assert features.get("job", "allocated_cpu") == "4"
    assert features.get("machine", "total_cpu") is None
    with pytest.raises(FeaturesUnreachableError, match="neither"):
        Features.from_environment({}).find("total_cpu")


def test_the_environment_is_read_when_asked(monkeypatch: pytest.MonkeyPatch, job: Path) -> None:
    fill(job, allocated_cpu=4)
    monkeypatch.setenv("JOBFEATURES", str(job))
    assert Features.from_environment().find("allocated_cpu") == "4"


def test_find_prefers_the_job(features: Features, job: Path, machine: Path) -> None:
    fill(machine, total_cpu=16, both=1)
    fill(job, both=2)
    assert features.find("total_cpu") == "16"
    assert features.find("both") == "2"
    assert features.find("neither") is None


@pytest.mark.parametrize("location", ["relative/path", "ftp://host/x", "file:///tmp", "HTTP//x", "http:/x"])
def test_a_location_is_a_path_or_an_address(location: str) -> None:
    with pytest.raises(FeaturesLocationError, match="MACHINEFEATURES"):
        Features(machine=location).get("machine", "total_cpu")


@pytest.mark.parametrize("key", ["", ".", "..", "../x", "a/b", "a\0b", "a b", "%2e%2e", "ä", "a?b", "x\n"])
def test_a_key_is_one_plain_name(features: Features, key: str) -> None:
    with pytest.raises(FeaturesLocationError):
        features.get("job", key)


def test_a_value_too_long_is_refused_unread(features: Features, job: Path) -> None:
    with (job / "long").open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(FeaturesValueError, match="4096"):
        features.get("job", "long")
    (job / "long").write_text("1" * 4096)
    assert features.get("job", "long") == "1" * 4096


def test_odd_bytes_stay_visible(features: Features, job: Path) -> None:
    (job / "odd").write_bytes(b"\xff\n")
    assert features.get("job", "odd") == "\\xff"


def test_what_cannot_be_read_is_unreachable_not_absent(features: Features, job: Path) -> None:
    (job / "directory").mkdir()
    with pytest.raises(FeaturesUnreachableError, match="directory"):
        features.get("job", "directory")
    fill(job, file=1)
    with pytest.raises(FeaturesUnreachableError):
        Features(job=str(job / "file")).get("job", "key")


def test_a_pipe_does_not_make_us_wait(features: Features, job: Path) -> None:
    os.mkfifo(job / "pipe")
    assert features.get("job", "pipe") == ""


# --- reading over HTTP --------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the last component of the path."""

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        if self.path == "/job/":
            self.reply(200, b"wall_limit_secs\n")
        elif name == "wall_limit_secs":
            self.reply(200, b"3600\n")
        elif name == "moved":
            self.reply(302, b"", Location="wall_limit_secs")
        elif name == "long":
            self.reply(200, b"1" * 5000)
        elif name == "cut":
            self.reply(200, b"17", **{"Content-Length": "10"})
        elif name == "unsized":
            self.reply(200, b"5\n", **{"Content-Length": ""})
        elif name == "broken":
            self.reply(500, b"oops")
        elif name == "forbidden":
            self.reply(403, b"no")
        elif name == "garbage":
            self.wfile.write(b"what?\r\n\r\n")
        else:
            self.reply(404, b"<html>not here</html>")

    def reply(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/job"
        server.shutdown()
        thread.join()


def test_values_come_over_http(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # is not to be asked
    for base in (address, f"{address}/"):
        features = Features(job=base)
        assert features.get("job", "wall_limit_secs") == "3600"
        assert features.get("job", "cpu_limit_secs") is None
    assert features.get("job", "moved") == "3600"
    assert features.get("job", "unsized") == "5"


def test_an_expired_token_is_not_a_missing_key(address: str) -> None:
    with pytest.raises(FeaturesUnreachableError, match="token may have expired"):
        Features(job=address.replace("/job", "/gone")).get("job", "cpu_limit_secs")


@pytest.mark.parametrize("key", ["broken", "forbidden", "garbage", "cut"])
def test_a_server_in_trouble_is_unreachable_not_absent(address: str, key: str) -> None:
    with pytest.raises(FeaturesUnreachableError, match=key):
        Features(job=address).get("job", key)


def test_a_long_answer_is_refused(address: str) -> None:
    with pytest.raises(FeaturesValueError):
        Features(job=address).get("job", "long")


def test_nobody_listening_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(FeaturesUnreachableError):
            Features(job=f"http://127.0.0.1:{port}").get("job", "job_id")


def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT_SECS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(FeaturesUnreachableError):
            Features(job=f"http://127.0.0.1:{port}").get("job", "job_id")


def test_a_server_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT_SECS", 0.1)

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            while True:
                connection.sendall(b"1")
                stopped.wait(0.01)

    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        with pytest.raises(FeaturesUnreachableError, match="no end after"):
            Features(job=f"http://127.0.0.1:{listener.getsockname()[1]}").get("job", "job_id")
        thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("location", ["http://[", "http://host:port/", "http://"])
def test_addresses_that_mean_nothing_are_an_error_of_ours(location: str) -> None:
    with pytest.raises(FeaturesError):
        Features(job=location).get("job", "job_id")


# --- remaining time ----------------------------------------------------------------------------


def test_remaining_time_is_the_least_of_what_is_known(features: Features, job: Path, machine: Path) -> None:
    fill(job, jobstart_secs=NOW - 600, wall_limit_secs=3600)
    assert features.remaining(NOW).seconds == 3000
    fill(machine, shutdowntime=NOW + 1000)
    fill(job, shutdowntime_job=NOW + 500)
    left = features.remaining(NOW + 0.5)
    assert left.bases == {"wall_limit": 2999.5, "shutdown": 499.5}
    assert left.seconds == 499
    assert left.notes == ()
    fill(job, shutdowntime_job=NOW + 5000)
    assert features.remaining(NOW).bases["shutdown"] == 1000


def test_no_known_limit_is_none_not_zero(features: Features) -> None:
    left = features.remaining(NOW)
    assert left.seconds is None
    assert left.bases == {}


def test_an_end_that_has_passed_is_negative_and_not_missing(features: Features, machine: Path) -> None:
    fill(machine, shutdowntime=NOW - 5)
    left = features.remaining(NOW + 0.5)
    assert left.seconds == -6
    assert left.bases == {"shutdown": -5.5}


def test_a_cpu_limit_is_less_what_was_used_at_all_cpus(features: Features, job: Path) -> None:
    fill(job, cpu_limit_secs=8000, allocated_cpu=4)
    left = features.remaining(NOW, used_cpu_secs=2000)
    assert left.bases == {"cpu_limit": 1500}
    assert left.details == {"cpu_limit": "2000 s used; 4 CPUs busy from now on"}
    assert features.remaining(NOW, used_cpu_secs=9000).seconds == -250
    fill(job, jobstart_secs=NOW - 1000)
    assert features.remaining(NOW, 2000).details["cpu_limit"].endswith("; 1000 if since the start")


def fake_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, **files: str) -> None:
    """Let /proc and the control groups be a folder's."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(line)
    for name, text in files.items():
        path = tmp_path / "cgroups" / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(client, "_PROC", str(tmp_path / "proc"))
    monkeypatch.setattr(client, "_CGROUPS", str(tmp_path / "cgroups"))


@pytest.mark.parametrize(
    ("job_id", "line", "file"),
    [
        ("12", "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0",
         "system.slice/slurmstepd.scope/job_12/cpu.stat"),
        ("12", "0::/slurm/uid_12/job_12/step_batch", "unified/slurm/uid_12/job_12/cpu.stat"),
        ("12", "4:cpu,cpuacct:/slurm/uid_12/job_12/step_batch", "cpu,cpuacct/slurm/uid_12/job_12/cpuacct.usage"),
        ("12", "4:cpuacct,cpu:/lsf/c/job.12.55.1", "cpuacct/lsf/c/job.12.55.1/cpuacct.usage"),
        ("12.pbs", "0::/pbs_jobs.service/jobid/12.pbs", "pbs_jobs.service/jobid/12.pbs/cpu.stat"),
        ("7.0", "0::/system.slice/condor.service/htcondor/condor_x_slot1_1@n1",
         "system.slice/condor.service/htcondor/condor_x_slot1_1@n1/cpu.stat"),
    ],
)  # fmt: skip
def test_what_was_used_is_what_the_jobs_control_group_says(
    features: Features,
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job_id: str,
    line: str,
    file: str,
) -> None:
    fake_node(monkeypatch, tmp_path, f"8:memory:/slurm/uid_12/job_12\n{line}\n")
    path = tmp_path / "cgroups" / file
    path.parent.mkdir(parents=True)
    path.write_text("usage_usec 2000500000\nuser_usec 1\n" if file.endswith("stat") else "2000500000000\n")
    fill(job, job_id=job_id, cpu_limit_secs=8000, allocated_cpu=4)
    left = features.remaining(NOW)
    assert left.bases == {"cpu_limit": (8000 - 2000.5) / 4}
    assert "2000 s used by control group" in left.details["cpu_limit"]


def test_without_a_group_it_is_what_proc_says_of_the_session_and_its_children(
    features: Features, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_node(monkeypatch, tmp_path, "0::/user.slice/user-12.slice/session-12.scope\n")
    (tmp_path / "proc/stat").write_text("cpu 1\nbtime 5\n")
    own, ticks = os.getsid(0), os.sysconf("SC_CLK_TCK")
    for pid, parent, session, secs in ((5, 1, own, 100), (6, 5, 6, 10), (7, 6, 6, 1), (8, 1, 8, 5000)):
        (tmp_path / f"proc/{pid}").mkdir()
        times = " ".join(str(secs * ticks) for _ in range(4))
        stat_line = (
            f"{pid} (a b) c) S {parent} {pid} {session} 0 -1 0 0 0 0 0 {times} 20 0 1 0 {600 * ticks} 0"
        )
        (tmp_path / f"proc/{pid}/stat").write_text(stat_line)
    fill(job, job_id="12", cpu_limit_secs=8000, allocated_cpu=4)
    left = features.remaining(NOW)
    assert left.bases == {"cpu_limit": (8000 - 4 * 111) / 4}
    assert "or more" in left.details["cpu_limit"]
    started = int(time.time()) - 1000
    (tmp_path / "proc/stat").write_text(f"cpu 1\nbtime {started - 600}\n")
    fill(job, jobstart_secs=started + 200)
    assert "or more" in features.remaining(time.time()).details["cpu_limit"]
    fill(job, jobstart_secs=started + 400)  # a session from before the job is not its own
    assert features.remaining(time.time()).details["cpu_limit"].startswith("at worst")


def test_where_nobody_tells_what_was_used_all_cpus_are_taken_to_have_been_busy(
    features: Features, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PROC", str(tmp_path / "none"))
    fill(job, cpu_limit_secs=8000, allocated_CPU=4)
    left = features.remaining(NOW)
    assert left.seconds is None
    assert "neither what was used nor jobstart_secs" in left.notes[0]
    fill(job, jobstart_secs=NOW - 500)
    left = features.remaining(NOW)
    assert left.bases == {"cpu_limit": 1500}
    assert left.details["cpu_limit"].startswith("at worst")


def test_one_who_cannot_be_asked_is_not_one_who_knows_nothing(job: Path, machine: Path) -> None:
    for features in (Features(), Features(job=str(job / "gone")), Features(str(machine / "gone"), str(job))):
        with pytest.raises(FeaturesUnreachableError):
            features.remaining(NOW)
    assert Features(job=str(job)).remaining(NOW).seconds is None


@pytest.mark.parametrize(
    "text", ["", "soon", "nan", "inf", "1e9", "1_000", "٥", "0x10", "5\n6", "9" * 19, "."]
)
def test_what_is_not_a_number_is_skipped_with_a_note(
    features: Features, job: Path, machine: Path, text: str
) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs=60)
    fill(machine, shutdowntime=text)
    left = features.remaining(NOW)
    assert left.seconds == 60
    assert len(left.notes) == 1
    assert left.notes[0].startswith("shutdowntime: not a number")


@pytest.mark.parametrize("text", ["-5", "-1", "-0.5"])
def test_a_negative_value_is_not_a_missing_one(features: Features, job: Path, text: str) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs=text)
    assert features.remaining(NOW).notes[0] == f"wall_limit_secs: is negative: {text!r}"


@pytest.mark.parametrize("text", ["3600", " 3600 ", "3600.0", "3600.", "03600"])
def test_numbers_as_sites_write_them_are_understood(features: Features, job: Path, text: str) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs=text)
    assert features.remaining(NOW).seconds == 3600


def test_a_limit_without_a_start_says_so(features: Features, job: Path) -> None:
    fill(job, wall_limit_secs=3600)
    left = features.remaining(NOW)
    assert left.seconds is None
    assert left.notes == ("wall_limit_secs: of no use without jobstart_secs",)


def test_an_endless_value_is_skipped_with_a_note(features: Features, job: Path) -> None:
    fill(job, shutdowntime_job="1" * 5000)
    left = features.remaining(NOW)
    assert left.seconds is None
    assert "4096" in left.notes[0]


def test_a_limit_that_could_not_be_asked_for_is_not_the_absence_of_one(job: Path) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs=3600, file=1)
    with pytest.raises(FeaturesUnreachableError):
        Features(machine=str(job / "file"), job=str(job)).remaining(NOW)


@given(st.dictionaries(st.sampled_from(["wall_limit", "shutdown"]), st.floats(-1e12, 1e12)))
def test_seconds_are_whole_and_never_more_than_any_basis(bases: dict[str, float]) -> None:
    seconds = Remaining(bases).seconds
    assert (seconds is None) == (not bases)
    if seconds is not None:
        assert isinstance(seconds, int)
        assert seconds <= min(bases.values()) < seconds + 1


# --- writing -----------------------------------------------------------------------------------


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_names_and_ranges_are_those_of_the_reader() -> None:
    assert {
        key.name: None if key.value_type == "boolean" else (key.lowest, key.highest) for key in STATUS_KEYS
    } == client.STATUS_KEYS
    assert jobstatus.USED_CPU.name == client.USED_CPU


def test_a_set_is_written_as_the_draft_wants_it(job: Path) -> None:
    old = os.umask(0o077)
    try:
        with StatusWriter(str(job), allocated_cpu=8) as writer:
            writer.update(used_CPU=5, can_postpone_last_job=False, priority_factor=-1, last_job_start=NOW)
    finally:
        os.umask(old)
    assert content(job) == {
        "used_CPU": b"5\n",
        "can_postpone_last_job": b"False\n",
        "priority_factor": b"-1\n",
        "last_job_start": f"{NOW}\n".encode(),
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in job.iterdir()} == {0o644}


def test_later_updates_keep_what_they_do_not_name_and_the_same_used_cpu_file(job: Path) -> None:
    writer = StatusWriter(str(job))
    writer.update(used_CPU=5, first_exp_job_end=10, add_uncom_time=1000)
    inode = (job / "used_CPU").stat().st_ino
    writer.update(used_CPU=12, add_uncom_time=3)
    writer.update(first_exp_job_end=None)
    assert content(job) == {"used_CPU": b"12\n", "add_uncom_time": b"3\n"}
    assert (job / "used_CPU").stat().st_ino == inode
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.update(used_CPU=1)
    writer.close()


BAD: list[dict[str, object]] = [
    {},
    {"last_job_start": 1},
    {"used_CPU": None},
    {"used_CPU": 9},
    {"used_CPU": -1},
    {"used_CPU": 1.0},
    {"used_CPU": "1"},
    {"used_CPU": True},
    {"used_CPU": 2**63},
    {"used_CPU": 1, "used_cpu": 1},
    {"used_CPU": 1, "../x": 1},
    {"used_CPU": 1, "unknown": None},
    {"used_CPU": 1, "can_postpone_last_job": "True"},
    {"used_CPU": 1, "can_postpone_last_job": 1},
    {"used_CPU": 1, "last_job_start": NOW * 1000},
    {"used_CPU": 1, "first_exp_job_end": 2, "last_exp_job_end": 1},
]


@pytest.mark.parametrize("values", BAD, ids=str)
def test_bad_values_are_refused_before_anything_is_touched(job: Path, values: Mapping[str, object]) -> None:
    with StatusWriter(str(job), allocated_cpu=8) as writer:
        with pytest.raises(ValueError, match=r"."):
            writer.update(**values)
        assert content(job) == {}
        writer.update(used_CPU=2, last_exp_job_end=1)
        before = content(job)
        with pytest.raises(ValueError, match="first_exp_job_end"):
            writer.update(first_exp_job_end=2)
        assert content(job) == before


def test_a_directory_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        StatusWriter(str(tmp_path / "nothing"))


HOLDER = """
import fcntl, sys
file = open(sys.argv[2], "r+")
getattr(fcntl, sys.argv[1])(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.program
@pytest.mark.parametrize("kind", ["flock", "lockf"])
def test_a_lock_of_either_kind_keeps_the_writer_out(job: Path, kind: str) -> None:
    writer = StatusWriter(str(job), lock_timeout_secs=0.03)
    writer.update(used_CPU=1)
    argv = [sys.executable, "-c", HOLDER, kind, str(job / "used_CPU")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TimeoutError, match="used_CPU"):
            writer.update(used_CPU=2, last_job_start=5)
        assert content(job) == {"used_CPU": b"1\n"}
        holder.kill()
    writer.update(used_CPU=2)
    assert content(job) == {"used_CPU": b"2\n"}
    writer.close()


@pytest.mark.parametrize("fails_at", range(4))
def test_a_write_that_breaks_off_leaves_a_set_that_readers_refuse(
    job: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    old = {"used_CPU": 4, "last_job_start": 1, "last_exp_job_end": 5, "priority_factor": 1}
    new = {"used_CPU": 5, "last_job_start": 2, "last_exp_job_end": 6, "priority_factor": 2}
    real, calls = os.write, []

    def fail(file: int, text: bytes) -> int:
        calls.append(text)
        if len(calls) > fails_at:
            raise OSError(28, "No space left on device")
        return real(file, text)

    with StatusWriter(str(job)) as writer:
        writer.update(**old)
        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(OSError, match="No space"):
            writer.update(**new)
        with pytest.raises(StatusViolation):
            parse_job_status(read_status(str(job), owner_uid=os.geteuid()).values, allocated_cpus=None)
        monkeypatch.undo()
        writer.update(used_CPU=6)
        values = read_status(str(job), owner_uid=os.geteuid()).values
        assert values == {name: f"{value}\n".encode() for name, value in {**old, "used_CPU": 6}.items()}


def test_a_cut_write_is_an_error(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda _file, text: len(text) - 1)
    with StatusWriter(str(job)) as writer, pytest.raises(OSError, match="space"):
        writer.update(used_CPU=5)


def test_threads_of_one_job_may_share_a_writer(job: Path) -> None:
    writer = StatusWriter(str(job))

    def work(number: int) -> None:
        for _ in range(20):
            writer.update(used_CPU=number, last_job_start=number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = content(job)
    assert values["used_CPU"] == values["last_job_start"]
    writer.close()


# --- amending ------------------------------------------------------------------------


def test_an_amendment_keeps_what_another_writer_wrote(job: Path) -> None:
    with StatusWriter(str(job)) as first:
        first.update(used_CPU=5, last_job_start=NOW, can_postpone_last_job=True, priority_factor=-3)
    with StatusWriter(str(job), allocated_cpu=8) as second:
        second.amend(used_CPU=6, can_postpone_last_job=None)
        assert content(job) == {
            "used_CPU": b"6\n",
            "last_job_start": f"{NOW}\n".encode(),
            "priority_factor": b"-3\n",
        }
        second.update(last_job_start=None)
    assert content(job) == {"used_CPU": b"6\n", "priority_factor": b"-3\n"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("used_CPU", ""),
        ("priority_factor", "many"),
        ("priority_factor", "--1"),
        ("last_job_start", "-1"),
        ("add_uncom_time", "9" * 30),
        ("can_postpone_last_job", "true"),
    ],
)
def test_an_amendment_replaces_a_broken_set_whole(job: Path, name: str, text: str) -> None:
    fill(job, **{"used_CPU": 5, "last_exp_job_end": NOW, name: text})
    with StatusWriter(str(job)) as writer:
        writer.amend(used_CPU=2)
    assert content(job) == {"used_CPU": b"2\n"}


@pytest.mark.parametrize("values", BAD, ids=str)
def test_a_bad_amendment_is_refused_before_anything_is_touched(
    job: Path, values: Mapping[str, object]
) -> None:
    with StatusWriter(str(job), allocated_cpu=8) as writer, pytest.raises(ValueError, match=r"."):
        writer.amend(**values)
    assert content(job) == {}


def test_an_amendment_that_contradicts_what_is_there_changes_nothing(job: Path) -> None:
    fill(job, used_CPU=5, last_exp_job_end=NOW)
    before = content(job)
    with StatusWriter(str(job)) as writer, pytest.raises(ValueError, match="first_exp_job_end"):
        writer.amend(first_exp_job_end=NOW + 1)
    assert content(job) == before


AMENDER = """
import sys
from jobfeatures.client import StatusWriter
for _ in range(30):
    with StatusWriter(sys.argv[1]) as writer:
        writer.amend(**{sys.argv[2]: 7, "used_CPU": 1})
        writer.amend(**{sys.argv[2]: None})
        writer.amend(**{sys.argv[2]: 8})
"""


@pytest.mark.program
def test_amendments_of_several_processes_are_not_lost(job: Path) -> None:
    names = ["last_job_start", "add_uncom_time", "priority_factor"]
    processes = [subprocess.Popen([sys.executable, "-c", AMENDER, str(job), name]) for name in names]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert content(job) == {"used_CPU": b"1\n", **dict.fromkeys(names, b"8\n")}
