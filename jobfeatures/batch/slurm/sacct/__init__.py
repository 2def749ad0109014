"""Logs that ``sacct -P`` or ``sacct -p`` of Slurm wrote, with a header and any columns. Pure.

values.py   the texts of a column → values
lines.py    lines → complete rows, also where names contain the delimiter or a newline
derived.py  values that depend on several columns
reader.py   rows → the records that all log formats share, column by column
records.py  logs, and sacct's answers to the controller role
"""
