"""Keeps data between a node's samples: rates, the last hour, ended jobs, jobs without control groups."""
