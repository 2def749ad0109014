"""Finds unusual places of jobs' control groups: named by settings, or proven to be made by a batch system."""
