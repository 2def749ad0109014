"""Restricts what a user is shown of a node: their own jobs, and what everybody can read in /proc. Pure.

The node's power draw is excluded: the kernel shows it to root only, since it reveals what others compute.

Only the fields of a `Context` that are named here are shown, so that a field added to it stays hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from jobfeatures.records.model import Job, JobKey
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import JobSample, Kind, NodeSample, Snapshot, WorkKey

# Of the node, jobs and GPUs; none counts others' activity.
COLLECTORS = frozenset(
    {"node", "jobs", "steps", "allocation", "energy", "gpus", "remaining", "waste", "status", "work"}
)
Value = TypeVar("Value")


def make_own_context(context: Context, uid: int, user: str | None) -> Context:
    """Return the part of a `Context`, the data of metrics and pages, that a user may see.

    `user` is the name of `uid`, None if it has none.
    """
    snapshot = context.snapshot
    samples: dict[WorkKey, JobSample] = {}
    if snapshot is not None:
        samples.update(snapshot.final.items())
        samples.update(snapshot.jobs)
    keys = {
        key
        for key in {*context.jobs, *context.ended, *samples}
        if isinstance(key, JobKey) and _is_own(context, key, samples.get(key), uid, user)
    }

    def own(found: Mapping[JobKey, Value]) -> dict[JobKey, Value]:
        return {key: value for key, value in found.items() if key in keys}

    return Context(
        now_secs=context.now_secs,
        snapshot=None if snapshot is None else _own_snapshot(snapshot, keys),
        jobs=own(context.jobs),
        statuses=own(context.statuses),
        machine=context.machine,
        kinds=frozenset({Kind.BATCH}),
        cpu_rates=own(context.cpu_rates),
        node_busy_cpus=context.node_busy_cpus,
        ended=own(context.ended),
        node_name=context.node_name,
        findings=own(context.findings),
    )


def _is_own(context: Context, key: JobKey, sample: JobSample | None, uid: int, user: str | None) -> bool:
    """Return whether a job is the user's: by the batch system's record, else by its sample."""
    ended = context.ended.get(key)
    job: Job | None = context.jobs.get(key) or (ended.job if ended is not None else None)
    if job is not None and job.uid is not None:
        return job.uid == uid
    if job is not None and job.user is not None:
        return user is not None and job.user == user
    if sample is None and ended is not None:
        sample = ended.sample
    return sample is not None and sample.uid == uid


def _without_power(node: NodeSample) -> NodeSample:
    board = node.board and replace(node.board, watts={}, up={}, joules={})  # leaves the jobs' own shares
    return replace(node, energy_joules={}, board=board)


def _own_snapshot(snapshot: Snapshot, keys: set[JobKey]) -> Snapshot:
    pids = {pid for pid, key in snapshot.keys.items() if key in keys}
    job_gpus = tuple(each for each in snapshot.job_gpus if each.key in keys)
    cards = {each.uuid for each in job_gpus}
    return Snapshot(
        taken_at_secs=snapshot.taken_at_secs,
        duration_secs=snapshot.duration_secs,
        node=snapshot.node if snapshot.node is None else _without_power(snapshot.node),
        jobs={key: each for key, each in snapshot.jobs.items() if key in keys},
        final={key: each for key, each in snapshot.final.items() if key in keys},
        read_at_secs=snapshot.read_at_secs,
        processes={pid: each for pid, each in snapshot.processes.items() if pid in pids},
        lists_all=snapshot.lists_all,
        keys={pid: snapshot.keys[pid] for pid in pids},
        epoch=snapshot.epoch,
        gpus=tuple(
            replace(each, processes=tuple(one for one in each.processes if one.pid in pids))
            for each in snapshot.gpus
            if each.card.uuid in cards
        ),
        job_gpus=job_gpus,
    )
