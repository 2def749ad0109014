"""Kills at random points, with readers looking on: of daemon, process that serves hooks, hooks, and far side."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.faults.readers import Book, Readers, Run
from tests.faults.site import Site, burner, now
from tests.running import free_port, until

LONG = bool(os.environ.get("JOBFEATURES_LONG"))
KILLS = 1000 if LONG else 40
SETTLED_EVERY = 8  # kills between two times at which everything is compared
JOBS = 5  # of each kind, at most
COUNTED = (1, 2, 3)  # of the Slurm jobs

pytestmark = [pytest.mark.fault, pytest.mark.timeout(7200 if LONG else 600)]


class Documents:
    """Sonar's documents: those that waited when the daemon was killed, those that came, and a far side to kill."""

    def __init__(self, site: Site) -> None:
        self.file, self.port = site.folder / "documents", free_port()
        self.spool, self.tree = site.folder / "sonar/http", site.folder / "tree"
        site.flags |= {
            "sonar.cluster": "hpc.example.org", "sonar.sinks": "http,tree", "sonar.sample_interval": "1s",
            "sonar.http_url": f"http://127.0.0.1:{self.port}", "sonar.spool_directory": site.folder / "sonar",
            "sonar.tree_directory": self.tree, "sonar.topology": "",
        }  # fmt: skip
        self.file.touch()
        self.waited: set[str] = set()
        self.lives = 1  # of both sides: after each end one document may come again
        self.start()

    def start(self) -> None:
        script = Path(__file__).with_name("farside.py")
        self.process = subprocess.Popen([sys.executable, script, str(self.port), self.file])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.lives += 1

    def note_waiting(self) -> None:
        """Note what waits while the daemon is dead."""
        self.lives += 1
        for path in self.spool.glob("*.envelope"):
            head, _, body = path.read_bytes().partition(b"\n")
            assert json.loads(head)["kind"] in ("sample", "sysinfo")
            self.waited.add(hashlib.sha256(body).hexdigest())

    def came(self) -> Counter[str]:
        lines = (line.split() for line in self.file.read_text().splitlines())
        return Counter(digest for kind, digest in lines if kind == "sample" or digest in self.waited)


