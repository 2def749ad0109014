"""Finds what one job asked for, used and wasted, for the command `jobfeatures-exporter report`.

`asking` queries a Prometheus server: `queries` writes the PromQL, `selecting` chooses the job, `gathering`
makes the report, `text` and `asjson` format it.
"""
