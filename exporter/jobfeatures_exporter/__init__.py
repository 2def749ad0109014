"""Samples a node, its jobs and processes, and exports them to Prometheus.

`sampling` reads /proc and control groups into the records of `snapshot`, `collectors` turn those into metric
families, `exposition` into text, `web` serves it. Imports `jobfeatures`, never the other way round.
"""
