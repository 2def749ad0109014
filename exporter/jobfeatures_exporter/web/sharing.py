"""What many ask for at once is made for all of them once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def sharing(make: Callable[[K], T], at_once: int) -> Callable[[K], Awaitable[T]]:
    """Return what calls `make` in a thread, in so many at once, and gives what it returns or raises.

    All who ask for the same and wait for a thread share what is made next. So however many ask, and go
    away before they are answered, there is one more of each kind to make, and nobody gets what is older
    than the question.
    """
    threads = asyncio.Semaphore(at_once)
    awaited: dict[K, asyncio.Task[T]] = {}

    async def make_next(kind: K) -> T:
        async with threads:
            del awaited[kind]  # who asks from now on gets a later one
            return await asyncio.to_thread(make, kind)

    async def ask(kind: K) -> T:
        if kind not in awaited:
            awaited[kind] = asyncio.create_task(make_next(kind))
        return await asyncio.shield(awaited[kind])

    return ask
