"""Gives the node its joules at each sample, and each job its share of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.cpurates import cpu_secs_of
from jobfeatures_exporter.sampling.power.energy import JobEnergy, compute_package_joules
from jobfeatures_exporter.sampling.power.rapl import NodeEnergy
from jobfeatures_exporter.snapshot import JobSample, NodeSample, WorkKey


class EnergyShares:
    """Shares in the ratio of CPU time, see `energy`."""

    def __init__(self, node_energy: NodeEnergy) -> None:
        self._node_energy = node_energy
        self._job_energy = JobEnergy()

    def share(
        self, node: NodeSample, jobs: Mapping[WorkKey, JobSample]
    ) -> tuple[NodeSample, Mapping[WorkKey, JobSample]]:
        """Return node and jobs with their joules, where the node has counters of them."""
        if not (domains := self._node_energy.read()):
            return node, jobs
        shares = self._job_energy.update(
            joules=compute_package_joules(domains),
            cpu=node.cpu,
            used_secs={key: cpu_secs_of(sample) for key, sample in jobs.items() if isinstance(key, JobKey)},
        )
        with_joules = dict(jobs)
        for key, joules in shares.items():
            with_joules[key] = replace(jobs[key], energy_joules=joules)
        return replace(node, energy_joules=domains), with_joules
