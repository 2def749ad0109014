"""Metric families: their samples, their text, and rows kept from one page to the next. No I/O."""
