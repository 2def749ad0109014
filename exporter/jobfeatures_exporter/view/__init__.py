"""A node and its jobs as people see them: what the HTML page, `top` and reports show. No I/O.

Views are made of the samples of /metrics, looked up by metric and labels; nothing that a collector computes
is computed again. So a daemon's page and `top`, which may read a remote node's metrics, show the same.
Reports make views of the history in a Prometheus server. docs/figures.md defines each figure.
"""
