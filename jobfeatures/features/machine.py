"""Computes the keys and values of a machine's directory $MACHINEFEATURES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobfeatures.features import keys
from jobfeatures.features.keys import Area, MjfProfile

Values = dict[str, str]


PER_CORE = "{}_per_core"  # what batch systems report about a key of the whole machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is published about a machine; unknown is None.

    `hs06` and `hs23` are benchmark ratings, decimals with the digits that the site wrote. `shutdown_secs` is
    in epoch seconds; `grace_secs` is the least notice of a shutdown. `shutdown_command` is how a job ends its
    virtual machine. `origins` says by key where its value comes from.
    """

    total_cpus: int | None = None
    hs06: str | None = None
    hs23: str | None = None
    shutdown_secs: int | None = None  # epoch seconds; dynamic
    grace_secs: int | None = None
    jobslots: int | None = None
    physical_cores: int | None = None
    logical_cores: int | None = None
    shutdown_command: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)


def machine_features(
    machine: Machine, *, profile: MjfProfile = MjfProfile.OF_2016, now_secs: float
) -> Values:
    """Return the values to publish for a machine, as texts by key.

    Values that are unknown, and keys that the profile does not have, are left out. The profile of 2014 omits
    a shutdown time before `now_secs` (epoch): it "must be removed if the shutdowntime has arrived". The
    others keep it, as readers rely on it.

    Sources: HSF-TN-2016-02, "$MACHINEFEATURES"; draft 0.99 of 2014, 2.1 to 2.6.
    """
    shutdown_secs = machine.shutdown_secs
    if profile is MjfProfile.OF_2014 and shutdown_secs is not None and shutdown_secs <= now_secs:
        shutdown_secs = None
    known = {
        keys.TOTAL_CPU.name: machine.total_cpus,
        keys.HS06.name: machine.hs06,
        keys.SHUTDOWNTIME.name: shutdown_secs,
        keys.GRACE_SECS.name: machine.grace_secs,
        keys.JOBSLOTS.name: machine.total_cpus if machine.jobslots is None else machine.jobslots,
        keys.PHYS_CORES.name: machine.physical_cores,
        keys.LOG_CORES.name: machine.logical_cores,
        keys.SHUTDOWN_COMMAND.name: machine.shutdown_command,
        keys.HS23.name: machine.hs23,
    }
    reported = keys.names_in(Area.MACHINE, profile)
    return {name: str(value) for name, value in known.items() if value is not None and name in reported}
