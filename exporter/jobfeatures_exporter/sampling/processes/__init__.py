"""Processes: which there are, whose they are, and what they use."""
