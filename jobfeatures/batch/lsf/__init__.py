"""IBM Spectrum LSF 10.1: its commands for jobs and hosts, and the environment of its hooks.

None of this could be tested against LSF itself: it follows the manuals and
published samples of its output. LSF keeps no files on a node that could be read
instead of running its commands.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.settings.declare import TEXT, choice, node_option

COMMAND = "lsf.bjobs"  # the setting that names its command
VARIABLES = ("LSF_ENVDIR",)  # of our environment, for its commands


@dataclass(frozen=True, kw_only=True)
class LsfSettings:
    """The settings that say how to query LSF."""

    bjobs: str = node_option(TEXT, "bjobs", "bjobs command; the others lie beside it")
    user: str | None = node_option(
        TEXT, None, "user who runs LSF's commands (by runuser) if LSF refuses root"
    )
    abs_runlimit: str = node_option(
        choice("auto", "yes", "no"),
        "auto",
        "ABS_RUNLIMIT: whether run limits are not normalised; auto: by bparams -a",
    )
