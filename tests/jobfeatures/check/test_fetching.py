"""Whatever is in a directory, reading it ends and opens nothing but files."""

import os
import socket

import pytest

from jobfeatures.check.fetching import CannotCheckError, read_directory, read_listing
from jobfeatures.check.listing import MAX_SHOWN_NAMES, DirectoryKind, Trouble


def trouble(path):
    entries, _ = read_directory(str(path))
    return {name: entry.trouble for name, entry in entries.items()}


def test_files_are_read_with_their_times(tmp_path):
    (tmp_path / "total_cpu").write_text("16\n")
    os.utime(tmp_path / "total_cpu", (1, 5))
    entries, is_cut = read_directory(str(tmp_path))
    assert entries["total_cpu"].content == b"16\n"
    assert entries["total_cpu"].written_at_secs == 5
    assert not is_cut


def test_a_fifo_a_socket_and_a_directory_are_named_and_not_opened(sockets):
    os.mkfifo(sockets / "fifo")
    (sockets / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(sockets / "socket"))
        assert set(trouble(sockets).values()) == {Trouble.NOT_A_FILE}
    assert len(trouble(sockets)) == 3


def test_a_link_to_a_device_is_not_opened(tmp_path):
    (tmp_path / "hs06").symlink_to("/dev/zero")
    entries, _ = read_directory(str(tmp_path))
    assert entries["hs06"].trouble is Trouble.NOT_A_FILE
    assert entries["hs06"].is_link


def test_a_link_is_followed_and_told(tmp_path):
    (tmp_path / "value").write_text("5\n")
    (tmp_path / "hs06").symlink_to("value")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    entries, _ = read_directory(str(tmp_path))
    assert entries["hs06"].content == b"5\n"
    assert entries["hs06"].is_link
    assert entries["broken"].trouble is Trouble.UNREADABLE
    assert entries["circle"].trouble is Trouble.UNREADABLE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's link")
def test_a_link_of_another_user_is_not_followed(tmp_path):
    (tmp_path / "hs06").symlink_to("/etc/shadow")
    os.lchown(tmp_path / "hs06", 6001, 6001)
    assert trouble(tmp_path) == {"hs06": Trouble.FOREIGN_LINK}


def test_ten_gigabytes_are_not_read(tmp_path):
    with open(tmp_path / "hs06", "wb") as file:
        file.truncate(10 * 2**30)
    assert trouble(tmp_path) == {"hs06": Trouble.TOO_LARGE}


def test_names_that_are_not_text_can_be_read(tmp_path):
    with open(os.fsencode(tmp_path) + b"/\xff\xfe", "w"):
        pass
    [name] = trouble(tmp_path)
    assert os.fsencode(name) == b"\xff\xfe"


def test_a_million_names_are_not_listed(tmp_path):
    for number in range(MAX_SHOWN_NAMES + 5):
        (tmp_path / str(number)).touch()
    entries, is_cut = read_directory(str(tmp_path))
    assert len(entries) == MAX_SHOWN_NAMES
    assert is_cut


def test_no_descriptor_is_left(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "hs06").write_text("1\n")
    before = os.listdir("/proc/self/fd")
    read_directory(str(tmp_path))
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(
    "location", ["relative", "ftp://x", "/does/not/exist", "/etc/passwd", "http://127.0.0.1:1", ""]
)
def test_what_cannot_be_read_is_told(location):
    with pytest.raises(CannotCheckError):
        read_listing(location, DirectoryKind.JOB)


def test_a_directory_that_could_be_anything_is_not_judged(tmp_path):
    with pytest.raises(CannotCheckError, match="--kind"):
        read_listing(str(tmp_path))
    assert read_listing(str(tmp_path), DirectoryKind.MACHINE).kind is DirectoryKind.MACHINE


def test_an_address_where_tls_is_spoken_is_told(monkeypatch):
    def refuse(*_arguments, **_more):
        raise ConnectionResetError

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    monkeypatch.setattr("jobfeatures.system.httpget.Server.speaks_tls", lambda _self: True)
    with pytest.raises(CannotCheckError, match="https:// instead of http://"):
        read_listing("http://127.0.0.1:9", DirectoryKind.JOB)
