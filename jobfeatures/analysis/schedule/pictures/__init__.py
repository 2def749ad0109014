"""Draws the quality of schedules as pictures, and as an HTML report.

Needs matplotlib: the extra ``analysis``. `drawn` holds the data that are drawn of one schedule, `draw` draws
one or several schedules, `reportpage` makes an HTML page of pictures and tables.
"""
