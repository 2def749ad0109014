"""Write the reference pages from the code: ``python docs/generate.py``. A test compares them."""

from __future__ import annotations

from pathlib import Path

from exporter.collectors import COLLECTORS, METRICS
from exporter.config import ExporterConfig
from exporter.exposition import Metric
from jobfeatures.config import Config
from jobfeatures.features.keys import KEYS
from jobfeatures.settings import DEFAULT_FILE, FILE_FLAG, FILE_VARIABLE, display, settings_of, tables_of

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the code. -->"

METRICS_HEAD = f"""# Metrics

{NOTE}

Every series of a job carries the labels `batch_system` and `job_id`; what describes the job stands on
`batch_job_info`, to be joined:

```promql
rate(batch_job_cpu_seconds_total[5m])
  * on (instance, batch_system, job_id) group_left (user, account) batch_job_info
```

A reading that could not be made has no series: nothing is shown as 0 that is not 0.
"""

SETTINGS_HEAD = f"""# Settings

{NOTE}

A flag beats the environment, the environment beats the file, the file beats the default. The file is TOML,
named by `{FILE_FLAG}` or `{FILE_VARIABLE}`, else `{DEFAULT_FILE}` where it exists.
The flag of a key is `--` and the key with dashes for underscores, its variable `JOBFEATURES_` and the key in
capitals with underscores for dots. Booleans also have `--no-KEY`. Durations are written `500ms`, `10s`, `2m`.

The column "for" tells which command knows a setting; `jobfeatures` passes over the daemon's in the file.
What holds for some machines or jobs only stands in [tables](#tables) of the file.

| key | for | kind | default | meaning |
|---|---|---|---|---|
"""

TABLES_HEAD = """
## Tables

Values for some, in the file only:

```toml
[partition.long]
grace_secs = 7200

[cpu_model."AMD EPYC 7.*"]
hs06 = 171.04
```

A flag or a variable beats the table of a job's partition, which beats the table of the machine's CPU model,
which beats the plain setting. An unknown name in a table ends the daemon; hooks pass over it.
"""

KEYS_HEAD = f"""# Keys that jobs read

{NOTE}

Defined by HSF-TN-2016-02 (Machine/Job Features). A key whose value is unknown or unlimited is absent.

| directory | key | type | unit | changes | meaning |
|---|---|---|---|---|---|
"""


def metrics_page() -> str:
    """Return the page of all metrics."""
    parts = [METRICS_HEAD]
    for name, collector in COLLECTORS.items():
        state = "On" if collector.enabled else "Off"
        meaning = collector.meaning[0].upper() + collector.meaning[1:]
        parts.append(f"\n## {name}\n\n{meaning}. {state} by default; `--[no-]collector.{name}`.\n\n")
        parts.append(_metric_table(collector.metrics))
    parts.append("\n## On the collectors themselves\n\n" + _metric_table(METRICS))
    return "".join(parts)


def _metric_table(metrics: tuple[Metric, ...]) -> str:
    rows = ["| metric | kind | labels | meaning |\n|---|---|---|---|\n"]
    for metric in metrics:
        names = ", ".join(f"`{label}`" for label in metric.label_names) or "–"
        rows.append(f"| `{metric.sample_name}` | {metric.kind} | {names} | {metric.meaning} |\n")
    return "".join(rows)


def settings_page() -> str:
    """Return the page of all settings."""
    shared = {each.key for each in settings_of(Config)}
    rows = [SETTINGS_HEAD]
    for each in settings_of(ExporterConfig):
        default = "–" if each.default is None else f"`{display(each.default)}`"
        kind = each.kind.name.replace("|", " \\| ")
        who = "both" if each.key in shared else "daemon"
        rows.append(f"| `{each.key}` | {who} | {kind} | {default} | {each.meaning} |\n")
    rows.append(TABLES_HEAD)
    for group in tables_of(ExporterConfig):
        rows.append(f"\n`[{group.name}.NAME]`, NAME a {group.label.name}, {group.meaning}:\n\n")
        rows += [f"- `{name}` ({kind.name})\n" for name, kind in group.values.items()]
    return "".join(rows)


def keys_page() -> str:
    """Return the page of all keys that jobs read."""
    rows = [
        f"| `${key.area.value.upper()}` | `{key.name}` | {key.value_type} | {key.unit or '–'} "
        f"| {key.lifetime.value} | {key.meaning} |\n"
        for key in KEYS
    ]
    return KEYS_HEAD + "".join(rows)


PAGES = {"metrics.md": metrics_page, "settings.md": settings_page, "keys.md": keys_page}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file_name, page in PAGES.items():
        (FOLDER / file_name).write_text(page(), encoding="utf-8")
