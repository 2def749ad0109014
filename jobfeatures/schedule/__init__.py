"""How good a schedule was: what users waited for, and whether it kept what a fair share promises.

jobs.py      a log of jobs as arrays, of any format
choosing.py  which jobs count, and why the others do not
metrics.py   wait, response, slowdown; use and queue over time
shares.py    what share of the machine a user may expect
eet.py       the expected end time of a user's jobs by that share
expected.py  the same for all users of a log, also on several processors
result.py    all of these of one log
partitions.py  the same of a log in several files, by whatever runs functions: Dask's client does
reading.py   files → logs
tables.py    results as text and as rows

All but eet.py and shares.py need numpy, the extra ``analysis``.
"""
