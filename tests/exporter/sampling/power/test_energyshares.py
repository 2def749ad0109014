"""Joules of the node and of its jobs in one sample."""

from types import SimpleNamespace

import pytest

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.power.energyshares import EnergyShares
from jobfeatures_exporter.snapshot import (
    Accounting,
    CpuSecs,
    JobSample,
    Kind,
    MemoryBytes,
    NodeSample,
    UnitKey,
)

ONE, TWO, SERVICE = JobKey("slurm", "1"), JobKey("slurm", "2"), UnitKey(Kind.SERVICE, "a.service")
IDLE = CpuSecs(*[0.0] * len(CpuSecs._fields))


def sample(key, secs):
    return JobSample(
        key=key,
        accounting=Accounting.CGROUP,
        memory=MemoryBytes(),
        user_cpu_secs=secs,
        system_cpu_secs=0.0,
    )


@pytest.fixture
def share():
    counters = SimpleNamespace(read=lambda: counters.domains, domains={})
    shares = EnergyShares(counters)

    def share(domains, busy_secs, **used):
        counters.domains = domains
        node = NodeSample(cpu=IDLE._replace(user=busy_secs))
        keys = {"one": ONE, "two": TWO, "service": SERVICE}
        return shares.share(node, {keys[name]: sample(keys[name], secs) for name, secs in used.items()})

    return share


def test_jobs_have_their_parts_and_what_is_no_job_has_none(share):
    share({"package-0": 0.0}, 0.0, one=0.0, two=0.0, service=0.0)
    node, jobs = share({"package-0": 100.0}, 10.0, one=5.0, two=2.5, service=2.5)
    assert node.energy_joules == {"package-0": 100.0}
    assert {key: each.energy_joules for key, each in jobs.items()} == {ONE: 50.0, TWO: 25.0, SERVICE: None}


def test_a_machine_without_counters_leaves_all_as_it_is(share):
    node, jobs = share({}, 10.0, one=5.0)
    assert (dict(node.energy_joules), jobs[ONE].energy_joules) == ({}, None)
