"""How good a schedule was: what users waited for, and whether it kept what a fair share promises.

jobs.py      a log of jobs as arrays, of any format
reasons.py   the rules by which jobs count, for one as for arrays
choosing.py  which jobs of a log count, and why the others do not
metrics.py   wait, response, slowdown; use and queue over time
shares.py    what share of the machine a user may expect
eet.py       the expected end time of a user's jobs by that share
expected.py  the same for all users of a log, also on several processors
result.py    all of these of one log
document.py  results as plain values, for JSON
partitions.py  the same of a log in several files, on a Dask cluster
whole.py     a log of any length, some users at a time; spooled.py: its jobs by user; links.py: who follows
             whom; bags.py: jobs that are one piece of work; runs.py: numbers that do not fit into memory
reading.py   files → logs
tables.py    results as text and as rows
cells.py     the heatmap as numbers
pictures/    results drawn, and as one HTML page; gallery.py: collects what is drawn of several logs

While jobs run, in the controller role:

facts.py     what accounting and a queue reports about a job
outlook.py   bounds of the expected ends of jobs that have not ended
live.py      expected ends and sums kept up to date; tally.py: sums that do not depend on the order
quality.py   what is known at one moment

For one job of one user:

history.py   the user's jobs as they were reported, and which is asked about
userjobs.py  asks a batch system for them
expectation.py  its expected end, and what of the share is before it; expecttext.py: as text and JSON

These, eet.py, shares.py and reasons.py do without numpy; the others need it: the extra ``analysis``.
"""
