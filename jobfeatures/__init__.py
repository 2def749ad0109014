"""Collects what is known about batch jobs, and provides it to the jobs as machine and job features.

`records` holds the data model, `batch` queries batch systems, and `features` turns records into keys and
values. `publish` writes these as files, `status` reads the jobs' own reports, and `client` is what a job
imports.
"""

__version__ = "0.9.0"
