"""The names that docs/promises.md promises: ``python docs/names.py`` prints them as JSON.

``python docs/names.py --release VERSION`` keeps them in docs/released.json, with which a test compares those
of later versions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jobfeatures import cli as jobfeatures_cli
from jobfeatures.client import VARIABLES
from jobfeatures.config import Config
from jobfeatures.features.keys import KEYS
from jobfeatures.publish.folders import JOBS, MACHINE, STATUS
from jobfeatures.settings.resolve import settings_of
from jobfeatures.status.jobstatus import STATUS_KEYS
from jobfeatures_exporter import cli as exporter_cli
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.ingest import page as foreign
from jobfeatures_exporter.scrape import budget, profiles
from jobfeatures_exporter.scrape.collectors import COLLECTORS, METRICS

sys.path.insert(0, str(Path(__file__).parents[1] / "packaging/tools"))
from makepackages.texts import programs

sys.path.insert(0, str(Path(__file__).parent))
from exitstatuses import EXITS

RELEASED = Path(__file__).parent / "released.json"
PROGRAMS = (("jobfeatures", jobfeatures_cli.COMMANDS), ("jobfeatures-exporter", exporter_cli.COMMANDS))


def promised() -> dict[str, list[str]]:
    """Return all names by kind."""
    own = [metric for each in COLLECTORS.values() for metric in each.metrics]
    metrics = [*METRICS, *own, *budget.METRICS, profiles.SUCCESS, *foreign.METRICS]
    known = [each for config in (Config, ExporterConfig) for each in settings_of(config)]
    their_flags = {each.flag for each in known}
    every = [each for program in programs() for command in program.commands for each in command.walk()]
    found = {
        "metrics": {f"{each.sample_name} {each.kind}" for each in metrics},
        "labels": {f"{each.sample_name} {label}" for each in metrics for label in each.label_names},
        "settings": {each.key for each in known},
        "keys": {f"{each.area.value} {each.name}" for each in KEYS}
        | {f"status {each.name}" for each in STATUS_KEYS},
        "commands": {f"{program} {name}" for program, commands in PROGRAMS for name in commands},
        "flags": {
            f"{command.name} {flag}"
            for command in every
            for option in command.options
            for flag in option.flags
            if flag.startswith("--") and not their_flags & set(option.flags)
        },
        "exit statuses": {
            f"{program} {name} {status}"
            for program, _ in PROGRAMS
            for name, meanings in EXITS[program].items()
            for status in meanings
        },
        "folders": {MACHINE, JOBS, STATUS},
        "variables": {*VARIABLES.values(), STATUS.upper()},
    }
    return {kind: sorted(names) for kind, names in found.items()}


def lost(before: dict[str, list[str]], now: dict[str, list[str]]) -> list[str]:
    """Return what was promised and is not there, each with its kind."""
    return [
        f"{kind}: {name}" for kind, names in before.items() for name in names if name not in now.get(kind, ())
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--release"]:
        RELEASED.write_text(
            json.dumps({"version": sys.argv[2], **promised()}, indent=1) + "\n", encoding="utf-8"
        )
    else:
        print(json.dumps(promised(), indent=1))
