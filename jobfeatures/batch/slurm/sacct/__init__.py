"""Logs that ``sacct -P`` or ``sacct -p`` of Slurm wrote, with a header and any columns. Pure.

values.py   the texts of a column → what they say
lines.py    lines → whole rows, also of names that hold the delimiter or a newline
derived.py  what several columns tell together
reader.py   rows → the records that all log formats share, by columns
records.py  logs of those, and what sacct answers the controller role
"""
