"""Reads and writes what jobs report about themselves in $JOBSTATUS, and computes waste from it."""
