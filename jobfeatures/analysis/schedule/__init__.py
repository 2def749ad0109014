"""How good a schedule was: what users waited for, and whether it kept what a fair share promises.

A log becomes arrays (`logreading`, `jobarrays`); `eligibility` and `choosing` say which of its jobs count,
`shares` what a user may expect, `eet` and `expected` when jobs should end by that. `result` evaluates some
users, `whole` a log of any length; `document`, `tables` and `pictures` report it. `live` does so while jobs
run, in the controller role, and for one job of one user.

`live`, `eet`, `shares` and `eligibility` do without numpy; the others need it: the extra ``analysis``.
"""
