"""Over real HTTP, as agents do it."""

from __future__ import annotations

import asyncio
import base64
import json

import aiohttp
import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.publish.http.webserver import listening
from jobfeatures_exporter.ingest import listener as listener_module
from jobfeatures_exporter.ingest.listener import MAX_AT_ONCE, SonarListener
from jobfeatures_exporter.ingest.users import UsersFile

MAX_BYTES = 100_000


@pytest.fixture(autouse=True)
def narrow_limits(monkeypatch):
    monkeypatch.setattr(listener_module, "MAX_BODY_BYTES", MAX_BYTES)
    monkeypatch.setattr(listener_module, "CLIENT_RATE", 100)


@pytest.fixture
def users(request):
    """Return who may send: anybody, or whom a fixture of this name returns."""
    return request.getfixturevalue(request.param) if hasattr(request, "param") else None


@pytest.fixture
async def post(site, users):
    """Return a function that posts to a listener on a free port, and gives status and text."""
    listener = SonarListener(site.intake, users, site.clock)
    async with listening(listener, "127.0.0.1:0") as address, aiohttp.ClientSession() as session:

        async def send(path, body, method="POST", expect100=None, **headers):
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            headers.setdefault("Content-Type", "application/json")
            url = f"http://{address}{path}"
            async with session.request(
                method, url, data=body, headers=headers, expect100=expect100
            ) as answer:
                return answer.status, await answer.text(), answer.headers

        send.listener, send.address = listener, address
        yield send


@pytest.mark.parametrize(
    "path",
    ["/sample", "/sysinfo", "/job", "/jobs", "/cluster", "/api/v1/sample", "/prefix.sample", "/a/p.cluster"],
)
async def test_documents_are_taken_at_the_addresses_that_agents_use(path, post, site, make):
    status, text, _ = await post(path, json.dumps(make.sample()))
    assert (status, text) == (200, "1 taken\n")
    assert "c1-7" in site.text()


async def test_a_fault_is_answered_with_its_path_and_reason_and_the_rest_is_taken(post, site, make):
    bad = make.sample("c1-9")
    bad["data"]["attributes"]["system"] = {"cpus": [-1]}
    status, text, _ = await post("/sample", json.dumps(bad) + json.dumps(make.sample()))
    assert status == 400
    assert text == "document 1: data.attributes.system.cpus[0]: is negative: -1\n"
    assert "c1-7" in site.text()
    assert "c1-9" not in site.text()


@pytest.mark.parametrize(
    ("path", "body", "more", "expected"),
    [
        ("/sample", b"", {}, 400),
        ("/sample", b"{", {}, 400),
        ("/sample", b"\xff\xfe", {}, 400),
        ("/sample", b"[" * 90_000, {}, 400),
        ("/sample", b'{"data":' + b'{"a":' * 15_000, {}, 400),
        ("/other", b"{}", {}, 404),
        ("/", b"{}", {}, 404),
        ("/../sample.txt", b"{}", {}, 404),
        ("/sample", b"{}", {"method": "PUT"}, 405),
        ("/sample", None, {"method": "GET"}, 405),
        ("/sample", b" " * (MAX_BYTES + 1), {}, 413),
        ("/sample", b"{}", {"Content_Type": "text/html"}, 415),
        ("/sample", b"{}", {"Content_Encoding": "gzip"}, 415),
    ],
)
async def test_what_cannot_be_taken_is_refused_with_a_reason(path, body, more, expected, post):
    status, text, _ = await post(path, body, **more)
    assert status == expected
    assert "Traceback" not in text
    if expected != 415 or more.get("Content_Type"):
        assert text


async def test_a_body_of_unknown_length_is_bounded(post):
    async def chunks():
        for _ in range(20):
            yield b" " * 10_000

    status, _, _ = await post("/sample", chunks())
    assert status == 413


