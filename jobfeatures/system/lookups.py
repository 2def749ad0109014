"""Fetches answers of the directory service (LDAP, SSSD …) in threads: nobody waits long for a slow one."""

from __future__ import annotations

import pwd
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_KNOWN = 10_000
UNKNOWN_SECS = 300.0  # before what was not found is looked up again
MAX_THREADS = 4
PATIENCE_SECS = 1.0  # how long callers may wait, all together, in each PERIOD_SECS
PERIOD_SECS = 60.0

Key = TypeVar("Key")
Value = TypeVar("Value")


class LookUps(Generic[Key, Value]):
    """A cache of what the function `look_up` returns for each key.

    A key has no value if `look_up` returns None or raises an error; then it is called again after a while.
    """

    def __init__(
        self, look_up: Callable[[Key], Value | None], now: Callable[[], float] = time.monotonic
    ) -> None:
        """`now` is the clock by which failed look-ups expire."""
        self._look_up = look_up
        self._now = now
        self._known: dict[Key, tuple[Value | None, float]] = {}  # with the time of the answer
        self._asked: deque[Key] = deque()
        self._pending: dict[Key, bool] = {}  # whether somebody went on without the answer
        self._threads = 0
        self._changed = threading.Condition()
        self._patience_secs, self._since = PATIENCE_SECS, float("-inf")
        self.on_late: Callable[[], None] = lambda: None  # called when an answer comes that nobody waited for

    def get(self, key: Key) -> Value | None:
        """Return the value of a key; None if it has none, or if a slow service has not answered yet."""
        with self._changed:
            value, at_secs = self._known.get(key, (None, float("-inf")))
            if value is not None or self._now() - at_secs < UNKNOWN_SECS:
                return value
            self._ask(key)
            if not self._wait(key):
                self._pending[key] = True
            return self._known.get(key, (None, 0.0))[0]

    def _ask(self, key: Key) -> None:
        if key in self._pending:
            return
        self._pending[key] = False
        self._asked.append(key)
        if self._threads < MAX_THREADS:
            self._threads += 1
            threading.Thread(target=self._answer, name="look-up", daemon=True).start()

    def _wait(self, key: Key) -> bool:
        began = time.monotonic()
        if began - self._since >= PERIOD_SECS:
            self._patience_secs, self._since = PATIENCE_SECS, began
        found = self._changed.wait_for(lambda: key not in self._pending, max(0.0, self._patience_secs))
        self._patience_secs -= time.monotonic() - began
        return found

    def _answer(self) -> None:
        """Look up one key after another until none is left."""
        while (key := self._next()) is not None:
            try:
                value = self._look_up(key[0])
            except (KeyError, OSError, ValueError, OverflowError):
                value = None
            with self._changed:
                if len(self._known) >= MAX_KNOWN:
                    self._known.clear()
                self._known[key[0]] = value, self._now()
                is_late = self._pending.pop(key[0]) and value is not None
                self._changed.notify_all()
            if is_late:
                self.on_late()

    def _next(self) -> tuple[Key] | None:
        with self._changed:
            if self._asked:
                return (self._asked.popleft(),)
            self._threads -= 1
            return None


def user_names() -> LookUps[int, str]:
    """Return a cache of user names by uid."""
    return LookUps(lambda uid: pwd.getpwuid(uid).pw_name)
