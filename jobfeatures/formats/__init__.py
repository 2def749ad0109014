"""Reads and writes descriptions of jobs in formats that others defined, and as JSON lines."""
