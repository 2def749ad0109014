"""What is shown of batch sources: which answer, which fail, and what may help. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobfeatures.batch import SYSTEMS
from jobfeatures.jobs.evidence import HOOKS
from jobfeatures.records.metrics import SOURCE_AGE, SOURCE_UP
from jobfeatures_exporter.families.exposition import Number
from jobfeatures_exporter.scrape.collectors.own import sources
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.units import format_span

# Patterns of batch systems' error messages, and advice for each. The first match counts.
ADVICE = (
    (
        r"knows no node of this name|nothing about |not about this host|not a host's name",
        "if the batch system has another name for this machine, set node.name to it",
    ),
    (r"\A[^\s:]+: No such file or directory", "its command is not found: set its full path in {setting}"),
    (
        r"cannot stat file|Could not establish a configuration source",
        "set SLURM_CONF to the path of the existing configuration",
    ),
    (
        r"(?i)unknown host|name or service not known|name resolution",
        "make sure that this machine can resolve the names of its servers",
    ),
    (r"(?i)authentication|munge", "check that munged runs here, with the cluster's key"),
    (r"(?i)permission denied|not authorized", "check that the exporter's user may query it"),
    (
        r"(?i)unable to contact|connection refused|connect failure|cannot connect",
        "check that its server runs and can be reached from here",
    ),
    (
        r"not finished after|no answer after",
        "its server answers late or not at all; {timeout} sets how long to wait",
    ),
)
READ_ONE_BY_ONE = "Processes are read without eBPF, one by one, which takes up to four times the CPU time"
# Patterns of why the kernel does not sum, and what helps. The last one fits everything.
_GET_EBPF = (
    (r"\Ano libbpf|\Alibbpf has no", "Install libbpf, or a newer one (Debian: libbpf1, Red Hat: libbpf)"),
    (r"load: Operation not permitted", "Start the daemon as root, or with CAP_BPF and CAP_PERFMON"),
    (r"writable by others", "Let only its owner write to this file: chmod go-w"),
    (r"not this machine's own /proc", "In a container, the node's eBPF cannot be used"),
    (r"", "eBPF needs Linux 5.13 or newer with BTF (/sys/kernel/btf/vmlinux), and control groups"),
)


def advise_ebpf(reason: str) -> str:
    """Return advice on what to change if a daemon cannot use eBPF, for the `reason` that it gives."""
    helps = next(text for pattern, text in _GET_EBPF if re.search(pattern, reason))
    return f'{helps}; to go without eBPF, set sampling.processes = "procfs"'


@dataclass(frozen=True, slots=True)
class SourceView:
    """What is shown of one batch source; `words` is its own error message, "" if unknown.

    `has_answered` means at least once, `is_up` at the latest query. `failures` counts failed queries,
    `failing_secs` says for how long queries have failed now (None: they do not, or unknown).
    """

    name: str
    has_answered: bool
    is_up: bool
    failures: Number
    failing_secs: Number | None = None  # None: it does not fail, or since when is unknown
    words: str = ""

    @property
    def is_failing(self) -> bool:
        """Return whether the latest query failed."""
        return not self.is_up and self.failures > 0

    @property
    def advice(self) -> str:
        """Return what may help against the source's error message; "" if nothing is known."""
        for pattern, text in ADVICE:
            if re.search(pattern, self.words):
                system, _, rest = self.name.replace(" ", "-").partition("-")
                setting = SYSTEMS[system].command if system in SYSTEMS else "its setting"
                # of slurm-queue, in the controller role
                return text.format(setting=setting, timeout=f"{'controller' if rest else 'batch'}.timeout")
        return ""

    @property
    def sentence(self) -> str:
        """Return a sentence on what is wrong with the source, without its message; "" if nothing is."""
        if self.is_failing:
            since = "" if self.failing_secs is None else f" for {format_span(self.failing_secs)}"
            if self.has_answered:
                return f"{self.name} has not answered{since}: its data shown here are older"
            return f"{self.name} has never answered, and has failed{since}"
        if not self.has_answered:
            return f"{self.name} has not answered yet"
        return f"{self.name} answers, but not about this node" if self.words else ""


def view_sources(numbers: Numbers, words: Mapping[str, str]) -> tuple[SourceView, ...]:
    """Return what is shown of each batch source; the records of hooks, a source too, are left out.

    `words` has the sources' error messages by name.
    """
    return tuple(
        SourceView(
            name,
            has_answered=numbers.one(SOURCE_AGE, name) is not None,
            is_up=bool(is_up),
            failures=numbers.one(sources.FAILURES, name) or 0,
            failing_secs=numbers.one(sources.FAILING, name),
            words=words.get(name, ""),
        )
        for name, is_up in numbers.by_label(SOURCE_UP).items()
        if name != HOOKS
    )


def describe_no_jobs(found: Sequence[SourceView]) -> str:
    """Return a sentence on why no job is shown, which depends on which batch sources have answered."""
    if not found:
        return "No job is seen on this node, and no batch system is queried (batch.sources)."
    silent = [each.name for each in found if not each.has_answered]
    if len(silent) == len(found):
        return f"No job is seen on this node; no batch system has answered yet ({', '.join(silent)})."
    if silent:
        return f"No job is known on this node; {', '.join(silent)} has not answered yet."
    failing = [each.name for each in found if each.is_failing]
    if failing:
        return f"No job was known on this node when {', '.join(failing)} answered last."
    return "No batch job is on this node."
