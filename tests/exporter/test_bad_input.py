"""A running daemon, one job that does its worst, and another that must not notice.

Each test: the daemon goes on, the other job's changes are seen and its features
kept, nothing outside the tree is read or written, and a counter and a line of
the log tell.
"""

import contextlib
import errno
import getpass
import logging
import os
import re
import stat
import subprocess
import sys
import threading
import time

import pytest

from jobfeatures.client import StatusWriter
from jobfeatures.settings.resolve import load_config
from jobfeatures.status import directory, keeper
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from tests.running import until

HOUR = "1h"  # between two looks at everything: what is seen sooner was noticed
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this")


class JumpingClock(SystemClock):
    """The machine's clock, set wrong at will."""

    offset_secs = 0.0

    def now_secs(self):
        return super().now_secs() + self.offset_secs


class Site:
    """A daemon on a spool folder with two running jobs, "bad" and "good"."""

    def __init__(self, folder):
        self.folder, self.spool, self.features = folder, folder / "spool", folder / "features"
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "used_CPU").write_text("7\n")
        (self.outside / "secret").write_text("secret\n")
        self.spool.mkdir()
        self.clock = JumpingClock()
        self.number = self.looks = 0
        for name in ("bad", "good"):
            self.put(name)

    def put(self, name, state="Running", cpus=8):
        (self.spool / ".new").write_text(
            f"<Job><Id>{name}</Id><State>{state}</State><User>{getpass.getuser()}</User>"
            f"<StartTime>{int(time.time()) - 60}</StartTime><Processors>{cpus}</Processors>"
            f"<Requested><Duration>3600</Duration></Requested>"
            f"<TaskGroup><Task><Process>{os.getpid()}</Process></Task></TaskGroup></Job>"
        )
        os.rename(self.spool / ".new", self.spool / f"{name}.xml")

    def start(self, **settings):
        flags = {
            "features.root": str(self.features),
            "batch.sources": "spool",
            "spool.directory": str(self.spool),
            "sample.interval": HOUR,
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        self.daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}), self.clock)
        self.daemon.start()
        until(lambda: self.status("bad").is_dir() and self.status("good").is_dir())
        return self

    def status(self, name):
        return self.features / f"jobstatus/spool-{name}"

    def page(self):
        return self.daemon.exposition(openmetrics=False).decode()

    def value(self, series, *parts):
        """Return the value of a series whose labels contain the parts, None if there is none."""
        for line in self.page().splitlines():
            if line.startswith((series + "{", series + " ")) and all(part in line for part in parts):
                return float(line.rpartition(" ")[2])
        return None

    def used(self, name):
        return self.value("batch_job_status_used_cpus", f'job_id="{name}"')

    def violations(self, reason):
        return self.value("batch_jobstatus_violations_by_reason_total", f'reason="{reason}"')

    def good_job_is_served(self):
        """The other job changes its status, and both that and its features are there."""
        self.number = self.number % 8 + 1
        with StatusWriter(str(self.status("good"))) as writer:
            writer.update(used_CPU=self.number)
        until(lambda: self.used("good") == self.number)
        assert (self.features / "jobfeatures/spool-good/allocated_cpu").read_text() == "8\n"

    def nothing_outside_was_touched(self):
        assert {path.name: path.read_text() for path in self.outside.iterdir()} == {
            "used_CPU": "7\n",
            "secret": "secret\n",
        }

    def publish(self):
        """Have the daemon look at its directories again, and wait until it has."""
        looked, real = threading.Event(), self.daemon.publishing.publish

        def publish():
            real()
            looked.set()

        self.daemon.publishing.publish = publish
        self.daemon.publishing.round.want()
        assert looked.wait(60)


