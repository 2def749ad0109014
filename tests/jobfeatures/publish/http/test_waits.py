"""Who waits for a job's end by address is seen as who does so by folder."""

import asyncio

from jobfeatures.batch.waiting import WaitedFor
from jobfeatures.client import Features
from jobfeatures.publish.http import waits


async def test_who_waits_by_address_is_seen_while_it_reads_and_others_are_not(site, monkeypatch):
    waited_for = WaitedFor("slurm", site.tree.root)
    features = Features(job=f"{site.url}{site.job}")
    assert await asyncio.to_thread(features.get, "job", "wall_limit_secs") == "420"
    assert "12" not in waited_for
    features.watch()
    for _ in range(2):  # it holds one lock, anew
        assert await asyncio.to_thread(features.get, "job", "wall_limit_secs") == "420"
    assert "12" in waited_for
    monkeypatch.setattr(waits, "HOLD_SECS", 0.1)
    assert await asyncio.to_thread(features.get, "job", "wall_limit_secs") == "420"
    async with asyncio.timeout(60):
        while "12" in waited_for:
            await asyncio.sleep(0.01)
    monkeypatch.undo()
    assert await asyncio.to_thread(features.get, "job", "wall_limit_secs") == "420"
    assert "12" in waited_for
    site.server.close()
    assert "12" not in waited_for
