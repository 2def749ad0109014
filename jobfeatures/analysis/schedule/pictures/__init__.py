"""Schedule quality as pictures and as a report. Needs matplotlib, the extra ``analysis``.

`drawn` extracts from a schedule the little that is drawn; `draw` makes pictures
of one or several views, `reportpage` an HTML page of pictures and tables.
"""
