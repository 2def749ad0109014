"""Write the reference pages from the code: ``python docs/generate.py``. A test compares them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from jobfeatures import cli as jobfeatures_cli
from jobfeatures import exits as jobfeatures_exits
from jobfeatures.batch import SYSTEMS
from jobfeatures.config import Config
from jobfeatures.features.keys import KEYS, SHUTDOWNTIME, SHUTDOWNTIME_JOB, Area, Key, Profile
from jobfeatures.features.origin import DEFAULTS, DERIVED, SETTINGS
from jobfeatures.metrics import Metric
from jobfeatures.settings import DEFAULT_FILE, FILE_FLAG, FILE_VARIABLE, settings_of, tables_of
from jobfeatures.settingsflags import display
from jobfeatures.status.jobstatus import STATUS_KEYS
from jobfeatures_exporter import budget, profiles
from jobfeatures_exporter import cli as exporter_cli
from jobfeatures_exporter import exits as exporter_exits
from jobfeatures_exporter.collectors import COLLECTORS, METRICS
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.ingest import page as foreign
from jobfeatures_exporter.ingestion import PATH as FOREIGN_PATH

sys.path.insert(0, str(Path(__file__).parents[1] / "packaging/tools"))
from makepackages.grammar import Argument, Command, Option
from makepackages.texts import programs

sys.path.insert(0, str(Path(__file__).parent))
from dashboards import dashboards_text
from logtable import logs_page

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py from the code. -->"

METRICS_HEAD = f"""# Metrics

{NOTE}

Every series of a job has the labels `batch_system` and `job_id`; join `batch_job_info` for its properties:

```promql
rate(batch_job_cpu_seconds_total[5m])
  * on (instance, batch_system, job_id) group_left (user, account) batch_job_info
```

Counters never decrease; what cannot be read is left out.
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

Shown in addition if `metrics.profile` lists them. [Differences from the originals](../metrics-profiles.md).
"""

SETTINGS_HEAD = f"""# Settings

{NOTE}

A flag beats the environment, the environment beats the file, the file beats the default. The file is TOML,
named by `{FILE_FLAG}` or `{FILE_VARIABLE}`, else `{DEFAULT_FILE}` where it exists.
The flag of a key is `--` and the key with dashes for underscores, its variable `JOBFEATURES_` and the key in
capitals with underscores for dots. Booleans also have `--no-KEY`. Durations are written `500ms`, `10s`, `2m`.

