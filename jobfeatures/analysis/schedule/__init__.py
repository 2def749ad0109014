"""Measures how good a schedule was: how long users waited, and whether each got a fair share of the machine.

A log is read as arrays (`logreading`, `jobarrays`). `eligibility` and `choosing` decide which of its jobs
count in the figures. `shares` computes how much of the machine a user may expect; `eet` and `expected`
compute when jobs should end if users have these shares. `result` evaluates the jobs of some users, `whole`
those of a log of any length; `document`, `tables` and `pictures` present the results. `live` does the same
while jobs run, in the controller role, and for one job of one user.

`live`, `eet`, `shares` and `eligibility` work without numpy; the others need it: the extra ``analysis``.
"""
