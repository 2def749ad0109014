"""Collects what is known about batch jobs, and provides it to the jobs as machine and job features.

`batch` queries batch systems, `features` makes keys and values, `publish` writes them as files, `status`
reads the jobs' own reports, and `client` is what a job imports.
"""

__version__ = "0.9.0"
