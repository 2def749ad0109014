"""Logs that ``sacct -P`` or ``sacct -p`` of Slurm wrote, with a header and any columns. Pure.

values.py   the texts of a column → what they say
lines.py    lines → whole rows, also of names that hold the delimiter or a newline
reader.py   rows → jobs and steps, by columns
records.py  those ↔ the records that all log formats share
"""
