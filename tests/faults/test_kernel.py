"""A kernel that refuses, comes short or hangs, around a running daemon: on /proc, on control groups, on its tree."""

from __future__ import annotations

import itertools
import math
import os
import re
import time
from errno import EACCES, EDQUOT, EIO, EMFILE, ENFILE, ENODEV, ENOSPC, EROFS, ESRCH
from typing import NamedTuple

import pytest

from tests.faults.faultrules import (
    BLOCK,
    LIST,
    MAKE,
    OPEN,
    READ,
    READING,
    RENAME,
    SHORT,
    STAT,
    WRITE,
    WRITING,
    Faults,
    Rule,
    compile_shim,
)  # fmt: skip
from tests.faults.site import Site, burner, now
from tests.running import until

LONG = bool(os.environ.get("JOBFEATURES_LONG"))
SCRAPES = 20 if LONG else 3
HANGING_SECS = (
    25.0  # a scrape that took as long has waited for what hangs; a busy machine may add to its second
)
SERIES = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)
# Jobs of this machine that are none of ours; and waste, whose basis changes with what is known of a job.
# How many descriptors are kept (read=) changes with what is read at a look: none is no false zero.
OTHERS = re.compile(r'job_id="(?!(?:1|2|p)")|basis="|^{read="')
CHARGED = "batch_job_memory_charged_bytes"
JOBS = {"slurm-1", "slurm-2", "spool-p"}

pytestmark = [pytest.mark.fault, pytest.mark.timeout(7200 if LONG else 600)]


class Case(NamedTuple):
    """Faults, and the names of series that may be absent meanwhile: those that are made of what is faulty."""

    name: str
    rules: tuple[Rule, ...]
    may_lack: str = "$."  # a regular expression; this one matches nothing
    hangs: bool = False


OF_NODE = r"batch_node_|batch_machine_"
OF_TREE = r"batch_features_(published_jobs|hook_failures)"
OF_GROUPS = r"batch_job_|batch_node_\w+_waste_"  # the node's waste is that of its jobs
VANISHING = "processes vanish while they are read"
OF_PROCESSES = r"batch_job_|batch_process|batch_node_|process_"
EVERYWHERE = r"batch_features_|batch_job_|batch_node_|batch_process|batch_machine_|process_"


def cases(site: Site) -> list[Case]:
    """Return what is tried. In the short form each kind of fault meets each place once."""
    groups, tree = f"{site.cgroup}/*", f"{site.root}/*"
    node = tuple(f"/proc/{name}" for name in ("stat", "meminfo", "loadavg", "vmstat", "diskstats"))
    found = [
        Case("EIO on the node's files", tuple(Rule(each, READING, EIO) for each in node), OF_NODE),
        Case("EIO on every other read of control groups", (Rule(groups, READING, EIO, 500),), OF_GROUPS),
        Case("EACCES on control groups", (Rule(groups, READING, EACCES),), OF_GROUPS),
        Case("control groups vanish while they are read", (Rule(groups, READ, ENODEV, 500),), OF_GROUPS),
        Case(VANISHING, (Rule("/proc/[0-9]*", OPEN | READ, ESRCH, 300),), OF_PROCESSES),
        Case("no descriptors are left", (Rule("/*", OPEN | MAKE, EMFILE, 700),), EVERYWHERE),
        Case("the system has no descriptors", (Rule("/proc/*", OPEN, ENFILE), Rule(groups, OPEN, ENFILE)), EVERYWHERE),
        Case("reads come short", (Rule("/proc/*", READ, SHORT), Rule(groups, READ, SHORT)), EVERYWHERE),
        Case("the disk is full", (Rule(tree, WRITE | MAKE, ENOSPC), Rule(tree, RENAME, ENOSPC, 500)), OF_TREE),
        Case("writes come short, and then fail", (Rule(tree, WRITE, SHORT, 700), Rule(tree, WRITE, EDQUOT)), OF_TREE),
        Case("the tree is read-only", (Rule(tree, WRITING, EROFS),), OF_TREE),
        Case("EIO on the tree", (Rule(tree, READING | WRITING, EIO, 600),), OF_TREE),
        Case("a control group hangs", (Rule(f"{site.scope}/job_1/*", READ, BLOCK),), EVERYWHERE, hangs=True),
        Case("a file of the node hangs", (Rule("/proc/meminfo", READ, BLOCK),), EVERYWHERE, hangs=True),
        Case("the tree hangs", (Rule(tree, READING | WRITING, BLOCK),), OF_TREE, hangs=True),
    ]  # fmt: skip
    errors = (
        EIO,
        EMFILE,
        ENFILE,
        EACCES,
        ENOSPC,
        EROFS,
        EDQUOT,
    )  # a /proc without any process would be believed
    places = (("/proc/*", READING), (groups, READING), (tree, READING | WRITING), ("/*", OPEN | STAT | LIST))
    if LONG:
        found += [
            Case(
                f"{os.strerror(error)}: {place}, {rate} of 1000",
                (Rule(place, calls, error, rate),),
                EVERYWHERE,
            )
            for (place, calls), error, rate in itertools.product(places, errors, (30, 500, 1000))
        ]
        found += [
            Case(f"short: {place}, {rate} of 1000", (Rule(place, READ | WRITE, SHORT, rate),), EVERYWHERE)
            for (place, _), rate in itertools.product(places, (30, 500, 1000))
        ]
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def faults(library, tmp_path):
    made = Faults(library, tmp_path / "rules")
    yield made
    made.close()


