"""Real servers for the tests in this folder. Each is started once, from the scripts in tests/labs."""

from __future__ import annotations

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.debian import build_packages, clean_debian
from tests.running import free_port

pytest.register_assert_rewrite("tests.integration.playedjobs")

ROOT = Path(__file__).parents[2]
SYSTEM_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
BIN = Path(sys.executable).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.integration)
            if item.get_closest_marker("timeout") is None:  # a module's own is farther away than this one
                item.add_marker(pytest.mark.timeout(1600))


PATIENCE = 4  # times what a quiet machine may take: thirty processes may wait for each CPU
PATIENT_SECS = 60.0 * PATIENCE  # what a command of a batch system may take


def until(condition: Callable[[], object], timeout_secs: float = 60.0, every_secs: float = 0.1):
    """Return the first true result of `condition`; fail with its last result after PATIENCE times the timeout."""
    deadline = time.monotonic() + timeout_secs * PATIENCE
    while not (result := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout_secs * PATIENCE:g} s: {condition}: {result!r}")
        time.sleep(every_secs)
    return result


@dataclass
class Exporter:
    """A running `jobfeatures-exporter serve`."""

    process: subprocess.Popen
    address: str
    log: Path

    def get(self, path: str = "/metrics", accept: str = "") -> str:
        request = urllib.request.Request(f"http://{self.address}{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=PATIENT_SECS) as response:
            return response.read().decode()

    def series(self, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return label sets and values of the series with this name and these labels."""
        found = {}
        for line in self.get().splitlines():
            match = re.fullmatch(re.escape(name) + r"(?:\{(.*)\})? (\S+)", line)
            if match:
                have = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[1] or ""))
                if labels.items() <= have.items():
                    found[tuple(sorted(have.items()))] = float(match[2])
        return found

    def info(self, job_id: str) -> dict[str, str]:
        """Return the labels of a job's info series; empty if it has none."""
        found = list(self.series("batch_job_info", job_id=job_id))
        assert len(found) <= 1
        return dict(found[0]) if found else {}


@pytest.fixture
def start_exporter(tmp_path):
    """Return a function that starts the daemon with some flags."""
    started = []

    def start(
        *flags: str,
        environ: dict[str, str] | None = None,
        ready: Callable[[str], object] | None = None,
    ) -> Exporter:
        """Start it; `ready` looks at its log where it cannot be asked over plain HTTP."""
        log = tmp_path / f"exporter-{len(started)}.log"
        command = [BIN / "jobfeatures-exporter", "serve", "--web.listen-address", "127.0.0.1:0", *flags]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stderr=output, env={**os.environ, **(environ or {})})
        exporter = Exporter(process, "", log)
        started.append(exporter)

        def address() -> str | None:
            assert process.poll() is None, log.read_text()
            match = re.search(r"msg=listening address=(\S+)", log.read_text())
            return match and match[1]

        exporter.address = until(address, 120)
        until(lambda: ready(log.read_text()) if ready else _ready(exporter), 120)
        return exporter

    yield start
    for exporter in started:
        exporter.process.terminate()
        try:
            exporter.process.wait(60)
        except subprocess.TimeoutExpired:
            exporter.process.kill()
            pytest.fail(f"the exporter did not stop:\n{exporter.log.read_text()}")


def _ready(exporter: Exporter) -> bool:
    try:
        return exporter.get("/-/ready").startswith("ready\n")  # a source may fail all the same
    except (urllib.error.HTTPError, TimeoutError):  # the machine may be busy
        return False


# --- a throw-away machine with control groups v2 ---------------------------------------

PYTHON = Path(sys.executable).resolve()  # not the environment's link: that may lie in /tmp


@pytest.fixture(scope="session")
def carried(tmp_path_factory):
    """Return a folder with the project and its libraries, compiled: the machine has a /tmp and a /home of its own.

    Its services may write nothing beside their code: without this each of them compiles all of it again.
    """
    folder = tmp_path_factory.mktemp("carried")
    ours = ("jobfeatures", "exporter/jobfeatures_exporter")
    for part in ours:
        shutil.copytree(
            ROOT / part, folder / "lib" / Path(part).name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for part in ("packaging", "tests/labs"):
        shutil.copytree(ROOT / part, folder / "project" / part, symlinks=True)
    shutil.copytree(
        sysconfig.get_path("purelib"),
        folder / "lib",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.pyc.*", "mypy*", "ruff*", "pip*", "playwright*"),
    )
    for part in ours:
        compileall.compile_dir(folder / "lib" / Path(part).name, quiet=2)
    (folder / "bin").mkdir()
    for command, module in (("jobfeatures", "jobfeatures"), ("jobfeatures-exporter", "jobfeatures_exporter")):
        path = folder / "bin" / command
        path.write_text(f'#!/bin/sh\nexport PYTHONPATH=/mnt/lib\nexec {PYTHON} -m {module} "$@"\n')
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def share(request, tmp_path_factory):
    """Return a function that makes a folder for a machine: with our commands in bin, and our tree in project."""
    if os.geteuid() != 0:
        pytest.skip("the machine's script has to be root")
    carried = request.getfixturevalue("carried")

    def make() -> Path:
        folder = tmp_path_factory.mktemp("share")
        shutil.copytree(carried, folder, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
        folder.chmod(0o755)  # users of the machine read it too
        return folder

    return make


@pytest.fixture(scope="module")
def run_in_machine(share):
    """Return a function that boots the machine, runs a script there as root, and returns what it printed.

    The script finds the project's commands in /mnt/bin and its tree in /mnt/project.
    """
    if not shutil.which("linux.uml"):
        pytest.skip("needs Debian's user-mode-linux")

    def run(script: str, *flags: str) -> str:
        folder = share()
        (folder / "script").write_text(script)
        done = subprocess.run(
            [ROOT / "tests/labs/uml/run.sh", *flags, folder, "bash", "/mnt/script"],
            capture_output=True,
            text=True,
            timeout=1430,
            env={**os.environ, "UML_TIMEOUT": "1400"},
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def run_in_container(share, tmp_path_factory):
    """Return a function that does so in a clean Debian, under a systemd in namespaces of this machine."""

    def run(script: str) -> str:
        with clean_debian(tmp_path_factory.mktemp("debian") / "root") as system:
            return system.boot(script, share())

    return run


# --- the packages, and a clean Debian ---------------------------------------------------


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """Return the files of the built wheel, source archive, .deb and .rpm."""
    return build_packages(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def debian(tmp_path):
    """Return a clean Debian 12 in a folder, in which packages can be installed and commands run."""
    with clean_debian(tmp_path / "debian") as system:
        yield system


# --- Slurm ------------------------------------------------------------------------


@dataclass
class Slurm:
    """A real Slurm with our hooks: two emulated nodes on this machine, of which `node` is ours."""

    environ: dict[str, str]
    features: Path
    lab: Path
    node: str
    submitted: list[str] = field(default_factory=list)

    def run(self, *command: str, user: str | None = None, stdin: str | None = None) -> str:
        """Run one of Slurm's commands, as a user with a clean environment or as root."""
        argv = list(command)
        environ = {**os.environ, **self.environ}
        if user:
            environ = {"HOME": f"/home/{user}", "USER": user, "PATH": "/usr/bin:/bin", **self.environ}
            argv = [shutil.which("runuser", path=SYSTEM_PATH), "-u", user, "--", *argv]
        done = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=PATIENT_SECS, cwd="/", input=stdin
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def submit(self, script: str, *options: str, user: str = "alice", output: Path | None = None) -> str:
        """Submit a job and return its id."""
        job_id = self.run(
            "sbatch", "--parsable", "-w", self.node, "-D", f"/home/{user}", "-o", str(output or "/dev/null"), *options,
            user=user, stdin=f"#!/bin/bash\n{script}\n",
        ).strip()  # fmt: skip
        self.submitted.append(job_id)
        return job_id

    def states(self, job_id: str) -> dict[str, str]:
        """Return the state of each job with this id, by raw id."""
        lines = self.run("squeue", "-h", "-a", "-t", "all", "-j", job_id, "-o", "%A %T").split("\n")
        return dict(line.split() for line in lines if line)

    def wait(self, job_id: str, *states: str, timeout_secs: float = 60) -> dict[str, str]:
        """Wait until all jobs with this id are in one of these states."""

        def reached():
            found = self.states(job_id)
            return found if found and set(found.values()) <= set(states) else None

        return until(reached, timeout_secs)

    def cancel_all(self) -> None:
        """End what was submitted."""
        for job_id in self.submitted:
            subprocess.run(["scancel", job_id], env={**os.environ, **self.environ}, check=False)
        self.submitted.clear()


@pytest.fixture(scope="session")
def slurm_lab():
    """Start Slurm once; stop it at the end unless it was running before."""
    if os.geteuid() != 0:
        pytest.skip("a private Slurm needs root: slurmd starts jobs as other users")
    if not all(shutil.which(name, path=SYSTEM_PATH) for name in ("slurmctld", "slurmd", "sbatch")):
        pytest.skip("Slurm is not installed: tests/labs/slurm/install.sh")
    labs = ROOT / "tests/labs/slurm"
    rest = "1" if shutil.which("slurmrestd", path=SYSTEM_PATH) else "0"
    environ = {
        **os.environ,
        "SLURM_LAB_NODES": "2",
        "SLURM_LAB_CPUS": "4",
        "SLURM_LAB_GPUS": "3",
        "SLURM_LAB_REST": rest,
    }
    up = subprocess.run([labs / "up.sh"], env=environ, capture_output=True, text=True, timeout=PATIENT_SECS)
    assert up.returncode == 0, up.stdout + up.stderr
    lab = Path(re.search(r"\. (\S+)/env\.sh", up.stdout)[1])
    yield lab
    if "already up" not in up.stdout:
        subprocess.run(
            [labs / "down.sh"], env=environ, capture_output=True, timeout=PATIENT_SECS, check=False
        )


@pytest.fixture
def slurm(slurm_lab):
    """Return the running Slurm with our prolog, task prolog and epilog in place."""
    conf = slurm_lab / "etc/slurm.conf"
    node = re.search(r"NodeName=(\S+)", conf.read_text())[1]
    features = slurm_lab / "features"
    shutil.rmtree(features, ignore_errors=True)
    put_hooks(slurm_lab, features)
    found = Slurm({"SLURM_CONF": str(conf)}, features, slurm_lab, node)
    yield found
    found.cancel_all()
    until(lambda: not found.run("squeue", "-h"), 60)
    (slurm_lab / "hook-settings").unlink(missing_ok=True)
    for hook in HOOKS:
        (slurm_lab / f"scripts/{hook}.d/jobfeatures").unlink()


HOOKS = ("prolog", "taskprolog", "epilog")


def put_hooks(lab: Path, features: Path) -> None:
    """Have a Slurm of the lab run our hooks, which publish below `features`."""
    for hook in HOOKS:
        target = lab / f"scripts/{hook}.d/jobfeatures"
        target.write_text(
            "#!/bin/bash\n"
            f"export JOBFEATURES_COMMAND={BIN}/jobfeatures JOBFEATURES_FEATURES_ROOT={features}\n"
            "export JOBFEATURES_HOOK_TIMEOUT=10\n"  # the values count here; the default is tried elsewhere
            f". {lab}/hook-settings 2>/dev/null\n"
            f"exec {ROOT}/packaging/slurm/{hook}.sh\n"
        )
        target.chmod(0o755)


@pytest.fixture
def without_hooks(slurm):
    """Leave our hooks out of jobs that only the queue and accounting are asked of: they start Python for each."""
    for hook in HOOKS:
        (slurm.lab / f"scripts/{hook}.d/jobfeatures").chmod(0o644)


@pytest.fixture
def slurm_exporter(slurm, start_exporter):
    """Return the daemon on the running Slurm."""
    return start_exporter(
        "--batch.sources", "slurm", "--features.root", str(slurm.features), "--node.name", slurm.node,
        "--batch.interval", "2s", "--sample.interval", "1s", "--jobs.retain", "0s", environ=slurm.environ,
    )  # fmt: skip


# --- Prometheus -------------------------------------------------------------------


@pytest.fixture
def prometheus(tmp_path, until):
    """Return a function that starts Prometheus on some targets and returns one that queries it.

    `discovery` is the address of a list of more targets, `client` settings of the scrapes of the first ones,
    `rules` are files of rules.
    """
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian: prometheus)")
    started = []

    def query(expression: str) -> dict[str, float]:
        url = f"{query.address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=PATIENT_SECS) as response:
            answer = json.load(response)
        return {
            json.dumps(each["metric"], sort_keys=True): float(each["value"][1])
            for each in answer["data"]["result"]
        }

    port = free_port()  # other streams of .ci/run have a Prometheus of their own
    query.address = f"http://127.0.0.1:{port}"

    def start(
        *targets: str,
        discovery: str | None = None,
        client: dict[str, object] | None = None,
        rules: Collection[Path] = (),
    ):
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in rules],
            "scrape_configs": [
                {"job_name": "batch_nodes", "static_configs": [{"targets": list(targets)}], **(client or {})},
            ],
        }
        if discovery is not None:
            config["scrape_configs"].append(
                {
                    "job_name": "discovered",
                    "http_sd_configs": [{"url": discovery, "refresh_interval": "1s"}],
                    "relabel_configs": [
                        {"source_labels": [f"__meta_batch_{name}"], "target_label": name}
                        for name in ("node", "partitions", "states", "system")
                    ],
                }
            )
        file = tmp_path / "prometheus.yml"
        file.write_text(json.dumps(config))  # JSON is YAML
        command = [
            program, f"--config.file={file}", f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]  # fmt: skip
        with (tmp_path / "prometheus.log").open("wb") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log))

        def answers():
            try:
                return query("up")
            except OSError:
                return None

        until(answers)
        return query

    yield start
    for process in started:
        process.terminate()
        process.wait(60)


@pytest.fixture(name="until")
def until_fixture():
    """Return the function that waits for a condition."""
    return until
