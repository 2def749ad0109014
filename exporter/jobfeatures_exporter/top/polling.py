"""Polls the node in a thread, so that a slow response does not block the keyboard."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jobfeatures.errors import JobfeaturesError
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.snapshot import Snapshot
from jobfeatures_exporter.top.pages import Pages
from jobfeatures_exporter.view.node import NodeView, view_page
from jobfeatures_exporter.view.numbers import Numbers
from jobfeatures_exporter.view.processes import LiveProcess, list_processes

NOTHING = NodeView()


@dataclass(frozen=True, slots=True)
class PagePoll:
    """The result of one poll: the view of the node, or else the last one with a `fault` (an error message).

    `processes` has the processes of each expanded job, or a text that says why there are none.
    """

    node: NodeView = NOTHING
    fault: str = ""
    processes: Mapping[JobKey, list[LiveProcess] | str] = field(default_factory=dict)


class PagePoller:
    """Polls the node at intervals in a thread, and calls `show` with each result.

    It calls `give_up` with an unexpected exception.
    """

    def __init__(
        self,
        pages: Pages,
        interval_secs: float,
        show: Callable[[PagePoll], object],
        give_up: Callable[[Exception], object],
    ) -> None:
        self._pages = pages
        self._interval_secs = interval_secs
        self._show = show
        self._give_up = give_up
        self._numbers: Numbers | None = None
        self._snapshot: Snapshot | None = None
        self._last = PagePoll()
        self._wake = threading.Event()
        self._is_stopping = False
        self.expanded: frozenset[JobKey] = frozenset()  # assigned, never modified: another thread reads it
        self._thread = threading.Thread(target=self._run, name="poller", daemon=True)

    def start(self) -> None:
        """Start the thread that polls."""
        self._thread.start()

    def hurry(self) -> None:
        """Poll now instead of at the end of the interval."""
        self._wake.set()

    def stop(self) -> None:
        """Stop polling, without waiting for a poll in progress."""
        self._is_stopping = True
        self._wake.set()

    def take(self) -> PagePoll:
        """Poll once and return the result. If that fails, it has the previous figures and the error."""
        before = self._numbers
        try:
            self._numbers = self._pages.read()
            node = view_page(self._numbers, before)
            self._last = PagePoll(node, "", self._processes())
        except JobfeaturesError as error:  # the daemon may be restarting
            self._last = PagePoll(self._last.node, str(error), self._last.processes)
        return self._last

    def _processes(self) -> dict[JobKey, list[LiveProcess] | str]:
        keys = self.expanded
        if not keys:
            self._snapshot = None
            return {}
        before, found = self._snapshot, self._pages.processes()
        if isinstance(found, str):
            return dict.fromkeys(keys, found)
        self._snapshot = found
        seen = {key: list_processes(found, before, key) for key in keys}
        return {key: those or self._pages.without_processes for key, those in seen.items()}

    def _run(self) -> None:
        wait_secs = min(1.0, self._interval_secs)  # current rates need two polls
        try:
            while not self._is_stopping:
                self._show(self.take())
                self._wake.wait(wait_secs)
                self._wake.clear()
                wait_secs = self._interval_secs
        except Exception as error:  # noqa: BLE001  # a bug: raised in the main thread, where it is seen
            if not self._is_stopping:
                self._give_up(error)