class Trial:
    """Jobs that come and go, and kills between and within all of it."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site, self.chance, self.book = site, random.Random(seed), Book()
        self.documents = Documents(site)
        self.kills: Counter[str] = Counter()
        self._number = 0
        self._usecs: dict[str, int] = {}
        self._burners = [burner() for _ in range(JOBS)]
        self._epoch = max(
            int(psutil.boot_time()), now() - 100_000
        )  # what began before the node has no processes

    def close(self) -> None:
        for each in self._burners:
            each.kill()
            each.wait()
        self.documents.kill()
        self.site.close()

    # --- jobs -------------------------------------------------------------------

    def _values(self, job_id: str) -> tuple[int, int, dict[str, str]]:
        self._number += 1
        start, wall = self._epoch + self._number, 200_000 + self._number
        said = {"jobstart_secs": f"{start}\n", "wall_limit_secs": f"{wall}\n", "job_id": f"{job_id}\n"}
        return start, wall, said

    def change_a_spool_job(self) -> None:
        """Begin one, end one, or change its limit, as may be; the daemon need not be there."""
        place = self.chance.randrange(JOBS)
        name = f"spool-render.{place}"
        run = self.book.live.get(name)
        if run is None:
            if name in self.site.published():
                return  # the one before has not been taken away yet
            start, wall, said = self._values(name.partition("-")[2])
            expected = self.book.allow(name, said)
            job_id, process = f"render.{place}", self._burners[place].pid
            self.site.spool_job(job_id, wall_secs=wall, start_secs=start, process=process)
            self.site.wait_until_ready()
            folder = self.site.root / "jobfeatures" / name
            until(lambda: folder.is_dir() and (folder / "jobstart_secs").read_text() == said["jobstart_secs"])
            until(lambda: self.site.address(name))
            self.book.begin(Run(name, expected, self.site.address(name)))
        elif self.chance.random() < 0.5:
            self.book.end(name)
            (self.site.spool / f"render.{place}.xml").unlink()
        else:
            start = int(next(iter(run.expected["jobstart_secs"])))
            self._number += 1
            wall = 200_000 + self._number
            self.book.allow(name, {"wall_limit_secs": f"{wall}\n"})
            run.expected["wall_limit_secs"].add(f"{wall}\n")
            self.site.spool_job(
                f"render.{place}", wall_secs=wall, start_secs=start, process=self._burners[place].pid
            )

    def run_a_hook(self, *, kill: bool) -> None:
        """Have a Slurm job begin or end; a hook that is killed is run once more, as the batch system would."""
        place = 1 + self.chance.randrange(JOBS)
        live = [name for name in self.book.live if name.startswith("slurm-") and int(name[6:]) % 10 == place]
        begins = not live
        # With a control group each has an id of its own: a daemon adds up what one id has used as long as it lives.
        job_id = live[0][6:] if live else str(10 * self._number + place if place in COUNTED else place)
        name = f"slurm-{job_id}"
        if begins:
            start, wall, said = self._values(job_id)
            expected = self.book.allow(name, said)
            environ = {
                "SLURM_JOB_START_TIME": str(start), "SLURM_JOB_END_TIME": str(start + wall),
                "SLURM_JOB_RESTART_COUNT": str(self._number),
            }  # fmt: skip
            script = "prolog.sh"
        else:
            self.book.end(name)
            if name in self._usecs:
                self.site.end_group(job_id)
                del self._usecs[name]
            environ, script = {}, "epilog.sh"
        process = self.site.hook(script, job_id, **environ)
        if kill:
            time.sleep(self.chance.uniform(0, self.chance.choice((0.03, 0.3, 1.5))))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process = self.site.hook(script, job_id, **environ)
        assert process.wait() == 0
        if begins:
            text = until(lambda: self._read(name, "jobstart_secs"))
            assert text == said["jobstart_secs"]
            if place in COUNTED:
                self._usecs[name] = 0
                self.move_counters()
            self.book.begin(Run(name, expected))
        else:
            until(lambda: name not in self.site.published())

    def _read(self, name: str, key: str) -> str | None:
        with contextlib.suppress(OSError):
            return (self.site.root / "jobfeatures" / name / key).read_text()
        return None

    def move_counters(self) -> None:
        """Let jobs with a control group use CPU time."""
        for name in self._usecs:
            self._usecs[name] += self.chance.randrange(10**7)
            self.site.group(name[6:], user_usec=self._usecs[name], system_usec=5)

    # --- kills ------------------------------------------------------------------

    def kill_something(self) -> None:
        victim = self.chance.choices(
            ("daemon", "daemon alone", "server of hooks", "hook", "far side"), (7, 4, 3, 20, 6)
        )[0]
        self.kills[victim] += 1
        if victim == "hook":
            self.run_a_hook(kill=True)
        elif victim == "far side":
            self.documents.kill()
            self.documents.start()
        elif victim == "server of hooks":
            for child in self.site.children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        else:
            time.sleep(self.chance.uniform(0, self.chance.choice((0.2, 2.0))))
            self.site.kill(whole=victim == "daemon")
            self.documents.note_waiting()
            self.site.start()

    def compare(self) -> None:
        """Wait until all is as it should be: exactly the live jobs, each with its own values, and its counters."""
        self.site.wait_until_ready()
        until(lambda: self.site.published() == self.book.live.keys())
        for name, run in self.book.live.items():
            newest = {key: max(values) for key, values in run.expected.items()}
            until(
                lambda name=name, newest=newest: all(self._read(name, key) == newest[key] for key in newest)
            )
            run.expected = {key: {value} for key, value in newest.items()}
        self.move_counters()
        wanted = {name: usecs / 1e6 for name, usecs in self._usecs.items()}
        until(lambda: self._shown("slurm", "user") == pytest.approx(wanted))
        until(
            lambda: (
                self._shown("spool", "user").keys() == {name for name in self.book.live if "spool" in name}
            )
        )
        assert self.book.faults == []

    def _shown(self, system: str, mode: str) -> dict[str, float]:
        found = self.site.counters().items()
        return {
            name: value
            for (name, each), value in found
            if each == mode and name.startswith(system) and name in self.book.live
        }


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.close()


def test_kills_at_random_points_leave_nothing_half_nothing_lost_and_nothing_twice(site, capsys):
    seed = int(os.environ.get("JOBFEATURES_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    began = time.monotonic()
    trial = Trial(site, seed)
    try:
        site.start()
        with Readers(site, trial.book, pause_secs=0.001 if LONG else 0.01):
            for number in range(KILLS):
                if number % 2:
                    trial.change_a_spool_job()
                else:
                    trial.run_a_hook(kill=False)
                trial.move_counters()
                trial.kill_something()
                if number % SETTLED_EVERY == SETTLED_EVERY - 1:
                    trial.compare()
                assert trial.book.faults == []
            trial.compare()
        documents = trial.documents
        until(lambda: documents.came() and documents.waited <= documents.came().keys())
        came = documents.came()
        twice = sum(count - 1 for count in came.values())
        assert twice < documents.lives
        trees = [line for path in documents.tree.rglob("*.json") for line in path.read_text().splitlines()]
        assert all(json.loads(line) for line in trees)
    finally:
        trial.close()
    assert "Traceback" not in site.log.read_text()
    counts = trial.book.counts
    assert min(counts["files"], counts["HTTP"], counts["pages"], counts["counters"]) > 0
    with capsys.disabled():
        print(f"\n{dict(trial.kills)} {dict(counts)}; documents: {len(came)}, {twice} of them twice; "
              f"{time.monotonic() - began:.0f} s, seed {seed}")  # fmt: skip
