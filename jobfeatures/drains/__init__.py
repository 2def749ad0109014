"""Drains: when a node or a job has to be gone, what that wastes, and which moment or job costs least."""
