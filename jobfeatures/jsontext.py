"""Text that has to be one JSON object."""

from __future__ import annotations

from typing import Any, NoReturn

from jobfeatures.errors import ParseError


def parse_object(text: str | bytes, *, source: str = "", line: int = 0) -> dict[str, Any]:
    """Return the object. Raises ParseError, also for NaN and the like, which JSON has not."""
    import json  # hooks start often, and seldom without

    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        shown = text if isinstance(text, str) else text[:200].decode("utf-8", "replace")
        raise ParseError(f"not JSON ({error})"[:200], source=source, line=line, text=shown) from None
    if not isinstance(found, dict):
        raise ParseError("not a JSON object", source=source, line=line, text=str(found)[:200])
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
