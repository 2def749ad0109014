"""Writing and reading the job status over HTTP."""

import asyncio
import contextlib
import fcntl
import json
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.client import Features, StatusWriter
from jobfeatures.publish.http import server as module
from jobfeatures.records.model import JobKey
from jobfeatures.status.directory import read_status
from jobfeatures.status.jobstatus import parse_job_status

KEY = JobKey("slurm", "12")
SET = b'{"used_CPU": 3, "last_job_start": 1800000000, "can_postpone_last_job": true}'


def files(site):
    return {path.name: path.read_text() for path in Path(site.status_folder).iterdir()}


async def test_one_key_is_put_and_read(site):
    put = await site.ask("PUT", f"{site.status}/used_CPU", b"2")
    assert (put.status, put.body) == (204, b"")
    assert files(site) == {"used_CPU": "2\n"}
    read = await site.get(f"{site.status}/used_CPU")
    assert (read.status, read.body, read.headers["Cache-Control"]) == (200, b"2\n", "no-store")
    assert read.headers["ETag"] == put.headers["ETag"]
    assert await asyncio.to_thread(Features(job=site.url + site.status).get, "job", "used_CPU") == "2"


async def test_the_client_writes_to_an_address_as_it_does_to_a_directory(site):
    def pilot():
        with StatusWriter(site.url + site.status, allocated_cpu=8) as writer:
            writer.update(used_CPU=3, can_postpone_last_job=True)
            writer.update(used_CPU=2, priority_factor=-1)
            writer.update(can_postpone_last_job=None)
            writer.amend(last_job_start=1800000000)
            with pytest.raises(ValueError, match="9 is more than the 8"):
                writer.update(used_CPU=9)
        with pytest.raises(ValueError, match="closed"):
            writer.update(used_CPU=1)

    await asyncio.to_thread(pilot)
    assert files(site) == {"used_CPU": "2\n", "priority_factor": "-1\n", "last_job_start": "1800000000\n"}


async def test_the_client_keeps_what_others_put_if_it_amends_and_not_if_it_updates(site):
    await site.ask("PUT", site.status, SET)
    with StatusWriter(site.url + site.status) as writer:
        await asyncio.to_thread(lambda: writer.amend(used_CPU=1))
        assert len(files(site)) == 3
        await asyncio.to_thread(lambda: writer.update(priority_factor=1))
    assert files(site) == {"used_CPU": "1\n", "priority_factor": "1\n"}


async def test_what_the_server_refuses_is_told_by_kind(site, monkeypatch):
    def raised(kind, path, **values):
        with StatusWriter(site.url + path) as writer, pytest.raises(kind) as error:
            writer.amend(**values)
        return str(error.value)

    # 4 processors: only the server knows that
    assert "refused" in await asyncio.to_thread(lambda: raised(ValueError, site.status, used_CPU=99999))
    assert "404" in await asyncio.to_thread(lambda: raised(OSError, "/jobstatus/none", used_CPU=1))
    monkeypatch.setattr(module, "LOCK_WAIT_SECS", 0)
    await site.ask("PUT", site.status, SET)
    with open(f"{site.status_folder}/used_CPU") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "503" in await asyncio.to_thread(lambda: raised(TimeoutError, site.status, used_CPU=1))


async def test_a_set_is_put_at_once_as_json_or_lines(site):
    assert (await site.ask("PUT", site.status, SET)).status == 204
    expected = {"used_CPU": "3\n", "last_job_start": "1800000000\n", "can_postpone_last_job": "True\n"}
    assert files(site) == expected
    lines = b"used_CPU 1\nfirst_exp_job_end 1800000100\r\nlast_exp_job_end\t1800000200\n"
    assert (await site.ask("PUT", f"{site.status}/", lines)).status == 204
    assert files(site) == {
        "used_CPU": "1\n",
        "first_exp_job_end": "1800000100\n",
        "last_exp_job_end": "1800000200\n",
    }


async def test_post_keeps_what_it_does_not_name_and_takes_away_what_is_null(site):
    await site.ask("PUT", site.status, SET)
    assert (await site.ask("POST", site.status, b'{"used_CPU": 4, "last_job_start": null}')).status == 204
    assert files(site) == {"used_CPU": "4\n", "can_postpone_last_job": "True\n"}
    assert (await site.get(site.status)).body == b"used_CPU\ncan_postpone_last_job\n"


async def test_files_are_the_job_s_and_readable_by_all(site):
    await site.ask("PUT", site.status, SET)
    for name in files(site):
        found = Path(site.status_folder, name).stat()
        assert (found.st_uid, found.st_mode & 0o777) == (os.getuid(), 0o644)
    values = read_status(site.status_folder, owner_uid=os.getuid()).values
    assert parse_job_status(values, allocated_cpus=4).used_cpu == 3


