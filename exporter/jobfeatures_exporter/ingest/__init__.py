"""Nodes monitored by other agents (foreign nodes): receives and shows Sonar's documents (envelopes).

`users` and `listener` accept them over HTTP, `folder` from files; `parse` reads them, `nodes` keeps the
latest state of each node, `foreign` and `books` make a snapshot of it, `page` the metrics.
"""
