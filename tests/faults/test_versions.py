"""Upgrade and downgrade below live jobs: this version, and the one before it, in turn on one node's state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

from tests.faults.site import ROOT, THIS, Installed, Site, burner, now
from tests.running import free_port, until

# Until a version has a tag: a commit of the day before this test was written, whose state was of the same kind.
BEFORE = os.environ.get("JOBFEATURES_BEFORE", "24dbacc")
TURNS = ("before", "this", "before", "this")
LIVE = {"slurm-11", "slurm-12", "spool-render.1"}

pytestmark = [pytest.mark.fault, pytest.mark.timeout(600)]


@pytest.fixture
def before(tmp_path) -> Installed:
    """Return the version before this one, in an environment of its own, with the libraries that are here."""
    folder, archive = tmp_path / "before", tmp_path / "before.tar"
    asked = ["git", "-C", ROOT, "archive", "-o", archive, BEFORE]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no history: {BEFORE} is not in this copy")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    libraries = [each for each in sys.path if Path(each).name == "site-packages"]
    search = [str(folder), str(folder / "exporter"), *libraries]
    (packages / "before.pth").write_text("\n".join(search) + "\n")
    python = str(folder / "venv/bin/python")
    where = [
        python,
        "-c",
        "import jobfeatures, jobfeatures_exporter as e; print(jobfeatures.__file__, e.__file__)",
    ]
    found = subprocess.run(where, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert found.count(str(folder)) == 2, found
    return Installed(python, folder / "packaging/slurm", os.pathsep.join(search))


@pytest.fixture
def site(tmp_path):
    flags = {
        "sonar.cluster": "hpc.example.org", "sonar.sinks": "http", "sonar.sample_interval": "1s",
        "sonar.http_url": f"http://127.0.0.1:{free_port()}",  # nobody is there: documents wait
        "sonar.spool_directory": tmp_path / "sonar", "sonar.topology": "",
    }  # fmt: skip
    made = Site(tmp_path, flags)
    yield made
    made.close()


class Watch:
    """Somebody who looks all the time at what live jobs and the machine are told."""

    def __init__(self, site: Site) -> None:
        self._files = {
            site.root / "machinefeatures/shutdowntime", site.root / "jobfeatures/slurm-11/shutdowntime_job",
            *(site.root / "jobfeatures" / name / "wall_limit_secs" for name in LIVE),
        }  # fmt: skip
        self._wanted = {path: path.read_text() for path in self._files}
        self.faults: list[str] = []
        self.looks = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.005):
            self.looks += 1
            for path, wanted in self._wanted.items():
                try:
                    said = path.read_text()
                except FileNotFoundError:
                    said = "nothing"
                if said != wanted:
                    self.faults.append(f"{path}: {said!r}, not {wanted!r}")


def drain(site: Site, *words: str) -> str:
    command = [site.command, "drain", *words, "--features.root", site.root, "--node.name", "n1"]
    environ = {**site.environ, "PYTHONPATH": site.installed.search}
    return subprocess.run(
        command, cwd=site.folder, env=environ, check=True, capture_output=True, text=True
    ).stdout


def waiting(site: Site) -> set[str]:
    return {path.name for path in (site.folder / "sonar").rglob("*.envelope")}


def begin(site: Site, job_id: str) -> None:
    start = now()
    environ = {
        "SLURM_JOB_START_TIME": str(start), "SLURM_JOB_END_TIME": str(start + 90_000), "SLURM_JOB_RESTART_COUNT": "0",
    }  # fmt: skip
    assert site.hook("prolog.sh", job_id, **environ).wait() == 0
    until(lambda: f"slurm-{job_id}" in site.published())


def end_daemon(site: Site) -> None:
    """End it as a package manager does."""
    assert site.process is not None
    site.process.send_signal(signal.SIGTERM)
    site.process.wait(60)


def test_two_versions_in_turn_below_live_jobs_lose_no_directory_no_count_and_no_drain(site, before):
    """The prolog is of one version, the daemon of the other, and the epilog of whichever is installed then."""
    usecs, process = 1_000_000, burner()
    try:
        site.spool_job("render.1", wall_secs=80_000, start_secs=now(), process=process.pid)
        site.start()
        site.wait_until_ready()
        begin(site, "11")
        site.group("11", user_usec=usecs)
        site.use(before)
        begin(site, "12")  # by older hooks, while the daemon is newer
        until(lambda: site.published() == LIVE)
        at_secs = now() + 172_800
        drain(site, "set", "--at", str(at_secs))
        drain(site, "set", "--job", "11", "--at", str(at_secs - 100))
        until((site.root / "jobfeatures/slurm-11/shutdowntime_job").exists)
        until(lambda: (site.root / "machinefeatures/shutdowntime").read_text() == f"{at_secs}\n")
        shown, waited = site.counters(), set()
        with Watch(site) as watch:
            for number, name in enumerate(TURNS):
                extra = f"slurm-{20 + number}"
                begin(site, extra[6:])
                until(lambda waited=waited: len(waiting(site)) > len(waited))
                end_daemon(site)
                assert site.published() == {*LIVE, extra}, "while no daemon runs"
                usecs += 3_000_000
                site.group("11", user_usec=usecs)
                waited = waiting(site)
                site.use(before if name == "before" else THIS)
                site.start()
                site.wait_until_ready()
                assert site.published() == {*LIVE, extra}
                until(lambda usecs=usecs: site.counters().get(("slurm-11", "user")) == usecs / 1e6)
                until(lambda shown=shown: site.counters().keys() >= shown.keys())
                page = site.counters()
                assert all(page[key] >= value for key, value in shown.items()), (name, shown, page)
                shown = {key: value for key, value in page.items() if key[0] in LIVE}
                assert waited <= waiting(site), "what waited still does"
                told = drain(site, "show", "--format", "json")
                assert str(at_secs) in told
                assert str(at_secs - 100) in told
                assert site.hook("epilog.sh", extra[6:]).wait() == 0
                until(lambda: site.published() == LIVE)
                time.sleep(0.6)  # two looks of the daemon
        assert watch.faults == []
        assert watch.looks > 100
        assert not list((site.folder / "sonar").rglob("*.corrupt"))
        print(f"\n{len(TURNS)} turns, {watch.looks} looks, {len(waiting(site))} documents wait")
    finally:
        process.kill()
        process.wait()
