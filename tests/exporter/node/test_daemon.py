"""The daemon as one object: what a scrape gets while parts of it fail."""

import os
import shutil
import threading
import time
from dataclasses import replace

import pytest

from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.records.model import JobKey
from jobfeatures.settings.resolve import load_config
from jobfeatures.system import command
from jobfeatures.system.clock import SystemClock
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.model.snapshot import FigureSource, JobSample
from jobfeatures_exporter.node import daemon as daemon_module
from jobfeatures_exporter.node import samplingloop
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.state import missinggroups
from tests.exporter.sampling.fakenode import FakeNode
from tests.running import PATIENCE_SECS, own_folder, until

KEY = JobKey("spool", "j.1")

START_SECS = int(time.time())  # what began before the node has no processes


def document(state="Running", pid=None):
    return (
        f"<Job><Id>j.1</Id><State>{state}</State><User>root</User><StartTime>{START_SECS}</StartTime>"
        f"<Processors>2</Processors><Requested><Duration>600</Duration></Requested>"
        f"<TaskGroup><Task><Process>{pid or os.getpid()}</Process></Task></TaskGroup></Job>"
    )


@pytest.fixture
def spool(tmp_path):
    folder = tmp_path / "spool"
    folder.mkdir()

    def put(text, name="job.xml"):
        (folder / ".new").write_text(text)
        os.rename(folder / ".new", folder / name)

    put.folder = folder
    return put


@pytest.fixture
def make_daemon(tmp_path, spool):
    """Return a function that makes a daemon on the spool folder with some settings; it is stopped at the end."""
    made = []

    def make(**settings) -> Daemon:
        flags = {
            "features.root": str(tmp_path / "features"),
            "path.cgroup": str(tmp_path),  # whatever other jobs this machine has
            "batch.sources": "spool",
            "spool.directory": str(spool.folder),
            "sample.interval": "100ms",
            "scrape.deadline": "2s",
            **{name.replace("__", "."): value for name, value in settings.items()},
        }
        made.append(Daemon(load_config(ExporterConfig, flags=flags, environ={})))
        return made[-1]

    yield make
    for daemon in made:
        daemon.stop()


@pytest.fixture
def quiet(tmp_path):
    """Return a node without any job, which the machine that tests may have."""
    (tmp_path / "quiet").mkdir()
    return FakeNode(tmp_path / "quiet")


def text_of(daemon):
    return daemon.exposition(openmetrics=False).decode()


def series_of(daemon, name=""):
    """Return the lines of our job: other batch systems of this machine may have theirs on the page."""
    lines = text_of(daemon).splitlines()
    return [line for line in lines if line.startswith(name) and 'batch_system="spool",job_id="j.1"' in line]


def test_a_job_comes_is_told_and_goes(make_daemon, spool, tmp_path):
    daemon = make_daemon(jobs__retain="0s")
    daemon.start()
    until(lambda: daemon.is_ready)
    assert 'job_id="j.1"' not in text_of(daemon)
    spool(document())
    until(lambda: 'job_id="j.1"' in text_of(daemon))
    folder = tmp_path / "features/jobfeatures/spool-j.1"
    until(folder.is_dir)
    assert (folder / "wall_limit_secs").read_text() == "600\n"
    spool(document("Completed"))
    until(lambda: 'job_id="j.1"' not in text_of(daemon))
    until(lambda: not folder.exists())


def test_a_job_that_runs_without_a_control_group_is_counted(make_daemon, spool, monkeypatch):
    monkeypatch.setattr(missinggroups, "PATIENCE_SECS", 0.0)
    daemon = make_daemon(jobs__retain="0s")
    daemon.start()
    until(lambda: daemon.is_ready)
    assert "batch_node_jobs_without_group{" not in text_of(daemon)
    spool(document())
    until(lambda: 'batch_node_jobs_without_group{reason="no_group_expected"} 1' in text_of(daemon))
    spool(document("Completed"))
    until(lambda: "batch_node_jobs_without_group{" not in text_of(daemon))


def test_an_ended_job_is_shown_with_its_last_values_and_is_no_running_job(make_daemon, spool, note_made):
    known = note_made(daemon_module, "Knowledge")
    daemon = make_daemon()
    daemon.start()
    spool(document())
    until(lambda: series_of(daemon, "batch_job_cpu_seconds_total"))
    spool(document("Completed"))
    until(lambda: series_of(daemon, "batch_job_end_time_seconds"))
    told = series_of(daemon)
    assert any(line.startswith("batch_job_cpu_seconds_total{") for line in told)
    assert any(line.startswith("batch_job_info{") for line in told)
    assert any(line.startswith("batch_job_state{") and 'state="COMPLETED"' in line for line in told)
    assert not any("remaining" in line or "waste" in line for line in told)
    assert not any(KEY in keys for keys in known[0].seen())


