"""The jobs of one node on a terminal: `jobfeatures-exporter top`.

`table` formats a view of the node as lines and is pure; `pages` gets the metrics for it from a daemon or by
sampling itself; `polling` does so periodically, in a thread; `app` shows the table and handles keys.
"""
