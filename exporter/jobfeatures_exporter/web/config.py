"""Settings of the metrics listener: TLS, users, host names, and links with placeholders for a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from jobfeatures.settings.declare import BOOLEAN, PATH, TEXT, ValueKind, option, words

FEATURES, SONAR, NODES = "features", "sonar", "nodes"  # listeners other than metrics

PLACES: Final = ("job", "system", "node")  # in links
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
        raise ValueError(f"may contain only the placeholders {', '.join(f'{{{each}}}' for each in PLACES)}")
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


LINK: Final = ValueKind("address", _template)


def fill_link(template: str, **values: str) -> str:
    """Return a link's URL: the `template` with each of its placeholders replaced by the value of that name.

    Values are percent-encoded, so that none changes more of the URL than its placeholder.
    """
    from urllib.parse import quote

    return _PLACE.sub(
        lambda found: quote(values.get(found[1], ""), safe="", errors="surrogateescape"), template
    )


@dataclass(frozen=True, kw_only=True)
class WebSettings:
    """Settings: how the metrics listener is protected, and what other listeners there are."""

    config_file: str | None = option(
        PATH,
        None,
        "TLS, client certificates and users of the metrics listener, as of Prometheus' exporters",
        flag="--web.config.file",
        is_common=True,
    )
    config_for: tuple[str, ...] = option(
        words(FEATURES, SONAR, NODES), (), "other listeners that use TLS (not users) from web.config_file"
    )
    systemd_socket: bool = option(BOOLEAN, False, "listen on systemd's sockets")
    own_socket: str | None = option(
        PATH, None, "UNIX socket that shows users their own jobs, e.g. /run/jobfeatures-own/socket"
    )
    grafana_url: str | None = option(
        LINK, None, "link from a job's page to Grafana, with {job}, {system} and {node}"
    )
    node_url: str | None = option(
        LINK, None, "controller role: page of a node, with {node}, for links from found jobs"
    )
    job_arguments: bool = option(
        BOOLEAN, False, "show arguments of processes on a job's page; they may hold passwords"
    )
    hosts: str | None = option(
        TEXT,
        None,
        "host names accepted by the metrics listener, with commas; default: any, on loopback addresses and "
        "localhost",
    )
