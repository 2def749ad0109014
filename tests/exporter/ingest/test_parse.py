"""Envelopes to records. Expected values are counted by hand from the envelopes in which every field is set."""

from __future__ import annotations

import pytest

from jobfeatures.errors import ParseError
from jobfeatures.records.model import ClusterNode, JobKey, JobState, Partition
from jobfeatures_exporter.ingest.contents import ErrorRecord
from jobfeatures_exporter.ingest.foreign import compute_job_gpus
from jobfeatures_exporter.ingest.parse import parse_envelope
from jobfeatures_exporter.model.snapshot import DiskSample
from tests.jobfeatures.formats.sonar.conftest import make_envelope, make_errors

TIME = 1_799_996_400  # 2027-01-15 07:00 UTC


@pytest.fixture
def sample():
    return make_envelope("sample")


@pytest.fixture
def sysinfo():
    return make_envelope("sysinfo")


@pytest.fixture
def jobs():
    return make_envelope("job")


@pytest.fixture
def cluster():
    return make_envelope("cluster")


def test_an_nvme_disk_and_the_path_to_it_count_once(sample):
    names = ("nvme0c0n1", "nvme0n1", "nvme1c0n1", "nvme1n1")
    stats = ([1], [1], [2], [0])  # before Linux 6.4 the path alone counts
    disks = [{"name": name, "major": 259, "stats": each} for name, each in zip(names, stats, strict=True)]
    sample["data"]["attributes"]["system"]["disks"] = disks
    whole = {name: disk.whole for name, disk in parse_envelope(sample).system.disks.items()}
    assert whole == dict(zip(names, (False, True, True, True), strict=True))


def test_a_sample(sample):
    record = parse_envelope(sample)
    assert (record.cluster, record.node, record.time_secs) == ("hpc.example.org", "c1-7", TIME)
    assert record.system.boot_time_secs == 1_798_761_600
    assert record.core_secs == (10, 20)
    assert record.used_memory_bytes == 4096 * 1024
    assert (record.system.load1, record.system.load5, record.system.load15) == (0.5, 0.25, 0.0)
    assert (record.system.runnable_entities, record.system.existing_entities) == (2, 300)
    assert record.system.disks == {"sda": DiskSample(8, 0, (1, 2, 3), whole=True)}
    assert record.errors == ("no GPU answers",)
    batch, group = record.jobs
    assert (batch.job, batch.epoch, batch.user) == (12, 0, "alice")
    (process,) = batch.processes
    assert (process.pid, process.ppid, process.command, process.count) == (4711, 1, "python", 1)
    assert (process.cpu_secs, process.resident_bytes, process.threads) == (60, 102_400, 4)
    assert (process.data_read_bytes, process.data_written_bytes) == (5120, 6144)
    assert [(each.uuid, each.util_percent, each.memory_bytes) for each in process.gpus] == [
        ("GPU-1", 40.0, 2**20)
    ]
    (rolled,) = group.processes
    assert (rolled.pid, rolled.count, rolled.threads, group.epoch) == (0, 3, 3, 221_000_000)


def test_a_card(sample):
    (gpu,) = parse_envelope(sample).gpus
    assert (gpu.card.uuid, gpu.card.index, gpu.failing, gpu.fan_percent) == ("GPU-1", 1, 0, 120)
    assert (gpu.performance_state, gpu.memory_used_bytes, gpu.ce_util_percent) == (1, 2**21, 90)
    assert (gpu.temperature_celsius, gpu.power_watts, gpu.power_limit_watts) == (-3, 250, 300)


@pytest.mark.parametrize(
    ("producer", "sent", "state"),
    [("sonar", 1, 0), ("sonar", 3, 2), ("other", 2, 0), ("other", 1, None), ("other", 0, None), (None, 1, 0)],
)
def test_a_performance_state_is_one_less_of_sonar_and_two_less_of_others(producer, sent, state, sample):
    sample["meta"] = None if producer is None else {"producer": producer, "version": "0.18.0"}
    sample["data"]["attributes"]["system"]["gpus"][0]["performance_state"] = sent
    assert parse_envelope(sample).gpus[0].performance_state == state


def test_what_no_card_can_have_is_unknown_and_told(sample):
    attributes = sample["data"]["attributes"]
    odd = {"uuid": "a", "ce_util": 4294967295, "power": 3766543, "power_limit": 700, "temperature": 60}
    attributes["system"] = {"cpus": [1], "gpus": [odd, {"uuid": "b", "ce_util": 100, "power": 700}]}
    attributes["jobs"] = []
    record = parse_envelope(sample)
    first, second = record.gpus
    assert (first.ce_util_percent, first.power_watts, first.temperature_celsius) == (None, None, 60)
    assert (second.ce_util_percent, second.power_watts) == (100, 700)
    assert [each.text for each in record.rejected] == [
        "gpu_refused_ce_util_percent",
        "gpu_refused_power_watts",
    ]


def test_what_no_process_can_have_on_a_card_is_unknown_and_told(sample):
    odd = {"uuid": "a", "gpu_util": 101.0, "gpu_memory": 2**64 - 1}
    both = [{"uuid": "b", "gpu_util": 60.0, "gpu_memory": 1}] * 2
    sample["data"]["attributes"]["jobs"] = [{"job": 1, "processes": [{"pid": 5, "gpus": [odd, *both]}]}]
    record = parse_envelope(sample)
    assert compute_job_gpus(list(record.jobs[0].processes)) == {"a": (None, None), "b": (100, 2048)}
    assert [each.text for each in record.rejected] == [
        "gpu_refused_process_percent", "gpu_refused_process_memory",
    ]  # fmt: skip


