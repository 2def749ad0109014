"""Reading features over HTTP, by the readers that jobs have."""

import asyncio
import http.client
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.client import Features
from jobfeatures.records.model import JobKey

KEY = JobKey("slurm", "12")


async def run(*argv):
    return await asyncio.to_thread(subprocess.run, argv, capture_output=True, timeout=20)


async def test_urlopen_reads_values_and_raises_for_what_is_missing(site):
    def read():
        with urllib.request.urlopen(f"{site.url}/machinefeatures/total_cpu") as response:
            value = response.read()
        with urllib.request.urlopen(f"{site.url}{site.job}/allocated_cpu") as response:
            own = response.read()
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"{site.url}/machinefeatures/hs06")
        with missing.value as error:
            return value, own, error.code, error.read()

    assert await asyncio.to_thread(read) == (b"8\n", b"4\n", 404, b"")


@pytest.mark.skipif(shutil.which("wget") is None, reason="wget is not installed")
async def test_wget_prints_the_value_and_nothing_for_what_is_missing(site):
    done = await run("wget", "-q", "-O", "-", f"{site.url}{site.job}/wall_limit_secs")
    assert (done.returncode, done.stdout) == (0, b"420\n")
    done = await run("wget", "-q", "-O", "-", f"{site.url}{site.job}/hs06_job")
    assert (done.returncode, done.stdout) == (8, b"")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_without_fail_takes_no_error_page_for_a_value(site):
    assert (await run("curl", "-s", f"{site.url}/machinefeatures/total_cpu")).stdout == b"8\n"
    assert (await run("curl", "-s", f"{site.url}/machinefeatures/hs06")).stdout == b""


async def test_our_own_client_reads_both_areas(site):
    features = Features(f"{site.url}/machinefeatures", f"{site.url}{site.job}")
    assert await asyncio.to_thread(features.get, "machine", "total_cpu") == "8"
    assert await asyncio.to_thread(features.get, "job", "wall_limit_secs") == "420"
    assert await asyncio.to_thread(features.get, "job", "cpu_limit_secs") is None


async def test_one_connection_serves_many_requests(site):
    def read():
        connection = http.client.HTTPConnection(site.host, site.port, timeout=20)
        bodies, sockets = [], set()
        for path in ("/machinefeatures/total_cpu", "/nothing/there", f"{site.job}/allocated_cpu"):
            connection.request("GET", path)
            bodies.append(connection.getresponse().read())
            sockets.add(connection.sock.getsockname())
        connection.close()
        return bodies, len(sockets)

    assert await asyncio.to_thread(read) == ([b"8\n", b"", b"4\n"], 1)


async def test_an_http_1_0_reader_gets_its_answer(site):
    reader, writer = await asyncio.open_connection(site.host, site.port)
    writer.write(b"GET /machinefeatures/total_cpu HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"\r\n\r\n8\n")
    writer.close()


async def test_headers_say_type_length_and_lifetime(site):
    static = await site.get("/machinefeatures/total_cpu")
    assert static.headers["Content-Type"].startswith("text/plain")
    assert static.headers["Content-Length"] == "2"
    assert static.headers["Cache-Control"] == "max-age=30"
    assert static.headers["Last-Modified"].endswith(" GMT")
    dynamic = await site.get("/machinefeatures/shutdowntime")
    assert dynamic.headers["Cache-Control"] == "max-age=1"
    own = await site.get(f"{site.job}/allocated_cpu")
    assert own.headers["Cache-Control"] == "private, max-age=30"
    assert (await site.get("/machinefeatures/hs06")).headers["Cache-Control"] == "no-store"


async def test_head_has_the_headers_of_get_and_no_body(site):
    answer = await site.ask("HEAD", "/machinefeatures/total_cpu")
    assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "2", b"")


async def test_a_reader_who_has_the_value_gets_304(site):
    first = await site.get("/machinefeatures/total_cpu")
    etag = first.headers["ETag"]
    for headers in (
        {"If_None_Match": etag},
        {"If_None_Match": f'"other", W/{etag}'},
        {"If_None_Match": "*"},
        {"If_Modified_Since": first.headers["Last-Modified"]},
    ):
        again = await site.get("/machinefeatures/total_cpu", **headers)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", etag), headers
    for headers in (
        {"If_None_Match": '"other"'},
        {"If_None_Match": '"other"', "If_Modified_Since": first.headers["Last-Modified"]},
        {"If_Modified_Since": "Sat, 01 Jan 2000 00:00:00 GMT"},
        {"If_Modified_Since": "yesterday"},
    ):
        assert (await site.get("/machinefeatures/total_cpu", **headers)).status == 200, headers
    site.tree.write_machine({"total_cpu": "9"})
    changed = await site.get("/machinefeatures/total_cpu", If_None_Match=etag)
    assert (changed.status, changed.body) == (200, b"9\n")


async def test_a_directory_lists_its_keys_one_a_line(site):
    for path in ("/machinefeatures", "/machinefeatures/", "//machinefeatures//"):
        assert (await site.get(path)).body == b"shutdowntime\ntotal_cpu\n"
    assert (await site.get(site.job)).body == b"allocated_cpu\nwall_limit_secs\n"