async def test_an_update_that_was_lost_is_refused(site):
    first = (await site.ask("PUT", site.status, SET)).headers["ETag"]
    second = await site.ask("PUT", f"{site.status}/used_CPU", b"4", If_Match=first)
    assert second.status == 204
    lost = await site.ask("PUT", f"{site.status}/used_CPU", b"1", If_Match=first)
    assert (lost.status, lost.body) == (412, b"")
    assert files(site)["used_CPU"] == "4\n"
    assert (await site.ask("PUT", f"{site.status}/used_CPU", b"1", If_Match="*")).status == 204
    assert (await site.ask("PUT", site.status, SET, If_None_Match="*")).status == 412


async def test_of_two_writers_with_one_tag_one_wins(site):
    tag = (await site.ask("PUT", site.status, SET)).headers["ETag"]
    answers = await asyncio.gather(
        *(site.ask("PUT", f"{site.status}/used_CPU", str(n).encode(), If_Match=tag) for n in (1, 2))
    )
    assert sorted(answer.status for answer in answers) == [204, 412]


async def test_a_tag_of_nothing_matches_nothing(site):
    assert (await site.ask("PUT", site.status, SET, If_Match="*")).status == 412
    assert (await site.ask("PUT", site.status, SET, If_None_Match="*")).status == 204


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/used_CPU", b"5"),  # 4 are allocated
        ("/used_CPU", b"-1"),
        ("/used_CPU", b"two"),
        ("/used_CPU", b"1\n2\n"),
        ("/used_CPU", b""),
        ("/used_CPU", b"9" * 30),
        ("/can_postpone_last_job", b"true"),
        ("", b""),
        ("", b"{}"),
        ("", b"[1]"),
        ("", b'{"used_CPU": 1, "used_CPU": 2}'),
        ("", b'{"used_CPU": 1.5}'),
        ("", b'{"used_CPU": {"a": 1}}'),
        ("", b'{"used_CPU": 1, "shutdowntime": 1}'),
        ("", b'{"used_CPU": 1'),
        ("", b"used_CPU"),
        ("", b"used_CPU 1\nused_CPU 2"),
        ("", b'{"last_job_start": 5}'),
        ("", b'{"used_CPU": 1, "first_exp_job_end": 20, "last_exp_job_end": 10}'),
        ("", b"{" * 4000),
    ],
)
async def test_a_set_that_is_wrong_is_refused_whole_with_its_reason(site, path, body):
    await site.ask("PUT", site.status, SET)
    before = files(site)
    answer = await site.ask("PUT", site.status + path, body)
    assert answer.status == 422
    assert answer.body.count(b"\n") == 1
    assert files(site) == before


async def test_a_key_without_used_cpu_makes_no_file(site):
    assert (await site.ask("PUT", f"{site.status}/priority_factor", b"3")).status == 422
    assert files(site) == {}
    assert (await site.get(site.status)).body == b""


async def test_only_the_nine_names_are_there(site):
    for name in ("used_cpu", "allocated_cpu", "used_CPU_", "x"):
        for method in ("GET", "PUT"):
            answer = await site.ask(method, f"{site.status}/{name}", b"1" if method == "PUT" else None)
            assert (answer.status, answer.body) == (404, b"")
    assert (await site.ask("POST", f"{site.status}/used_CPU", b"1")).headers["Allow"] == "GET, HEAD, PUT"
    assert (await site.ask("DELETE", site.status)).headers["Allow"] == "GET, HEAD, PUT, POST"


