"""Writes everything that is published about a machine and a job; shared by hooks and the daemon."""

from __future__ import annotations

import logging
import pwd
from dataclasses import replace

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ParseError
from jobfeatures.features import keys
from jobfeatures.features.job import job_features
from jobfeatures.features.keys import MjfProfile
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.features.origin import format_origins, job_origins, machine_origins
from jobfeatures.jobs.evidence import find_difference
from jobfeatures.jobs.jobrecords import PrologRecord, parse_record
from jobfeatures.publish.exports import write_exports
from jobfeatures.publish.files import Owner
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, fill_unknown
from jobfeatures.system.lookups import LookUps

log = logging.getLogger(__name__)

LATE_PROLOG_SECS = 300  # after what the batch system calls the start; a start further away is another run's


def write_machine(tree: FeatureTree, site: Site, machine: Machine, *, now_secs: float) -> None:
    """Write the machine's features as they are at `now_secs` (epoch).

    The site's settings choose the version of the specification.
    """
    values = machine_features(machine, profile=site.profile, now_secs=now_secs)
    tree.write_machine(values)
    tree.write_origins(None, format_origins(machine_origins(values, machine)))


def write_job(
    tree: FeatureTree,
    job: Job,
    site: Site,
    machine: Machine,
    *,
    reported_at_secs: float,
    shutdown_secs: int | None = None,
    noted: str | None = None,
) -> None:
    """Write a job's directories. The caller must hold the job's lock (`Folders.locked`).

    `shutdown_secs` (epoch) is the job's own shutdown time, None without one. `noted` is the daemon's note
    about the job, None if a hook calls. It is stored first: without it, a daemon started after a crash would
    withdraw the job. With a note, the job keeps the start that its prolog has published.

    Directories that are provably of an earlier job of this id are removed first. A published value stays if
    its new value is unknown, or if it was reported later than `reported_at_secs` (epoch, node's clock).
    """
    known, record = (_read_note(text, job.key) for text in tree.read_notes(job.key))
    note = known or record
    if note is not None and find_difference(note.job, job) is not None:
        tree.remove_job(job.key, keep_record=True)
    elif note is not None and (note.reported_at_secs or 0.0) > reported_at_secs:
        job = fill_unknown(note.job, job)
    elif note is not None:
        job = fill_unknown(job, note.job)
    if noted is not None and record is not None and find_difference(record.job, job) is None:
        job = _with_start_of(record.job, job)
    if noted is not None:
        tree.write_known(job.key, noted)
    terms = site.terms(job)
    values = job_features(job, machine, terms=terms, shutdown_secs=shutdown_secs)
    gid = group_of(job.uid)
    owner = None
    if terms.profile is not MjfProfile.OF_2016 and job.uid is not None:
        # "Owned by the user who is executing the original job"; the text of 2016 only allows it.
        owner = Owner(job.uid, gid)
    tree.write_job(job.key, values, owner)
    tree.make_status(job.key, job.uid, gid)
    write_exports(tree, job.key, job.uid, gid, site.access(job.partition))
    if job.starters:
        tree.link_starters(job.key, job.starters)
    sources = {keys.MAX_SWAP_BYTES.name: "its control group"}
    if job.key.batch_system in SYSTEMS:
        sources |= SYSTEMS[job.key.batch_system].key_sources
    origins = job_origins(values, job, terms, sources)
    tree.write_origins(job.key, format_origins(origins))


def _read_note(text: str, key: JobKey) -> PrologRecord | None:
    """Return a note on a published job."""
    try:
        return parse_record(text) if text else None
    except ParseError as error:
        log.warning("the saved record of published job %s cannot be read: %s", key.job_id, error)
        return None


def _with_start_of(first: Job, job: Job) -> Job:
    """Return the job with its prolog's start time, which is seconds late if no server reported it."""
    if None in (first.start_secs, job.start_secs) or first.restarts != job.restarts:
        return job  # a prolog that tells no restart count may have what was known of the run before
    is_same = abs((first.start_secs or 0) - (job.start_secs or 0)) <= LATE_PROLOG_SECS
    return replace(job, start_secs=first.start_secs) if is_same else job


def group_of(uid: int | None) -> int:
    """Return the primary group of a user, −1 (leave the group as it is) if it is unknown."""
    gid = None if uid is None else _GROUPS.get(uid)
    return -1 if gid is None else gid


_GROUPS = LookUps[int, int](lambda uid: pwd.getpwuid(uid).pw_gid)
