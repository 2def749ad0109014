"""$MACHINEFEATURES of a machine."""

from __future__ import annotations

from dataclasses import dataclass

from jobfeatures.features import keys

Values = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is published about a machine. `hs06` keeps the digits that the site wrote."""

    total_cpus: int | None = None
    hs06: str | None = None


def machine_features(machine: Machine) -> Values:
    """Return key → value; unknown values have no key.

    Source: HSF-TN-2016-02, "$MACHINEFEATURES".
    """
    values: Values = {}
    if machine.total_cpus is not None:
        values[keys.TOTAL_CPU.name] = str(machine.total_cpus)
    if machine.hs06 is not None:
        values[keys.HS06.name] = machine.hs06
    return values