def test_what_an_old_agent_does_not_send_is_unknown_and_not_zero(sample):
    attributes = sample["data"]["attributes"]
    attributes["system"] = {"cpus": [1], "gpus": [{"uuid": "a"}, {"uuid": "b", "failing": 1}]}
    attributes["jobs"] = [{"job": 1, "processes": [{"pid": 5}]}]
    record = parse_envelope(sample)
    system = record.system
    assert (system.load1, system.runnable_entities, system.boot_time_secs) == (None,) * 3
    assert record.used_memory_bytes is None
    (process,) = record.jobs[0].processes
    assert (process.threads, process.data_read_bytes, process.cpu_secs) == (None, None, 0)
    idle, failing = record.gpus
    assert (idle.ce_util_percent, failing.ce_util_percent) == (0, None)
    assert (idle.temperature_celsius, idle.performance_state, idle.power_watts) == (None, None, None)


def test_a_zero_of_a_new_agent_is_zero(sample):
    del sample["data"]["attributes"]["system"]["load1"]
    assert parse_envelope(sample).system.load1 == 0.0


def test_a_node(sysinfo):
    record = parse_envelope(sysinfo).sample
    assert (record.sockets, record.cores_per_socket, record.threads_per_core) == (1, 2, 1)
    assert record.memory_bytes == 16 * 2**20
    (card,) = record.cards
    assert (card.uuid, card.memory_bytes, card.max_ce_clock_mhz) == ("GPU-1", 15 * 2**20, 1590)


def test_a_job(jobs):
    (record,) = parse_envelope(jobs).jobs
    job = record.job
    assert job.key == JobKey("slurm", "12")
    assert (job.state, job.user, job.account, job.partition) == (
        JobState.RUNNING,
        "alice",
        "physics",
        "batch",
    )
    assert (job.submit_secs, job.start_secs, job.end_secs) == (TIME, TIME, None)
    assert (job.nodes, job.total_cpus, job.total_nodes, job.total_gpus) == (("c1-7",), 4, 1, 1)
    assert (job.limits.wall_secs, job.limits.memory_bytes) == (3600, 2**20)
    assert (job.array_job_id, job.array_task_id, job.het_job_id) == ("10", "2", None)
    assert record.allocated == {"cpu": "4", "mem": "8G", "node": "1", "gres/gpu": "1"}


@pytest.mark.parametrize(
    ("producer", "version", "limit_secs"),
    [
        ("sonar", "0.13.0", 3600),
        ("other", "0.13.0", 3600),
        ("jobfeatures-exporter", "0.18.0", 3600),
        ("jobfeatures-exporter", "0.13.0", 216_000),
    ],
)
def test_a_time_limit_is_in_seconds_but_in_our_own_documents_of_the_texts_profile(
    producer, version, limit_secs, jobs
):
    jobs["meta"] |= {"producer": producer, "version": version}
    assert parse_envelope(jobs).jobs[0].job.limits.wall_secs == limit_secs


def test_a_job_of_several_nodes(jobs):
    job = jobs["data"]["attributes"]["slurm_jobs"][0]
    job["nodes"] = ["c1-[7-8]"]
    (record,) = parse_envelope(jobs).jobs
    assert record.job.nodes == ("c1-7", "c1-8")
    assert (record.job.allocated_cpus, record.job.total_cpus) == (None, 4)


@pytest.mark.parametrize("tag", ["job", "jobs", "slurm_jobs"])
def test_jobs_come_under_several_names(tag, jobs):
    jobs["data"]["type"] = tag
    assert len(parse_envelope(jobs).jobs) == 1


def test_a_job_that_was_not_placed(jobs):
    job = jobs["data"]["attributes"]["slurm_jobs"][0]
    job |= {"nodes": ["None assigned"], "start_time": "", "end_time": None, "job_state": "CANCELLED by 1234"}
    (record,) = parse_envelope(jobs).jobs
    assert (record.job.nodes, record.job.start_secs, record.job.state) == ((), None, JobState.CANCELLED)


def test_a_cluster_has_each_node_once_with_all_its_states(cluster):
    record = parse_envelope(cluster)
    assert record.state.partitions == (Partition(name="batch", nodes=("c1-7", "c1-8")),)
    assert record.state.nodes == (
        ClusterNode(name="c1-7", states=("IDLE",)),
        ClusterNode(name="c1-8", states=("IDLE", "DRAIN")),
    )
    assert record.state.taken_at_secs == TIME


def test_an_envelope_of_errors():
    assert parse_envelope(make_errors()) == ErrorRecord(cluster="hpc.example.org")


def test_lists_of_nodes_are_bounded_together(cluster):
    cluster["data"]["attributes"]["partitions"] = [
        {"name": f"p{each}", "nodes": ["c[1-90000]"]} for each in range(3)
    ]
    with pytest.raises(ParseError, match="more than 200000 names of nodes"):
        parse_envelope(cluster)


def test_cores_are_bounded(sample):
    sample["data"]["attributes"]["system"]["cpus"] = [0] * 20_000
    with pytest.raises(ParseError, match="more than 16384 cores"):
        parse_envelope(sample)
