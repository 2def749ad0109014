"""Write reference pages and SSS's schema from the code: ``python docs/generate.py``. A test compares them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from jobfeatures import cli as jobfeatures_cli
from jobfeatures.batch import CLUSTER_SYSTEMS, SYSTEMS
from jobfeatures.config import Config
from jobfeatures.features.keys import (
    JOB_ID,
    KEYS,
    SHUTDOWNTIME,
    SHUTDOWNTIME_JOB,
    Area,
    Key,
    Lifetime,
    MjfProfile,
)
from jobfeatures.features.origin import DEFAULTS, DERIVED, SETTINGS
from jobfeatures.records.metrics import Metric
from jobfeatures.settings.flags import display
from jobfeatures.settings.resolve import DEFAULT_FILE, FILE_FLAG, FILE_VARIABLE, settings_of, tables_of
from jobfeatures.status.jobstatus import STATUS_KEYS
from jobfeatures_exporter import cli as exporter_cli
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.ingest import page as foreign
from jobfeatures_exporter.scrape import budget, profiles
from jobfeatures_exporter.scrape.collectors import COLLECTORS, METRICS
from jobfeatures_exporter.startup.receiver import PATH as FOREIGN_PATH

sys.path.insert(0, str(Path(__file__).parents[1] / "packaging/tools"))
from makepackages.grammar import Argument, Command, Option
from makepackages.texts import programs

sys.path.insert(0, str(Path(__file__).parent))
from behaviours import behaviour_page
from dashboards import dashboards_text
from docstrings import filled
from exitstatuses import EXITS, LOG, USUAL
from logtable import logs_page
from sssschema import format_schema

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the code. -->"

METRICS_HEAD = f"""# Metrics

{NOTE}

Every series of a job has the labels `batch_system` and `job_id`; join `batch_job_info` for its properties:

```promql
rate(batch_job_cpu_seconds_total[5m])
  * on (instance, batch_system, job_id) group_left (user, account) batch_job_info
```

