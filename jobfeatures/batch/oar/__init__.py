"""OAR: the files that it keeps about a job on the job's nodes, and ``oarstat -J -f`` for all jobs at once.

``oarstat`` sends several database queries per job, so nodes never run it: a node reads its own files, or asks
the controller role (``oar.ask``). Sources: https://oar.imag.fr/docs/2.5/, oarstat(1), oarnodes(1), and the
scripts of OAR 2.5.9.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import PATH, TEXT, choice, node_option

COMMAND = "oar.oarstat"  # the setting that names its command


@dataclass(frozen=True, kw_only=True)
class OarSettings:
    """The settings that say where OAR is installed, and how to query it."""

    directory: str = node_option(PATH, "/var/lib/oar", "OAR_RUNTIME_DIRECTORY")
    oarstat: str = node_option(TEXT, "oarstat", "controller role: oarstat command; oarnodes lies beside it")
    ask: str = node_option(
        choice("files", "controller"),
        "files",
        "what a node reads: its own files (which lack changed wall limits), or the controller role",
    )
