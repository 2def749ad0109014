"""Does repeated work of several kinds in one thread: each wakeup does all that is nearly due."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

EARLY: Final = 0.1  # part of its interval by which work may come early, once other work has woken the thread
AFTER_FAILURE_SECS: Final = 60.0
_NEVER: Final = float("inf")
log = logging.getLogger(__name__)


class Round:
    """One kind of repeated work, for `Rounds`. It is first done at once.

    The function `work` does it, and returns the seconds until it is to be done again; `want` has it done
    sooner. At least `least_secs` pass in between, or `hasty_secs` if `want` is called with `in_haste`.
    `close` is called at the end.
    """

    def __init__(
        self,
        work: Callable[[], float],
        *,
        least_secs: float = 0.0,
        hasty_secs: float | None = None,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self.work = work
        self.close = close
        self.changed = threading.Condition()  # of those who do it
        self.is_running = False
        self._least_secs = least_secs
        self._hasty_secs = least_secs if hasty_secs is None else hasty_secs
        self._wanted_after_secs = 0.0  # since the last time: at once, as there was none
        self._ended_secs = float("-inf")  # monotonic
        self._regular_secs = self._early_secs = _NEVER

    def want(self, *, in_haste: bool = False) -> None:
        """Have the work done sooner: `least_secs` after the last time, or `hasty_secs` if `in_haste`.

        Any thread may call this.
        """
        after_secs = self._hasty_secs if in_haste else self._least_secs
        with self.changed:
            if after_secs < self._wanted_after_secs:
                self._wanted_after_secs = after_secs
                self.changed.notify_all()

    def due_secs(self, *, is_awake: bool = False) -> float:
        """Return when the work is due (monotonic seconds).

        If `is_awake`, it is due a bit earlier, to save a later wakeup of the thread.
        """
        regular = self._early_secs if is_awake else self._regular_secs
        return min(regular, self._ended_secs + self._wanted_after_secs)

    def begin(self) -> None:
        """Note that the work begins. If `want` is called from now on, it is done once more."""
        self.is_running = True
        self._wanted_after_secs = _NEVER

    def end(self, wait_secs: float) -> None:
        """Note that the work is done, and is due again in `wait_secs`."""
        self.is_running = False
        self._ended_secs = time.monotonic()
        self._regular_secs = self._ended_secs + max(wait_secs, self._least_secs)
        self._early_secs = self._ended_secs + max(wait_secs * (1 - EARLY), self._least_secs)


class Rounds:
    """Does several kinds of repeated work in one thread.

    Work that hangs holds up the others: it needs a `Rounds` of its own.
    """

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._rounds: list[Round] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, one: Round) -> None:
        """Add a kind of work, done from now on."""
        with self._changed:
            one.changed = self._changed
            self._rounds.append(one)
            self._changed.notify_all()

    def remove(self, one: Round, timeout_secs: float) -> None:
        """Remove a kind of work; if it is being done now, wait up to `timeout_secs` for its end."""
        with self._changed:
            if one not in self._rounds:
                return
            self._rounds.remove(one)
            if one.is_running:
                self._changed.wait_for(lambda: not one.is_running, timeout_secs)
                return  # the thread closes it
        one.close()

    def stop(self, timeout_secs: float) -> None:
        """End the thread; work that still hangs after `timeout_secs` is abandoned."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_secs)

    @property
    def has_died(self) -> bool:
        """Return whether the thread ended by an error, without `stop`; one that hangs has not."""
        was_started = self._thread.ident is not None
        return was_started and not self._stopping and not self._thread.is_alive()

    def _run(self) -> None:
        is_awake = False
        while (one := self._take(is_awake=is_awake)) is not None:
            is_awake = True
            try:
                wait_secs = one.work()
            except Exception:  # supervised: other work is done by this thread, too
                log.exception("repeated work failed; it is tried again in a minute")
                wait_secs = AFTER_FAILURE_SECS
            with self._changed:
                one.end(wait_secs)
                is_left = one not in self._rounds
                if is_left:
                    self._changed.notify_all()
            if is_left:
                one.close()
        for each in self._rounds:
            each.close()

    def _take(self, *, is_awake: bool) -> Round | None:
        """Wait for a round that is due, and begin it; None at the end."""
        with self._changed:
            while not self._stopping:
                now_secs = time.monotonic()
                dues = [(each.due_secs(is_awake=is_awake), each) for each in self._rounds]
                due_secs, one = min(dues, key=lambda each: each[0], default=(_NEVER, None))
                if one is not None and due_secs <= now_secs:
                    one.begin()
                    return one
                is_awake = False
                due_secs = min((each.due_secs() for each in self._rounds), default=_NEVER)
                self._changed.wait(min(due_secs - now_secs, threading.TIMEOUT_MAX))
            return None
