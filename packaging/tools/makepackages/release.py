"""What is released, by whom and when."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

MAINTAINER = ("DEBFULLNAME", "DEBEMAIL")  # as in Debian's tools
OWN_USE = "built for own use <root@localhost>"


@dataclass(frozen=True, slots=True)
class Release:
    """What is released, by whom and when; `epoch` is the timestamp of all files."""

    version: str
    revision: str
    summary: str
    description: str
    maintainer: str
    epoch: int


def date_of(epoch: int) -> str:
    """Return a date in the format of rpm's changelog."""
    return time.strftime("%a %b %d %Y", time.gmtime(epoch))


def maintainer_of(environ: Mapping[str, str], *, for_others: bool) -> str:
    """Return the maintainer's name and address, which are required for packages for others."""
    name, address = (environ.get(each, "").strip() for each in MAINTAINER)
    for variable, value in zip(MAINTAINER, (name, address), strict=True):
        if for_others and not value:
            raise ValueError(f"{variable} is not set: packages for others name their maintainer")
    return f"{name or address} <{address}>" if address else OWN_USE
