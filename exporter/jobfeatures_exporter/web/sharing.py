"""Coalesces concurrent requests for the same result into one computation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def sharing(make: Callable[[K], T], at_once: int) -> Callable[[K], Awaitable[T]]:
    """Return a coroutine function that runs `make` in a thread, at most `at_once` calls at a time.

    Callers with the same key that wait for a thread share the next call, its result or exception. So
    however many callers come, or disconnect before they are answered, at most one call per key is waiting,
    and no caller gets a result whose computation began before its call.
    """
    threads = asyncio.Semaphore(at_once)
    awaited: dict[K, asyncio.Task[T]] = {}

    async def make_next(kind: K) -> T:
        async with threads:
            del awaited[kind]  # later callers share a later call
            return await asyncio.to_thread(make, kind)

    async def ask(kind: K) -> T:
        if kind not in awaited:
            awaited[kind] = asyncio.create_task(make_next(kind))
        return await asyncio.shield(awaited[kind])

    return ask
