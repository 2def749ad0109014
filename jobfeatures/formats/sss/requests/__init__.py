"""Interprets what a job object requests: expressions, nodes, dependencies. Pure."""
