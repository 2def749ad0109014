"""Knowledge about batch jobs, and how jobs get at it: machine and job features.

`records` holds the data model, `batch` queries batch systems, `features` turns records into keys and values,
`publish` writes them as files, `status` reads the jobs' own reports, `client` is what a job imports.
"""

__version__ = "0.9.0"
