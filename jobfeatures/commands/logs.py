"""What the commands on logs have in common."""

from __future__ import annotations

from datetime import tzinfo
from zoneinfo import ZoneInfo

from jobfeatures.errors import ConfigurationError


def parse_zone(name: str | None) -> tzinfo | None:
    """Return the zone of a name, None for this machine's. Raises ConfigurationError."""
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # what is not found is a KeyError
        raise ConfigurationError("--zone", f"no such zone: {name!r}") from None
