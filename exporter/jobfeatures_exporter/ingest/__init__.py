"""Nodes monitored by other agents: receives envelopes in Sonar's format, by HTTP or in files, and shows them.

`users` and `listener` accept them over HTTP, `directory` from a folder; `parse` reads them, `nodes` keeps
the latest state of each node, `foreign` and `books` make a snapshot of it, `page` the metrics.
"""
