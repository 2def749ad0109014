"""Logs and counts values that contradict the specification: too little notice, a start in the future."""

from __future__ import annotations

import logging

from jobfeatures.drains.drain import CLOCK_SKEW_SECS
from jobfeatures.records.model import JobKey

log = logging.getLogger(__name__)


class Contradictions:
    """Logs contradictory values of jobs or the machine, each once, and counts them in `count`.

    The values stay published. Source: HSF-TN-2016-02: a shutdown "will not be less than grace_secs seconds
    after the moment the shutdown time is set".
    """

    def __init__(self) -> None:
        self.count = 0
        self._seen: dict[JobKey | None, tuple[int | None, int | None]] = {}

    def check(
        self,
        key: JobKey | None,
        *,
        shutdown_secs: int | None,
        promised_secs: int | None,
        start_secs: int | None = None,
        now_secs: float,
        was_known: bool,
    ) -> None:
        """Check the shutdown and start of a job, or of the machine (`key` None); log contradictions.

        The shutdown (epoch seconds) must be at least the promised notice, `promised_secs`, ahead of now. The
        start (epoch seconds) must not be ahead of now, but for a small difference of clocks. If `was_known`,
        the times may have been announced before the daemon's start, so they are not judged until they change.
        """
        seen = shutdown_secs, start_secs
        before = self._seen.get(key, seen if was_known else (None, None))
        self._seen[key] = seen
        what = "this node" if key is None else f"job {key.job_id}"
        if None not in (shutdown_secs, promised_secs) and shutdown_secs != before[0]:
            left_secs = (shutdown_secs or 0) - now_secs
            if left_secs < (promised_secs or 0):
                self._say(
                    f"{what}: a shutdown is {left_secs:.0f} s ahead, but grace_secs promises "
                    f"{promised_secs} s notice"
                )
        if start_secs is not None and start_secs != before[1] and start_secs > now_secs + CLOCK_SKEW_SECS:
            self._say(
                f"{what}: the reported start is {start_secs - now_secs:.0f} s ahead of this node's clock"
            )

    def forget(self, key: JobKey) -> None:
        """Forget a job that has ended."""
        self._seen.pop(key, None)

    def _say(self, words: str) -> None:
        self.count += 1
        log.warning("%s", words)
