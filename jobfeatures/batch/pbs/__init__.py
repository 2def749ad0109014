"""PBS Pro and OpenPBS: ``qstat -f -F json`` about single jobs, and what a hook's environment says.

Commands and attributes: PBS Professional Reference Guide,
https://help.altair.com/2022.1.0/PBS%20Professional/PBSReferenceGuide2022.1.pdf.
What is shared with Torque is in `jobfeatures.batch.pbsfamily`.

Asking needs rights to see other people's jobs: with ``query_other_jobs = False``
the server calls them unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.batch.system import LIST_OF_NODES, LogKind, System
from jobfeatures.settings import PATH, POSITIVE_DURATION, TEXT, setting


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PbsSettings:
    """Where PBS is, and how it is asked."""

    pbs_home: str = setting("pbs.home", PATH, "/var/spool/pbs", "folder of PBS's daemons: its PBS_HOME")
    pbs_qstat: str = setting(
        "pbs.qstat", TEXT, "qstat", "PBS's qstat command; pbsnodes is taken from beside it"
    )
    pbs_timeout_secs: float = setting(
        "pbs.timeout", POSITIVE_DURATION, 10.0, "how long the daemon waits for one answer of the server"
    )
    pbs_refresh_secs: float = setting(
        "pbs.refresh",
        POSITIVE_DURATION,
        300.0,
        "how often the daemon asks again about a job it knows, and about the node",
    )


SYSTEM = System(
    name="pbs",
    room=__name__,
    summary=__doc__,
    job_variable="PBS_JOBID",
    is_plain=False,
    command="pbs.qstat",
    log_kinds={
        "pbs": LogKind(
            "accounting files of PBS and Torque",
            reader="jobfeatures.batch.pbsfamily.accounting",
            is_zoned=True,
            longest_line=LIST_OF_NODES,
        )
    },
)
