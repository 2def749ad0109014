"""What is kept of documents, and for how long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobfeatures_exporter.ingest.parse import parse_envelope

EPOCH = 221_000_000
GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden"
CPU = 'batch_job_cpu_seconds_total{cluster="hpc.example.org",node="c1-7",batch_system="slurm",job_id="12"'
AGE = "batch_sonar_node_age_seconds"


def documents(site):
    return {kind: count for kind, count in site.nodes.counts().items() if count}


def test_a_later_sample_replaces_an_earlier_one_and_counters_go_on(site, make):
    site.send(make.sample(ago=300))
    assert site.value(CPU) == 60
    site.send(make.sample(jobs=[{"job": 12, "processes": [make.process(101, 5)]}]))
    assert site.value(CPU) == 65


def test_the_same_sample_again_and_an_older_one_change_nothing(site, make):
    site.send(make.sample(ago=60))
    site.send(make.sample(ago=60, jobs=[]), make.sample(ago=61, jobs=[]))
    assert site.value(CPU) == 60
    assert documents(site) == {"sample": 3, "stale": 2}


def test_records_of_one_job_in_a_sample_are_its_parts(site, make):
    parts = [{"job": 12, "processes": [make.process(pid, 10)]} for pid in (1, 2)]
    site.send(make.sample(jobs=parts))
    assert site.value(CPU) == 20
    assert site.value("batch_job_processes{") == 2


def test_a_number_with_and_without_epoch_are_two_jobs(site, make):
    site.send(
        make.sample(
            jobs=[
                {"job": 12, "processes": [make.process(1, 10)]},
                {"job": 12, "epoch": make.EPOCH, "processes": [make.process(2, 7)]},
            ]
        )
    )
    assert site.value(CPU) == 10
    group = (
        f'{{cluster="hpc.example.org",node="c1-7",batch_system="none",job_id="12@{make.EPOCH}",mode="total"}}'
    )
    assert site.value(f"batch_job_cpu_seconds_total{group}") == 7


def test_a_silent_node_vanishes_with_all_its_series(site, make):
    site.send(make.sample())
    site.clock.now += 600
    assert site.value(AGE) == 600
    site.clock.now += 1
    assert "c1-7" not in site.text()


def test_a_job_that_a_filter_hid_comes_back_with_its_counter(site, make):
    site.send(make.sample(ago=200))
    site.send(make.sample(ago=100, jobs=[]))
    assert site.value(CPU) is None
    site.send(make.sample(jobs=[{"job": 12, "processes": [make.process(100, 61)]}]))
    assert site.value(CPU) == 61


def test_a_clock_that_runs_ahead_does_not_shut_a_node_out(site, make):
    site.send(make.sample(ago=-86_400))
    assert site.value(AGE) == 0
    site.clock.now += 10
    site.send(make.sample(ago=-86_400 - 10, jobs=[]))
    assert site.value(CPU) is None


def test_documents_of_a_clock_that_runs_ahead_that_arrive_again_change_nothing(site, make):
    def sent(after, cpu_secs, state):
        process, job = make.process(100, cpu_secs), make.job(job_state=state)
        sample = make.sample(at=make.NOW + after, jobs=[{"job": 12, "processes": [process]}])
        return sample, make.envelope("job", time=make.stamp(-after), slurm_jobs=[job])

    first, second = sent(600, 60, "RUNNING"), sent(900, 300, "COMPLETED")
    site.send(*first)
    site.clock.now += 300
    site.send(*second, *first, *second)
    (job,) = site.nodes.clusters()["hpc.example.org"].jobs.values()
    assert (site.value(CPU), job.state.value) == (300, "COMPLETED")
    site.clock.now += 100  # the clock is set right
    site.send(*sent(400, 310, "RUNNING"))
    (job,) = site.nodes.clusters()["hpc.example.org"].jobs.values()
    assert (site.value(CPU), job.state.value) == (310, "RUNNING")


def test_once_a_clock_that_ran_ahead_is_set_right_nodes_and_hardware_are_told_again(site, make):
    def told(after, memory, words):
        at = {"time": make.stamp(-after)}
        nodes = [{"names": ["c1-7"], "states": words}]
        return (
            make.envelope("sysinfo", **at, node="c1-7", memory=memory),
            make.envelope("cluster", **at, slurm=True, nodes=nodes),
        )

    site.send(make.sample(), *told(86_400, 1024, ["IDLE"]), *told(80_000, 2048, ["DOWN"]))
    assert documents(site)["stale"] == 2
    site.clock.now += 60
    site.send(*told(60, 4096, ["MIXED"]))
    [node] = site.nodes.nodes().values()
    assert node.snapshot.node.memory_bytes["MemTotal"] == 4096 * 1024
    assert site.nodes.clusters()["hpc.example.org"].state.nodes[0].states == ("MIXED",)


def test_old_files_bring_no_node_back(site, make):
    site.send(make.sample(ago=86_400))
    assert documents(site) == {"sample": 1, "stale": 1}
    assert "c1-7" not in site.text()


def test_a_sample_without_a_time_is_as_old_as_its_arrival(site, make):
    document = make.sample()
    document["data"]["attributes"]["time"] = ""
    site.send(document)
    site.clock.now += 5
    assert site.value(AGE) == 5


def test_too_many_nodes_push_the_one_silent_for_longest_out(make):
    site = make.Site(max_nodes=2)
    for node in ("c1", "c2", "c1", "c3"):
        site.clock.now += 1
        site.send(make.sample(node, at=site.clock.now))
    assert sorted(name for _, name in site.nodes.nodes()) == ["c1", "c3"]
    assert site.value("batch_sonar_dropped_nodes_total") == 1


def test_the_configuration_gives_total_memory_whether_it_comes_first_or_last(site, make):
    sysinfo = make.envelope("sysinfo", node="c1-7", memory=16_384, sockets=2, cores_per_socket=4)
    site.send(sysinfo, make.sample(ago=10, used_memory=1024))
    available = 'batch_node_memory_bytes{cluster="hpc.example.org",node="c1-7",kind="available"}'
    assert site.value(available) == 15 * 2**20
    sysinfo["data"]["attributes"]["memory"] = 32_768
    site.send(sysinfo)
    assert site.value(available) == 31 * 2**20
    assert ',sockets="2",physical_cores="8",' in site.text()


def test_a_job_record_gives_labels_and_limits(site, make):
    site.send(make.sample(), make.envelope("job", slurm_jobs=[make.job()]))
    text = site.text()
    assert 'user="alice",uid="",account="physics",partition="batch",name="fit"' in text
    assert site.value("batch_job_wall_limit_seconds") == 3600
    assert site.value("batch_job_allocated_memory_bytes") == 2 * 2**20


def test_the_time_limit_in_minutes_of_a_producer_that_is_known_to_keep_to_the_text(make):
    """The time limit in minutes for the job."""
    site = make.Site(minutes_from="slurm-monitor")
    for producer, secs in (("sonar", 60), ("slurm-monitor", 3600)):
        document = make.envelope("job", time=make.stamp(), slurm_jobs=[make.job(time_limit=62)])
        document["meta"]["producer"] = producer
        site.send(make.sample(), document)
        assert site.value("batch_job_wall_limit_seconds") == secs


def test_later_job_records_fill_in_and_override(site, make):
    site.send(make.envelope("job", slurm_jobs=[make.job(job_state="PENDING", nodes=[])]))
    site.send(make.envelope("job", slurm_jobs=[{"job_id": 12, "job_state": "RUNNING", "nodes": ["c1-7"]}]))
    (job,) = site.nodes.clusters()["hpc.example.org"].jobs.values()
    assert (job.state.value, job.account, job.nodes) == ("RUNNING", "physics", ("c1-7",))
    site.send(make.envelope("job", time=make.stamp(50), slurm_jobs=[make.job(job_state="PENDING")]))
    (job,) = site.nodes.clusters()["hpc.example.org"].jobs.values()
    assert job.state.value == "RUNNING"


def test_what_a_job_has_on_its_node_is_known_once_node_and_cpus_are(site, make):
    first, second = make.job(nodes=[]), {"job_id": 12, "job_state": "RUNNING", "nodes": ["c1-7"]}
    site.send(make.sample(), make.envelope("job", slurm_jobs=[first]))
    assert site.value("batch_job_allocated_cpus") is None
    site.send(make.envelope("job", slurm_jobs=[second]))
    assert site.value("batch_job_allocated_cpus") == 4
    site.send(make.envelope("job", slurm_jobs=[second | {"nodes": ["c1-[7-8]"]}]))
    assert site.value("batch_job_allocated_cpus") is None


def test_steps_are_not_jobs(site, make):
    site.send(make.envelope("job", slurm_jobs=[make.job(job_step="batch", job_state="FAILED")]))
    assert site.nodes.clusters()["hpc.example.org"].jobs == {}


def test_an_ended_job_is_forgotten_after_a_while(site, make):
    site.send(make.envelope("job", slurm_jobs=[make.job(job_state="COMPLETED"), make.job(13)]))
    site.clock.now += 601
    assert [key.job_id for key in site.nodes.clusters()["hpc.example.org"].jobs] == ["13"]


def test_cards_are_integrated(site, make):
    gpu = {"uuid": "GPU-1", "ce_util": 50, "power": 200}
    used = {"job": 12, "processes": [make.process(1, gpus=[{"uuid": "GPU-1", "gpu_util": 25.0}])]}
    site.send(make.sample(ago=100, gpus=[gpu], jobs=[used]))
    site.send(make.sample(gpus=[gpu], jobs=[used]))
    assert site.value("batch_gpu_busy_seconds_total") == pytest.approx(50)
    assert site.value("batch_gpu_energy_joules_total") == pytest.approx(20_000)
    assert site.value("batch_job_gpu_busy_seconds_total") == pytest.approx(25)


def test_a_bad_document_is_named_and_the_others_are_taken(site, make):
    bad = make.sample()
    bad["data"]["attributes"]["node"] = "no such\nname"
    taken = site.send(bad, make.sample())
    assert taken.taken == 1
    assert taken.faults == ("document 1: data.attributes.node: is not a host name: 'no such\\nname'",)
    assert site.value(CPU) == 60
    assert documents(site) == {"rejected": 1, "sample": 1}


def test_a_bad_job_costs_itself_only(site, make):
    jobs = [{"job": 1, "processes": [{"pid": -1}, make.process(5, 9)]}, {"job": "x"}, {"job": 12}]
    site.send(make.sample(jobs=jobs))
    assert site.value(CPU.replace('"12"', '"1"')) == 9
    assert documents(site) == {"sample": 1, "rejected_records": 2}


def test_an_envelope_of_errors_is_counted(site, make):
    site.send({"errors": [{"detail": "no GPU", "cluster": "c", "node": "n"}]})
    assert documents(site) == {"errors": 1}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("sonar-sample-*.json")), ids=lambda path: path.stem)
def test_what_we_send_ourselves_is_shown_whole(path, site):
    document = json.loads(path.read_text())
    record = parse_envelope(document)
    site.clock.now = float(record.time_secs or 0)
    assert site.send(document).faults == ()
    name = (record.cluster, record.node)
    snapshot = site.nodes.nodes()[name].snapshot
    sent = [process for job in record.jobs for process in job.processes]
    assert sent
    assert sum(each.processes for each in snapshot.jobs.values()) == sum(each.count for each in sent)
    totals = site.nodes.nodes()[name].totals.values()
    assert sum(each.cpu_secs for each in totals) == sum(each.cpu_secs for each in sent)
    assert {each.card.uuid for each in snapshot.gpus} == {each.card.uuid for each in record.gpus}


GROUP = f'cluster="hpc.example.org",node="c1-7",batch_system="none",job_id="77@{EPOCH}"'
GROUP_CPU = f"batch_job_cpu_seconds_total{{{GROUP}"


def of_group(make, used, at, pid=77, **more):
    processes = [make.process(pid, used, **more)]
    jobs = [{"job": 77, "epoch": make.EPOCH, "processes": processes}]
    return make.sample(jobs=jobs, at=at, gpus=[{"uuid": "GPU-1"}])


def test_a_process_group_that_comes_back_after_a_while_is_another_one(site, make):
    """If B follows A in the timeline and B.time - A.time > t then A and B are in different jobs."""
    for at, used in ((0, 100), (1200, 3), (1260, 5)):
        site.clock.now = make.NOW + at
        site.send(of_group(make, used, site.clock.now))
    assert site.value(GROUP_CPU) == 5


def test_how_long_a_process_group_was_gone_is_told_by_samples_not_by_their_arrival(site, make):
    """B.time - A.time > t is 1190 s here; the first sample came 500 s late."""
    site.clock.now = make.NOW + 300
    site.send(of_group(make, 100, make.NOW - 200), make.sample(jobs=[], at=make.NOW))
    site.clock.now = make.NOW + 1000
    site.send(of_group(make, 3, make.NOW + 990))
    assert site.value(GROUP_CPU) == 3


def test_a_process_group_whose_samples_come_late_remains_the_same(site, make):
    """B.time - A.time > t is not so: the agent kept its samples while nobody took them."""
    site.send(of_group(make, 100, make.NOW))
    site.clock.now = make.NOW + 1000
    site.send(of_group(make, 20, make.NOW + 500, pid=78))
    site.send(of_group(make, 25, make.NOW + 800, pid=78))
    assert site.value(GROUP_CPU) == 125


def test_a_process_group_that_comes_back_begins_anew_on_cards_too(site, make):
    found = []
    for at in (0, 100, 1100, 1160):
        site.clock.now = make.NOW + at
        seen = of_group(make, 1, site.clock.now, gpus=[{"uuid": "GPU-1", "gpu_util": 50.0}])
        site.send(make.sample(jobs=[], at=site.clock.now - 40), seen)
        found.append(site.value(f"batch_job_gpu_busy_seconds_total{{{GROUP}"))
    assert found == [20, 40, 20, 40]  # half of each 40 s
