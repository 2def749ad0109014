"""Reads and writes the Standard Workload Format 2.2 of the Parallel Workloads Archive."""
