"""The kernel's records of processes that have ended."""
