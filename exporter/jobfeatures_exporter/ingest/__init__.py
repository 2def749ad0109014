"""Receives and shows documents (envelopes) about foreign nodes: nodes that Sonar or a similar agent monitors.

`users` and `listener` accept documents over HTTP, `folder` reads them from files, and `parse` makes records
of them. `nodes` keeps the latest state of each node. `foreign` and `books` make a snapshot of that state, and
`page` makes metrics of the snapshot.
"""