async def test_double_and_trailing_slashes_are_accepted(site):
    for path in (
        "//machinefeatures//total_cpu",
        "/machinefeatures/total_cpu/",
        "/machinefeatures/total_cpu?x=1",
    ):
        assert (await site.get(path)).body == b"8\n", path


HOSTILE = [
    "/",
    "/jobfeatures",
    "/jobstatus/",
    "/machinefeatures/../records/slurm-12.json",
    "/machinefeatures/..%2frecords",
    "/machinefeatures/%2e%2e/tokens",
    "/machinefeatures/total_cpu%00",
    "/machinefeatures/.",
    "/machinefeatures%2ftotal_cpu",
    "/tokens/slurm-12",
    "/jobfeatures/slurm-12/allocated_cpu",
    "/jobfeatures/" + "0" * 48 + "/allocated_cpu",
    "/machinefeatures/" + "a" * 1000,
    "/machinefeatures/total_cpu/x",
    "/favicon.ico",
]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
async def test_what_is_not_there_is_404_with_an_empty_body(site, path, method):
    answer = await site.ask(method, path)
    assert (answer.status, answer.body) == (404, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"])
async def test_features_are_not_written_and_the_refusal_is_empty(site, method):
    answer = await site.ask(method, f"{site.job}/allocated_cpu")
    assert answer.status in ((405, 400) if method == "BREW" else (405,))
    assert answer.body == b""
    assert answer.status == 400 or answer.headers["Allow"] == "GET, HEAD"


async def test_links_fifos_and_other_things_are_not_served(site):
    folder = f"{site.tree.root}/machinefeatures"
    secret = f"{site.tree.root}/secret"
    with open(secret, "w") as file:
        file.write("secret\n")
    os.symlink(secret, f"{folder}/hs06")
    os.link(secret, f"{folder}/grace_secs")
    os.mkfifo(f"{folder}/jobslots")
    os.mkdir(f"{folder}/phys_cores")
    with open(f"{folder}/log_cores", "wb") as file:
        file.truncate(10 * 2**30)
    server = socket.socket(socket.AF_UNIX)
    old = os.getcwd()
    os.chdir(folder)
    try:
        server.bind("hs23")
    finally:
        os.chdir(old)
        server.close()
    for name in ("hs06", "grace_secs", "jobslots", "phys_cores", "log_cores", "hs23"):
        answer = await site.get(f"/machinefeatures/{name}")
        assert (answer.status, answer.body) == (404, b""), name
    assert (await site.get("/machinefeatures/total_cpu")).body == b"8\n"


async def test_a_job_published_now_is_served_now_and_gone_when_it_ends(site):
    for number in range(20):
        key = JobKey("slurm", f"7{number}")
        site.tree.write_job(key, {"job_id": f"7{number}"})
        token = site.tree.make_token(key)
        assert (await site.get(f"/jobfeatures/{token}/job_id")).body == f"7{number}\n".encode()
        site.tree.remove_job(key)
        assert (await site.get(f"/jobfeatures/{token}/job_id")).status == 404


async def test_a_job_that_starts_again_has_another_token(site):
    site.tree.remove_job(KEY)
    site.tree.write_job(KEY, {"job_id": "12"})
    new = site.tree.make_token(KEY)
    assert new != site.token
    assert (await site.get(f"/jobfeatures/{new}/job_id")).body == b"12\n"
    await asyncio.sleep(0.005)
    assert (await site.get(f"{site.job}/job_id")).status == 404


async def test_a_job_that_asks_too_often_does_not_slow_the_others(serve, tree, no_refill):
    other = JobKey("slurm", "13")
    tree.write_job(other, {"job_id": "13"})
    async with serve(job_rate=5.0) as site:
        statuses = [(await site.get(f"{site.job}/allocated_cpu")).status for _ in range(30)]
        assert statuses == [200] * 10 + [429] * 20
        refused = await site.get(f"{site.job}/allocated_cpu")
        assert (refused.status, refused.body, refused.headers["Retry-After"]) == (429, b"", "1")
        token = tree.make_token(other)
        assert (await site.get(f"/jobfeatures/{token}/job_id")).status == 200


async def test_the_listener_has_a_limit_of_its_own(serve, no_refill):
    async with serve(rate=2.0) as site:
        statuses = [(await site.get("/machinefeatures/total_cpu")).status for _ in range(12)]
    assert statuses == [200] * 4 + [429] * 8
    assert site.server.counts[429] == statuses.count(429)


@given(path=st.binary(max_size=200), method=st.sampled_from([b"GET", b"PUT", b"POST", b"\xff", b""]))
def test_any_bytes_get_an_answer_without_a_body_or_a_value(path, method, tmp_path_factory):
    async def attempt():
        from jobfeatures.publish.http.server import FeatureServer
        from jobfeatures.publish.http.webserver import listening
        from jobfeatures.publish.tree import FeatureTree

        tree = FeatureTree(str(tmp_path_factory.getbasetemp() / "fuzzed"))
        tree.write_machine({"total_cpu": "8"})
        server = FeatureServer(tree)
        async with listening(server, "127.0.0.1:0") as address:
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(method + b" /" + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            writer.write_eof()
            answer = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return answer, server.counts[500]

    answer, failures = asyncio.run(attempt())
    assert failures == 0
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b"" or b" 200 " in head.splitlines()[0], answer
