"""The Standard Workload Format, version 2.2, of the Parallel Workloads Archive: logs of parallel machines.

fields.py     the 18 fields of a line
header.py     the comments that say what a log is of
lines.py      lines → jobs, strict or tolerant, streaming; and back
bursts.py     jobs that were swapped out, joined
check.py      what is wrong with a log, line by line
ends.py       when each job ended, for that
columns.py    lines as arrays, for big logs
records.py    jobs ↔ the records that all log formats share
survey.py     what has to be known of all those records before the first line is written
numbering.py  numbers for their names
newheader.py  the header of a log that is written anew
write.py      the records → lines, anew or as they were read
"""
