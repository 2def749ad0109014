"""Sonar's JSON format: `fields` defines it, `validate` checks documents, `parsejobs` makes records of them.

Profile "seed" is the text of v0.13 (NEW-FORMAT.md of NordicHPC's Sonar), "current" what
its agents send since: the differences are in `fields`, field by field.
"""

from typing import Final

SEED: Final = "seed"  # the text of v0.13
CURRENT: Final = "current"  # what agents send since
