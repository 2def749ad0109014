"""A node and its jobs as people see them: what the page, `top` and the report show. Pure.

It is made of the figures of /metrics, found by metric and labels, and recomputes nothing that a collector
computes. So a daemon's page and `top`, which may read a remote node's metrics, show the same; the report
makes it of the history in a Prometheus server. docs/figures.md defines each figure.
"""
