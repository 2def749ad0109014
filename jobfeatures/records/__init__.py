"""Defines records of jobs, machines and batch systems, and reads and writes values in texts. Pure."""
