"""Samples a node, its jobs and processes, and exports them to Prometheus.

`sampling` makes records of `model`, `scrape.collectors` turns them into metric families, `families` writes
these as text, and `web` serves the text. This package imports `jobfeatures`, never the other way round.
"""
