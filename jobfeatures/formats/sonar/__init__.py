"""Reads and writes Sonar's JSON format: `fields` defines it, `validate` checks it, `parsejobs` parses it.

The profile "seed" is the format of v0.13 (NEW-FORMAT.md of NordicHPC's Sonar), "current" that of later
agents. `fields` lists the differences.
"""

from typing import Final

SEED: Final = "seed"  # the text of v0.13
CURRENT: Final = "current"  # what agents send since
