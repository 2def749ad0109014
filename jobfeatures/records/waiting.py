"""Finds the cause for which a pending job may not start yet. Pure."""

from __future__ import annotations

import re

HELD, DEPENDENT, DATE = "held", "dependent", "date"

# By the words of batch systems; PSUSP is LSF's, Error Grid Engine's (Eqw, until qmod -cj). Slurm's sentences:
# job_mgr.c of slurmctld, such as "launch failed requeued held"; squeue has underscores for their blanks. It
# holds jobs with BadConstraints, too.
_CAUSES = re.compile(
    rf"(?P<{HELD}>JobHeld|JobHoldMaxRequeue|BadConstraints|Held\Z|Error\Z|PSUSP\Z|"
    r"[a-z_ ]{1,60}requeued[_ ](?:in[_ ])?held)"
    rf"|(?P<{DEPENDENT}>Dependency)|(?P<{DATE}>BeginTime)"
)


def cause_of(reason: str | None, *, is_held: bool = False) -> str | None:
    """Return why a pending job may not start yet: "held", "dependent" (on another job) or "date".

    Returns None if the job only waits for its turn. `reason` is the batch system's word for why it waits;
    `is_held` counts if this word says nothing.
    """
    found = _CAUSES.match(reason or "")
    return found.lastgroup if found else (HELD if is_held else None)
