"""Who is answered, by a clock that is given."""

from types import SimpleNamespace

import pytest

from jobfeatures_exporter.web.guard import CLIENT_RATE, FILE_RATE, HOST, RATE, Guard


@pytest.fixture
def make_guard():
    def make(*, rate=100.0, client_rate=100.0, names=None, **more):
        return Guard(rate=rate, client_rate=client_rate, names=names, now=lambda: 0.0, **more)

    return make


async def are_admitted(guard, client, count, host="localhost"):
    return [await guard.refusal(client, host, "") is None for _ in range(count)]


async def test_an_address_over_its_own_limit_takes_nothing_from_others(make_guard):
    guard = make_guard(rate=5.0, client_rate=2.0)
    assert await are_admitted(guard, "a", 100) == [True] * 4 + [False] * 96
    assert guard.refused == {CLIENT_RATE: 96}
    assert await are_admitted(guard, "b", 4) == [True] * 4
    assert await are_admitted(guard, "c", 4) == [True] * 2 + [False] * 2
    assert guard.refused == {CLIENT_RATE: 96, RATE: 2}


async def test_who_is_over_a_limit_is_admitted_later():
    now = [0.0]
    guard = Guard(rate=100.0, client_rate=2.0, names=None, now=lambda: now[0])
    assert await are_admitted(guard, "a", 5) == [True] * 4 + [False]
    now[0] = 1.0
    assert await are_admitted(guard, "a", 3) == [True, True, False]


async def test_refusals_for_their_number_say_when_to_come_again(make_guard):
    guard = make_guard(rate=0.5)
    assert await guard.refusal("a", "x", "") is None
    refusal = await guard.refusal("a", "x", "")
    assert (refusal.status, refusal.headers["Retry-After"]) == (429, "1")


async def test_the_files_limit_comes_after_our_own(make_guard):
    limit = SimpleNamespace(interval_secs=3600, burst=3)
    file = SimpleNamespace(refresh=lambda: None, options=SimpleNamespace(rate=limit, users={}))
    guard = make_guard(rate=2.0, file=file)
    assert await are_admitted(guard, "a", 6) == [True] * 3 + [False] * 3
    assert guard.refused == {FILE_RATE: 1, RATE: 2}
    guard.close()


async def test_names_from_elsewhere_are_refused_where_names_count(make_guard):
    guard = make_guard(names={"node1"})
    assert (await guard.refusal("a", "evil.example", "")).status == 421
    assert guard.refused == {HOST: 1}
    assert await are_admitted(guard, "a", 1, host="node1:9819") == [True]
    assert await are_admitted(make_guard(), "a", 1, host="evil.example") == [True]
