"""Writes everything that is published about a machine and a job; shared by hooks and the daemon."""

from __future__ import annotations

import functools
import logging
import pwd

from jobfeatures.batch import SYSTEMS
from jobfeatures.errors import ParseError
from jobfeatures.features import keys
from jobfeatures.features.job import job_features
from jobfeatures.features.keys import Profile
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.features.origin import format_origins, job_origins, machine_origins
from jobfeatures.jobs.evidence import find_difference
from jobfeatures.jobs.jobrecords import Record, parse_record
from jobfeatures.publish.exports import write_exports
from jobfeatures.publish.files import Owner
from jobfeatures.publish.site import Site
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.records.model import Job, JobKey, fill_unknown

log = logging.getLogger(__name__)


def write_machine(tree: FeatureTree, site: Site, machine: Machine, *, now_secs: float) -> None:
    """Write the machine's features: the site's values, and the shutdown time if there is one."""
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
) -> None:
    """Write a job's directories; `shutdown_secs` (epoch) is its own shutdown time if there is one.

    What an earlier job of this id has provably left is removed first. Values that were published of this job
    before fill those that are unknown now; they take precedence if reported later than `reported_at_secs`
    (epoch, node's clock). Call it with the tree `locked` for the job.
    """
    note = read_note(tree, job.key)
    if note is not None and find_difference(note.job, job) is not None:
        tree.remove_job(job.key, keep_record=True)
    elif note is not None and (note.reported_at_secs or 0.0) > reported_at_secs:
        job = fill_unknown(note.job, job)
    elif note is not None:
        job = fill_unknown(job, note.job)
    terms = site.terms(job)
    values = job_features(job, machine, profile=site.profile, terms=terms, shutdown_secs=shutdown_secs)
    gid = group_of(job.uid)
    owner = None
    if site.profile is not Profile.OF_2016 and job.uid is not None:
        # "Owned by the user who is executing the original job"; the text of 2016 only allows it.
        owner = Owner(job.uid, gid)
    tree.write_job(job.key, values, owner)
    tree.make_status(job.key, job.uid, gid)
    write_exports(tree, job.key, job.uid, gid, site.access(job.partition))
    sources = {keys.MAX_SWAP_BYTES.name: "its control group"}
    if job.key.batch_system in SYSTEMS:
        sources |= SYSTEMS[job.key.batch_system].key_sources
    origins = job_origins(values, job, terms, sources)
    tree.write_origins(job.key, format_origins(origins))


def read_note(tree: FeatureTree, key: JobKey) -> Record | None:
    """Return the note on a published job, the daemon's or else its prolog's."""
    for text in tree.notes(key):
        try:
            return parse_record(text)
        except ParseError as error:
            log.warning("note on job %s cannot be read: %s", key.job_id, error)
    return None


def group_of(uid: int | None) -> int:
    """Return the user's primary group, or -1 (leave the group as it is) if it is unknown."""
    try:
        return -1 if uid is None else _group_of(uid)
    except KeyError:
        return -1


@functools.lru_cache(maxsize=1024)
def _group_of(uid: int) -> int:
    """Look up a user once: many sites do so over the network, and jobs are written often."""
    return pwd.getpwuid(uid).pw_gid
