"""Finds what one job asked for, used and wasted, for the command `jobfeatures-exporter report`.

`asking` queries a Prometheus server through `prometheus`: `queries` writes the PromQL, `selecting` chooses
the job, and `gathering` makes a report of the answers. `text` and `asjson` format it. All but `asking` and
`prometheus` are pure.
"""
