"""The pages of a node, for people: the daemon's current context, and the history of the last hour."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jobfeatures.errors import JobfeaturesError
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.config import DaemonConfig
from jobfeatures_exporter.families.exposition import Family
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import ProcessSample, Snapshot
from jobfeatures_exporter.privacy.hiding import COMMAND, NO_PRIVACY, Privacy
from jobfeatures_exporter.state.history import History
from jobfeatures_exporter.web.asked import FRONT, Asked
from jobfeatures_exporter.web.config import fill_link

if TYPE_CHECKING:
    from jobfeatures_exporter.web.pages.job import JobDetails

MAX_ARGUMENTS_BYTES = 4096
LISTED_SECS = 1.0  # pages opened within a second share one process listing


class NodePages:
    """Makes the pages from the context that may be shown, its metrics, and a listing of all processes."""

    def __init__(
        self,
        config: DaemonConfig,
        privacy: Privacy,
        known: Callable[[], Context],
        families: Callable[[Context], Sequence[Family]],
        listing: Callable[[float], Snapshot | None],
    ) -> None:
        self.config = config
        self._privacy = privacy
        self._known = known
        self._families = families
        self._listing = listing
        self.history = History()

    def html(self, asked: Asked = FRONT) -> str | None:
        """Return a page, None for an unknown job. Only a job's page lists processes."""
        from jobfeatures_exporter.view.numbers import Numbers
        from jobfeatures_exporter.web.pages.job import render_job
        from jobfeatures_exporter.web.pages.node import render_node, view_context

        context = self._known()
        if not asked.job_id:
            families = self._families(context)
            return render_node(context, families, history=self.history, asked=asked)
        found = [key for key in context.shown_jobs if key.job_id == asked.job_id]
        key = next((each for each in found if asked.system in {"", each.batch_system}), None)
        if key is None:
            return self._gone(asked, context)
        families = self._families(context)
        (view,) = view_context(context, Numbers(families), only=key).jobs
        return render_job(context, families, view, self.history.job(key), self._details(key, context))

    def own_html(self, context: Context, asked: Asked) -> str | None:
        """Return a page of one user's context: with all names, without the history of others' jobs."""
        from jobfeatures_exporter.privacy.own import COLLECTORS
        from jobfeatures_exporter.scrape.collectors import collect

        own = NodePages(
            self.config, NO_PRIVACY, lambda: context, lambda known: collect(known, COLLECTORS), self._listing
        )
        return own.html(asked)

    def _gone(self, asked: Asked, context: Context) -> str | None:
        """Return the page of a job that has left the node; None once its history has expired."""
        from jobfeatures_exporter.web.pages.job import render_gone

        found = self.history.ended(asked.job_id, asked.system)
        if found is None:
            return None
        span, past = found
        if past is not None:
            past = replace(past, job=self._privacy.job(past.job))
        course, node_name = self.history.job(span.key), context.node_name
        grafana = self._grafana(span.key, node_name)
        return render_gone(span, past, course, context.now_secs, node_name, grafana=grafana)

    def _grafana(self, key: JobKey, node_name: str) -> str:
        template = self.config.web_grafana_url or ""
        return fill_link(template, job=key.job_id, system=key.batch_system, node=node_name)

    def _details(self, key: JobKey, context: Context) -> JobDetails:
        from jobfeatures_exporter.view.processes import MAX_PROCESSES, make_tree
        from jobfeatures_exporter.web.pages.job import JobDetails

        listing = self._listing(LISTED_SECS)
        processes, arguments = None, {}
        count = 0
        if listing is not None:
            own = [each for pid, each in listing.processes.items() if listing.keys.get(pid) == key]
            tree, count = make_tree(own), len(own)
            arguments = {each.pid: self._arguments(each) for each, _ in tree}
            processes = [each._replace(process=self._named(each.process)) for each in tree]
        sample = context.snapshot.jobs.get(key) if context.snapshot is not None else None
        return JobDetails(
            processes=processes,
            arguments=arguments,
            more_processes=max(0, count - MAX_PROCESSES),
            features=read_features(self.config.features_root, key) if self.config.features_publish else {},
            finding=context.findings.get(key),
            group=(sample.cgroup or "") if sample is not None else "",
            grafana=self._grafana(key, context.node_name),
        )

    def _named(self, process: ProcessSample) -> ProcessSample:
        """Return a process with its command as privacy allows."""
        return process._replace(command=self._privacy.name(COMMAND, process.command) or "")

    def _arguments(self, process: ProcessSample) -> str:
        """Return a process's arguments; empty if they are not to be shown or its pid was reused."""
        if not self.config.web_job_arguments or self._privacy.name(COMMAND, "x") != "x":
            return ""
        path = os.path.join(self.config.path_procfs, str(process.pid))
        try:
            with open(os.path.join(path, "cmdline"), "rb") as file:
                content = file.read(MAX_ARGUMENTS_BYTES)
            with open(os.path.join(path, "stat"), "rb") as file:
                start = file.read(4096).rpartition(b")")[2].split()[19]
        except (OSError, IndexError):
            return ""
        if start != str(process.start_ticks).encode():
            return ""
        return content.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "surrogateescape")


def read_features(root: str, key: JobKey) -> dict[str, list[tuple[str, str]]]:
    """Return the features that the job can read, by variable; unreadable files are left out."""
    from jobfeatures.publish.http.remotevalues import FeatureReader, list_features

    reader = FeatureReader(root)
    found: dict[str, list[tuple[str, str]]] = {}
    for variable, place in (("JOBFEATURES", key.directory_name), ("MACHINEFEATURES", None)):
        with contextlib.suppress(OSError, JobfeaturesError):
            for each in list_features(root, place).content.decode().split():
                with contextlib.suppress(OSError, JobfeaturesError):
                    value = reader.read(place, each).content.decode("utf-8", "surrogateescape")
                    found.setdefault(variable, []).append((each, value.rstrip("\n")))
    return found
