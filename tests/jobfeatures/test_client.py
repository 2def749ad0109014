import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures import client
from jobfeatures.client import (
    Features,
    FeaturesLocationError,
    FeaturesUnreachableError,
    FeaturesValueError,
    Remaining,
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
    is_readable = os.access(pyenv, os.R_OK | os.X_OK)  # it may be of another user
    found = {}
    for minor in range(6, 30):
        path = shutil.which(f"python3.{minor}")
        inside = sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python3.{minor}")) if is_readable else []
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
            if isinstance(node, ast.ClassDef) and node.name[:1] != "_":
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
    assert not any(str(name).startswith(("jobfeatures", "__future__")) for name in imported)


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


def test_on_a_node_whose_clock_is_behind_no_more_than_the_limit_remains(
    features: Features, job: Path
) -> None:
    fill(job, jobstart_secs=NOW + 120, wall_limit_secs=3600, cpu_limit_secs=7200, allocated_cpu=2)
    assert features.remaining(NOW).bases["wall_limit"] == 3600
    assert features.remaining(NOW + 121).bases["wall_limit"] == 3599
    assert features.remaining(NOW, used_cpu_secs=0).bases["cpu_limit"] == 3600


def test_no_known_limit_is_none_not_zero(features: Features) -> None:
    left = features.remaining(NOW)
    assert left.seconds is None
    assert left.bases == {}


def test_without_the_job_s_features_a_shutdown_is_not_all_that_may_end_it(machine: Path) -> None:
    """As in a container that got $MACHINEFEATURES alone."""
    fill(machine, shutdowntime=NOW + 86400)
    for job in (None, ""):
        variables = {"MACHINEFEATURES": str(machine), **({} if job is None else {"JOBFEATURES": job})}
        left = Features.from_environment(variables).remaining(NOW)
        assert (left.seconds, left.notes) == (
            86400,
            ("$JOBFEATURES is not set: what limits the job is unknown",),
        )
    assert not Features(machine=str(machine), job="/").apart()[1].remaining(NOW).notes


def test_an_end_that_has_passed_is_negative_and_not_missing(features: Features, machine: Path) -> None:
    fill(machine, shutdowntime=NOW - 5)
    left = features.remaining(NOW + 0.5)
    assert left.seconds == -6
    assert left.bases == {"shutdown": -5.5}


def test_a_cpu_limit_that_is_the_wall_limit_of_all_cpus_is_not_reached_before_it(
    features: Features, job: Path
) -> None:
    """Slurm and HTCondor limit no CPU time; where a CPU is a core of two threads, jobs may use twice as much."""
    fill(job, jobstart_secs=NOW - 1000, wall_limit_secs=3600, cpu_limit_secs=14400, allocated_cpu=4)
    assert features.remaining(NOW, used_cpu_secs=8000).bases == {"wall_limit": 2600, "cpu_limit": 2600}
    assert features.remaining(NOW, used_cpu_secs=2000).bases == {"wall_limit": 2600, "cpu_limit": 3100}
    fill(job, cpu_limit_secs=14000)
    assert features.remaining(NOW, used_cpu_secs=8000).bases == {"wall_limit": 2600, "cpu_limit": 1500}


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
        ("7.0", "0::/site/batch/condor_x_slot1_1@n1", "site/batch/condor_x_slot1_1@n1/cpu.stat"),
        ("12", "0::/slurm.slice/n1_slurmstepd.scope/s10HM8K1EPQN00/step_0/user/task_0",
         "slurm.slice/n1_slurmstepd.scope/s10HM8K1EPQN00/cpu.stat"),
        ("12", "0::/oar.slice/oar-u6001.slice/oar-u6001-j12.slice",
         "oar.slice/oar-u6001.slice/oar-u6001-j12.slice/cpu.stat"),
        ("12", "4:cpuacct:/oar/alice_b_12", "cpuacct/oar/alice_b_12/cpuacct.usage"),
        ("5[3]", r"0::/pbspro.service/jobs/5\x5b3\x5d.srv", r"pbspro.service/jobs/5\x5b3\x5d.srv/cpu.stat"),
        ("5[3]", "4:cpuacct:/torque/5-3.srv", "cpuacct/torque/5-3.srv/cpuacct.usage"),
        ("0", "0::/pbs_jobs.service/jobid/0.srv", "pbs_jobs.service/jobid/0.srv/cpu.stat"),
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
    if "oar" in line:
        monkeypatch.setenv("OAR_JOB_ID", job_id)
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
    assert "neither the used CPU time nor jobstart_secs" in left.notes[0]
    fill(job, jobstart_secs=NOW - 500)
    left = features.remaining(NOW)
    assert left.bases == {"cpu_limit": 1500}
    assert left.details["cpu_limit"].startswith("at worst")


def test_one_who_cannot_be_asked_is_not_one_who_knows_nothing(job: Path, machine: Path) -> None:
    for features in (Features(), Features(job=str(job / "gone")), Features(str(machine / "gone"), str(job))):
        with pytest.raises(FeaturesUnreachableError):
            features.remaining(NOW)
    assert Features(job=str(job)).remaining(NOW).seconds is None


def test_normalized_limits_alone_are_divided_by_their_factor(features: Features, job: Path) -> None:
    fill(job, jobstart_secs=NOW - 600, wall_limit_secs_lrms=1800, cpufactor_lrms="0.5")
    fill(job, cpu_limit_secs_lrms=5000, allocated_CPU=2)
    left = features.remaining(NOW, used_cpu_secs=1000)
    assert left.bases == {"wall_limit": 3000, "cpu_limit": 4500}
    assert left.details["wall_limit"] == "1800 normalized seconds / 0.5"
    assert left.details["cpu_limit"].startswith("5000 normalized seconds / 0.5; 1000 s used")


@pytest.mark.parametrize("factor", [None, "0", "x", "-1", f"0.{'0' * 310}1"])
def test_a_normalized_limit_is_of_no_use_without_its_factor(
    features: Features, job: Path, factor: str | None
) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs_lrms=1800)
    if factor is not None:
        fill(job, cpufactor_lrms=factor)
    left = features.remaining(NOW)
    assert left.seconds is None
    assert left.notes[-1] == "wall_limit_secs_lrms: cannot be used without a cpufactor_lrms above 0"


