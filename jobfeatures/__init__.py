"""What is known about jobs, and what jobs can read.

`model` holds the records, `batch` asks batch systems, `features` turns records into keys and values,
`publish` keeps them as files, `status` reads what jobs say of themselves, `client` is what a job imports.
"""

__version__ = "0.9.0"
