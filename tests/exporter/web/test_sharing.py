"""However many ask at once, little is made, and nothing that is older than the question."""

import asyncio
import threading

import pytest

from jobfeatures_exporter.web.sharing import sharing


class Maker:
    """Makes numbers, each greater than the one before, when it is let."""

    def __init__(self):
        self.made, self.at_once, self.most_at_once = [], 0, 0
        self.lock, self.go = threading.Lock(), threading.Event()

    def make(self, kind):
        with self.lock:
            self.made.append(kind)
            number = len(self.made)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.go.wait(60)
        with self.lock:
            self.at_once -= 1
        return number


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def test_those_who_wait_share_what_is_made_next():
    maker = Maker()
    ask = sharing(maker.make, 2)
    asked = []
    for _ in range(2):
        asked.append(asyncio.create_task(ask("a")))
        await until(lambda: len(maker.made) == len(asked))
    asked += [asyncio.create_task(ask(kind)) for kind in "aab" * 100]
    await asyncio.sleep(0.01)
    assert maker.made == ["a", "a"]
    maker.go.set()
    numbers = await asyncio.gather(*asked)
    assert maker.made == ["a", "a", "a", "b"]
    assert numbers == [1, 2, *[3, 3, 4] * 100]
    assert maker.most_at_once == 2


async def test_who_goes_away_leaves_nothing_to_be_made_and_nobody_without():
    maker = Maker()
    ask = sharing(maker.make, 1)
    first = asyncio.create_task(ask("a"))
    await until(lambda: maker.made)
    gone = [asyncio.create_task(ask("a")) for _ in range(100)]
    stays = asyncio.create_task(ask("a"))
    await asyncio.sleep(0.01)
    for each in (first, *gone):
        each.cancel()
    maker.go.set()
    assert await stays == 2
    assert await ask("a") == 3
    assert maker.most_at_once == 1


async def test_what_is_asked_for_later_is_made_later():
    maker = Maker()
    maker.go.set()
    ask = sharing(maker.make, 4)
    assert [await ask("a") for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_what_cannot_be_made_is_told_to_all_and_made_anew():
    def make(kind):
        raise RuntimeError(kind)

    ask = sharing(make, 1)
    for _ in range(2):
        asked = await asyncio.gather(*[ask("a") for _ in range(5)], return_exceptions=True)
        assert [str(each) for each in asked] == ["a"] * 5
    with pytest.raises(RuntimeError, match="b"):
        await ask("b")
