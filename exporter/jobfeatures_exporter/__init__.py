"""Samples a node, its jobs and processes, and exports them to Prometheus.

`sampling` reads /proc and control groups into the records of `model`. `scrape.collectors` turns these records
into metric families, `families` writes the families as text, and `web` serves the text over HTTP. This
package imports `jobfeatures`, never the other way round.
"""
