"""What prologs and epilogs do: publish a job's features, and remove them.

A hook must never fail or delay a job: it ends by a deadline, does the most useful work first, and leaves what
it cannot do to the daemon.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobfeatures.batch import SYSTEMS
from jobfeatures.config import Config
from jobfeatures.errors import JobfeaturesError, OtherClusterError, ParseError, Rejected, SourceError
from jobfeatures.features.keys import LOG_CORES, PHYS_CORES
from jobfeatures.jobs.evidence import before_prolog, find_difference
from jobfeatures.jobs.jobrecords import MAX_RECORD_BYTES, PrologRecord, format_record, parse_record
from jobfeatures.publish.folders import INTAKE, LOCK_SECS
from jobfeatures.publish.hookreasons import UNREADABLE
from jobfeatures.publish.site import Cores, Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.publish.writing import write_job, write_machine
from jobfeatures.records.model import Job, JobKey, JobState, fill_unknown
from jobfeatures.system.clock import SystemClock

if TYPE_CHECKING:
    from jobfeatures.hooks.request import Request

log = logging.getLogger(__name__)

HAS_NUMBER = "another cluster's job has this number here; give each cluster a features.root of its own"
SERVED_LOCK_SECS = 0.02  # for which a request waits for another writer before the next request's turn


def node_name(configured: str | None, environ: Mapping[str, str]) -> str:
    """Return this node's name in the batch system.

    It is the `configured` name, else that in the hook's environment, else the host's without its domain.
    """
    reported = (environ.get(each.node_variable) for each in SYSTEMS.values() if each.node_variable)
    return configured or next(filter(None, reported), "") or os.uname().nodename.partition(".")[0]


def publish_job(config: Config, batch_system: str, environ: Mapping[str, str], *, timeout_secs: float) -> Job:
    """Publish the features of the job that a prolog's environment describes; return the job.

    Values from the environment are published first. Limits that only the controller knows are then queried,
    within `timeout_secs`, and added. Raises JobfeaturesError or OSError if nothing could be published.
    """
    system, given = SYSTEMS[batch_system], config.batch.of(batch_system)
    name = node_name(config.node.name, environ)
    reported_at_secs = SystemClock().now_secs()
    job = system.job_from_prolog(environ, node_name=name, note=note_unreadable)
    tree = FeatureTree(config.batch.common.root)
    site = Site(config.site, cores=published_cores(tree))
    asks = system.needs_server(job, given)
    write(tree, job, site, reported_at_secs=reported_at_secs)
    reported_at_secs = SystemClock().now_secs()
    try:
        answer = system.ask_in_prolog(job, given, node_name=name, timeout_secs=timeout_secs)
        if answer is None and asks:
            raise SourceError("the batch system does not know the job")
        if answer is None:
            return job
        if (objection := find_objection(answer, job)) is not None:
            raise SourceError(f"the answer is about another job: {objection}")
    except JobfeaturesError as error:
        log.warning(
            "job %s: limits are left to the daemon: %s", job.key.job_id, error, extra={"reason": "limits"}
        )
        return job
    job = fill_unknown(answer, job)
    write(tree, job, site, reported_at_secs=reported_at_secs, is_first=False)
    return job


def note_unreadable(problem: Rejected) -> None:
    """Log that a value in a prolog's environment cannot be read, and count it as a failure "environment"."""
    log.warning(UNREADABLE, problem, extra={"reason": "environment"})


def find_objection(answer: Job, job: Job) -> str | None:
    """Return why a batch system's answer is not about this run of the starting job; None if it is.

    Start times are compared if both are the batch system's own: an answer with an earlier one is about a
    previous run.
    """
    if not answer.state.is_on_node and answer.state is not JobState.UNKNOWN:
        return f"it is {answer.state.value}"
    has_both = answer.start_secs is not None and job.start_secs is not None
    if has_both and SYSTEMS[job.key.batch_system].hooks_know_start and answer.start_secs < job.start_secs:  # type: ignore[operator]
        return f"started at {answer.start_secs}, not {job.start_secs}"
    return find_difference(answer, job)


def serve_request(
    tree: FeatureTree, config: Config, site: Site, request: Request, note: Callable[[Rejected], None]
) -> JobKey | None:
    """Do in the daemon what a hook requests; return the job if its limits have to be queried, else None.

    Values that are already known of the same run fill gaps in the environment. Nothing is published if the
    hook itself has published the job since its request. Unreadable values are reported to `note`. The
    machine's features are kept up to date elsewhere. Raises JobfeaturesError if the request cannot be read or
    the job is another cluster's, OSError if files cannot be written; TimeoutError if another process holds
    the job's lock.
    """
    if request.batch_system not in SYSTEMS:
        raise ParseError("unknown batch system", source="request", text=request.batch_system)
    if request.action == "remove":
        key = JobKey(request.batch_system, SYSTEMS[request.batch_system].job_id_in(request.environ))
        with tree.locked(key, SERVED_LOCK_SECS):
            remove_of_own_cluster(tree, key, request.environ)
        return None
    system, given = SYSTEMS[request.batch_system], config.batch.of(request.batch_system)
    name = node_name(config.node.name, request.environ)
    job = system.job_from_prolog(request.environ, node_name=name, note=note)
    record = read_record(f"{tree.records_path}/{job.key.directory_name}.json")
    if (
        record is not None
        and record.job.cluster in {None, job.cluster}
        and (record.reported_at_secs or 0.0) > request.reported_at_secs
    ):
        return None
    asks = system.needs_server(job, given)
    known = read_record(f"{tree.root}/known/{job.key.directory_name}.json")
    if known is not None and find_objection(known.job, job) is None:
        is_counted = job.restarts is not None
        before = known.job if is_counted else before_prolog(known.job, request.reported_at_secs)
        job = fill_unknown(job, before)
    if not asks:
        job = system.ask_in_prolog(job, given, node_name=name, timeout_secs=0.0) or job
    write(tree, job, site, reported_at_secs=request.reported_at_secs, is_served=True)
    return job.key if asks else None


