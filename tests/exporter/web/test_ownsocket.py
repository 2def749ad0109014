"""The socket on which users see their own jobs: who is let in, and what for."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import tempfile
from dataclasses import replace

import pytest

from jobfeatures.errors import ConfigurationError
from jobfeatures.records.model import JobKey
from jobfeatures.system.httpget import Server
from jobfeatures_exporter.cli import main
from jobfeatures_exporter.commands import top
from jobfeatures_exporter.web import ownsocket
from jobfeatures_exporter.web.ownsocket import MAX_CONNECTIONS_OF_ONE, OVERFLOW_UID, OwnSocket, serving_own
from tests.configured import configured

OWN = JobKey("slurm", "12")


@pytest.fixture
def known(context):
    """Return what is known where the job is that of whoever runs this test, and all others somebody else's."""
    me = os.getuid()
    jobs = {key: replace(job, uid=me if key == OWN else me + 1) for key, job in context.jobs.items()}
    ended = {key: replace(each, job=replace(each.job, uid=me + 1)) for key, each in context.ended.items()}
    return replace(context, jobs=jobs, ended=ended)


@pytest.fixture
def own(known):
    return OwnSocket(
        lambda: known, lambda context, asked: ",".join(key.job_id for key in context.jobs) or None
    )


def ask(own, path, *questions, method=None):
    """Return status and text of the answers to some questions, each on a connection of its own."""

    async def run():
        async with serving_own(str(path), own):
            server = Server(f"unix:{path}")
            found = []
            for question in questions:
                answer = await asyncio.to_thread(server.get, question)
                found.append((answer.status, answer.body.decode()))
            return found

    return asyncio.run(run())


def test_the_caller_sees_the_own_job_and_no_other(own, sockets):
    [(status, text), (page_status, page)] = ask(own, sockets / "own", "/metrics", "/")
    assert (status, page_status) == (200, 200)
    assert 'job_id="12"' in text
    assert 'job_id="8"' not in text
    assert page == "12"


def test_anybody_may_open_it_and_it_is_gone_at_the_end(own, sockets):
    async def run():
        async with serving_own(str(sockets / "own"), own):
            return stat.S_IMODE(os.lstat(sockets / "own").st_mode)

    assert asyncio.run(run()) == 0o666
    assert not (sockets / "own").exists()