@pytest.fixture
def one_user(tmp_path):
    path = tmp_path / "users"
    path.write_text("hpc.example.org:secret\n")
    path.chmod(0o600)
    return UsersFile(str(path))


@pytest.mark.parametrize("users", ["one_user"], indirect=True)
async def test_users_are_asked_for_their_password(post, make):
    body = json.dumps(make.sample())
    status, _, headers = await post("/sample", body)
    assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="sonar"')
    wrong = "Basic " + base64.b64encode(b"hpc.example.org:wrong").decode()
    assert (await post("/sample", body, Authorization=wrong))[0] == 401
    right = "Basic " + base64.b64encode(b"hpc.example.org:secret").decode()
    assert (await post("/sample", body, Authorization=right))[0] == 200


async def test_who_sends_too_often_has_to_wait(post, make):
    body = json.dumps(make.sample())
    answers = [await post("/sample", body) for _ in range(201)]
    assert [each[0] for each in answers] == [200] * 200 + [429]
    assert answers[-1][2]["Retry-After"] == "10"


async def test_more_at_once_than_there_is_room_for_are_refused(post, make):
    go, begun = asyncio.Event(), []

    async def slowly():
        begun.append(1)  # the listener has room: it said so
        yield b" "
        await go.wait()
        yield json.dumps(make.sample()).encode()

    waiting = [asyncio.create_task(post("/sample", slowly(), expect100=True)) for _ in range(MAX_AT_ONCE)]
    while len(begun) < MAX_AT_ONCE:
        await asyncio.sleep(0.01)
    assert (await post("/sample", b"{}"))[:2] == (429, "all workers are busy\n")
    go.set()
    assert [each[0] for each in await asyncio.gather(*waiting)] == [200] * MAX_AT_ONCE


async def test_who_asks_before_sending_a_body_is_told_to_go_on(post, make):
    body = json.dumps(make.sample()).encode()
    reader, writer = await asyncio.open_connection(*post.address.split(":"))
    head = f"Host: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue"
    writer.write(f"POST /sample HTTP/1.1\r\n{head}\r\n\r\n".encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_who_hangs_up_amid_a_document_leaves_no_message(post, make, caplog):
    head = "Host: x\r\nContent-Type: application/json\r\nContent-Length: 500"
    for _ in range(listener_module.MAX_AT_ONCE + 1):
        _, writer = await asyncio.open_connection(*post.address.split(":"))
        writer.write(f"POST /sample HTTP/1.1\r\n{head}\r\n\r\n[".encode())
        await writer.drain()
        writer.transport.abort()
    async with asyncio.timeout(60):
        while (await post("/sample", json.dumps(make.sample())))[0] == 429:  # their places are held
            await asyncio.sleep(0.01)
    assert caplog.records == []


async def test_an_address_in_use_is_named(post):
    with pytest.raises(ConfigurationError, match=r"sonar\.listen"):
        async with listening(post.listener, post.address):
            pass


async def test_a_user_bound_to_clusters_sends_of_no_others(site, make, tmp_path):
    file = tmp_path / "users"
    file.write_text("mine[hpc.example.org]:a\nall:b\n")
    file.chmod(0o600)
    listener = SonarListener(site.intake, UsersFile(str(file)), site.clock)
    theirs = make.sample("c1-8")
    theirs["data"]["attributes"]["cluster"] = "other.example.org"
    body = json.dumps(make.sample()) + json.dumps(theirs)
    async with listening(listener, "127.0.0.1:0") as address, aiohttp.ClientSession() as session:
        found = []
        for user, password in (("mine", "a"), ("all", "b")):
            basic = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers = {"Content-Type": "application/json", "Authorization": f"Basic {basic}"}
            async with session.post(f"http://{address}/sample", data=body, headers=headers) as answer:
                found.append((answer.status, await answer.text()))
    assert found == [
        (
            400,
            "document 2: data.attributes.cluster: this user may not send for cluster 'other.example.org'\n",
        ),
        (200, "2 taken\n"),
    ]
