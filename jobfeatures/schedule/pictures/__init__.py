"""Schedule quality as pictures and as a report. Needs matplotlib, the extra ``analysis``.

`view.make_view` keeps of a `Schedule` the little that is drawn; `draw` makes
pictures of one or several views, `report` an HTML page of pictures and tables.
"""