Counters never decrease; what cannot be read is left out. `_total`: counter; `_info`: info; others:
gauge unless said. Each section is a collector, switched by `--[no-]collector.NAME`.
"""

PAGE_HEAD = """See [the series budget](../operation.md#the-series-budget) and
[the names of other exporters](../metrics-profiles.md).

"""

_OF_NODE, _OF_CLUSTER = ", ".join(foreign.OF_NODE), " and ".join(foreign.OF_CLUSTER)
FOREIGN_HEAD = f"""On `{FOREIGN_PATH}`, beside the series of the collectors {_OF_NODE} of each node,
and {_OF_CLUSTER} of each cluster. All carry the label `cluster` and, of nodes, `node`:
[Documents of other agents](../sonar.md#reading).

"""

PROFILES_HEAD = f"""# Names of other exporters

{NOTE}

Shown in addition if `metrics.profile` lists them, with the originals' meanings but for
[these differences](../comparison.md#differences-of-names). `_total`: counter; others: gauge unless said.
"""

SETTINGS_HEAD = f"""# Settings

{NOTE}

A flag beats the environment, the environment the file, the file the default. The file is TOML,
named by `{FILE_FLAG}` or `{FILE_VARIABLE}`, else `{DEFAULT_FILE}`. Files `conf.d/*.toml` beside
`config.toml` (`NAME.d/*.toml` beside any other `NAME.toml`) follow in the order of their names; the
last value counts. Files that others than root and the program's user can write are refused.
`node.name` has the flag `--node.name` and the variable `JOBFEATURES_NODE_NAME`; booleans also
`--no-…`. Durations are written `500ms`, `10s`, `2m`. In brackets: the default, or the kind where
there is none. Files with secrets must be readable by their owner only.

↻: [a reload](../systemd.md#reload) takes it over; in the controller role
`log.*`, `controller.sd_*` and collectors alone.
"""

TABLES_HEAD = """
## Tables

Values for some machines or jobs, in the file only:

```toml
[partition.long]
grace_secs = 7200

[cpu_model."AMD EPYC 7.*"]
hs06 = 171.04
```

A flag or a variable beats the table of a job's partition, which beats the table of the machine's CPU model,
which beats the plain setting. The daemon rejects an unknown name in a table; hooks ignore it.
"""

KEYS_HEAD = f"""# Keys that jobs read, and write

{NOTE}

Two specifications define them: [HSF-TN-2016-02](https://doi.org/10.5281/zenodo.1469629) (Machine/Job
Features) and its draft 0.99 of 15 May 2014. `features.profile` selects `2016` (the default), `2014`, or
`both`. Extensions are published where their value is known.

A key whose value is unknown or unlimited is absent, never 0, -1 or empty. A value is one line.

The batch system's value beats the site's setting, which beats a default; `jobfeatures show --origin` shows
where each came from.
"""

KEYS_RULES = """
`shutdowntime` and `shutdowntime_job` may appear and disappear while jobs run. Once passed, the machine's is
removed in the profile 2014, which requires it, and stays in the others.
"""


KEYS_SOURCES = """
## Where the values come from

What each batch system calls them: [Batch systems](batch.md).

"""

BATCH_HEAD = f"""# Batch systems

{NOTE}

`batch.sources` selects them; [settings](settings.md) name commands and folders. The [controller
role](../controller.md) polls queue, nodes and accounting.

"""

BATCH_KEYS = """
## Sources of keys

Keys that are not listed come from [elsewhere](keys.md#where-the-values-come-from), or are unavailable.
"""


COMMANDS_HEAD = f"""# Commands

{NOTE}

`jobfeatures` is for administrators, hooks and jobs; `jobfeatures-exporter` is the daemon and its tools. [Exit
statuses](exits.md).

"""
SHARED_HEAD = """
## Shared options

Named under "Also". SERVER is the flag that names a server (`--metrics`, `--prometheus`, `--url`).
Where `--set` is taken, so are `--help-all`, `--config.file` and all [settings](settings.md).

"""
SERVER = re.compile(r"^--(?:metrics|prometheus|url)\.")


def commands_page() -> str:
    """Return the page of all commands."""
    both = programs()
    every = [each for program in both for command in program.commands for each in command.walk()]
    uses = Counter(each for command in every for each in _own(command))
    often = {each.flags[-1]: each for each, count in reversed(uses.most_common()) if count > 1}
    shared = [each for each in uses if each in often.values()]  # a flag of two meanings: the one used most
    parts = [COMMANDS_HEAD]
    for program in both:
        parts.append(
            f"`{program.name}`, besides its commands:\n\n" + "".join(_row(each) for each in _own(program))
        )
        parts.append("\n")
    parts.append(SHARED_HEAD.lstrip("\n"))
    parts += [_row(each) for each in shared]
    parts += [_command(each, frozenset(shared)) for each in every]
    return "".join(parts).rstrip("\n") + "\n"


def _own(command: Command) -> list[Option]:
    """Return the options of a command that are no settings; those of a server are the same for each."""
    known = {each.flag for each in settings_of(ExporterConfig)} | {FILE_FLAG, "--help"}
    own = [each for each in command.options if not known & set(each.flags) or " " not in command.name]
    return [
        replace(each, flags=tuple(SERVER.sub("--SERVER.", flag) for flag in each.flags))
        for each in own
        if "--help" not in each.flags
    ]


def _command(command: Command, shared: frozenset[Option]) -> str:
    """Return the section of a command."""
    needed = re.sub(r"\[[^\[\]]*(\[[^\[\]]*\][^\[\]]*)*\]", "", command.usage)  # all but what is in brackets
    options_needed = re.findall(r"--[\w.-]+ \S+", needed)
    words = options_needed + [_argument(each, each.name in needed.split()) for each in command.arguments]
    words += ["|".join(each.word for each in command.commands)] if command.commands else []
    own = _own(command)
    options = " [OPTIONS]" if own else ""
    usage = f"{command.name}{options} {' '.join(words)}".rstrip()
    text, _, _ = command.description.partition(" Exit status: ")
    told = all(each.meaning for each in command.arguments)  # then the lines below are usage enough
    is_plain = command.commands or (told and not options_needed)
    parts = [f"\n## {command.name}\n\n{text}\n\n" + ("" if is_plain else f"`{usage}`\n\n")]
    parts += [f"- `{each.name}`: {_meaning(each.meaning)}\n" for each in command.arguments if each.meaning]
    parts += [_row(each) for each in own if each not in shared]
    also = ", ".join(
        f"`{each.flags[-1]}`"
        for each in own
        if each in shared and "SERVER" not in each.flags[0] and "--help-all" not in each.flags
    )
    server = ["those of SERVER"] if any("SERVER" in each.flags[0] for each in own) else []
    if also := " and ".join([*filter(None, [also]), *server]):
        parts.append(f"\nAlso {also}.\n" if parts[1:] else f"Also {also}.\n")
    return "".join(parts).rstrip("\n") + "\n"


def _row(option: Option) -> str:
    name = ", ".join(option.flags) + (f" {option.value}" if option.value else "")
    return f"- `{name}`: {_meaning(option.meaning)}\n"


def _meaning(text: str) -> str:
    """Return a help text, a default alone without its brackets."""
    text = re.sub(r"one of gridengine,[a-z, ]*?torque", "a batch system", text.replace("\n", " "))
    return re.sub(r"^\((default: [^()]*)\)$", r"\1", text)


def _argument(argument: Argument, needed: bool) -> str:
    name = argument.name + ("…" if argument.repeats else "")
    return name if needed else f"[{name}]"


def _anchor(command: Command) -> str:
    return command.name.replace(" ", "-")


def metrics_page() -> str:
    """Return the page of all metrics."""
    parts = [METRICS_HEAD]
    for name, collector in COLLECTORS.items():
        meaning = collector.meaning[0].upper() + collector.meaning[1:]
        state = "" if collector.enabled else " Off by default."
        parts.append(f"\n## {name}\n\n{meaning}.{state}\n\n" + _metric_list(collector.metrics, OF_JOBS))
    parts.append("\n## On the collectors themselves\n\n" + _metric_list(METRICS))
    parts.append("\n## On the page as a whole\n\n" + PAGE_HEAD)
    parts.append(_metric_list((*budget.METRICS, profiles.SUCCESS)))
    parts.append("\n## Of foreign nodes\n\n" + FOREIGN_HEAD)
    parts.append(_metric_list(foreign.METRICS, ("cluster", "node")))
    return "".join(parts)


def profiles_page() -> str:
    """Return the page of other exporters' names."""
    parts = [PROFILES_HEAD]
    for name, profile in profiles.PROFILES.items():
        labels = [set(each.label_names) for each in profile.metrics]
        first = max(profile.metrics, key=lambda each: len(each.label_names)).label_names
        common = tuple(label for label in first if sum(label in each for each in labels) > len(labels) / 2)
        all_have = " and ".join(f"`{label}`" for label in common)
        parts.append(f"\n## {name}\n\nAs {profile.meaning}. Labels besides those shown: {all_have}.\n\n")
        parts.append(", ".join(_name(each, common) for each in profile.metrics) + ".\n")
    return "".join(parts)


RELOADED = "↻"
OF_JOBS = ("batch_system", "job_id")
_ENDINGS = {"counter": "_total", "info": "_info"}


def _metric_list(metrics: tuple[Metric, ...], common: tuple[str, ...] = ()) -> str:
    """Return a line for each meaning; labels that are common, or that all have, are said once."""
    of_jobs = set(common)
    shared = [
        set(each.label_names) - (of_jobs if of_jobs <= set(each.label_names) else set()) for each in metrics
    ]
    all_have = tuple(
        label
        for label in metrics[0].label_names
        if len(metrics) > 2 and all(label in each for each in shared)
    )
    rows: dict[str, list[str]] = {}
    for metric in metrics:
        meaning = metric.meaning.removeprefix(metric.sample_name.replace("batch_job_", "batch_"))
        meaning = meaning if meaning == metric.meaning else f"the same{meaning}"
        left_out = (*(common if of_jobs <= set(metric.label_names) else ()), *all_have)
        rows.setdefault(f"{meaning.removesuffix('.')}.\n", []).append(_name(metric, left_out))
    all_labels = f"All have {' and '.join(f'`{each}`' for each in all_have)}.\n\n" if all_have else ""
    return all_labels + "".join(f"- {', '.join(names)}: {meaning}" for meaning, names in rows.items())


def _name(metric: Metric, common: tuple[str, ...]) -> str:
    """Return name, labels but the common ones, and the kind where the name does not tell it."""
    labels = ",".join(each for each in metric.label_names if each not in common)
    usual = next((kind for kind, end in _ENDINGS.items() if metric.sample_name.endswith(end)), "gauge")
    kind = "" if metric.kind == usual else f" ({metric.kind})"
    return f"`{metric.sample_name}{f'{{{labels}}}' if labels else ''}`" + kind


def settings_page() -> str:
    """Return the page of all settings."""
    shared = {each.key for each in settings_of(Config)}
    rows = [SETTINGS_HEAD]
    sections: dict[str, list[str]] = {
        name: [] for name in ("both programs", "the daemon", "the controller role")
    }
    collectors = [each for each in settings_of(ExporterConfig) if each.key.startswith("collector.")]
    for each in settings_of(ExporterConfig):
        if each not in collectors:
            has_default = each.default not in (None, "", ())
            default = f"`{display(each.default)}`" if has_default else ""
            chosen = "|" in each.kind.name  # a default does not show what else there is
            kind = each.kind.name if chosen or not has_default else ""
            who = "both programs" if each.key in shared else "the daemon"
            meaning = each.meaning.removeprefix("controller role: ")
            who = who if meaning == each.meaning else "the controller role"
            shown = ", ".join(filter(None, (kind, default)))
            sections[who].append(f"- `{each.key}`{RELOADED * bool(each.live)} ({shown}): {meaning}\n")
    for title, lines in sections.items():
        rows += [f"\n## Of {title}\n\n", *lines]
    off, kept = (
        ", ".join(f"`{each.key.partition('.')[2]}`" for each in collectors if not getattr(each, name))
        for name in ("default", "live")
    )
    rows.append(
        f"\n`collector.NAME` switches a section of [metrics](metrics.md). Off by default: {off}. "
        f"{RELOADED} but {kept}.\n"
    )
    rows.append(TABLES_HEAD)
    for group in tables_of(ExporterConfig):
        values = ", ".join(f"`{name}`" for name in group.values)
        shown = f"`[{group.key}.NAME]`{RELOADED * bool(group.live)}"
        rows.append(f"\n{shown}, NAME a {group.label.name}, {group.meaning}: {values}.\n")
    return "".join(rows)


def keys_page() -> str:
    """Return the page of all keys, with the source of each in every batch system."""
    parts = [KEYS_HEAD]
    for area in Area:
        parts.append(f"\n## ${area.value.upper()}\n\n")
        parts += [
            f"- `{key.name}` ({key.unit or key.value_type}; {_texts(key)}): {key.meaning}{_changes(key)}\n"
            for key in KEYS
            if key.area is area
        ]
    parts.append(KEYS_RULES)
    parts.append(KEYS_SOURCES)
    key_sources = {name: each.key_sources for name, each in SYSTEMS.items()}
    by_source: dict[str, list[str]] = {}
    for key in KEYS:
        telling = [name for name in SYSTEMS if key.name in key_sources[name]]
        found = (
            ["all batch systems" if len(telling) == len(SYSTEMS) else ", ".join(telling)] if telling else []
        )
        found += [] if _elsewhere(key.name) == "–" else [_elsewhere(key.name)]
        by_source.setdefault("; ".join(found), []).append(f"`{key.name}`")
    parts += [f"- {', '.join(names)}: {source}\n" for source, names in by_source.items()]
    parts.append(
        "\n## $JOBSTATUS\n\nWritten by the job, read by the site; of the draft of 2014 only, "
        "its section in brackets.\n\n"
    )
    parts += [
        f"- `{status.name}`: {status.unit or status.value_type} ({status.section})\n"
        for status in STATUS_KEYS
    ]
    return "".join(parts)


def batch_page() -> str:
    """Return the page of what each batch system offers, and what it calls the values of keys."""
    parts = [BATCH_HEAD]
    whole, grouped = (
        ", ".join(f"`{name}`" for name in names)
        for names in (CLUSTER_SYSTEMS, [name for name, each in SYSTEMS.items() if each.has_groups])
    )
    ids = [f"`{each.job_variable}` ({name})" for name, each in SYSTEMS.items() if each.job_variable]
    parts.append(
        f"Hooks, and queue, nodes and accounting: {whole}. Control groups: {grouped}. A job finds its id in "
        f"{', '.join(ids)}.\n"
    )
    parts.append(BATCH_KEYS)
    sources = {name: each.key_sources for name, each in SYSTEMS.items()}
    provided = [
        each for each in KEYS if each is not JOB_ID and any(each.name in of for of in sources.values())
    ]
    for name in SYSTEMS:
        page = "../spool.md" if name == "spool" else f"../batch/{name}.md"
        parts.append(f"\n### [{name}]({page})\n\n")
        parts += [
            f"- `{key.name}`: {sources[name][key.name]}\n" for key in provided if key.name in sources[name]
        ]
    return "".join(parts)


def _texts(key: Key) -> str:
    """Return which texts define the key; of the draft of 2014 with the section."""
    of_2014 = f"2014 {key.section}" if key.section else "2014"
    return (
        ", ".join(of_2014 if text != MjfProfile.OF_2016.value else text for text in key.texts) or "extension"
    )


def _changes(key: Key) -> str:
    return "" if key.lifetime is Lifetime.STATIC else "; may change"


def _elsewhere(name: str) -> str:
    """Return what a value comes from beside the batch system."""
    if name in (SHUTDOWNTIME.name, SHUTDOWNTIME_JOB.name):
        return "a drain"
    if name in DERIVED:
        return f"derived: {DERIVED[name]}"
    found = [f"`{SETTINGS[name]}`"] if name in SETTINGS else []
    found += [f"default: {DEFAULTS[name]}"] if name in DEFAULTS else []
    return ", ".join(found) or "–"


_USUAL = "\n".join(f"- {status}: {meaning}" for status, meaning in USUAL.items())
EXITS_HEAD = f"""# Exit statuses

{NOTE}

Messages go to standard error, one line each. Unless a line below says otherwise (2 is a wrong flag
or setting in any case, of commands that read logs also a log that could not be read):

{_USUAL}
"""


def exits_page() -> str:
    """Return the page of all exit statuses; commands whose statuses mean the same share a line."""
    parts = [EXITS_HEAD]
    for program, commands in (
        ("jobfeatures", jobfeatures_cli.COMMANDS),
        ("jobfeatures-exporter", exporter_cli.COMMANDS),
    ):
        parts.append(f"\n## {program}\n\n")
        lines: dict[str, list[str]] = {}
        for name in commands:
            own = [
                f"{status}: {meaning}"
                for status, meaning in EXITS[program].get(name, {}).items()
                if status or "`" in meaning or ";" in meaning  # that all went well is said above
                if meaning != LOG  # so is this
            ]
            if own:
                lines.setdefault(". ".join(own), []).append(f"`{name}`")
        parts += [
            f"- {', '.join(names)}. {re.sub(', or a wrong flag( or setting)?', '', own)}.\n"
            for own, names in lines.items()
        ]
    return "".join(parts)


def comparison_page() -> str:
    """Return the page on other exporters, with what their dashboards make of our names as it is now."""
    text = (FOLDER.parent / "comparison.md").read_text(encoding="utf-8")
    head, _, rest = text.partition("<!-- dashboards -->\n")
    _, _, tail = rest.partition("<!-- end of dashboards -->\n")
    return f"{head}<!-- dashboards -->\n{dashboards_text()}\n<!-- end of dashboards -->\n{tail}"


def _with_docstrings(name: str) -> str:
    """Return a page on figures, with what the docstrings of what it names say of them."""
    return filled((FOLDER.parent / name).read_text(encoding="utf-8"))


PAGES = {
    "../figures.md": lambda: _with_docstrings("figures.md"),
    "../methods.md": lambda: _with_docstrings("methods.md"),
    "../comparison.md": comparison_page,
    "../behaviour.md": behaviour_page,
    "logs.md": lambda: logs_page(NOTE),
    "metrics.md": metrics_page,
    "profiles.md": profiles_page,
    "settings.md": settings_page,
    "keys.md": keys_page,
    "batch.md": batch_page,
    "commands.md": commands_page,
    "exits.md": exits_page,
    "../../jobfeatures/formats/sss/sss.rng": format_schema,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file_name, page in PAGES.items():
        (FOLDER / file_name).write_text(page(), encoding="utf-8")
