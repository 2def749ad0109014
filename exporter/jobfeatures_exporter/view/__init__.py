"""A node and its jobs as people see them: one view that the page, `top` and the report draw from. Pure.

It is made of the figures of /metrics, found by metric and labels, and computes nothing that a collector has
computed. So the page of a daemon and `top`, which reads the metrics of a node far away, say the same; the
report makes the same of what a Prometheus server has kept. docs/figures.md says what each figure is.
"""
