"""The control groups of jobs at each sample, with what was read of them between samples."""

from __future__ import annotations

from jobfeatures.records.model import JobKey
from jobfeatures_exporter.sampling.groups.cgroup import JobCgroup, JobCgroups
from jobfeatures_exporter.sampling.groups.lastwords import LastWords
from jobfeatures_exporter.sampling.values import LastLook, Listed


class GroupLister:
    """Lists the groups, and sorts those that were removed to the jobs that had them."""

    def __init__(self, cgroups: JobCgroups, last_words: LastWords | None) -> None:
        self._cgroups = cgroups
        self._last_words = last_words

    def list(self, last: LastLook) -> Listed:
        """Return the present groups, and those removed since the `last` sample."""
        groups = self._cgroups.update()
        heard = {} if self._last_words is None else self._last_words.take()
        gone: dict[JobKey, list[JobCgroup]] = {}
        living = {each.cpu_source for each in groups.directories} if groups.gone else ()
        for cgroup in groups.gone:
            source = cgroup.directory.cpu_source
            if source in heard and source not in living and (key := last.key_of.get(source)) is not None:
                gone.setdefault(key, []).append(cgroup)
        return Listed(groups, heard, gone)

    def close(self) -> None:
        """Close all descriptors."""
        self._cgroups.close()
