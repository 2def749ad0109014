"""Writes grafana/dashboards: ``python -m grafana.generate``, in the root of the project."""

from __future__ import annotations

import json
from pathlib import Path

from grafana.boards import BOARDS
from grafana.panels import Json

DASHBOARDS = Path(__file__).parent / "dashboards"


def files() -> dict[str, str]:
    """Return what stands in each file."""
    boards: list[Json] = [make() for make in BOARDS]
    return {
        f"{board['uid'].removeprefix('jobfeatures-')}.json": json.dumps(board, indent=2, ensure_ascii=False)
        + "\n"
        for board in boards
    }


if __name__ == "__main__":
    for name, content in files().items():
        (DASHBOARDS / name).write_text(content, encoding="utf-8")
