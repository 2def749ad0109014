"""Batch systems: one file each, one line in `SOURCES` each."""
