"""Writes dashboards and rules/thresholds.yml: ``python -m grafana.generate``, in the root of the project."""

from __future__ import annotations

import json
from pathlib import Path

from grafana.boards import BOARDS
from grafana.panels import Json
from jobfeatures_exporter.view.thresholds import SERIES

DASHBOARDS = Path(__file__).parent / "dashboards"
THRESHOLDS = Path(__file__).parent / "rules/thresholds.yml"
HEAD = """\
# What is too little, too much or too late: alerts compare with these series.
# `python -m grafana.generate` has written them, from the table that the page and reports judge by.
# A site that wants other values changes them here; a change holds from the next evaluation after a reload.
groups:
  - name: batch_thresholds
    rules:
"""


def files() -> dict[str, str]:
    """Return what stands in each file."""
    boards: list[Json] = [make() for make in BOARDS]
    return {
        f"{board['uid'].removeprefix('jobfeatures-')}.json": json.dumps(board, indent=2, ensure_ascii=False)
        + "\n"
        for board in boards
    }


def thresholds() -> str:
    """Return the rules file with the series of thresholds."""
    lines = []
    for heading, group in SERIES.items():
        lines.append(f"      # --- {heading}")
        for each in group:
            lines.append(f"      - record: site:{each.name}:{each.kind}  # {each.meaning}")
            lines.append(f"        expr: {each.expression}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    THRESHOLDS.write_text(thresholds(), encoding="utf-8")
    for name, content in files().items():
        (DASHBOARDS / name).write_text(content, encoding="utf-8")
