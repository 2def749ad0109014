"""Metric families: their samples, their text in Prometheus' formats, and a cache of job rows. No I/O."""
