"""The pages of a node, for people: of what the daemon knows, and what is remembered of the last hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobfeatures_exporter.context import Context
from jobfeatures_exporter.exposition import Family
from jobfeatures_exporter.history import History
from jobfeatures_exporter.web.asked import FRONT, Asked


class NodePages:
    """Makes them; `known` is all that may be shown, `collected` the families of /metrics of it."""

    def __init__(
        self, known: Callable[[], Context], collected: Callable[[Context], Sequence[Family]]
    ) -> None:
        self._known = known
        self._collected = collected
        self.history = History()

    def html(self, asked: Asked = FRONT) -> str | None:
        """Return a page, None where there is none of that job. That at / costs the node no look."""
        from jobfeatures_exporter.web.pages.node import render_node

        if asked.job_id:
            return None
        context = self._known()
        return render_node(context, self._collected(context), history=self.history, asked=asked)
