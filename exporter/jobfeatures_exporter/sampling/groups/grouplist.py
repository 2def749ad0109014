"""The control groups of jobs at each sample, with what was read of them between samples: pure."""

from __future__ import annotations

from collections.abc import Mapping

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.groups.cgroup import GroupList, JobCgroup, JobFigures
from jobfeatures_exporter.sampling.values import LastLook, Listed


def list_groups(groups: GroupList, heard: Mapping[str, JobFigures], last: LastLook) -> Listed:
    """Return the present groups, and those removed since the `last` sample by the jobs that had them.

    `heard` are the readings since then, by `cpu_source`.
    """
    gone: dict[JobKey, list[JobCgroup]] = {}
    living = {each.cpu_source for each in groups.directories} if groups.gone else ()
    for cgroup in groups.gone:
        source = cgroup.directory.cpu_source
        if source in heard and source not in living and (key := last.key_of.get(source)) is not None:
            gone.setdefault(key, []).append(cgroup)
    return Listed(groups, heard, gone)
