"""The controller role, with a stand-in for a batch system."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ConfigurationError, SourceError
from jobfeatures.formats.sonar.envelopes import CLUSTER, JOBS, Origin
from jobfeatures.joblogs.loggedjob import Accounting, JobRecord
from jobfeatures.records.model import Cluster, ClusterNode, JobState, Limits, Partition
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.cluster.accountingfeed import AccountingFeed
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.controller import daemon as controller
from jobfeatures_exporter.controller.daemon import Controller, make_cluster_sources
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.scrape.collectors import COLLECTORS, CONTROLLER
from jobfeatures_exporter.startup.serve import make_served
from jobfeatures_exporter.web.app import discovery_route, make_app
from tests.configured import configured
from tests.exporter.controller.polled import poll
from tests.running import until


class StandIn:
    """A batch system whose answers are set by the test; an exception is raised."""

    name = "slurm"

    def __init__(self, queue, cluster):
        self.queue, self.cluster = queue, cluster

    def poll_queue(self):
        return self._answer(self.queue)

    def poll_cluster(self):
        return self._answer(self.cluster)

    def poll_accounting(self, since_secs):
        record = JobRecord(
            batch_system="slurm", job_id="12", state=JobState.RUNNING, start_secs=int(since_secs)
        )
        return Accounting(source="slurm", records=(record,), taken_at_secs=since_secs)

    @staticmethod
    def _answer(answer):
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def source(clock, make_job, make_table, monkeypatch):
    """Return the stand-in, which is found in the place of a batch system."""
    nodes = (ClusterNode(name="n1", states=("MIXED",)), ClusterNode(name="n2", states=("DOWN",)))
    cluster = Cluster(
        source="slurm",
        taken_at_secs=clock.now,
        partitions=(Partition(name="batch", nodes=("n1", "n2"), state="UP"),),
        nodes=nodes,
    )
    queue = make_table(make_job(partition="batch", state=JobState.PENDING), taken_at_secs=clock.now)
    made = StandIn(queue, cluster)
    monkeypatch.setattr(controller, "make_cluster_sources", lambda _config, _clock: [made])
    return made


def config(**changes):
    return configured(role=CONTROLLER, **changes)


def page(served):
    return served.exposition(openmetrics=False).decode()


def test_queue_and_nodes_are_shown_and_nothing_of_this_node(source, clock):
    served = Controller(config(), clock)
    assert not served.is_ready
    poll(served)
    assert served.is_ready
    text = page(served)
    assert 'batch_queue_jobs{batch_system="slurm",partition="batch",state="PENDING"} 1\n' in text
    assert 'batch_cluster_nodes{batch_system="slurm",partition="batch",state="DOWN"} 1\n' in text
    assert "batch_node_" not in text
    assert "batch_job_" not in text


def test_a_failure_keeps_the_last_good_answer_and_tells_its_age(source, clock):
    served = Controller(config(), clock)
    poll(served)
    source.queue = SourceError("nobody there")
    clock.advance(90)
    poll(served)
    text = page(served)
    assert 'batch_queue_jobs{batch_system="slurm",partition="batch",state="PENDING"} 1\n' in text
    assert 'batch_exporter_source_age_seconds{source="slurm-queue"} 90.0\n' in text
    assert 'batch_exporter_source_up{source="slurm-queue"} 0\n' in text
    assert 'batch_exporter_source_up{source="slurm-nodes"} 1\n' in text


def test_a_source_that_never_answered_leaves_the_page_without_its_series(source, clock):
    source.queue = source.cluster = SourceError("nobody there")
    served = Controller(config(), clock)
    poll(served)
    assert served.is_ready  # it has been asked
    assert "batch_queue_jobs" not in page(served)
    assert 'batch_exporter_source_failures_total{source="slurm-nodes"} 1\n' in page(served)


def test_the_page_shows_partitions_the_queue_and_what_draining_would_waste(
    source, clock, make_job, make_table
):
    served = Controller(config(), clock)
    assert "no batch system has answered yet" in served.html()
    running = make_job(
        partition="batch",
        state=JobState.RUNNING,
        start_secs=int(clock.now) - 3600,
        total_cpus=8,
        limits=Limits(wall_secs=7200),
        tasks=1,
    )
    source.queue = make_table(running, taken_at_secs=clock.now)
    poll(served)
    text = served.html()
    assert "<h1>Cluster (slurm)</h1>" in text
    assert "1 job on " in text
    assert "Cheapest" in text


def test_only_collectors_of_the_role_run():
    both = {"sources", "process", "sinks"}
    assert {"queue", "cluster"} <= config().enabled_collectors()
    assert both <= config().enabled_collectors() & ExporterConfig().enabled_collectors()
    assert "jobs" not in config().enabled_collectors()
    assert not {"queue", "cluster"} & ExporterConfig().enabled_collectors()
    assert "queue" not in config(collector_queue=False).enabled_collectors()
    assert {each for each in COLLECTORS if COLLECTORS[each].roles == ()} == set()


def test_the_role_decides_what_is_served(source):
    assert isinstance(make_served(config()), Controller)
    assert isinstance(make_served(configured(batch_sources=(), features_publish=False)), Daemon)


async def test_service_discovery_answers_the_last_good_list(source, clock, aiohttp_client):
    served = Controller(config(controller_sd_port=9000), clock)
    client = await aiohttp_client(make_app(served, [discovery_route(served.targets)]))
    assert (await client.get("/sd")).status == 503
    poll(served)
    source.cluster = SourceError("nobody there")
    poll(served)
    response = await client.get("/sd")
    assert response.status == 200
    assert response.content_type == "application/json"
    assert [each["targets"] for each in await response.json()] == [["n1:9000"], ["n2:9000"]]


async def test_service_discovery_waits_for_each_batch_system_to_answer_or_to_fail(
    source, clock, aiohttp_client, monkeypatch
):
    """Prometheus takes a list whole: the nodes of one whose first answer is still awaited would be dropped."""
    other = StandIn(
        source.queue,
        Cluster(source="pbs", taken_at_secs=clock.now, nodes=(ClusterNode(name="p1", states=("free",)),)),
    )
    other.name = "pbs"
    monkeypatch.setattr(controller, "make_cluster_sources", lambda _config, _clock: [source, other])
    served = Controller(config(), clock)
    client = await aiohttp_client(make_app(served, [discovery_route(served.targets)]))
    poll(served, "slurm-nodes")
    assert (await client.get("/sd")).status == 503
    other.cluster = SourceError("nobody there")
    poll(served, "pbs-nodes")
    response = await client.get("/sd")
    assert [each["targets"] for each in await response.json()] == [["n1:9819"], ["n2:9819"]]


async def test_the_list_of_targets_is_made_beside_the_loop_that_answers(source, clock, aiohttp_client):
    threads = []

    def targets():
        threads.append(threading.current_thread())
        return []

    client = await aiohttp_client(make_app(Controller(config(), clock), [discovery_route(targets)]))
    assert (await client.get("/sd")).status == 200
    assert threads != [threading.current_thread()]


def test_states_to_leave_out_are_a_setting(source, clock):
    served = Controller(config(controller_sd_skip=("DOWN",)), clock)
    poll(served)
    assert [each["labels"]["__meta_batch_node"] for each in served.targets()] == ["n1"]


def test_threads_start_and_stop(source):
    served = Controller(config())
    served.start()
    until(lambda: served.is_ready)
    served.stop()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"batch_sources": ("spool",)}, "cannot list the jobs of a whole cluster"),
        ({"batch_sources": ()}, "needs a batch system"),
        ({"slurm_scontrol": "/nowhere/scontrol"}, "needs a batch system"),
    ],
)
def test_without_a_batch_system_to_ask_it_does_not_start(settings, reason, clock, monkeypatch):
    for name in SYSTEMS.keys() - {"slurm"}:  # some may be installed on this machine
        monkeypatch.setattr(SYSTEMS[name], "is_here", lambda _: False)
    with pytest.raises(ConfigurationError, match=reason):
        make_cluster_sources(config(**settings), clock)


def test_a_batch_system_that_is_named_twice_is_asked_once(clock):
    found = make_cluster_sources(config(batch_sources=("slurm", "oar", "slurm")), clock)
    assert [each.name for each in found] == ["slurm", "oar"]


def test_a_batch_system_is_asked_where_it_is_named(clock):
    [found] = make_cluster_sources(
        config(batch_sources=("slurm",), slurm_scontrol="/nowhere/scontrol"), clock
    )
    with pytest.raises(SourceError, match="/nowhere/squeue"):
        found.poll_queue()
    with pytest.raises(SourceError, match="/nowhere/scontrol"):
        found.poll_cluster()
    with pytest.raises(SourceError, match="/nowhere/sacct"):
        found.poll_accounting(0)


class StandInSender:
    """Keeps what is to be sent."""

    sinks, faulty = (), {}  # never changed
    origin = Origin(cluster="hpc.example.org", node="m1")

    def __init__(self):
        self.makers = {}
        self.running = False

    def add(self, kind, interval_secs, make, *, at_start=False):
        self.makers[kind] = (interval_secs, make)

    def start(self):
        self.running = True

    def stop(self):
        self.running = False


def test_jobs_and_cluster_records_are_sent_on_their_own_cadences(source, clock, monkeypatch):
    sender = StandInSender()
    monkeypatch.setattr(controller, "make_sender", lambda *_given: sender)
    served = Controller(config(sonar_sinks=("stdout",), sonar_jobs_interval_secs=60.0), clock)
    with pytest.raises(SourceError, match="has not reported its nodes yet"):
        sender.makers[CLUSTER][1]()
    poll(served)
    assert {kind: interval_secs for kind, (interval_secs, _) in sender.makers.items()} == {
        JOBS: 60,
        CLUSTER: 300,
    }
    [jobs], [cluster] = (sender.makers[kind][1]() for kind in (JOBS, CLUSTER))
    assert [each["job_id"] for each in jobs["data"]["attributes"]["slurm_jobs"]] == [12]
    assert cluster["data"]["attributes"]["nodes"] == [
        {"names": ["n2"], "states": ["DOWN"]},
        {"names": ["n1"], "states": ["MIXED"]},
    ]


@pytest.mark.parametrize("watched", [True, False])
def test_answers_of_accounting_are_kept_only_where_somebody_takes_them(source, clock, monkeypatch, watched):
    sender = StandInSender()
    monkeypatch.setattr(controller, "make_sender", lambda *_given: sender)
    settings = {"sonar_sinks": ("stdout",), "collector_schedule": watched}
    feeds = []

    def make_feed(*given, **named):
        feeds.append(AccountingFeed(*given, **named))
        return feeds[-1]

    monkeypatch.setattr(controller, "AccountingFeed", make_feed)
    served = Controller(config(**settings), clock)
    poll(served)
    sender.makers[JOBS][1]()
    assert [each.take() is not None for each in feeds] == [watched]


def test_the_sender_lives_as_long_as_the_controller(source, monkeypatch):
    sender = StandInSender()
    monkeypatch.setattr(controller, "make_sender", lambda *_given: sender)
    served = Controller(config(sonar_sinks=("stdout",)))
    served.start()
    assert sender.running
    served.stop()
    assert not sender.running


def test_an_absurd_cluster_does_not_end_the_page(source, clock):
    node = ClusterNode(name="n1", states=(), cpus=2**62, allocated_cpus=2**63)
    source.cluster = replace(source.cluster, nodes=(node,), partitions=())
    served = Controller(config(), clock)
    poll(served)
    text = page(served)
    assert 'batch_cluster_nodes{batch_system="slurm",partition="",state="UNKNOWN"} 1\n' in text
    assert 'batch_cluster_cpus{batch_system="slurm",partition="",kind="other"} 0\n' in text


def test_settings_of_the_role_are_checked_before_a_port_opens(capsys):
    assert main(["check-config", "--role", "controller", "--batch.sources", "spool"]) == 2
    assert "batch.sources: spool cannot list the jobs of a whole cluster" in capsys.readouterr().err
    assert main(["check-config", "--role", "master"]) == 2


def test_nodes_are_answered_out_of_what_was_told_behind_the_queue(source, clock, make_job, make_table):
    nodes_config = config(controller_listen="127.0.0.1:0", controller_secret_file="/x")
    with pytest.raises(
        ConfigurationError, match=r"controller\.listen: cannot be used: slurm, as configured, does not report"
    ):
        Controller(nodes_config, clock)
    job = make_job("7", nodes=("n1",))

    class ByNode:
        taken_at_secs, rejected = clock.now, ()

        @staticmethod
        def table(node_name, now_secs):
            return make_table(job, taken_at_secs=clock.now) if node_name == "n1" else None

    source.poll_by_node = lambda queue: ByNode() if queue is source.queue else None
    served = Controller(nodes_config, clock)
    poll(served)
    assert '"job_id": "7"' in served.node_answers.answer("n1").text
    assert served.node_answers.answer("n2").status == 404
    assert 'batch_exporter_source_up{source="slurm-by-node"} 1\n' in page(served)
