"""Power sensors of the whole machine: each has a module, a line in `SOURCES`, and a thread at run time.

A module has `make`, which returns a function that reads the present watts; both
raise `PowerError`, ParseError or OSError.
"""

from __future__ import annotations

# In order of closeness to the mains: `power.pdu_factor` multiplies the first one in use.
SOURCES = ("dcmi", "hwmon")
