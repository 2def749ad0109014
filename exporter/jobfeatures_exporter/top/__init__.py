"""The command `jobfeatures-exporter top`: the jobs of one node as a table on a terminal.

`table` formats a view of the node as lines, without I/O. `pages` gets the metrics for it from a daemon, or by
sampling itself. `polling` does so periodically, in a thread. `app` shows the table and handles keys.
"""
