"""Reads and writes logs of parallel machines in the Standard Workload Format, version 2.2.

The format is that of the Parallel Workloads Archive.
"""
