"""Makes a job from its ads, whose files HTCondor names in the job's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobfeatures.batch.basics import Note
from jobfeatures.batch.htcondor.fields import SITE_LIMITS, AdReadingOptions, required_job_id
from jobfeatures.batch.htcondor.jobad import job_from_ads
from jobfeatures.batch.htcondor.scratch import read_one_ad
from jobfeatures.errors import ParseError, Rejected
from jobfeatures.formats.classad.ad import ClassAd
from jobfeatures.records.model import Job

JOB_AD = "_CONDOR_JOB_AD"
MACHINE_AD = "_CONDOR_MACHINE_AD"


def job_from_prolog(
    environ: Mapping[str, str],
    *,
    node_name: str | None,
    site_limits: Sequence[str] = SITE_LIMITS,
    note: Note = lambda _: None,
) -> Job:
    """Return the job with this environment, from the ads that the environment names; its state is RUNNING.

    A job wrapper runs as the job's user, so the uid is that of this process. `site_limits` names the job
    attributes that hold a site's own wall limits. A malformed value, or a machine ad that cannot be read, is
    reported to `note` and stays unknown. Raises ParseError if the job ad is missing or malformed.
    """
    job_ad = _read(environ, JOB_AD)
    try:
        machine_ad = _read(environ, MACHINE_AD)
    except ParseError as error:
        note(Rejected.from_error(error))
        machine_ad = ClassAd()
    job = job_from_ads(
        job_ad, machine_ad, AdReadingOptions(note, site_limits=site_limits), node_name=node_name
    )
    return replace(job, uid=os.geteuid() or None)


def job_id_of(environ: Mapping[str, str]) -> str:
    """Return the id of the job with this environment. Raises ParseError if there is none."""
    return required_job_id(_read(environ, JOB_AD), source="environment", field=JOB_AD)


def _read(environ: Mapping[str, str], variable: str) -> ClassAd:
    path = environ.get(variable, "")
    if not path:
        raise ParseError("is not set", source="environment", field=variable)
    try:
        return read_one_ad(path)
    except OSError as error:
        raise ParseError(error.strerror or "cannot be read", source=path, field=variable) from error