def test_a_short_job_below_a_prefix_that_a_setting_names_is_seen_at_once(make_daemon, tmp_path):
    """No sample but the first is due by itself, and the prefix is made with the first job."""
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup/cgroup.controllers").touch()
    daemon = make_daemon(
        sample__interval="1h", path__cgroup=str(tmp_path / "cgroup"), batch__cgroup_parents="/site.slice/*"
    )
    daemon.start()
    until(lambda: daemon.is_ready)
    seen = lambda number: JobKey("slurm", f"{number}") in daemon.board.samples.snapshot.jobs  # noqa: E731
    for number in range(1, 4):
        group = tmp_path / f"cgroup/site.slice/pod{number}/system.slice/slurmstepd.scope/job_{number}"
        group.mkdir(parents=True)
        until(lambda number=number: seen(number))
        shutil.rmtree(group.parents[3])
        until(lambda number=number: not seen(number))


@pytest.mark.parametrize(
    ("settings", "secs"),
    [
        ({}, samplingloop.REST_SECS),
        ({"sample__interval": "2m"}, 120.0),
        ({"jobs__kinds": "batch,session"}, 10.0),
        ({"collector__processes": "true"}, 10.0),
        ({"batch__sources": "gridengine"}, samplingloop.REST_SECS),
    ],
)
def test_without_jobs_a_sample_a_minute_does_unless_one_would_be_missed(make_daemon, settings, secs, quiet):
    daemon = make_daemon(**{"sample__interval": "10s", "path__procfs": str(quiet.proc), **settings})
    assert daemon.sampling.pause_secs() == (120.0 if secs == 120.0 else 10.0)  # nothing is known yet
    daemon.sampling.sample()
    assert daemon.sampling.pause_secs() == secs


def test_a_job_that_its_batch_system_alone_tells_ends_a_rest(make_daemon, spool, monkeypatch, quiet):
    monkeypatch.setattr(samplingloop, "REST_SECS", 3600.0)
    quiet.process(os.getpid())  # the job's, as its batch system says
    daemon = make_daemon(sample__interval="10s", path__procfs=str(quiet.proc))
    daemon.start()
    until(lambda: daemon.is_ready and daemon.sampling.pause_secs() == 3600.0)
    spool(document())
    until(lambda: KEY in daemon.board.samples.snapshot.jobs)


def test_a_job_has_one_more_look_when_its_end_is_told(make_daemon, spool):
    """What its processes used since the regular look before is in its last values."""
    daemon = make_daemon(sample__interval="1h")
    daemon.start()
    spool(document())
    until(lambda: series_of(daemon, "batch_job_cpu_seconds_total"))
    looked_secs = daemon.board.samples.snapshot.taken_at_secs
    spool(document("Completed"))
    until(
        lambda: KEY in daemon.board.ended and KEY not in daemon.board.samples.snapshot.jobs
    )  # in this order
    assert daemon.board.ended[KEY].ended_at_secs > looked_secs
    assert daemon.board.ended[KEY].sample.processes is None, "they are not followed any more"


def test_a_scrape_starts_no_program(make_daemon, spool, monkeypatch, tmp_path):
    """Batch commands run in the background only, however often somebody scrapes."""
    asked = []

    def popen(argv, **_):
        asked.append(threading.current_thread().name)
        raise OSError(2, "stands in for a missing program")

    monkeypatch.setattr(command.subprocess, "Popen", popen)
    daemon = make_daemon(batch__sources="slurm,spool", batch__interval="60s")
    own_folder(tmp_path / "features/jobfeatures/slurm-5")  # a job to ask about
    spool(document())
    daemon.start()
    until(lambda: asked.count("source-slurm") == 2)
    for _ in range(10):
        text_of(daemon)
    assert [thread for thread in asked if thread != "hooks"] == ["source-slurm"] * 2  # its setup, and the job


def test_the_first_question_is_about_the_jobs_that_live_already(make_daemon, monkeypatch, tmp_path):
    """A daemon that starts beside them would else show them without labels for a minute."""
    questions = []

    def run(argv, *, stdin=b"", **_):
        questions.append(stdin.decode())
        raise SourceError("scontrol: stands in for one that does not answer")

    monkeypatch.setattr("jobfeatures.batch.programs.run_command", run)
    monkeypatch.setattr(
        "jobfeatures_exporter.node.sources.FIRST_SAMPLE_SECS", PATIENCE_SECS
    )  # a busy machine's looks take long
    daemon = make_daemon(batch__sources="slurm", batch__interval="60s")
    look = daemon.sampling.sampler.sample

    def look_slowly(wishes):
        time.sleep(0.3)
        found = look(wishes)
        living = JobSample(key=JobKey("slurm", "4711"), accounting=FigureSource.CGROUP, processes=1)
        return replace(found, jobs={**found.jobs, living.key: living})

    daemon.sampling.sampler.sample = look_slowly
    daemon.start()
    until(lambda: questions)
    assert "show job 4711\n" in questions[0]


