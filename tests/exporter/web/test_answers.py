"""What programs get: the same from the web server and without it."""

import asyncio
import gzip
import importlib.util
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from jobfeatures_exporter.web import answers
from jobfeatures_exporter.web.answers import make_answerers, share_calls

from .test_app import StandInDaemon


async def get(daemon, path, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await make_answerers(daemon)[path](named)


async def test_metrics_are_text_by_default():
    answer = await get(StandInDaemon(), "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert len(list(parse_text(answer.body.decode()))) == 1


async def test_metrics_are_openmetrics_where_accepted():
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.1"
    answer = await get(StandInDaemon(), "/metrics", accept=accept)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert len(list(parse_openmetrics(answer.body.decode()))) == 1


async def test_a_long_page_is_compressed_where_accepted():
    plain = await get(StandInDaemon(2000), "/metrics")
    packed = await get(StandInDaemon(2000), "/metrics", accept_encoding="gzip")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body


async def test_healthy_answers_before_ready():
    daemon = StandInDaemon(ready=False)
    assert (await get(daemon, "/-/healthy")).status == 200
    answer = await get(daemon, "/-/ready")
    assert (answer.status, answer.body) == (503, b"not ready\nslurm has not answered yet\n")


async def test_ready_tells_what_fails():
    daemon = StandInDaemon()
    daemon.problems = lambda: ["slurm has failed for 70 s: scontrol: not finished after 10 s"]
    answer = await get(daemon, "/-/ready")
    assert (answer.status, answer.body) == (
        200,
        b"ready\nslurm has failed for 70 s: scontrol: not finished after 10 s\n",
    )


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
    ask = share_calls(maker.make, 2)
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
    ask = share_calls(maker.make, 1)
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
    ask = share_calls(maker.make, 4)
    assert [await ask("a") for _ in range(5)] == [1, 2, 3, 4, 5]


async def test_what_cannot_be_made_is_told_to_all_and_made_anew():
    def make(kind):
        raise RuntimeError(kind)

    ask = share_calls(make, 1)
    for _ in range(2):
        asked = await asyncio.gather(*[ask("a") for _ in range(5)], return_exceptions=True)
        assert [str(each) for each in asked] == ["a"] * 5
    with pytest.raises(RuntimeError, match="b"):
        await ask("b")


@pytest.fixture(scope="module", params=["isal", "zlib"])
def pack(request):
    if request.param == "isal":
        pytest.importorskip("isal", reason="this machine has no isal")
        yield answers.pack
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "isal", None)
        spec = importlib.util.find_spec(answers.__name__)
        without = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(without)
    yield without.pack


@given(
    body=st.one_of(
        st.binary(), st.text().map(str.encode), st.lists(st.sampled_from([b"a 1\n", b"b 2\n"])).map(b"".join)
    )
)
def test_what_is_packed_is_read_by_gzip(pack, body):
    assert gzip.decompress(pack(body)) == body


def test_a_long_page_becomes_small(pack):
    page = b"".join(
        b'batch_job_cpu_seconds_total{job_id="%d"} %d\n' % (each, each * 7) for each in range(20_000)
    )
    assert gzip.decompress(pack(page)) == page
    assert len(pack(page)) < len(page) / 4
