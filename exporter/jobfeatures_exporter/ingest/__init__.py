"""Nodes that other agents watch: envelopes in Sonar's format come in, by HTTP or in files, and are shown.

`users` and `listener` take them over HTTP, `directory` out of a folder; `parse` reads them, `nodes` keeps
the latest of each node, `foreign` and `books` make a snapshot of it, `page` the metrics.
"""
