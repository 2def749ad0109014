"""Profiles: metrics under the names of other exporters, so that dashboards made for these keep working.

Each has a file and an entry in `PROFILES`. A file offers `METRICS`, whose names are used unchanged, and up to
two functions: `of_node(view)` and `of_job(view, sample)` yield readings from the same snapshot as all other
metrics. What the other exporter measures but a snapshot lacks is left out.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import NamedTuple

from jobfeatures.records.metrics import Metric
from jobfeatures_exporter.families.exposition import Family, Number, Values
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import WorkKey
from jobfeatures_exporter.scrape.profiles.common import ContextView, Reading

log = logging.getLogger(__name__)


class NamesOfOthers(NamedTuple):
    """A profile, as `PROFILES` lists it: its file, and the additional readings that its metrics need.

    `reads_cores` means CPU time by core, `reads_programs` CPU time by program.
    """

    meaning: str
    file: str
    reads_processes: bool = False
    reads_cores: bool = False  # CPU time by core, as v1 counts it for each job
    reads_open_files: bool = False
    reads_thread_states: bool = False
    reads_programs: bool = False  # if commands are counted

    def load(self) -> ModuleType:
        """Import and return the profile's module."""
        return importlib.import_module(f"{__name__}.{self.file}")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the declarations of the profile's metrics."""
        metrics: tuple[Metric, ...] = self.load().METRICS
        return metrics


PROFILES: dict[str, NamesOfOthers] = {
    "treydock": NamesOfOthers("treydock/cgroup_exporter", "treydock"),
    "jobstats": NamesOfOthers("Jobstats: its cgroup_exporter and nvidia_gpu_prometheus_exporter", "jobstats"),
    "slurm-job-exporter": NamesOfOthers(
        "guilbaults/slurm-job-exporter",
        "slurm_job_exporter",
        reads_processes=True,
        reads_cores=True,
        reads_thread_states=True,
        reads_programs=True,
    ),
    "ceems": NamesOfOthers("CEEMS' exporter", "ceems"),
    "process-exporter": NamesOfOthers(
        "ncabatoff/process-exporter, a group being a job",
        "process_exporter",
        reads_processes=True,
        reads_open_files=True,
        reads_thread_states=True,
    ),
}

SUCCESS = Metric(
    "batch_exporter_profile_success", "gauge", "1 if the profile worked, 0 if it failed.", ("profile",)
)

Readings = dict[WorkKey | None, list[Reading]]  # by job; None for the node


def read_profiles(context: Context, names: Collection[str]) -> tuple[Readings, Family]:
    """Return the readings of the profiles in `names` by job, and a family that shows which succeeded.

    Readings of the node as a whole have the key None.
    """
    view = ContextView(context)
    found: Readings = {}
    success: dict[str, int] = {}
    for name, profile in PROFILES.items():
        if name not in names:
            continue
        try:
            module = profile.load()
            made: Readings = {None: list(module.of_node(view)) if hasattr(module, "of_node") else []}
            for sample in context.shown_samples:
                made[sample.key] = list(module.of_job(view, sample))
        except Exception:  # supervised, like a collector
            log.exception("profile failed", extra={"profile": name})
            success[name] = 0
            continue
        for key, readings in made.items():
            found.setdefault(key, []).extend(readings)
        success[name] = 1
    return found, Family.by_label(SUCCESS, success)


def to_families(readings: Iterable[Reading]) -> list[Family]:
    """Return readings as metric families, without duplicate series.

    If two profiles have a metric with the same name, the first one's declaration is used for both. If two
    jobs have the same labels, the first is shown.
    """
    samples: dict[Metric, dict[Values, Number]] = {}
    for metric, values, value in readings:
        samples.setdefault(metric, {}).setdefault(values, value)
    return [Family(metric, list(found.items())) for metric, found in samples.items()]
