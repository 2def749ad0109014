"""Draws the quality of schedules as pictures, and as an HTML report; needs the extra ``analysis``.

`drawn` holds the data of one schedule, `draw` draws one or several, `reportpage` makes the report.
"""