@pytest.fixture
def site(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(keeper, "MIN_INTERVAL_SECS", 0.02)
    monkeypatch.setattr(
        keeper, "WATCHED_SECS", 0.1
    )  # a lock that is held changes nothing of which the kernel tells
    made = Site(tmp_path)
    check = keeper.StatusKeeper.check

    def counted(statuses):
        made.looks += 1
        check(statuses)

    monkeypatch.setattr(keeper.StatusKeeper, "check", counted)
    yield made
    made.daemon.stop()


def reported(caplog, job_id):
    return [record for record in caplog.records if getattr(record, "job_id", None) == job_id]


def reasons_told(caplog, job_id):
    """Return why warnings were given; a look between two writes may give one more for the same reason."""
    return {record.reason for record in reported(caplog, job_id) if record.levelno == logging.WARNING}


# --- what a job puts into its JOBSTATUS ----------------------------------------------


def put_link(folder, outside):
    (folder / "used_CPU").symlink_to(outside / "used_CPU")


def put_fifo(folder, outside):
    os.mkfifo(folder / "used_CPU")


def put_socketlike_directory(folder, outside):
    (folder / "used_CPU").mkdir()


def put_hard_link(folder, outside):
    os.link(outside / "used_CPU", folder / "used_CPU")


@contextlib.contextmanager
def put_whole(path, outside):
    """Make a file that appears with all that is in it: the daemon looks whenever something changes."""
    aside = outside.parent / "aside"
    with aside.open("wb") as file:
        yield file
    aside.rename(path)


def put_sparse(folder, outside):
    with put_whole(folder / "used_CPU", outside) as file:
        file.truncate(10 * 2**30)


def put_device(folder, outside):
    os.mknod(folder / "used_CPU", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


def put(content, **others):
    def write(folder, outside):
        for name, text in {
            "used_CPU": content,
            **others,
        }.items():  # without it a set is bad for another reason
            with put_whole(folder / name, outside) as file:
                file.write(text)

    return write


BAD = {
    "symlink": (put_link, "unsafe"),
    "FIFO": (put_fifo, "unsafe"),
    "directory": (put_socketlike_directory, "unsafe"),
    "hard link": (put_hard_link, "unsafe"),
    "10 GB sparse file": (put_sparse, "unsafe"),
    "device": pytest.param(put_device, "unsafe", marks=needs_root),
    "non-UTF-8": (put(b"\xff\xfe5\n"), "not_an_integer"),
    "negative": (put(b"-5\n"), "out_of_range"),
    "huge": (put(b"9" * 60 + b"\n"), "out_of_range"),
    "huge time": (put(b"5\n", last_exp_job_end=b"99999999999999\n"), "out_of_range"),
    "a float": (put(b"5.0\n"), "not_an_integer"),
    "true": (put(b"5\n", can_postpone_last_job=b"true\n"), "not_a_boolean"),
    "more than allocated": (put(b"9\n"), "used_exceeds_allocated"),
    "nothing in it": (put(b"", last_job_start=b"5\n"), "not_an_integer"),
}


@pytest.mark.parametrize(("make", "reason"), BAD.values(), ids=BAD)
def test_what_is_not_a_good_set_is_refused_counted_and_told(site, caplog, make, reason):
    site.start()
    make(site.status("bad"), site.outside)
    until(lambda: site.violations(reason))
    site.good_job_is_served()
    assert site.used("bad") is None
    site.nothing_outside_was_touched()
    assert until(lambda: reasons_told(caplog, "bad")) == {reason}


def test_a_file_that_cannot_be_read_is_counted_and_told(site, caplog, monkeypatch):
    """Root can read everything: the refusal is put into the daemon's mouth."""
    real = directory.open_inside

    def refuse(folder, name, flags, *rest):
        if name == "add_uncom_time":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return real(folder, name, flags, *rest)

    monkeypatch.setattr(directory, "open_inside", refuse)
    site.start()
    with StatusWriter(str(site.status("bad"))) as writer:
        writer.update(used_CPU=2)
        until(lambda: reported(caplog, "bad"))  # the other job's cannot be read either
    until(lambda: site.violations("unreadable"))
    monkeypatch.undo()
    site.good_job_is_served()


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.program
def test_a_lock_held_for_ever_keeps_the_last_good_set_and_delays_nobody(site, caplog):
    site.start(sample__interval="100ms")
    with StatusWriter(str(site.status("bad"))) as writer:
        writer.update(used_CPU=3)
    until(lambda: site.used("bad") == 3)
    argv = [sys.executable, "-c", HOLDER, str(site.status("bad") / "used_CPU")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        until(lambda: site.violations("lock_timeout"))
        for _ in range(3):
            site.good_job_is_served()
        assert site.used("bad") == 3
        age = site.value("batch_job_status_age_seconds", 'job_id="bad"')
        until(lambda: site.value("batch_job_status_age_seconds", 'job_id="bad"') > age)
        holder.kill()
    assert reasons_told(caplog, "bad") == {"lock_timeout"}


@contextlib.contextmanager
def looping(action):
    """Repeat something in a thread; what goes wrong in it because others are faster does not end it."""
    stopping = threading.Event()

    def loop():
        while not stopping.is_set():
            with contextlib.suppress(OSError):
                action()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


@pytest.mark.parametrize("what", ["the file", "the directory"])
def test_what_is_swapped_for_a_link_between_check_and_open_leads_nowhere(site, what):
    """The other side of the link says 7; that it is never shown is what counts."""
    site.start(sample__interval="10ms")
    folder = site.status("bad")
    (folder / "used_CPU").write_text("3\n")
    path = folder / "used_CPU" if what == "the file" else folder
    aside, link = site.folder / "aside", site.folder / "link"
    target = site.outside / "used_CPU" if what == "the file" else site.outside
    seen = set()

    def swap():
        if not path.is_symlink():
            os.rename(path, aside)
        os.symlink(target, link)
        os.rename(link, path)
        os.unlink(path)
        os.rename(aside, path)

    with looping(swap):
        # A page after each look: looks come more often than pages that are made without pause. On a busy machine
        # both may take seconds, beside a loop without one: then fewer have to do.
        begun, pages = time.monotonic(), 0
        while pages < 40 and time.monotonic() - begun < 30:
            pages += 1
            looks = site.looks
            until(lambda: site.looks > looks)  # noqa: B023
            seen.add(site.used("bad"))
        site.good_job_is_served()
    assert seen <= {None, 3.0}
    assert site.used("bad") != 7
    site.nothing_outside_was_touched()


def test_a_job_that_writes_without_pause_does_not_keep_the_daemon_busy(site, monkeypatch):
    """With an hour between two looks, five hundred changes are worth one look at most."""
    site.start()
    site.good_job_is_served()
    monkeypatch.setattr(keeper, "MIN_INTERVAL_SECS", 3600)
    looks = site.looks
    with StatusWriter(str(site.status("bad"))) as writer:
        for number in range(500):
            writer.update(used_CPU=number % 8)
    assert site.looks <= looks + 1


# --- what stands where features are published ------------------------------------------


def test_a_features_directory_that_became_a_link_is_not_written_through(site, caplog):
    site.start()
    place = site.features / "jobfeatures/spool-bad"
    until(place.is_dir)
    os.rename(place, site.folder / "aside")
    place.symlink_to(site.outside)
    site.publish()
    assert site.value("batch_features_write_failures_total") > 0
    assert "cannot publish" in caplog.text
    site.good_job_is_served()
    site.nothing_outside_was_touched()
    place.unlink()
    site.publish()
    assert (place / "allocated_cpu").read_text() == "8\n"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_no_bytes_leaves_old_values_and_no_empty_file(site, caplog, monkeypatch, code):
    site.start()
    until((site.features / "jobfeatures/spool-bad/allocated_cpu").exists)
    real_write, real_open = os.write, os.open

    def write(file, content):
        if os.readlink(f"/proc/self/fd/{file}").startswith(str(site.features)):
            raise OSError(code, os.strerror(code))
        return real_write(file, content)

    def open_(path, flags, *rest, **named):
        if code == errno.EROFS and flags & os.O_CREAT and not str(path).startswith("/"):
            raise OSError(code, os.strerror(code), path)
        return real_open(path, flags, *rest, **named)

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", write)
        broken.setattr(os, "open", open_)
        site.put("bad", cpus=4)
        site.put("late")
        until(lambda: site.value("batch_features_write_failures_total"))
        until(lambda: site.value("batch_job_allocated_cpus", 'job_id="late"') == 8)  # metrics need no disk
    assert os.strerror(code) in caplog.text
    for path in (site.features / "jobfeatures").rglob("*"):
        assert path.is_dir() or path.read_text().strip(), path
    site.publish()
    assert (site.features / "jobfeatures/spool-bad/allocated_cpu").read_text() == "4\n"
    assert (site.features / "jobfeatures/spool-late/allocated_cpu").read_text() == "8\n"
    site.good_job_is_served()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 pages where the features will be."""
    root = tmp_path / "features"
    root.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "none", str(root)]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True).returncode != 0:
        pytest.skip("no right to mount; the variant above needs none")
    yield root
    subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_full_file_system_keeps_what_there_is(small_disk, site):
    site.start()
    until((small_disk / "jobfeatures/spool-good/allocated_cpu").exists)
    with StatusWriter(str(site.status("good"))) as writer:
        writer.update(used_CPU=3)
    until(lambda: site.used("good") == 3)
    with contextlib.suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    before = (small_disk / "jobfeatures/spool-bad/allocated_cpu").read_text()
    site.put("bad", cpus=4)
    until(lambda: site.value("batch_features_write_failures_total"))
    assert (small_disk / "jobfeatures/spool-bad/allocated_cpu").read_text() == before
    assert site.used("good") == 3
    (small_disk / "filler").unlink()
    site.publish()
    assert (small_disk / "jobfeatures/spool-bad/allocated_cpu").read_text() == "4\n"
    site.good_job_is_served()


def test_a_read_only_file_system_is_only_read(small_disk, site, caplog):
    site.start()
    until((small_disk / "jobfeatures/spool-bad/allocated_cpu").exists)
    site.good_job_is_served()
    # Not while the daemon has a file open to write it.
    until(lambda: subprocess.run(["mount", "-o", "remount,ro", str(small_disk)]).returncode == 0)
    site.put("bad", cpus=4)
    until(lambda: site.value("batch_features_write_failures_total"))
    until(lambda: site.value("batch_job_allocated_cpus", 'job_id="bad"') == 4)
    assert site.used("good") == site.number
    assert (small_disk / "jobfeatures/spool-bad/allocated_cpu").read_text() == "8\n"
    assert "Read-only file system" in caplog.text
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    site.publish()
    assert (small_disk / "jobfeatures/spool-bad/allocated_cpu").read_text() == "4\n"


# --- what stands in the spool folder -----------------------------------------------------


def test_odd_files_in_the_spool_folder_cost_no_other_job(site, caplog):
    (site.spool / "link.xml").symlink_to(site.outside / "secret")
    os.mkfifo(site.spool / "fifo.xml")
    (site.spool / "folder.xml").mkdir()
    (site.spool / "bytes.xml").write_bytes(b"\xff\xfe\x00<Job>")
    (site.spool / "entities.xml").write_text(
        '<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><Job><Id>&c;</Id></Job>'
    )
    with open(site.spool / "sparse.xml", "wb") as file:
        file.truncate(10 * 2**30)
    site.start()
    site.good_job_is_served()
    assert site.value("batch_exporter_source_rejected_records_total", 'source="spool"') >= 6
    assert site.value("batch_exporter_source_complete", 'source="spool"') == 0
    assert caplog.text.count("record skipped") >= 6
    assert "secret\n" not in site.page()


# --- the clock -----------------------------------------------------------------------------


@pytest.mark.parametrize("jump_secs", [-30 * 365 * 86400.0, -3600.0, 3600.0, 30 * 365 * 86400.0])
def test_a_clock_that_jumps_ends_no_job_and_hides_no_change(site, jump_secs):
    site.start()
    site.good_job_is_served()
    site.clock.offset_secs = jump_secs
    site.publish()
    site.good_job_is_served()
    site.clock.offset_secs = 0.0
    site.publish()
    site.good_job_is_served()
    page = site.page()
    ages = re.findall(r"^batch\w*_age_seconds\{[^}]*\} (\S+)$", page, re.MULTILINE)
    assert ages
    assert all(float(age) >= 0 for age in ages)
    for name in ("bad", "good"):
        assert (site.features / f"jobfeatures/spool-{name}/wall_limit_secs").read_text() == "3600\n"
