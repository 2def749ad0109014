"""Unusual places of jobs' control groups: named by settings, or found and proven to be a batch system's."""
