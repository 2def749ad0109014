"""Receives and shows documents (envelopes) about foreign nodes: nodes that Sonar or a similar agent monitors.

`listener` and `folder` take documents, `parse` makes records, `nodes` keeps each node's state, `foreign` and
`books` make a snapshot of it, `page` makes metrics.
"""