The column "for" says which program uses a setting; `jobfeatures` ignores the daemon's in the file.
Values for some machines or jobs only are in [tables](#tables) of the file.

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
which beats the plain setting. The daemon rejects an unknown name in a table; hooks ignore it.
"""

KEYS_HEAD = f"""# Keys that jobs read, and write

{NOTE}

Two specifications define them: [HSF-TN-2016-02](https://doi.org/10.5281/zenodo.1469629) (Machine/Job
Features) and its draft 0.99 of 15 May 2014. `features.profile` selects `2016` (the default), `2014`, or
`both`. Names of 2016 have only lower-case letters, digits and underscores; in the profile 2014 a job's
directory and files belong to its user. Keys of neither are extensions, published if `features.hs23` is on.

A key whose value is unknown or unlimited is absent, never 0, -1 or empty. A value is one line.

The batch system's value beats the site's setting, which beats a default; `jobfeatures show --origin` shows
where each came from. [Settings](settings.md#tables) may differ by partition and by CPU model.
"""

KEYS_RULES = """
`shutdowntime` and `shutdowntime_job` may appear and disappear while jobs run. Once passed, the machine's is
removed in the profile 2014, which requires it, and stays in the others, whose readers rely on it; a job's
own always stays.
"""


KEYS_SOURCES = """
## Where the values come from

What each batch system calls them: [Batch systems](batch.md).

| key | batch systems that tell it | elsewhere |
|---|---|---|
"""

BATCH_HEAD = f"""# Batch systems

{NOTE}

`batch.sources` selects them; [Settings](settings.md) has the commands and folders of each. "–": not
offered. Queue, nodes and accounting are polled by the [controller role](../controller.md); hooks publish
features before a job starts; control groups attribute processes without any query.

"""

BATCH_KEYS = """
## What jobs are told, and where it comes from

By key and batch system: the batch system's own words, or "unavailable" where it does not tell, with what
stands in for it. Keys that no batch system tells are the site's: [Keys](keys.md#where-the-values-come-from).
"""


COMMANDS_HEAD = f"""# Commands

{NOTE}

`jobfeatures` is for administrators, hooks and jobs; `jobfeatures-exporter` is the daemon and its tools. Each
command has `--help`; packages have man pages and completions. [Exit statuses](exits.md).
"""


def commands_page() -> str:
    """Return the page of all commands."""
    both = programs()
    parts = [COMMANDS_HEAD]
    for program in both:
        parts.append(
            f"\n## {program.name}\n\n{program.description}\n\n| command | what it does |\n|---|---|\n"
        )
        parts += [f"| [`{each.word}`](#{_anchor(each)}) | {each.summary} |\n" for each in program.commands]
        parts.append(_options_table(program))
    for program in both:
        for command in program.commands:
            parts += [_command(each) for each in command.walk()]
    return "".join(parts).rstrip("\n") + "\n"


def _command(command: Command) -> str:
    """Return the section of a command; its settings stand on a page of their own."""
    takes = {flag for each in command.options for flag in each.flags}
    known = {each.flag for each in settings_of(ExporterConfig)}
    needed = re.sub(r"\[[^\[\]]*(\[[^\[\]]*\][^\[\]]*)*\]", "", command.usage)  # all but what is in brackets
    words = re.findall(r"--[\w.-]+ \S+", needed)
    words += [_argument(each, each.name in needed.split()) for each in command.arguments]
    words += ["|".join(each.word for each in command.commands)] if command.commands else []
    own = [each for each in command.options if not known & set(each.flags) and FILE_FLAG not in each.flags]
    options = " [OPTIONS]" if len(own) > 1 else ""
    usage = f"{command.name}{options} {' '.join(words)}".rstrip()
    parts = [f"\n## {command.name}\n\n{command.description}\n\n`{usage}`\n"]
    parts.append(_options_table(Command(command.name, "", "", "", tuple(own), command.arguments, ())))
    if takes & known:
        whose = settings_of(ExporterConfig if command.name.startswith("jobfeatures-exporter") else Config)
        which = "the" if len(whose) == len(known) else "both programs'"
        parts.append(f"\nAlso `{FILE_FLAG}` and {which} [settings](settings.md).\n")
    return "".join(parts)


def _options_table(command: Command) -> str:
    shown = [each for each in command.options if "--help" not in each.flags]
    if not shown and not any(each.meaning for each in command.arguments):
        return ""
    rows = ["\n| option or word | meaning |\n|---|---|\n"]
    rows += [
        f"| `{_cell(each.name)}` | {_cell(each.meaning)} |\n" for each in command.arguments if each.meaning
    ]
    rows += [f"| `{_cell(_option(each))}` | {_cell(each.meaning)} |\n" for each in shown]
    return "".join(rows)


def _option(option: Option) -> str:
    return ", ".join(option.flags) + (f" {option.value}" if option.value else "")


def _argument(argument: Argument, needed: bool) -> str:
    name = argument.name + ("…" if argument.repeats else "")
    return name if needed else f"[{name}]"


def _anchor(command: Command) -> str:
    return command.name.replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def metrics_page() -> str:
    """Return the page of all metrics."""
    parts = [METRICS_HEAD]
    for name, collector in COLLECTORS.items():
        state = "On" if collector.enabled else "Off"
        meaning = collector.meaning[0].upper() + collector.meaning[1:]
        parts.append(f"\n## {name}\n\n{meaning}. {state} by default; `--[no-]collector.{name}`.\n\n")
        parts.append(_metric_table(collector.metrics))
    parts.append("\n## On the collectors themselves\n\n" + _metric_table(METRICS))
    parts.append("\n## On the page as a whole\n\n" + PAGE_HEAD)
    parts.append(_metric_table((*budget.METRICS, profiles.SUCCESS)))
    parts.append("\n## Of foreign nodes\n\n" + FOREIGN_HEAD + _metric_table(foreign.METRICS))
    return "".join(parts)


def _was(metric: Metric) -> str:
    return f" Was `{metric.was}`, which this release shows too." if metric.was else ""


def profiles_page() -> str:
    """Return the page of other exporters' names."""
    parts = [PROFILES_HEAD]
    for name, profile in profiles.PROFILES.items():
        parts.append(f"\n## {name}\n\nAs {profile.meaning}.\n\n")
        parts.append(_metric_table(profile.metrics))
    return "".join(parts)


def _metric_table(metrics: tuple[Metric, ...]) -> str:
    rows = ["| metric | kind | labels | meaning |\n|---|---|---|---|\n"]
    for metric in metrics:
        names = ", ".join(f"`{label}`" for label in metric.label_names) or "–"
        rows.append(
            f"| `{metric.sample_name}` | {metric.kind} | {names} | {metric.meaning}{_was(metric)} |\n"
        )
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
    """Return the page of all keys, with the source of each in every batch system."""
    parts = [KEYS_HEAD]
    for area in Area:
        parts.append(f"\n## ${area.value.upper()}\n\n")
        parts.append(
            "| key | type | unit | texts | section | changes | meaning |\n|---|---|---|---|---|---|---|\n"
        )
        parts += [
            f"| `{key.name}` | {key.value_type} | {key.unit or '–'} | {_texts(key)} | {_section(key)} "
            f"| {key.lifetime.value} | {key.meaning} |\n"
            for key in KEYS
            if key.area is area
        ]
    parts.append(KEYS_RULES)
    parts.append(KEYS_SOURCES)
    key_sources = {name: each.key_sources for name, each in SYSTEMS.items()}
    for key in KEYS:
        telling = [name for name in SYSTEMS if key.name in key_sources[name]]
        told = "all" if len(telling) == len(SYSTEMS) else ", ".join(telling) or "–"
        parts.append(f"| `{key.name}` | {told} | {_elsewhere(key.name)} |\n")
    parts.append(
        "\n## $JOBSTATUS\n\nWritten by the job, read by the site; defined by the draft of 2014 only.\n\n"
    )
    parts.append("| key | type | unit | section |\n|---|---|---|---|\n")
    parts += [
        f"| `{status.name}` | {status.value_type} | {status.unit or '–'} | {status.section} |\n"
        for status in STATUS_KEYS
    ]
    return "".join(parts)


def batch_page() -> str:
    """Return the page of what each batch system offers, and what it calls the values of keys."""
    parts = [BATCH_HEAD]
    parts.append("| batch system | queue, nodes, accounting | hooks | a job's id is in | control groups |\n")
    parts.append("|---|---|---|---|---|\n")
    for name, system in SYSTEMS.items():
        offers = [
            "yes" if system.has_cluster else "–",
            "yes" if system.job_variable else "–",
            f"`{system.job_variable}`" if system.job_variable else "–",
            "yes" if system.has_groups else "–",
        ]
        parts.append(f"| [{name}](#{name}) | {' | '.join(offers)} |\n")
    parts.append(BATCH_KEYS)
    sources = {name: each.key_sources for name, each in SYSTEMS.items()}
    told = [key for key in KEYS if any(key.name in each for each in sources.values())]
    for name, system in SYSTEMS.items():
        page = "../spool.md" if name == "spool" else f"../batch/{name}.md"
        parts.append(f"\n### {name}\n\n{_first_sentence(system.summary or '')} More: [its page]({page}).\n\n")
        parts.append("| key | source |\n|---|---|\n")
        for key in told:
            source = sources[name].get(key.name)
            elsewhere = _elsewhere(key.name)
            lacking = "unavailable" if elsewhere == "–" else f"unavailable; {elsewhere}"
            parts.append(f"| `{key.name}` | {source or lacking} |\n")
    return "".join(parts)


def _first_sentence(text: str) -> str:
    """Return the first paragraph of a docstring, in Markdown."""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split()).replace("``", "`")


def _texts(key: Key) -> str:
    return ", ".join(key.texts) or "extension"


def _section(key: Key) -> str:
    return (
        ", ".join(
            f"${key.area.value.upper()}" if text == Profile.OF_2016.value else key.section
            for text in key.texts
        )
        or "–"
    )


def _elsewhere(name: str) -> str:
    """Return what a value comes from beside the batch system."""
    if name in (SHUTDOWNTIME.name, SHUTDOWNTIME_JOB.name):
        return "a drain"
    if name in DERIVED:
        return f"derived: {DERIVED[name]}"
    found = [f"`{SETTINGS[name]}`"] if name in SETTINGS else []
    found += [f"default: {DEFAULTS[name]}"] if name in DEFAULTS else []
    return ", ".join(found) or "–"


_USUAL = "\n".join(f"| {status} | {meaning} |" for status, meaning in jobfeatures_exits.USUAL.items())
EXITS_HEAD = f"""# Exit statuses

{NOTE}

For scripts. Messages go to standard error, one line each. Unless the table says otherwise:

| status | meaning |
|---|---|
{_USUAL}

| command | status: meaning |
|---|---|
"""


def exits_page() -> str:
    """Return the page of all exit statuses."""
    parts = [EXITS_HEAD]
    for program, commands, special in (
        ("jobfeatures", jobfeatures_cli.COMMANDS, jobfeatures_exits.EXITS),
        ("jobfeatures-exporter", exporter_cli.COMMANDS, exporter_exits.EXITS),
    ):
        for name in commands:
            own = [f"{status}: {meaning}" for status, meaning in special.get(name, {}).items()]
            parts.append(f"| `{program} {name}` | {'. '.join(own) or 'as above'} |\n")
    return "".join(parts)


def names_page() -> str:
    """Return the page on other exporters' names, with what dashboards make of them as it is now."""
    text = (FOLDER.parent / "metrics-profiles.md").read_text(encoding="utf-8")
    head, _, rest = text.partition("<!-- dashboards -->\n")
    _, _, tail = rest.partition("<!-- end of dashboards -->\n")
    return f"{head}<!-- dashboards -->\n{dashboards_text()}\n<!-- end of dashboards -->\n{tail}"


PAGES = {
    "../metrics-profiles.md": names_page,
    "logs.md": lambda: logs_page(NOTE),
    "metrics.md": metrics_page,
    "profiles.md": profiles_page,
    "settings.md": settings_page,
    "keys.md": keys_page,
    "batch.md": batch_page,
    "commands.md": commands_page,
    "exits.md": exits_page,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file_name, page in PAGES.items():
        (FOLDER / file_name).write_text(page(), encoding="utf-8")
