"""The command `jobfeatures-exporter top`: the jobs of one node as a table on a terminal.

`pages` gets metrics from a daemon, or by sampling, `polling` does so in a thread, `table` formats lines,
`app` shows them.
"""
