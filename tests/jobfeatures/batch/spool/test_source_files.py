"""What can be wrong with the files of a spool folder, and with the folder."""

from __future__ import annotations

import os
import socket

import pytest

from jobfeatures.batch.spool import source as spool
from jobfeatures.batch.spool.source import SpoolSource
from jobfeatures.errors import SourceError
from tests.configured import settings_for
from tests.jobfeatures.batch.spool.conftest import document, key, poll, reasons, skip_if_readable

# --- files ----------------------------------------------------------------------------


def make_fifo(path):
    os.mkfifo(path)


def make_link(path):
    target = path.parent / "target.txt"
    target.write_text(document("7"))
    path.symlink_to(target)


def make_dangling_link(path):
    path.symlink_to("/does/not/exist")


def make_endless_link(path):
    path.symlink_to("/dev/zero")


def make_folder(path):
    path.mkdir()


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket is limited to 108 bytes
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


def make_sparse(path):
    with open(path, "wb") as file:
        file.truncate(10 * 2**30)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_fifo, "not a regular file"),
        (make_link, "not a regular file"),
        (make_dangling_link, "not a regular file"),
        (make_endless_link, "not a regular file"),
        (make_folder, "not a regular file"),
        (make_socket, "not a regular file"),
        (make_sparse, "larger than 1048576 bytes"),
    ],
)
def test_what_is_not_a_small_regular_file_is_rejected_and_nothing_hangs(source, put, folder, make, reason):
    put("6.xml", document("6"))
    make(folder / "7.xml")
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("6")}, False)
    assert [(note.source, note.reason) for note in table.rejected] == [(str(folder / "7.xml"), reason)]


@pytest.mark.parametrize("make", [make_fifo, make_link, make_folder, make_sparse])
def test_what_takes_the_place_of_a_good_file_ends_no_job(source, put, folder, make):
    put("7.xml", document("7"))
    before = poll(source).jobs
    (folder / "7.xml").unlink()
    make(folder / "7.xml")
    table = poll(source)
    assert (table.jobs, table.complete, len(table.rejected)) == (before, True, 1)


def test_a_file_that_turns_into_a_fifo_after_listing_does_not_hang(folder, source, put, monkeypatch):
    put("7.xml", document("7"))
    regular = os.stat(folder / "7.xml")
    (folder / "7.xml").unlink()
    os.mkfifo(folder / "7.xml")
    monkeypatch.setattr(source, "_list", lambda descriptor: ({"7.xml": regular}, []))
    assert reasons(poll(source)) == ["not a regular file"]


def test_a_file_that_turns_into_a_link_after_listing_is_not_followed(folder, source, put, monkeypatch):
    put("7.xml", document("7"))
    regular = os.stat(folder / "7.xml")
    (folder / "7.xml").unlink()
    make_link(folder / "7.xml")
    monkeypatch.setattr(source, "_list", lambda descriptor: ({"7.xml": regular}, []))
    table = poll(source)
    assert (dict(table.jobs), table.complete, len(table.rejected)) == ({}, False, 1)


def test_a_file_that_goes_after_listing_is_gone(folder, source, put, monkeypatch):
    put("7.xml", document("7"))
    regular = os.stat(folder / "7.xml")
    (folder / "7.xml").unlink()
    monkeypatch.setattr(source, "_list", lambda descriptor: ({"7.xml": regular}, []))
    table = poll(source)
    assert (dict(table.jobs), table.complete, table.rejected) == ({}, True, ())


def test_an_unreadable_file_is_rejected_until_it_can_be_read(source, put, folder):
    put("7.xml", document("7"))
    (folder / "7.xml").chmod(0)
    skip_if_readable(folder / "7.xml")
    table = poll(source)
    assert (dict(table.jobs), table.complete, reasons(table)) == ({}, False, ["Permission denied"])
    (folder / "7.xml").chmod(0o644)
    assert set(poll(source).jobs) == {key("7")}


def test_a_file_that_the_system_refuses_is_asked_for_again(source, put, monkeypatch):
    put("7.xml", document("7"))
    read = spool.read_document

    def fail(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(spool, "read_document", fail)
    table = poll(source)
    assert (dict(table.jobs), table.complete, reasons(table)) == ({}, False, ["Permission denied"])
    monkeypatch.setattr(spool, "read_document", read)
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("7")}, True)


def test_a_file_that_grows_while_it_is_read_is_not_read_beyond_the_limit(folder, put, monkeypatch):
    put("7.xml", "x" * 100)
    monkeypatch.setattr(spool, "_check_status", lambda status: None)  # it was shorter then
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        monkeypatch.setattr(spool, "MAX_FILE_BYTES", 99)
        with pytest.raises(Exception, match="larger than 99 bytes"):
            spool.read_document(descriptor, "7.xml")
        monkeypatch.setattr(spool, "MAX_FILE_BYTES", 100)
        assert spool.read_document(descriptor, "7.xml")[1] == b"x" * 100
    finally:
        os.close(descriptor)


