"""Reads and writes Sonar's JSON format.

`fields` defines the format, `validate` checks documents, `parsejobs` makes records of them. The profile
"seed" is the format of v0.13 (NEW-FORMAT.md of NordicHPC's Sonar); "current" is what Sonar's agents have sent
since. `fields` lists the differences field by field.
"""

from typing import Final

SEED: Final = "seed"  # the text of v0.13
CURRENT: Final = "current"  # what agents send since
