"""What libraries of PyPI do by themselves; `.ci/run next` runs it with their newest versions, nothing pinned.

Each test is named by a line of docs/behaviour.toml and fails where the library does otherwise by now.
"""

from __future__ import annotations

import asyncio
import ctypes.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


def test_clustershell_sorts_drops_repeats_and_refuses_mixed_padding():
    from ClusterShell.NodeSet import NodeSet, NodeSetException

    assert list(NodeSet("n[3,1-2,2-3]")) == ["n1", "n2", "n3"]
    with pytest.raises(NodeSetException):
        NodeSet("n[0001-3]")


def parsed(text: str) -> dict[str, object]:
    """Return what classad2 reads after it has met such a number before: the first one in a process slips through."""
    import classad2

    classad2.parseOne("A = 0x1F\n")
    return dict(classad2.parseOne(text))


@pytest.mark.parametrize("number", ["0x1F", "08", "1."])
def test_classads_end_at_a_number_that_cannot_be_read(number: str):
    assert parsed(f"A = 1\nC = {number}\nD = 2") == {"A": 1}


def test_a_classad_integer_of_64_bits_and_more_is_0():
    assert parsed("A = 9223372036854775808\nB = 1") == {"A": 0, "B": 1}


def test_a_quote_is_the_only_escape_of_classads():
    assert parsed(r'A = "a\tb\"c"') == {"A": r"a\tb" + '"c'}


def test_nvml_without_a_library_says_so():
    if ctypes.util.find_library("nvidia-ml"):
        pytest.skip("this machine has NVML's library")
    import pynvml

    with pytest.raises(pynvml.NVMLError) as caught:
        pynvml.nvmlInit()
    assert caught.value.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND == 12


PYRSMI = """
import logging
logging.disable()
from pyrsmi import rocml
try:
    rocml.smi_initialize()
except Exception as error:
    print("start:", type(error).__name__)
print("devices:", rocml.smi_get_device_count(), "busy:", rocml.smi_get_device_utilization(0))
"""


def test_pyrsmi_without_a_library_counts_no_devices():
    if ctypes.util.find_library("amd_smi"):
        pytest.skip("this machine has AMD SMI's library")
    done = subprocess.run([sys.executable, "-c", PYRSMI], capture_output=True, text=True, timeout=60)
    assert done.stdout == "start: ROCMLError_LibraryNotFound\ndevices: 0 busy: -1\n", done.stderr


def test_pyrsmi_uses_another_library_than_0_2():
    from pyrsmi import rocml

    assert getattr(rocml, "LIBROCM_NAME", "") != "librocm_smi64.so"


def test_prometheus_client_ignores_q():
    from prometheus_client.exposition import choose_encoder

    assert choose_encoder("application/openmetrics-text;version=1.0.0;q=0,text/plain")[1].startswith(
        "application/openmetrics-text"
    )


def statuses(*requests: bytes) -> list[int]:
    """Return how a plain aiohttp server answers each of these requests."""
    from aiohttp import web

    async def ask() -> list[int]:
        app = web.Application()
        app.router.add_route("*", "/", lambda _: asyncio.sleep(0, web.Response(text="x")))
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        [(_, port)] = runner.addresses
        found = []
        for each in requests:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(each)
            found.append(int((await asyncio.wait_for(reader.readline(), 60)).split()[1]))
            writer.close()
        await runner.cleanup()
        return found

    return asyncio.run(ask())


def test_aiohttp_refuses_many_and_long_headers():
    def request(*headers: bytes) -> bytes:
        return b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(each + b"\r\n" for each in headers) + b"\r\n"

    many = [b"X%d: y" % number for number in range(200)]
    assert statuses(
        request(*many[:100]), request(*many), request(b"X: " + b"y" * 8_000), request(b"X: " + b"y" * 9_000)
    ) == [200, 400, 200, 400]


def test_aiohttp_refuses_two_ways_to_tell_a_length():
    body = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%s\r\n1\r\nx\r\n0\r\n\r\n"
    assert statuses(body % b"", body % b"Content-Length: 1\r\n") == [200, 400]


def test_watchdog_says_nothing_of_a_renamed_root_and_follows_it(tmp_path: Path):
    from watchdog.events import FileSystemEventHandler
    from watchdog.observers import Observer

    class Paths(FileSystemEventHandler):
        seen: list[str]

        def on_any_event(self, event):
            self.seen.append(os.fsdecode(event.src_path))

    handler, folder = Paths(), tmp_path / "watched"
    handler.seen = []
    folder.mkdir()
    observer = Observer()
    observer.schedule(handler, str(folder))
    observer.start()
    try:
        folder.rename(tmp_path / "renamed")
        folder.mkdir()
        (folder / "of the new one").touch()
        (tmp_path / "renamed/of the old one").touch()
        deadline = time.monotonic() + 60
        while not handler.seen and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        observer.stop()
        observer.join()
    assert set(handler.seen) <= {str(folder), str(folder / "of the old one")}
    assert str(folder / "of the old one") in handler.seen


def test_textual_has_a_theme_with_the_terminals_own_colours():
    from textual.app import App

    assert {"ansi-dark", "textual-dark"} <= {*App().available_themes}


def test_psutil_counts_children_once_they_are_waited_for():
    import psutil

    def of_children() -> float:
        times = psutil.Process().cpu_times()
        return times.children_user + times.children_system

    before = of_children()
    child = subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"])
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)
    assert of_children() == before
    child.wait()
    assert of_children() >= before + 0.4


def test_dask_reads_a_unit_alone_as_one():
    from dask.utils import parse_timedelta

    assert [parse_timedelta(each) for each in ("s", "7180", "7180 s", "0")] == [1, 7180, 7180, 0]
    with pytest.raises(ValueError, match=r"1:59:40|float"):
        parse_timedelta("1:59:40")
