"""Readers who look on while things are killed: what they read is whole and of their own job, or is not there."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults.site import Site, counters_in

RECENT = 20  # names, beside those of the living
KEYS = ("wall_limit_secs", "jobstart_secs", "job_id")
ANY = http.client.HTTPException, OSError
PartialReport = dict[str, set[str]]  # what the files of a run may say, by key


@dataclass(eq=False)  # a run is itself and no other, whatever it is called
class Run:
    """One run of a job that is known to be published: what its files may say, and what pages have shown of it."""

    name: str
    expected: PartialReport
    address: str | None = None  # over HTTP
    shown: dict[str, float] = field(default_factory=dict)  # CPU seconds by mode, the most so far


class Book:
    """What there is to read, and what was read. `live` and what is in it are replaced, never changed half."""

    def __init__(self) -> None:
        self.live: dict[str, Run] = {}
        self.ever: dict[str, dict[str, set[str]]] = {}
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def allow(self, name: str, values: dict[str, str]) -> PartialReport:
        """Note what a job's files may say from now on, before anything can say so; return that."""
        earlier = {other: found for other, found in self.ever.items() if other != name}
        every = {key: set(found) for key, found in self.ever.get(name, {}).items()}
        for key, value in values.items():
            every.setdefault(key, set()).add(value)
        self.ever = {**earlier, name: every}  # at the end, as the latest
        return {key: {value} for key, value in values.items()}

    def begin(self, run: Run) -> None:
        """From now on the run has to be there."""
        self.live = {**self.live, run.name: run}

    def end(self, name: str) -> None:
        """From now on it may be gone."""
        self.live = {key: run for key, run in self.live.items() if key != name}

    def judge(
        self, how: str, name: str, key: str, before: Run | None, then: PartialReport, value: str | None
    ) -> None:
        """Judge what was read of a job that was `before` when the reading began; None is nothing there.

        `then` is what its files might say at that time.
        """
        stays = before is not None and self.live.get(name) is before
        self.counts[how] += value is not None
        if value is None:
            if stays:
                self.faults.append(f"{how}: {name}/{key} is not there, though the job lives")
            return
        allowed = self.ever[name][key] if before is None or not stays else before.expected[key] | then[key]
        if value not in allowed:
            self.faults.append(f"{how}: {name}/{key} reads {value!r}, not {sorted(allowed)}")


class Readers:
    """Threads that read files, features over HTTP, and pages of metrics, until they are stopped."""

    def __init__(self, site: Site, book: Book, *, pause_secs: float) -> None:
        self._site, self._book, self._pause_secs = site, book, pause_secs
        self._stopping = threading.Event()
        rounds = (self.read_files, self.read_over_http, self.read_metrics)
        self._threads = [threading.Thread(target=self._loop, args=(each,), daemon=True) for each in rounds]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _loop(self, read: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                read()
            except Exception as error:  # noqa: BLE001  # what nobody has thought of is a fault, too
                self._book.faults.append(f"{read.__name__}: {error!r}")
                return
            time.sleep(self._pause_secs)

    def read_files(self) -> None:
        for name in {*self._book.live, *list(self._book.ever)[-RECENT:]}:
            for key in KEYS:
                before = self._book.live.get(name)
                then = {} if before is None else before.expected
                try:
                    value = (self._site.root / "jobfeatures" / name / key).read_text()
                except FileNotFoundError:
                    value = None
                self._book.judge("files", name, key, before, then, value)

    def read_over_http(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._site.features, timeout=60)
        try:
            for name, run in self._book.live.items():
                if run.address is None:
                    continue
                path = run.address.partition(str(self._site.features))[2]
                for key in KEYS:
                    then = run.expected
                    connection.request("GET", f"{path}/{key}")
                    answer = connection.getresponse()
                    text = answer.read().decode()
                    if answer.status in (200, 404):
                        value = text if answer.status == 200 else None
                        self._book.judge("HTTP", name, key, run, then, value)
                    else:  # 429 and 503 say themselves that it is not now
                        self._book.counts[f"HTTP {answer.status}"] += 1
        except ANY:  # killed meanwhile: nothing is taken for an answer that has not come to its end
            time.sleep(0.05)
        finally:
            connection.close()

    def read_metrics(self) -> None:
        before = self._book.live
        connection = http.client.HTTPConnection("127.0.0.1", self._site.web, timeout=60)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            page = answer.read().decode()
        except ANY:
            time.sleep(0.05)
            return
        finally:
            connection.close()
        if answer.status != 200:
            self._book.counts[f"pages {answer.status}"] += 1
            return
        self._book.counts["pages"] += 1
        if not page.endswith("\n") or any(not line for line in page.splitlines()):
            self._book.faults.append("a page is not whole")
        self.judge_counters(page, before)

    def judge_counters(self, page: str, before: dict[str, Run]) -> None:
        for (name, mode), value in counters_in(page).items():
            run = before.get(name)
            if run is None or self._book.live.get(name) is not run:
                continue
            self._book.counts["counters"] += 1
            if value < run.shown.get(mode, 0.0):
                self._book.faults.append(f"counter of {name} fell from {run.shown[mode]} to {value}")
            run.shown[mode] = max(value, run.shown.get(mode, 0.0))
