"""Scrapers, people, and clients that do their worst, by the thousand on one listener: nothing of them stays.

Short: 1,000 clients. JOBFEATURES_LONG=1: 60,000. Most are scrapers and are answered without a web server, some by
aiohttp; others break off, read nothing, say nothing, or send what is no request. What counts is that nothing grows once
the first quarter is over, and that a scraper who comes between them is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import socket

import pytest

from jobfeatures_exporter.web import listener
from tests.benchmarks.bench_endurance import resident_mib
from tests.exporter.web.test_hostile_clients import PAGE, WITH_SERVER, vanish
from tests.exporter.web.test_plain import BAD, CURL, KEPT, PROMETHEUS, LongPage, ask, served

IS_LONG = bool(os.environ.get("JOBFEATURES_LONG"))
ROUNDS, AT_ONCE = 1_200 if IS_LONG else 20, 50
MOST_GROWN_MIB = 12  # behind the first quarter: some arenas of the allocator, however many clients
MOST_LINES = 20  # of the log, in all


async def attend(connect, address, chance):
    """Be one client."""
    kind = chance.random()
    if kind < 0.4:
        requests = chance.choices([CURL, PROMETHEUS, WITH_SERVER], [5, 5, 1], k=chance.randint(1, 4))
        for status, _, _ in await ask(connect, *requests):
            assert status == "HTTP/1.1 200 OK"
        return
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, address)
        data = b"".join(chance.choices([*KEPT, *BAD, PAGE, b""], k=chance.randint(1, 5)))
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(client, data[: chance.randint(0, len(data))] if kind < 0.6 else data)
            await asyncio.sleep(chance.choice([0, 0, 0.001, 0.05]))
            if kind < 0.8:
                await asyncio.wait_for(loop.sock_recv(client, 2000), 0.05)
        if kind < 0.9:
            vanish(client)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600 if IS_LONG else 300)
async def test_memory_descriptors_tasks_and_log_stay_as_they_are(monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(listener, "CLIENT_RATE", 1e9)
    monkeypatch.setattr(listener, "RATE", 1e9)
    chance = random.Random(7)
    memory_mib, opened, tasks, answered = [], [], [], []
    async with served(LongPage()) as (listeners, connect):
        _, writer = await connect()
        address = writer.get_extra_info("peername")
        writer.close()
        for number in range(ROUNDS):
            clients = [attend(connect, address, chance) for _ in range(AT_ONCE)]
            for found in await asyncio.gather(*clients, return_exceptions=True):
                assert found is None or isinstance(found, TimeoutError), found
            if number % (ROUNDS // 20) == 0:
                async with asyncio.timeout(60):
                    while listeners.table.count:
                        await asyncio.sleep(0.01)
                [(_, _, body)] = await ask(connect, CURL)
                assert body == LongPage().exposition(openmetrics=False)
                gc.collect()
                memory_mib.append(resident_mib())
                opened.append(len(os.listdir("/proc/self/fd")))
                tasks.append(len(asyncio.all_tasks()))
                answered.append(listeners.status().listeners[0].answers[200])
    warm = len(memory_mib) // 4
    assert max(memory_mib[warm:]) - memory_mib[warm] < MOST_GROWN_MIB, memory_mib
    assert max(opened[warm:]) - min(opened[warm:]) <= 4, opened
    assert max(tasks[warm:]) - min(tasks[warm:]) <= 4, tasks
    assert answered == sorted(answered)
    assert len(caplog.records) <= MOST_LINES, caplog.text[-2000:]
    print(
        f"{ROUNDS * AT_ONCE} clients: {memory_mib[0]:.0f}, {memory_mib[warm]:.0f}, {memory_mib[-1]:.0f} MiB; "
        f"{opened[-1]} descriptors; {tasks[-1]} tasks; {answered[-1]} answers"
    )
