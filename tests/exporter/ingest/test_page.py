"""The page of foreign nodes, as a whole and as Prometheus reads it."""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from exporter.ingest.page import METRICS

GOLDEN = Path(__file__).parents[2] / "fixtures" / "golden" / "sonar.prom"


def fill(site, make):
    """Send what two nodes and a cluster would: an old agent and a new one."""
    gpu = {
        "index": 1, "uuid": "GPU-1", "fan": 40, "performance_state": 3, "memory": 2048, "ce_util": 90,
        "memory_util": 50, "temperature": 61, "power": 250, "power_limit": 300, "ce_clock": 1800,
        "memory_clock": 6800,
    }  # fmt: skip
    used = [{"uuid": "GPU-1", "gpu_util": 40.0, "gpu_memory": 1024}]
    new = {
        "boot": "2027-01-01T00:00:00Z", "cpus": [100, 200], "used_memory": 4096, "load1": 0.5,
        "runnable_entities": 2, "existing_entities": 300, "gpus": [gpu],
        "disks": [
            {"name": "sda", "major": 8, "stats": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]},
            {"name": "sda1", "major": 8, "minor": 1, "stats": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]},
        ],
    }  # fmt: skip
    jobs = [
        {
            "job": 12,
            "user": "alice",
            "processes": [make.process(100, 60, gpus=used, data_read=7, num_threads=3)],
        },
        {"job": 99, "user": 'b"\\\n', "processes": [make.process(0, 5, rolledup=2)]},
        {"job": 700, "epoch": make.EPOCH, "user": "_user_1", "processes": [make.process(700, 1)]},
    ]
    site.send(
        make.envelope(
            "sysinfo",
            node="c1-7",
            sockets=1,
            cores_per_socket=2,
            threads_per_core=1,
            memory=16_384,
            cpu_model="A model",
            architecture="x86_64",
            os_release="6.1",
            cards=[{"uuid": "GPU-1", "model": "T4"}],
        ),
        make.sample(ago=30, jobs=jobs, **new),
        make.sample(
            "c1-8", ago=90, jobs=[{"job": 12, "user": "alice", "processes": [make.process(4, 8)]}], cpus=[7]
        ),
        make.envelope(
            "jobs", slurm_jobs=[make.job(nodes=["c1-[7-8]"]), make.job(13, job_state="PENDING", nodes=[])]
        ),
        make.envelope(
            "cluster",
            slurm=True,
            partitions=[{"name": "batch", "nodes": ["c1-[7-8]"]}],
            nodes=[
                {"names": ["c1-[7-8]"], "states": ["ALLOCATED"]},
                {"names": ["c1-8"], "states": ["DRAIN"]},
            ],
        ),
        {"errors": [{"detail": "no GPU answers"}]},
        {"no": "envelope"},
    )


def test_the_page_is_the_golden_page(site, make):
    fill(site, make)
    text = site.text()
    if os.environ.get("JOBFEATURES_WRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_prometheus_reads_it_and_each_family_is_there_once(site, make):
    fill(site, make)
    for families in (
        list(text_string_to_metric_families(site.text())),
        list(parse_openmetrics(site.text(openmetrics=True))),
    ):
        names = [family.name for family in families]
        assert len(set(names)) == len(names)
        seen = {(sample.name, *sorted(sample.labels.items())) for each in families for sample in each.samples}
        assert len(seen) == sum(len(family.samples) for family in families)
        for each in families:
            if not each.name.startswith("batch_sonar_d"):
                assert all("cluster" in sample.labels for sample in each.samples), each.name


def test_every_metric_of_its_own_has_a_sample(site, make):
    fill(site, make)
    assert [each.name for each in METRICS if f"{each.sample_name}" not in site.text()] == []


def test_threads_that_an_old_agent_does_not_tell_are_not_zero(site, make):
    fill(site, make)
    assert 'batch_job_threads{cluster="hpc.example.org",node="c1-7"' in site.text()
    assert 'batch_job_threads{cluster="hpc.example.org",node="c1-8"' not in site.text()


def test_what_has_not_changed_is_not_made_again(site, make):
    fill(site, make)
    site.text()
    before = dict(site.page._kept)
    site.clock.now += 1
    site.send(make.sample("c1-8", at=site.clock.now))
    site.text()
    changed = {name[1] for name, each in site.page._kept.items() if before[name] is not each}
    assert changed == {"c1-8"}


def test_nothing_was_sent_yet(site):
    assert site.text() == (
        "# HELP batch_sonar_dropped_nodes_total Foreign nodes that gave way to others: too many were sent.\n"
        "# TYPE batch_sonar_dropped_nodes_total counter\nbatch_sonar_dropped_nodes_total 0\n"
    )