def test_odd_file_names_cannot_forge_a_line_of_the_log(source, folder):
    (folder / "a\nb\x1b[2J.xml").write_text("<Job>")
    os.close(os.open(os.fsencode(str(folder)) + b"/\xff.xml", os.O_CREAT | os.O_WRONLY))
    table = poll(source)
    assert len(table.rejected) == 2
    for rejected in table.rejected:
        assert str(rejected).isprintable()
        str(rejected).encode()


# --- the folder ------------------------------------------------------------------------------


def test_a_missing_folder_is_an_error_of_the_source_and_what_was_known_stays_known(source, put, folder):
    put("7.xml", document("7"))
    before = poll(source).jobs
    folder.rename(folder.parent / "away")
    with pytest.raises(SourceError, match="No such file"):
        poll(source)
    (folder.parent / "away").rename(folder)
    put("7.xml", "<Job>")
    assert poll(source).jobs == before


def test_a_file_in_place_of_the_folder_is_an_error_of_the_source(clock, tmp_path):
    (tmp_path / "spool").write_text("")
    with pytest.raises(SourceError, match="Not a directory"):
        poll(SpoolSource(settings_for("spool", spool_directory=str(tmp_path / "spool")), clock, "n1"))


def test_an_unlistable_folder_is_an_error_of_the_source(source, folder):
    folder.chmod(0o300)
    try:
        skip_if_readable(folder)
        with pytest.raises(SourceError, match="Permission denied"):
            poll(source)
    finally:
        folder.chmod(0o700)


def test_a_listing_that_fails_is_an_error_of_the_source(source, monkeypatch):
    def fail(descriptor):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(SourceError, match="Permission denied"):
        poll(source)


def test_a_known_file_that_the_listing_missed_is_still_there(source, put, folder, monkeypatch):
    """A rename during a listing can hide the name that it replaces."""
    put("6.xml", document("6"))
    put("7.xml", document("7"))
    poll(source)
    listed = os.scandir(folder)
    entries = [entry for entry in listed if entry.name != "7.xml"]
    listed.close()

    class Listing(list):
        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    monkeypatch.setattr(os, "scandir", lambda descriptor: Listing(entries))
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("6"), key("7")}, True)


def test_too_many_files_keep_the_known_ones_and_are_never_complete(folder, clock, put, monkeypatch):
    monkeypatch.setattr(spool, "MAX_FILES", 3)
    source = SpoolSource(settings_for("spool", spool_directory=str(folder)), clock, "n1")
    for name in ("x", "y", "z"):
        put(f"{name}.xml", document(name))
    assert poll(source).complete
    for name in ("a", "b"):
        put(f"{name}.xml", document(name))
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("x"), key("y"), key("z")}, False)
    assert reasons(table) == ["more than 3 files: not all are read"]
    (folder / "x.xml").unlink()
    (folder / "y.xml").unlink()
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("a"), key("b"), key("z")}, True)


def test_too_many_bytes_are_left_for_the_next_poll(source, put, monkeypatch):
    for name in ("a", "b"):
        put(f"{name}.xml", document(name))
    budget = spool._Budget
    monkeypatch.setattr(spool, "_Budget", lambda: budget(bytes_left=60))
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("a")}, False)
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("a"), key("b")}, True)


def test_too_many_jobs_leave_files_out(source, put, monkeypatch):
    budget = spool._Budget
    monkeypatch.setattr(spool, "_Budget", lambda: budget(jobs_left=2))
    put("a.xml", f"<JobGroup>{document('1')}{document('2')}</JobGroup>")
    put("b.xml", document("3"))
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("1"), key("2")}, False)
    put("a.xml", document("1"))
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("1"), key("3")}, True)


def test_a_job_on_very_many_nodes_counts_as_many(source, put, monkeypatch):
    budget = spool._Budget
    monkeypatch.setattr(spool, "_Budget", lambda: budget(jobs_left=9))
    nodes = ",".join(f"n{number}" for number in range(160))
    put("a.xml", document("1", more=f'<Node aggregation="List">{nodes}</Node>'))
    put("b.xml", document("2"))
    table = poll(source)
    assert (set(table.jobs), table.complete) == ({key("2")}, False)
    assert "very many nodes" in table.rejected[0].reason


def test_no_descriptor_is_left_open(source, put, folder):
    put("6.xml", document("6"))
    put("7.xml", "<Job>")
    make_fifo(folder / "8.xml")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        poll(source)
    assert len(os.listdir("/proc/self/fd")) == before