def read_record(path: str) -> PrologRecord | None:
    """Return the record of a job in a file that a hook or the daemon wrote; None if absent or unreadable."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_record(file.read(MAX_RECORD_BYTES))
    except (OSError, ValueError, ParseError):
        return None


def published_cores(tree: FeatureTree) -> Cores | None:
    """Return the published numbers of cores; None if there are none, or if another number is online now.

    A hook uses them because counting the cores again would take milliseconds.
    """
    counts: list[int] = []
    for key in (PHYS_CORES, LOG_CORES):
        try:
            with open(f"{tree.machine_path}/{key.name}", encoding="ascii") as file:
                counts.append(int(file.read(32)))
        except (OSError, ValueError):
            return None
    return Cores(*counts) if counts[1] == os.cpu_count() else None


def write(
    tree: FeatureTree,
    job: Job,
    site: Site,
    *,
    reported_at_secs: float,
    is_served: bool = False,
    is_first: bool = True,
) -> None:
    """Write a job's directories, and a record of the job for the daemon.

    `reported_at_secs` (epoch) is when the batch system reported the job. A prolog runs once for each run of a
    job: with `is_first`, files that an earlier run left are removed first. If the directories belong to a job
    of another cluster, OtherClusterError is raised.

    In the daemon (`is_served`) the machine's values are not written; if another process holds the lock,
    TimeoutError is raised soon, as the daemon tries again later.
    """
    machine, shutdown_secs = site.machine, None
    if has_drains(tree):  # rare: reading them costs a hook milliseconds of imports
        from jobfeatures.publish.drainstore import read_for_hook

        machine, drains = read_for_hook(tree, machine)
        drain = drains.of_job(job.key, job.start_secs)
        shutdown_secs = drain.at_secs if drain else None
    if not is_served:
        write_machine(tree, site, machine, now_secs=SystemClock().now_secs())
    with tree.locked(job.key, SERVED_LOCK_SECS if is_served else LOCK_SECS):
        if is_of_another_cluster(tree, job.key, job.cluster):
            tree.refuse(job.key, job.cluster or "")
            raise OtherClusterError(f"job {job.key.job_id} of {job.cluster} gets no features: {HAS_NUMBER}")
        if is_first and is_of_earlier_prolog(tree, job.key, reported_at_secs):
            tree.remove_job(job.key)
        write_job(tree, job, site, machine, reported_at_secs=reported_at_secs, shutdown_secs=shutdown_secs)
        tree.write_record(job.key, format_record(job, reported_at_secs=reported_at_secs))


def remove_of_own_cluster(tree: FeatureTree, key: JobKey, environ: Mapping[str, str]) -> bool:
    """Remove an ended job's directories if they are those of a job of the epilog's cluster.

    Return whether directories were removed. The caller holds the lock `FeatureTree.locked` for the job.
    """
    cluster = environ.get(SYSTEMS[key.batch_system].cluster_variable or "")
    if not is_of_another_cluster(tree, key, cluster):
        return tree.remove_job(key)
    tree.accept(key, cluster or "")  # which has ended: that cluster may use the number again
    return False


def is_of_another_cluster(tree: FeatureTree, key: JobKey, cluster: str | None) -> bool:
    """Return whether the job published here with this id is one of another cluster than `cluster`.

    Several clusters may have their hooks publish below one root, and each numbers its jobs by itself. If the
    job belongs to `cluster`, the note that it was refused as another cluster's is removed.
    """
    if not cluster:
        return False
    record = read_record(f"{tree.records_path}/{key.directory_name}.json")
    if record is None or record.job.cluster in {None, cluster}:
        tree.accept(key, cluster)
        return False
    return True


def is_of_earlier_prolog(tree: FeatureTree, key: JobKey, reported_at_secs: float) -> bool:
    """Return whether an earlier prolog left a record of this job that no epilog has removed since.

    Earlier is before `reported_at_secs` (epoch).
    """
    record = read_record(f"{tree.records_path}/{key.directory_name}.json")
    return record is not None and (record.reported_at_secs or 0.0) < reported_at_secs


def has_drains(tree: FeatureTree) -> bool:
    """Return whether drains may be requested or announced; True also if their folder cannot be listed."""
    try:
        return bool(os.listdir(tree.drains_path))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def remove_job(config: Config, key: JobKey, environ: Mapping[str, str]) -> bool:
    """Remove an ended job's directories and its pending requests, for an epilog.

    Return whether there were directories.
    """
    tree = FeatureTree(config.batch.common.root)
    if os.path.isdir(tree.intake_path):  # withdraw requests that the daemon has not served yet
        with tree.folder(INTAKE) as folder:
            for ending in (".publish", ".publish.again", ".remove"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(key.directory_name + ending, dir_fd=folder)
    with tree.locked(key):
        found = remove_of_own_cluster(tree, key, environ)
    tree.sweep(max_entries=1000)  # the daemon removes what is left beyond that
    return found
