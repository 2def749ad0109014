"""Sensors of what the whole machine draws: one file each, one line in `SOURCES` each, a thread each at work.

A file offers `make`, which returns a function that reads the watts now; it
raises `PowerError`, ParseError or OSError.
"""

from __future__ import annotations

# By how near to the mains they measure: of several the first is what a factor for the supply multiplies.
SOURCES = ("dcmi", "hwmon")
