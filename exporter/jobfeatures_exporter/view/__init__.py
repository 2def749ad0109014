"""A node and its jobs as people see them: one view model shared by the page, `top` and the report. Pure.

It is built from the figures of /metrics, found by metric and labels, and recomputes nothing that a collector
computes. So a daemon's page and `top`, which may read a remote node's metrics, show the same; the report
builds it from the history in a Prometheus server. docs/figures.md defines each figure.
"""
