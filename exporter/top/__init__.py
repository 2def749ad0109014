"""The jobs of one node on a terminal: `jobfeatures-exporter top`.

`rows` makes rows of two pages of metrics, `table` lines of rows, both pure;
`pages` gets the pages from a daemon or looks by itself; `live` shows them
again and again and takes keys.
"""