def test_a_look_at_the_node_that_hangs_costs_a_scrape_its_deadline_and_nothing_more(make_daemon, spool):
    daemon = make_daemon(scrape__deadline="300ms")
    spool(document())
    daemon.start()
    until(lambda: series_of(daemon, "batch_job_cpu_seconds_total"))
    release = threading.Event()
    original = daemon.sampling.sampler.sample

    def hang(wishes):
        release.wait(60)
        return original(wishes)

    daemon.sampling.sampler.sample = hang
    try:
        time.sleep(0.2)
        started = time.monotonic()
        text = text_of(daemon)
        assert time.monotonic() - started < 30  # far below the 60 s of the hanging look
        assert 'batch_job_info{batch_system="spool",job_id="j.1"' in text
        assert "batch_node_sample_timestamp_seconds" in text
    finally:
        release.set()


def test_a_fault_in_one_look_does_not_end_the_looking(make_daemon, caplog):
    daemon = make_daemon()
    original, calls = daemon.sampling.sampler.sample, []

    def faulty(wishes):
        calls.append(1)
        if len(calls) < 3:
            raise ZeroDivisionError
        return original(wishes)

    daemon.sampling.sampler.sample = faulty
    daemon.start()
    until(lambda: daemon.is_ready)
    assert "sampling failed" in caplog.text


def test_an_empty_group_of_a_batch_system_that_is_not_installed_is_evidence_of_nothing(
    make_daemon, tmp_path, caplog
):
    (tmp_path / "cpuacct/torque/7.head").mkdir(parents=True)
    daemon = make_daemon(batch__sources="auto", torque__home=str(tmp_path / "no"), sample__interval="20ms")
    for _ in range(3):
        daemon.sampling.sample()
    text = text_of(daemon)
    assert 'source="torque"' not in text
    assert "batch_node_empty_job_groups 1" in text
    assert 'batch_job_state{batch_system="torque"' not in text
    assert caplog.text.count("an empty control group") == 1


def test_a_spool_folder_that_vanishes_takes_nothing_away(make_daemon, spool, tmp_path):
    daemon = make_daemon(batch__interval="300ms")
    spool(document())
    daemon.start()
    until(lambda: 'job_id="j.1"' in text_of(daemon))
    folder = tmp_path / "features/jobfeatures/spool-j.1"
    until(folder.is_dir)
    spool.folder.rename(tmp_path / "elsewhere")
    until(lambda: 'batch_exporter_source_up{source="spool"} 0' in text_of(daemon))
    assert 'job_id="j.1"' in text_of(daemon)
    assert folder.is_dir()


def test_feature_directories_that_cannot_be_kept_do_not_cost_the_metrics(make_daemon, spool, caplog):
    daemon = make_daemon(features__root="/proc/no/such/place")
    spool(document())
    daemon.start()
    until(lambda: 'batch_job_info{batch_system="spool",job_id="j.1"' in text_of(daemon))
    until(lambda: "batch_features_write_failures_total 0" not in text_of(daemon))
    assert "cannot make the folders of job features" in caplog.text


def test_what_could_not_be_published_is_tried_again_soon(make_daemon, spool, tmp_path, monkeypatch):
    """As after a full disk: nothing tells the daemon that there is space again."""
    monkeypatch.setattr("jobfeatures_exporter.node.publishingloop.PUBLISH_INTERVAL_SECS", 3600.0)
    monkeypatch.setattr("jobfeatures_exporter.node.publishingloop.PUBLISH_RETRY_SECS", 0.1)
    daemon = make_daemon(sample__interval="1h")
    daemon.start()
    in_the_way = tmp_path / "features/exports"
    until(in_the_way.is_dir)
    in_the_way.rmdir()
    in_the_way.touch()
    spool(document())
    until(lambda: daemon.board.publisher.status.failures > 1)
    in_the_way.unlink()
    until((tmp_path / "features/exports/spool-j.1").is_file)


def test_without_publishing_nothing_is_written(make_daemon, spool, tmp_path):
    daemon = make_daemon(features__publish="false")
    spool(document())
    daemon.start()
    until(lambda: 'job_id="j.1"' in text_of(daemon))
    assert not (tmp_path / "features").exists()


def test_a_restart_reconciles(make_daemon, spool, tmp_path):
    for name in ("spool-j.1", "spool-dead", "slurm-7"):
        own_folder(tmp_path / "features/jobfeatures" / name)
    spool(document())
    make_daemon().start()
    jobs = tmp_path / "features/jobfeatures"
    until(
        lambda: {each.name for each in jobs.iterdir()} == {"spool-j.1", "slurm-7"}
    )  # nobody speaks for Slurm here


