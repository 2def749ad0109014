"""A thread that looks at the node again and again, so that a slow answer does not stop the keys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jobfeatures.errors import JobfeaturesError
from jobfeatures.model import JobKey
from jobfeatures_exporter.sampling.procfs import TICKS_PER_SEC
from jobfeatures_exporter.snapshot import Snapshot
from jobfeatures_exporter.top.pages import Pages
from jobfeatures_exporter.top.processtree import LiveProcess, list_processes
from jobfeatures_exporter.view.node import NodeView, view_page
from jobfeatures_exporter.view.numbers import Numbers

NOTHING = NodeView()


@dataclass(frozen=True, slots=True)
class Look:
    """What is to be shown; `processes` of the jobs that are expanded, or why there are none."""

    node: NodeView = NOTHING
    fault: str = ""
    processes: Mapping[JobKey, list[LiveProcess] | str] = field(default_factory=dict)


class Looker:
    """Looks, and hands each look to `show`; anything but an expected failure goes to `give_up`."""

    def __init__(
        self,
        pages: Pages,
        interval_secs: float,
        show: Callable[[Look], object],
        give_up: Callable[[Exception], object],
    ) -> None:
        self._pages = pages
        self._interval_secs = interval_secs
        self._show = show
        self._give_up = give_up
        self._numbers: Numbers | None = None
        self._snapshot: Snapshot | None = None
        self._last = Look()
        self._wanted = threading.Event()
        self._is_stopping = False
        self.expanded: frozenset[JobKey] = frozenset()  # replaced as a whole
        self._thread = threading.Thread(target=self._run, name="looks", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def hurry(self) -> None:
        """Look at once."""
        self._wanted.set()

    def stop(self) -> None:
        """Look no more; a look that is under way is left behind."""
        self._is_stopping = True
        self._wanted.set()

    def take(self) -> Look:
        """Take one look. What fails is reported beside what was seen last."""
        before = self._numbers
        try:
            self._numbers = self._pages.look()
            node = view_page(self._numbers, before)
            self._last = Look(node, "", self._processes())
        except JobfeaturesError as error:  # the daemon may be starting anew
            self._last = Look(self._last.node, str(error), self._last.processes)
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
        seen = {key: list_processes(found, before, key, ticks_per_sec=TICKS_PER_SEC) for key in keys}
        return {key: those or self._pages.without_processes for key, those in seen.items()}

    def _run(self) -> None:
        wait_secs = min(1.0, self._interval_secs)  # figures of now need two looks
        try:
            while not self._is_stopping:
                self._show(self.take())
                self._wanted.wait(wait_secs)
                self._wanted.clear()
                wait_secs = self._interval_secs
        except Exception as error:  # noqa: BLE001  # a fault of ours: reported where it can be seen
            if not self._is_stopping:
                self._give_up(error)
