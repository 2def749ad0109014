"""The jobs of one node on a terminal: `jobfeatures-exporter top`.

`table` makes lines of a view of the node and is pure; `pages` gets the pages of metrics that the view is made
of from a daemon, or looks by itself; `live` shows them again and again and takes keys.
"""
