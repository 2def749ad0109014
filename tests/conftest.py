"""What many tests need."""

from __future__ import annotations

import contextlib
import functools
import gc
import gettext
import importlib
import itertools
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import jobfeatures.cli
import jobfeatures_exporter.cli
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from jobfeatures.system.rates import Rates
from tests import collecting, skips, unstable
from tests.memoryfolder import make_folder
from tests.running import FakeClock

# The shells of jobs read where feature directories are (see features.root): so the tests' own folder must be plain, too.
if shlex.quote(tempfile.gettempdir()) != tempfile.gettempdir():
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"

# In the background of a script Ctrl-C is ignored, also by every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # so it is under nohup

# How long anything takes is a fact of the machine, not of what is tested; fixtures hold no state of an example.
for name, examples in {"quick": 5, "ci": 20, "thorough": 100, "fuzzing": 300}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        derandomize=False,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# Two thousand times a command is called in this process: its grammar is made once,
# and for the words of argparse translations are looked for once: there are none.
for each in (jobfeatures.cli, jobfeatures_exporter.cli):
    each.build_parser = functools.cache(each.build_parser)
gettext.find = functools.cache(gettext.find)

PROGRAMS = {"jobfeatures": "jobfeatures", "jobfeatures-exporter": "jobfeatures_exporter"}
NUMBERS = itertools.count()
MEMORY = "/dev/shm"  # to make folders on a disk took a tenth of the suite
OF_JOBS = {"MACHINEFEATURES", "JOBFEATURES", "JOBSTATUS"}


@pytest.fixture(autouse=True, scope="module")
def left_open_is_told_where_it_was_left():
    """Collect what the tests of a module leave: an open pipe would else fail whichever test allocates much next."""
    yield
    gc.collect()
    gc.freeze()  # what lives on is not looked at again: 334 times all of it took a third of the suite


@pytest.fixture
def call(monkeypatch, capsys):
    """Return a function that runs a command in this process: (program, *words) → what a program would give."""

    def run(program, *words, environ=None, cwd=None):
        main = importlib.import_module(f"{PROGRAMS[program]}.cli").main
        with monkeypatch.context() as patch:
            for name in OF_JOBS.intersection(os.environ) | {
                n for n in os.environ if n.startswith("JOBFEATURES_")
            }:
                patch.delenv(name)
            for name, value in (environ or {}).items():
                patch.setenv(name, value)
            if cwd is not None:
                patch.chdir(cwd)
            capsys.readouterr()
            try:
                status = main(list(words))
            except SystemExit as end:
                status = end.code or 0
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([program, *words], status, out, err)

    return run


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """Return a folder as pytest's own fixture does, without a link to the latest of its name: that takes much longer."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}{next(NUMBERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def sockets():
    """Return a folder for sockets: their paths are limited to 107 bytes, whatever TMPDIR is."""
    with tempfile.TemporaryDirectory(prefix="jf-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def set_zone():
    """Return a function that sets the zone of local times, until the test's end."""

    def set_to(name):
        patch.setenv("TZ", name)
        time.tzset()

    with pytest.MonkeyPatch.context() as patch:
        yield set_to
    time.tzset()


@pytest.fixture
def in_utc(set_zone):
    set_zone("UTC")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def no_refill(monkeypatch):
    """Have buckets of requests hold what they held at first, however long those take here."""
    take = Rates.take
    monkeypatch.setattr(Rates, "take", lambda rates, name, _, cost=1.0: take(rates, name, 0.0, cost))


@pytest.fixture
def make_job():
    """Return a function that makes a running Slurm job."""

    def make(job_id: str = "12", **changes) -> Job:
        values = {"state": JobState.RUNNING, "user": "alice", "uid": 6001, **changes}
        return Job(key=JobKey(values.pop("batch_system", "slurm"), job_id), **values)

    return make


@pytest.fixture
def make_table():
    """Return a function that makes the table of a source."""

    def make(
        *jobs: Job, source: str = "slurm", taken_at_secs: float = 100.0, complete: bool = True
    ) -> JobTable:
        return JobTable(
            source=source, jobs={job.key: job for job in jobs}, taken_at_secs=taken_at_secs, complete=complete
        )

    return make


def pytest_configure(config):
    config.pluginmanager.register(collecting)
    config.pluginmanager.register(unstable)
    elsewhere = {"TMPDIR", "PYTEST_DEBUG_TEMPROOT"} & os.environ.keys()
    if not elsewhere and "not program" in config.option.markexpr and has_room(MEMORY):
        folder, remove = make_folder(MEMORY)  # the processes of pytest-xdist are told of it
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        config.add_cleanup(remove)
        config.add_cleanup(
            lambda: os.environ.pop("PYTEST_DEBUG_TEMPROOT")
        )  # mutmut runs pytest several times


def has_room(folder):
    """Return whether the tests' folders may be there: they hold a tenth of this, programs and devices."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    room = found.f_bavail * found.f_frsize > 2**30 and found.f_favail > 300_000
    return room and not found.f_flag & (os.ST_NOEXEC | os.ST_NODEV) and os.access(folder, os.W_OK | os.X_OK)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers():
    """With -n auto, run two more than there are cores: a third of the time tests wait for what they started."""
    cores = yield
    return cores if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else cores + 2


SLOW_PROGRAM = re.compile(r"python|promtool|systemd-analyze|mandoc|bash|zsh|fish|git|shellcheck|openssl")
STARTS_PROGRAMS = {"program", "integration", "gpu", "fault"}
_unit_test = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let only those tests start Python and the like that are marked: it takes longer than most tests together."""
    global _unit_test  # noqa: PLW0603  # audit hooks have no state of their own
    _unit_test = not any(item.get_closest_marker(each) for each in STARTS_PROGRAMS)
    try:
        with logging_as_it_was():
            return (yield)
    finally:
        _unit_test = False


@contextlib.contextmanager
def logging_as_it_was():
    """Take away what a command that ran in this process has set: the next test may look at warnings."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        yield
    finally:
        if root.level != level:  # to set it costs more than many a test: every logger forgets what is enabled
            root.setLevel(level)
        if root.handlers != handlers:
            root.handlers[:] = [each for each in root.handlers if each in handlers]


def _refuse_slow_programs(event, arguments):
    if _unit_test and event in {"subprocess.Popen", "os.posix_spawn"} and arguments[1]:
        first = os.fsdecode(arguments[1] if isinstance(arguments[1], str) else arguments[1][0])
        if SLOW_PROGRAM.match(os.path.basename(first)):
            raise RuntimeError(f"a test that starts {first} is marked: @pytest.mark.program")


sys.addaudithook(_refuse_slow_programs)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Make a skipped test fail where what it needs was promised."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = skips.reason_of(report)
        if item.get_closest_marker("integration"):
            private = skips.need_of(reason) == "private data"
            promised = "JOBFEATURES_REQUIRE_INTEGRATION" in os.environ and not private
        else:
            promised = "CI" in os.environ and skips.need_of(reason) not in skips.EXCUSED_IN_CI
        if promised:
            report.outcome = "failed"
            report.longrepr = f"skipped although what it needs is promised here: {reason}"
    return report


def pytest_terminal_summary(terminalreporter):
    """Say at the end what was skipped, by what it needs and by reason."""
    reasons = [skips.reason_of(each) for each in terminalreporter.stats.get("skipped", [])]
    for line in skips.summary(reasons):
        terminalreporter.write_line(line)
