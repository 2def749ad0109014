"""The HTML pages of a node: its present state, and the history of the last hour."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from jobfeatures.errors import JobfeaturesError
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.context import Context
from jobfeatures_exporter.model.snapshot import ProcessSample
from jobfeatures_exporter.node.nodeboard import NodeBoard
from jobfeatures_exporter.privacy.hiding import COMMAND, NO_PRIVACY, Privacy
from jobfeatures_exporter.scrape.pagetext import PageMaker
from jobfeatures_exporter.state.history import History
from jobfeatures_exporter.web.asked import FRONT, AskedPage
from jobfeatures_exporter.web.config import fill_link

if TYPE_CHECKING:
    from jobfeatures_exporter.web.pages.job import JobDetails

MAX_ARGUMENTS_BYTES = 4096
LISTED_SECS = 1.0  # pages opened within a second share one process listing


class NodePages:
    """Makes the HTML pages from the node's board, without the names that privacy settings hide."""

    def __init__(self, board: NodeBoard, privacy: Privacy, metrics: PageMaker, history: History) -> None:
        self._board = board
        self._privacy = privacy
        self._metrics = metrics
        self._history = history

    def html(self, asked: AskedPage = FRONT) -> str | None:
        """Return the HTML page `asked` for; None if it is the page of an unknown job.

        For a job's page it waits for a sample that lists all processes.
        """
        return self._render(asked, self._privacy.context(self._board.recent_context()))

    def own_html(self, context: Context, asked: AskedPage) -> str | None:
        """Return the page `asked` for by a user; None if it is the page of an unknown job.

        `context` has the user's own jobs only. The page shows all names, and not the history of the node.
        """
        from jobfeatures_exporter.privacy.own import COLLECTORS

        own = NodePages(self._board, NO_PRIVACY, PageMaker(COLLECTORS, (), 0), History())
        return own._render(asked, context)

    def _render(self, asked: AskedPage, context: Context) -> str | None:
        from jobfeatures_exporter.view.numbers import Numbers
        from jobfeatures_exporter.web.pages.job import render_job
        from jobfeatures_exporter.web.pages.node import render_node, view_context

        if not asked.job_id:
            families = self._metrics.collected(context)
            return render_node(context, families, history=self._history, asked=asked)
        found = [key for key in context.shown_jobs if key.job_id == asked.job_id]
        key = next((each for each in found if asked.system in {"", each.batch_system}), None)
        if key is None:
            return self._gone(asked, context)
        families = self._metrics.collected(context)
        (view,) = view_context(context, Numbers(families), only=key).jobs
        return render_job(context, families, view, self._history.job(key), self._details(key, context))

    def _gone(self, asked: AskedPage, context: Context) -> str | None:
        """Return the page of a job that has left the node; None once its history has expired."""
        from jobfeatures_exporter.web.pages.job import render_gone

        found = self._history.ended(asked.job_id, asked.system)
        if found is None:
            return None
        span, past = found
        if past is not None:
            past = replace(past, job=self._privacy.job(past.job))
        course, node_name = self._history.job(span.key), context.node_name
        grafana = self._grafana(span.key, node_name)
        return render_gone(span, past, course, context.now_secs, node_name, grafana=grafana)

    def _grafana(self, key: JobKey, node_name: str) -> str:
        template = self._board.config.web.grafana_url or ""
        return fill_link(template, job=key.job_id, system=key.batch_system, node=node_name)

    def _details(self, key: JobKey, context: Context) -> JobDetails:
        from jobfeatures_exporter.view.processes import MAX_PROCESSES, make_tree
        from jobfeatures_exporter.web.pages.job import JobDetails

        config = self._board.config
        listing = self._board.listing(LISTED_SECS)
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
            features=read_features(config.shared.batch.common.root, key) if config.features_publish else {},
            finding=context.findings.get(key),
            group=(sample.cgroup or "") if sample is not None else "",
            grafana=self._grafana(key, context.node_name),
        )

    def _named(self, process: ProcessSample) -> ProcessSample:
        """Return a process with its command as privacy allows."""
        return process._replace(command=self._privacy.name(COMMAND, process.command) or "")

    def _arguments(self, process: ProcessSample) -> str:
        """Return a process's arguments; empty if they are not to be shown or its pid was reused."""
        if not self._board.config.web.job_arguments or self._privacy.name(COMMAND, "x") != "x":
            return ""
        path = os.path.join(self._board.config.path.procfs, str(process.pid))
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
    """Return the (name, value) pairs of the features that a job can read.

    Keys are the environment variables that name their directories: JOBFEATURES and MACHINEFEATURES.
    """
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
