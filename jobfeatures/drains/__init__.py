"""Handles drains, which are requests to shut down nodes or to end jobs at a given time.

Computes what a drain wastes, which shutdown time wastes least, and which jobs are cheapest to kill.
"""
