"""The page of foreign nodes, as a whole and as Prometheus reads it."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from jobfeatures_exporter.ingest.page import METRICS
from jobfeatures_exporter.scrape.collectors import jobs, sysinfo

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


def test_what_has_not_changed_is_not_made_again(site, make, monkeypatch):
    fill(site, make)
    site.text()
    made, collect = [], jobs.families
    monkeypatch.setattr(jobs, "families", lambda context: (made.append(context), collect(context))[1])
    site.clock.now += 1
    site.send(make.sample("c1-8", at=site.clock.now))
    site.text()
    assert [each.now_secs for each in made] == [site.clock.now]


def test_nothing_was_sent_yet(site):
    assert site.text() == (
        "# HELP batch_sonar_dropped_nodes_total Foreign nodes dropped because there were too many.\n"
        "# TYPE batch_sonar_dropped_nodes_total counter\nbatch_sonar_dropped_nodes_total 0\n"
    )


def test_a_fault_of_a_collector_costs_one_nodes_series_only(site, make, monkeypatch):
    fill(site, make)

    def families(context):
        if context.sysinfo is not None:
            raise ValueError("a fault")
        yield from ()

    monkeypatch.setattr(sysinfo, "families", families)
    text = site.text()
    assert 'batch_job_processes{cluster="hpc.example.org",node="c1-8"' in text
    assert 'batch_job_processes{cluster="hpc.example.org",node="c1-7"' not in text
    assert site.nodes.counts()["not_shown"] == 1


def test_the_series_of_a_node_are_bounded_and_its_heaviest_jobs_stay(make):
    site = make.Site(max_series=100)
    jobs = [
        {
            "job": number,
            "user": "alice",
            "processes": [make.process(number, 1, resident_memory=number * 2**20)],
        }
        for number in range(1, 101)
    ]
    site.send(make.sample(jobs=jobs))
    text = site.text()
    assert len([line for line in text.splitlines() if 'node="c1-7"' in line]) <= 101  # its age comes on top
    assert 'job_id="100",mode' in text
    assert 'job_id="1",mode' not in text
    assert 'job_id="other",mode="total"' in text


@given(data=st.data())
def test_no_document_breaks_the_page(make, data):
    site = make.Site()
    values = (
        st.none() | st.integers(-1, 2**64) | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})
    )
    for _ in range(data.draw(st.integers(1, 3))):
        gpu = {"uuid": "GPU-1", **data.draw(st.dictionaries(st.sampled_from(GPU), values, max_size=3))}
        process = make.process(1, gpus=[{"uuid": "GPU-1"}])
        process |= data.draw(st.dictionaries(st.sampled_from(sorted(process)), values, max_size=2))
        job = {"job": 1, **data.draw(st.dictionaries(st.sampled_from(["job", "epoch", "user"]), values))}
        system = data.draw(st.dictionaries(st.sampled_from(SYSTEM), values, max_size=3))
        site.clock.now += 10
        job["processes"] = [process, make.process(2, 5)]
        site.send(make.sample(jobs=[job], at=site.clock.now, gpus=[gpu], **system))
        list(text_string_to_metric_families(site.text()))
    assert "not_shown" not in site.nodes.counts()


GPU = [
    "index",
    "failing",
    "fan",
    "performance_state",
    "memory",
    "ce_util",
    "temperature",
    "power",
    "ce_clock",
]
SYSTEM = ["boot", "cpus", "disks", "used_memory", "load1", "runnable_entities", "existing_entities"]
