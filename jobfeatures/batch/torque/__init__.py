"""Torque: ``qstat -x`` about single jobs, and what prologue and epilogue are told.

Commands: Torque Administrator Guide, qstat(1B), pbsnodes(8B); prologue and
epilogue: its appendix "Prologue and epilogue scripts",
https://docs.adaptivecomputing.com/torque/6-1-2/adminGuide/. What is shared
with PBS is in `jobfeatures.batch.pbsfamily`.

Asking needs rights to see other people's jobs: with ``query_other_jobs = False``
the server calls them unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch.system import System
from jobfeatures.settings import PATH, POSITIVE_DURATION, TEXT, setting


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class TorqueSettings:
    """Where Torque is, and how it is asked."""

    torque_home: str = setting(
        "torque.home", PATH, "/var/spool/torque", "folder of Torque's daemons: its server home"
    )
    torque_qstat: str = setting(
        "torque.qstat", TEXT, "qstat", "Torque's qstat command; pbsnodes is taken from beside it"
    )
    torque_timeout_secs: float = setting(
        "torque.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for one answer of the server"
    )
    torque_refresh_secs: float = setting(
        "torque.refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks again about a job it knows, and about the node",
    )


SYSTEM = System(
    name="torque",
    room=__name__,
    summary=__doc__,
    job_variable="PBS_JOBID",
    beside="PBS_VERSION",
    is_plain=False,
    command="torque.qstat",
)
