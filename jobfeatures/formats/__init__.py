"""Formats that others defined to describe jobs, and JSON lines: one module or package for each format."""