def test_what_is_no_page_is_not_found_and_nothing_can_be_changed(own, sockets):
    path = sockets / "own"

    async def run():
        async with serving_own(str(path), own):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(
                b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            answer = await reader.read()
            writer.close()
            return answer

    answer = asyncio.run(run())
    assert b" 405 " in answer.splitlines()[0]
    assert b"\r\nServer: jobfeatures\r\n" in answer
    assert [status for status, _ in ask(own, path, "/sd", "/-/ready", "/docs/")] == [404] * 3


def test_the_overflow_uid_and_foreign_namespaces_are_refused(own, tmp_path):
    assert own.refusal(os.getpid(), os.getuid()) == ""
    assert "not mapped" in own.refusal(os.getpid(), OVERFLOW_UID)
    for pid, text in (
        ("self", "         0          0 4294967295\n"),
        ("7", "         0       1000          1\n"),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "uid_map").write_text(text)
    (tmp_path / "8").mkdir()
    (tmp_path / "8/uid_map").write_text((tmp_path / "self/uid_map").read_text())
    elsewhere = OwnSocket(lambda: None, lambda *_: None, str(tmp_path))
    assert "maps uids differently" in elsewhere.refusal(7, 1000)
    assert elsewhere.refusal(8, 1000) == ""
    assert "cannot be read" in elsewhere.refusal(9, 1000)  # it has gone


def test_a_refused_caller_gets_no_answer_at_all(own, sockets, monkeypatch):
    monkeypatch.setattr(own, "refusal", lambda _pid, _uid: "no")
    path = sockets / "own"

    async def run():
        async with serving_own(str(path), own):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    assert asyncio.run(run()) == b""


def test_one_user_has_so_many_connections_and_no_more(own, sockets):
    path = sockets / "own"

    async def run():
        async with serving_own(str(path), own):
            held = [await asyncio.open_unix_connection(str(path)) for _ in range(MAX_CONNECTIONS_OF_ONE)]
            held[0][1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await held[0][0].readline()  # so all of them have been taken
            for _, writer in held[1:]:
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            for reader, _ in held[1:]:
                assert b"200" in await reader.readline()
            one_more, writer = await asyncio.open_unix_connection(str(path))
            held.append((one_more, writer))
            try:
                ended = await one_more.read()
            except ConnectionError:
                ended = b""
            for _, each in held:
                each.close()
            return ended

    assert asyncio.run(run()) == b""


def test_one_user_asks_so_often_and_no_more_and_others_are_not_held_up(note_made):
    made = note_made(ownsocket, "Rates")
    OwnSocket(lambda: None, lambda *_: None)
    [rates] = made
    answers = [rates.take(1000, 50.0) for _ in range(25)]
    assert answers == [True] * 20 + [False] * 5
    assert rates.take(1001, 50.0)
    assert rates.take(1000, 50.3)
    assert not rates.take(1000, 50.3)


def test_a_socket_that_a_killed_daemon_left_is_replaced_and_nothing_else(own, sockets):
    path = sockets / "own"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    assert ask(own, path, "/") == [(200, "12")]
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match=r"web\.own_socket"):
        ask(own, path, "/")
    assert path.read_text() == "mine"


ASKS = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
try:
    s.sendall(b"GET /metrics HTTP/1.0\\r\\n\\r\\n")
    while data := s.recv(65536):
        sys.stdout.buffer.write(data)
except ConnectionError:
    pass
"""
PYTHON = "/usr/bin/python3"  # which every user may run


@pytest.mark.program
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it asks as other users")
@pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"{PYTHON} is not here")
def test_each_of_two_users_sees_the_own_job_and_one_in_another_namespace_nothing(context):
    jobs = {
        key: replace(job, uid={"12": 61_001, "11": 61_002}.get(key.job_id, 61_003))
        for key, job in context.jobs.items()
    }
    other = next(key for key in jobs if key != OWN)
    jobs[other] = replace(jobs[other], uid=61_002)
    known = replace(context, jobs=jobs, ended={})
    own = OwnSocket(lambda: known, lambda *_: None)

    async def ask_as(uid, path, *before):
        process = await asyncio.create_subprocess_exec(
            *before, PYTHON, "-c", ASKS, path, user=uid, group=uid, extra_groups=[], cwd="/",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        answer, complaint = await process.communicate()
        return answer.decode(), complaint.decode()

    async def run(path):
        async with serving_own(path, own):
            return [
                await ask_as(61_001, path),
                await ask_as(61_002, path),
                await ask_as(OVERFLOW_UID, path),
                await ask_as(61_001, path, "unshare", "--user", "--map-root-user"),
            ]

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o711)
        (first, _), (second, _), (overflow, _), (elsewhere, complaint) = asyncio.run(run(f"{folder}/own"))
    assert 'job_id="12"' in first
    assert other.job_id not in first
    assert 'job_id="12"' not in second
    assert 'batch_job_info{batch_system="' + other.batch_system in second
    assert overflow == ""
    if "unshare" not in complaint:  # not every machine lets users have namespaces
        assert elsewhere == ""


def test_top_shows_what_the_socket_gives(own, sockets, capsys, monkeypatch):
    path = sockets / "own"
    monkeypatch.setattr(top, "ONCE_SECS", 0.01)

    async def run():
        async with serving_own(str(path), own):
            return await asyncio.to_thread(main, ["top", "--once", "--url", f"unix:{path}"])

    assert asyncio.run(run()) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\b12\b", shown)
    assert not re.search(r"^\s*8\s", shown, re.MULTILINE)


def test_top_of_a_plain_user_asks_the_socket_by_itself(sockets, monkeypatch):
    config = configured(web_own_socket=str(sockets / "own"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert top.own_socket(config) == ""  # there is none
    (sockets / "own").touch()
    assert top.own_socket(config) == f"unix:{sockets / 'own'}"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert top.own_socket(config) == ""