def test_the_least_and_the_greatest_factor_give_whole_seconds(features: Features, job: Path) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs_lrms="9" * 18, cpufactor_lrms=f"0.{'0' * 17}1")
    assert features.remaining(NOW).seconds == pytest.approx(1e36)
    fill(job, cpufactor_lrms="9" * 18)
    assert features.remaining(NOW).seconds == 1


def test_a_factor_that_limits_share_is_complained_about_once(features: Features, job: Path) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs_lrms=1, cpu_limit_secs_lrms=1, cpufactor_lrms="x")
    assert features.remaining(NOW).notes.count("cpufactor_lrms: not a number: 'x'") == 1


def test_a_limit_in_real_seconds_counts_before_the_normalized_one(features: Features, job: Path) -> None:
    fill(job, jobstart_secs=NOW, wall_limit_secs=60, wall_limit_secs_lrms=1800, cpufactor_lrms=1)
    assert features.remaining(NOW).bases == {"wall_limit": 60}


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


def test_a_start_that_is_far_in_the_future_is_told(features: Features, job: Path) -> None:
    fill(
        job, jobstart_secs=NOW + 300, wall_limit_secs=3600
    )  # clocks of a server and its nodes differ so much
    assert features.remaining(NOW).notes == ()
    fill(job, jobstart_secs=NOW + 301)
    left = features.remaining(NOW)
    assert left.seconds == 3600
    assert left.notes == (f"jobstart_secs: {NOW + 301} is in the future: less may be left than it seems",)


def test_a_limit_without_a_start_says_so(features: Features, job: Path) -> None:
    fill(job, wall_limit_secs=3600)
    left = features.remaining(NOW)
    assert left.seconds is None
    assert left.notes == ("wall_limit_secs: cannot be used without jobstart_secs",)


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
