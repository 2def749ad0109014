"""Processes of the node: scans them, attributes them to jobs, and sums what they use."""
