"""Link templates that a site configures: URLs with placeholders for job, batch system and node. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from jobfeatures.settings.resolve import Kind

PLACES: Final = ("job", "system", "node")
MAX_LETTERS: Final = 2000
_SECRET = re.compile(r"(?i)(^|[&;])[^=&;]*(token|api[_-]?key|passw|secret)[^=&;]*=")
_PLACE = re.compile(r"\{([^{}]*)\}")


def _template(value: Any) -> str:
    from urllib.parse import urlsplit  # most nodes have no links

    if (
        not isinstance(value, str)
        or len(value) > MAX_LETTERS
        or not value.isascii()
        or not value.isprintable()
    ):
        raise ValueError("must be an address such as https://grafana.example.org/d/job?var-job={job}")
    unknown = [each for each in _PLACE.findall(value) if each not in PLACES]
    if unknown or re.search(r"[{}]", _PLACE.sub("", value)):
        raise ValueError(f"has places for {', '.join(f'{{{each}}}' for each in PLACES)} only")
    try:
        parts = urlsplit(_PLACE.sub("x", value))
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or parts.scheme not in {"http", "https"} or re.search(r"[\s\"'<>\\]", value):
        raise ValueError("must begin with http:// or https:// and a host")
    if "@" in parts.netloc or _SECRET.search(parts.query):
        raise ValueError("must not contain a user, password or token: everybody who opens the page sees it")
    return value


LINK: Final = Kind("address", _template)


def fill(template: str, **values: str) -> str:
    """Return the URL; values are percent-encoded, so none reaches beyond its placeholder."""
    from urllib.parse import quote

    return _PLACE.sub(
        lambda found: quote(values.get(found[1], ""), safe="", errors="surrogateescape"), template
    )
