"""Measures how good a schedule was: how long users waited, and whether each got a fair share of the machine.

`logreading` and `jobarrays` read a log as arrays; `eligibility` and `choosing` choose the jobs that count.
`shares` computes how much of the machine a user may expect; `eet` and `expected` compute when jobs should end
then. `result` evaluates some users' jobs, `whole` a log of any length; `document`, `tables` and `pictures`
show the results. `live` does the same while jobs run. Most modules need numpy: the extra ``analysis``.
"""
