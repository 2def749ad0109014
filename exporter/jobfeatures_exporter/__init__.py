"""Samples a node, its jobs and processes, and exports them to Prometheus.

`sampling` reads /proc and control groups into the records of `model`, `scrape.collectors` makes metric
families of these, `families` text, and `web` serves it. Imports `jobfeatures`, never the other way round.
"""
