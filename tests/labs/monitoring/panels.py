"""Whether panels of dashboards show something, asked of a Prometheus. Runs with the standard library alone."""

from __future__ import annotations

import json
import math
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Prometheus:
    """The HTTP API of a running server."""

    address: str

    def ask(self, path: str, **parameters: object) -> object:
        """Return the data of an answer; a fault of the query raises ValueError."""
        address = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{parameters.get('query', path)}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[dict]:
        """Return the series of an instant query."""
        return self.ask("query", query=expression)["result"]


@dataclass(frozen=True)
class Checker:
    """What somebody sees who has opened a dashboard; `chosen` are the variables, all others are ".*"."""

    server: Prometheus
    chosen: Mapping[str, str]
    step_secs: float = 2.0

    def filled(self, expression: str) -> str:
        """Return an expression without variables."""
        text = expression.replace("$__rate_interval_ms", f"{4000 * self.step_secs:g}")
        text = text.replace("$__rate_interval", f"{4 * self.step_secs:g}s").replace("$__range", "5m")
        return re.sub(r"\$([a-z]\w*)", lambda match: self.chosen.get(match[1], ".*"), text)

    def has_data(self, panel: dict) -> bool:
        """Return whether one of a panel's queries gives a number; a table's first query makes its rows."""
        for target in panel["targets"][:1] if panel["type"] == "table" else panel["targets"]:
            expression, now = self.filled(target["expr"]), time.time()
            if target["instant"]:
                found = [each["value"] for each in self.server.query(expression)]
            else:
                span = {"start": now - 300, "end": now, "step": self.step_secs}
                answer = self.server.ask("query_range", query=expression, **span)
                found = [value for each in answer["result"] for value in each["values"]]
            if any(math.isfinite(float(value)) for _time, value in found):
                return True
        return False


# They ask for counters of a processor, which no machine of ours has; their queries are checked as all others are.
WITHOUT_DATA = frozenset({"Instructions per cycle", "Floating-point operations"})


def panels_of(board: dict) -> Iterator[dict]:
    """Give the panels that ask for something that can be had here, those of folded rows too."""
    for panel in board["panels"]:
        for each in (panel, *panel.get("panels", [])):
            if each["type"] not in {"row", "text"} and each["title"] not in WITHOUT_DATA:
                yield each