class Observer:
    """Scrapes, and notes what is wrong with a page, by what was shown before."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.wrong: list[str] = []
        self.shown: dict[str, float] = {}  # of counters, the most
        self.usecs = {"1": 1_000_000, "2": 2_000_000}
        self.starts = {job_id: now() - 100 for job_id in self.usecs}

    def scrape(self, case: str = "before") -> dict[str, float]:
        began = time.monotonic()
        page = self.site.get("/metrics") or ""
        took_secs = time.monotonic() - began
        self._note(page.endswith("\n"), f"{case}: no whole page")
        self._note(took_secs < HANGING_SECS, f"{case}: a scrape took {took_secs:.1f} s")
        counters = set(re.findall(r"(?m)^# TYPE (\w+) counter$", page))
        values = {
            n + labels: float(value)
            for n, labels, value in SERIES.findall(page)
            if OTHERS.search(labels) is None
        }
        for series, value in values.items():
            if series.partition("{")[0] in counters:
                most = self.shown.get(series, 0.0)
                self._note(value >= most, f"{case}: {series} fell from {most} to {value}")
                self.shown[series] = max(value, most)
        for job_id, usecs in self.usecs.items():
            job = f'{{batch_system="slurm",job_id="{job_id}"'
            for mode in ("user", "system"):
                used = values.get(f'batch_job_cpu_seconds_total{job},mode="{mode}"}}')
                was = used is None or (0 < used <= usecs / 1e6 and math.isclose(used, round(used)))
                self._note(was, f"{case}: {used} CPU seconds of job {job_id}, never written")
            charged = {value for series, value in values.items() if series.startswith(f"{CHARGED}{job}")}
            self._note(charged <= {4096.0}, f"{case}: {charged} bytes of job {job_id}, never written")
        return values

    def compare(self, case: Case, values: dict[str, float], lasting: set[str], never_zero: set[str]) -> None:
        """Note what is zero that was not, and what is missing that the fault does not concern."""
        zero = {series for series in never_zero & values.keys() if values[series] == 0}
        if case.name == VANISHING:  # ESRCH says that a process has ended: a job of which none is left has 0
            zero = {series for series in zero if not re.match(r"batch_job_(processes|threads)\{", series)}
        self._note(not zero, f"{case.name}: 0 are {sorted(zero)}")
        lacking = {series for series in lasting - values.keys() if not re.match(case.may_lack, series)}
        self._note(not lacking, f"{case.name}: missing are {sorted(lacking)}")

    def move(self) -> None:
        for job_id in self.usecs:
            self.usecs[job_id] += 1_000_000
            self.site.group(job_id, user_usec=self.usecs[job_id], system_usec=self.usecs[job_id])

    def look_at_files(self, case: str) -> None:
        """Whatever fails, each file of a live job is there and whole."""
        for job_id, start_secs in self.starts.items():
            folder = self.site.root / "jobfeatures" / f"slurm-{job_id}"
            said = {each.name: each.read_text() for each in folder.iterdir()} if folder.is_dir() else {}
            wanted = {"jobstart_secs": f"{start_secs}\n", "wall_limit_secs": "4000\n", "allocated_cpu": "1\n"}
            self._note(wanted.items() <= said.items(), f"{case}: files of job {job_id} say {said}")

    def recover(self, case: str, lasting: set[str]) -> None:
        """Wait until all is as before, and counters have gone on."""
        self.move()
        wanted = {(f"slurm-{job_id}", "user"): usecs / 1e6 for job_id, usecs in self.usecs.items()}
        try:
            until(lambda: wanted.items() <= self.site.counters().items())
            until(lambda: lasting <= self.scrape(case).keys())
        except AssertionError:
            missing = sorted(lasting - self.scrape(case).keys())
            self.wrong.append(f"{case}: still missing are {missing}; counters are {self.site.counters()}")
            pytest.fail("\n".join(self.wrong))
        self.look_at_files(case)
        self._note(self.site.published() == JOBS, f"{case}: published are {self.site.published()}")

    def _note(self, is_right: bool, what: str) -> None:
        if not is_right and what not in self.wrong:
            self.wrong.append(what)


def prolog(site: Site, job_id: str, start_secs: int) -> None:
    environ = {"SLURM_JOB_START_TIME": str(start_secs), "SLURM_JOB_END_TIME": str(start_secs + 4000)}
    assert site.hook("prolog.sh", job_id, **environ).wait() == 0


@pytest.fixture
def observer(tmp_path, faults):
    flags = {"scrape.deadline": "1s", "sample.interval": "200ms", "features.form": "local"}
    site = Site(tmp_path, flags)
    process = burner()
    try:
        site.start(**faults.environ)
        site.wait_until_ready()
        found = Observer(site)
        for job_id, usecs in found.usecs.items():
            site.group(job_id, user_usec=usecs, system_usec=usecs)
            prolog(site, job_id, found.starts[job_id])
        site.spool_job("p", wall_secs=500, start_secs=now(), process=process.pid)
        until(lambda: site.published() == JOBS)
        until(lambda: len(site.counters()) >= 6)
        yield found
    finally:
        process.kill()
        process.wait()
        site.close()


def test_the_daemon_stands_every_fault_and_is_as_before_when_it_is_gone(observer, faults, capsys):
    site = observer.site
    before = [observer.scrape() for _ in range(3)]
    lasting = set.intersection(*map(set, before))
    never_zero = {
        series for series in lasting if is_steady(series) and all(page[series] > 0 for page in before)
    }
    assert len(never_zero) > 20
    hits = {}
    for case in cases(site):
        with faults.on(case.rules):
            for _ in range(SCRAPES):
                observer.move()
                observer.compare(case, observer.scrape(case.name), lasting, never_zero)
                time.sleep(0.2)
                if not case.hangs:
                    observer.look_at_files(case.name)
            until(lambda: faults.hits() > 0)
            hits[case.name] = faults.hits()
        observer.recover(case.name, lasting)
    with capsys.disabled():
        print(
            f"\n{len(hits)} kinds of fault, {sum(hits.values())} calls met them, fewest {min(hits.values())}"
        )
    assert not observer.wrong, "\n".join(observer.wrong)
    assert "Traceback" not in site.log.read_text()


def is_steady(series: str) -> bool:
    """Whether a series that is above 0 stays so: sizes and counts, but no loads, rates, ages, empty groups."""
    return not re.search(r"waste|load|rate|usage|age_seconds|runn|pressure|empty_|_exporter_", series)