def test_a_source_without_its_folder_is_a_wrong_setting(make_daemon):
    config = load_config(ExporterConfig, flags={"batch.sources": "spool"}, environ={})
    with pytest.raises(ConfigurationError, match=r"spool\.directory"):
        Daemon(config)


def test_stopping_leaves_no_thread(make_daemon):
    before = set(threading.enumerate())
    daemon = make_daemon()
    daemon.start()
    until(lambda: daemon.is_ready)
    daemon.stop()
    until(lambda: not {thread for thread in set(threading.enumerate()) - before if thread.is_alive()})


def test_many_scrapes_at_once_share_a_look(make_daemon):
    daemon = make_daemon(sample__interval="60s", scrape__deadline="20s")
    daemon.start()
    until(lambda: daemon.is_ready)
    original, looks, release = daemon.sampling.sampler.sample, [], threading.Event()

    def held(wishes):
        looks.append(1)
        release.wait(60)
        return original(wishes)

    asked, ask = [], daemon.board.samples.wanted.set
    daemon.board.samples.wanted.set = lambda: (asked.append(1), ask())
    daemon.sampling.sampler.sample = held
    until(lambda: time.time() - daemon.board.samples.snapshot.taken_at_secs > 0.6)
    scrapes = [threading.Thread(target=text_of, args=(daemon,)) for _ in range(8)]
    for scrape in scrapes:
        scrape.start()
    until(lambda: looks and len(asked) >= 8)
    release.set()
    for scrape in scrapes:
        scrape.join()
    assert 1 <= len(looks) <= 2  # the second, where somebody asked while the first was under way


def test_a_look_that_is_fresh_is_not_taken_again(make_daemon, monkeypatch):
    daemon = make_daemon(sample__interval="60s")
    daemon.start()
    until(lambda: daemon.is_ready)
    taken_at = daemon.board.samples.snapshot.taken_at_secs
    asked = []
    monkeypatch.setattr(SystemClock, "now_secs", lambda _: taken_at + 0.1)
    monkeypatch.setattr(daemon.board.samples.wanted, "set", lambda: asked.append(1))
    text_of(daemon)
    monkeypatch.undo()
    assert asked == []


def test_the_machine_is_read_where_the_settings_say(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("model name\t: Made Up 9000\n")
    siblings = tmp_path / "sys/devices/system/cpu/cpu0/topology"
    siblings.mkdir(parents=True)
    (siblings / "thread_siblings_list").write_text("0\n")
    file = tmp_path / "config.toml"
    file.write_text('[cpu_model."Made Up .*"]\nhs06 = 171.04\n')
    flags = {
        "path.procfs": str(tmp_path / "proc"),
        "path.sysfs": str(tmp_path / "sys"),
        "batch.sources": "",
        "features.profile": "both",
        "features.root": str(tmp_path / "features"),
    }
    daemon = Daemon(load_config(ExporterConfig, flags=flags, environ={}, file=str(file)))
    assert daemon.known().machine.hs06 == "171.04"
    assert daemon.known().machine.physical_cores == 1


def test_a_features_tree_that_cannot_be_read_costs_no_job_its_metrics(make_daemon, spool, tmp_path, caplog):
    daemon = make_daemon()
    daemon.start()
    until(lambda: daemon.is_ready)
    jobs = tmp_path / "features/jobfeatures"
    until(jobs.is_dir)
    jobs.rename(tmp_path / "away")
    jobs.write_text("listing this fails, with root's rights too\n")
    spool(document())
    until(lambda: 'job_id="j.1"' in text_of(daemon))
    assert 'batch_exporter_source_up{source="spool"} 1' in text_of(daemon)
    assert 'batch_exporter_source_up{source="hooks"} 1' in text_of(daemon)
    until(lambda: "batch_features_write_failures_total 0\n" not in text_of(daemon))
    assert not [record for record in caplog.records if record.exc_info]
    jobs.unlink()
    daemon.publishing.round.want()
    until((jobs / "spool-j.1").is_dir)


def test_a_job_gives_the_counters_up_by_a_file_in_its_status_directory(make_daemon, spool, tmp_path):
    daemon = make_daemon()
    daemon.start()
    spool(document())
    folder = until(lambda: next(iter((tmp_path / "features/jobstatus").glob("*/")), None))
    until(lambda: KEY in daemon.known().statuses)
    assert not daemon.sampling.gives_up_counters(KEY)
    (folder / "profiling").touch()
    assert daemon.sampling.gives_up_counters(KEY)
    assert not daemon.sampling.gives_up_counters(JobKey("spool", "unheard of"))
