"""All that is written about a machine and a job: what a hook and the daemon have in common."""

from __future__ import annotations

import functools
import pwd
from collections.abc import Mapping

from jobfeatures.batch import SYSTEMS, load_module
from jobfeatures.features.job import job_features
from jobfeatures.features.keys import Profile
from jobfeatures.features.machine import Machine, machine_features
from jobfeatures.features.origin import format_origins, job_origins, machine_origins
from jobfeatures.model import Job
from jobfeatures.publish.exports import write_exports
from jobfeatures.publish.files import Owner
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.site import Site


def write_machine(tree: FeatureTree, site: Site, machine: Machine, *, now_secs: float | None = None) -> None:
    """Write what is told of the machine. `machine` is the site's, with its shutdown time if there is one."""
    values = machine_features(machine, profile=site.profile, now_secs=now_secs)
    tree.write_machine(values)
    tree.write_origins(None, format_origins(machine_origins(values, machine)))


def write_job(
    tree: FeatureTree, job: Job, site: Site, machine: Machine, *, shutdown_secs: int | None = None
) -> None:
    """Write what a job is told; `shutdown_secs` (epoch) is its own shutdown time if there is one."""
    terms = site.terms(job)
    values = job_features(job, machine, profile=site.profile, terms=terms, shutdown_secs=shutdown_secs)
    gid = group_of(job.uid)
    owner = None
    if site.profile is Profile.OF_2014 and job.uid is not None:
        # "Owned by the user who is executing the original job"; the text of 2016 only allows it.
        owner = Owner(job.uid, gid)
    tree.write_job(job.key, values, owner)
    tree.make_status(job.key, job.uid, gid)
    write_exports(tree, job.key, job.uid, gid, site.access(job.partition))
    origins = job_origins(values, job, terms, key_sources(job.key.batch_system))
    tree.write_origins(job.key, format_origins(origins))


@functools.cache
def key_sources(batch_system: str) -> Mapping[str, str]:
    """Return what the batch system calls the values of keys, empty where nobody says."""
    if batch_system not in SYSTEMS:
        return {}
    sources: Mapping[str, str] = getattr(load_module(batch_system), "KEY_SOURCES", {})
    return sources


def group_of(uid: int | None) -> int:
    """Return the user's own group, or -1 to leave a group as it is."""
    try:
        return -1 if uid is None else _group_of(uid)
    except KeyError:
        return -1


@functools.lru_cache(maxsize=1024)
def _group_of(uid: int) -> int:
    """Ask once: users are looked up over the network at many sites, and jobs are written often."""
    return pwd.getpwuid(uid).pw_gid