async def test_who_asks_before_sending_a_body_is_told_to_go_on_and_the_connection_is_of_further_use(site):
    """curl -T asks so before it sends a byte, up to curl 8."""
    reader, writer = await asyncio.open_connection(*site.url.removeprefix("http://").split(":"))
    for _ in range(2):
        head = "Host: 127.0.0.1\r\nContent-Length: 2\r\nExpect: 100-continue"
        writer.write(f"PUT {site.status}/used_CPU HTTP/1.1\r\n{head}\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"1\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204 ")
    writer.close()
    assert files(site) == {"used_CPU": "1\n"}


async def test_a_body_that_is_too_large_or_packed_is_refused(site):
    large = b"used_CPU " + b"1" * 5000
    assert (await site.ask("PUT", site.status, large)).status == 413
    chunked = await site.ask("PUT", site.status, iter([large]))
    assert chunked.status == 413
    assert (await site.ask("PUT", site.status, SET, Content_Encoding="gzip")).status == 415
    assert files(site) == {}


@contextlib.contextmanager
def holding(path, kind):
    with open(path, "r+") as file:
        if kind == "flock":
            fcntl.flock(file, fcntl.LOCK_EX)
        else:  # as another process would hold it
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield


@pytest.mark.parametrize("kind", ["flock", "fcntl"])
async def test_a_lock_held_for_ever_costs_its_own_job_alone(site, kind, monkeypatch):
    monkeypatch.setattr(module, "LOCK_WAIT_SECS", 3600.0)
    await site.ask("PUT", site.status, SET)
    with holding(f"{site.status_folder}/used_CPU", kind):
        asked = [asyncio.create_task(site.ask("PUT", site.status, SET)) for _ in range(6)]
        answers = asyncio.as_completed(asked)
        assert [(await next(answers)).status for _ in range(2)] == [429, 429]
        assert (await site.get("/machinefeatures/total_cpu")).status == 200
        assert files(site)["used_CPU"] == "3\n"
    assert [(await each).status for each in answers] == [204] * 4
    with holding(f"{site.status_folder}/used_CPU", kind):
        monkeypatch.setattr(module, "LOCK_WAIT_SECS", 0.1)
        assert (await site.ask("PUT", site.status, SET)).status == 503
        assert (await site.get(f"{site.status}/used_CPU")).status == 503
    assert (await site.ask("PUT", site.status, SET)).status == 204


async def test_the_job_s_own_writer_and_http_write_the_same_set(site):
    def write(number):
        with StatusWriter(site.status_folder, allocated_cpu=4) as writer:
            writer.update(used_CPU=number % 4, add_uncom_time=number)

    async def put(number):
        body = {"used_CPU": number % 4, "add_uncom_time": number}
        assert (await site.ask("PUT", site.status, json.dumps(body).encode())).status == 204

    async def watch():
        for _ in range(60):
            found = await asyncio.to_thread(
                read_status, site.status_folder, owner_uid=os.getuid(), lock_timeout_secs=20
            )
            values = found.values
            if values and values != {"used_CPU": b""}:
                status = parse_job_status(values, allocated_cpus=4)
                assert status.used_cpu == status.add_uncom_time % 4

    await asyncio.gather(
        watch(),
        *(asyncio.to_thread(write, number) for number in range(10)),
        *(put(number) for number in range(10, 14)),
    )


@pytest.mark.parametrize("name", ["used_CPU", "add_uncom_time"])
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "directory", "large"])
async def test_what_is_in_the_way_is_not_written_through(site, name, kind, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    place = Path(site.status_folder, name)
    match kind:
        case "link":
            place.symlink_to(victim)
        case "hard link":
            place.hardlink_to(victim)
        case "fifo":
            os.mkfifo(place)
        case "directory":
            place.mkdir()
        case "large":
            place.write_text("1" * 100)
    answer = await site.ask("PUT", site.status, b'{"used_CPU": 1, "add_uncom_time": 2}')
    assert (answer.status, answer.body) == (409, b"")
    assert (await site.get(f"{site.status}/{name}")).status == 404
    assert victim.read_text() == "precious"


async def test_a_directory_swapped_for_a_link_is_not_entered(site, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.rmdir(site.status_folder)
    os.symlink(elsewhere, site.status_folder)
    assert (await site.ask("PUT", site.status, SET)).status == 409
    assert list(elsewhere.iterdir()) == []


async def test_a_full_disk_is_told_and_the_old_set_stays(site, monkeypatch):
    await site.ask("PUT", site.status, SET)
    before, real = files(site), os.pwrite

    def full(file, content, offset):
        if content == b"1700000000\n":
            raise OSError(28, "No space left on device")
        return real(file, content, offset)

    monkeypatch.setattr(os, "pwrite", full)
    answer = await site.ask("POST", site.status, b'{"used_CPU": 1, "last_job_start": 1700000000}')
    assert (answer.status, answer.body) == (507, b"")
    assert files(site) == before


async def test_a_job_that_has_ended_has_no_status(site):
    site.tree.remove_job(KEY)
    await asyncio.sleep(0.005)
    assert (await site.ask("PUT", site.status, SET)).status == 404


@given(body=st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)))
def test_any_body_is_written_whole_or_refused(body, tmp_path_factory):
    from jobfeatures.errors import ParseError
    from jobfeatures.status.jobstatus import parse_status_body
    from jobfeatures.status.write import write_status

    folder = tmp_path_factory.getbasetemp() / "fuzzed-status"
    folder.mkdir(exist_ok=True)

    def change(_old):
        return {name: value for name, value in parse_status_body(body).items() if value is not None}

    try:
        new = write_status(str(folder), change, owner_uid=os.getuid(), allocated_cpus=4)
    except ParseError:
        return
    assert read_status(str(folder), owner_uid=os.getuid()).values == new
