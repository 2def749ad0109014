"""Queues of documents: bounds, order, crashes, damage."""

import errno
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import ParseError, UnsafePathError
from jobfeatures_exporter.sinks import spool
from jobfeatures_exporter.sinks.message import Message
from jobfeatures_exporter.sinks.spool import MessageSpool, format_spooled, parse_spooled
from tests.running import started, until

ROOMY = 10**6


@pytest.fixture
def open_spool(tmp_path):
    """Return a function that opens the queue on the disk; it is closed at the end."""
    made = []

    def make(max_bytes=ROOMY, **limits):
        made.append(MessageSpool(max_bytes, str(tmp_path / "spool/http"), **limits))
        return made[-1]

    make.folder = tmp_path / "spool/http"
    yield make
    for each in made:
        each.close()


@pytest.fixture(params=["memory", "disk"])
def make_spool(request, open_spool):
    return MessageSpool if request.param == "memory" else open_spool


def bodies(queue):
    """Return all messages, oldest first, and take them away."""
    found = []
    while (each := queue.oldest()) is not None:
        queue.remove(each[0])
        found.append(each[1].body)
    return found


def test_messages_come_back_in_order(make_spool, make_message):
    queue = make_spool(ROOMY)
    messages = [make_message(number) for number in range(12)]
    for each in messages:
        queue.put(each)
    assert len(queue) == 12
    assert queue.oldest()[1] == messages[0]
    assert bodies(queue) == [each.body for each in messages]
    assert len(queue) == 0


def test_the_oldest_are_dropped_beyond_the_number(make_spool, make_message):
    queue = make_spool(ROOMY, max_count=3)
    for number in range(5):
        queue.put(make_message(number))
    assert queue.dropped == 2
    assert bodies(queue) == [make_message(number).body for number in (2, 3, 4)]


def test_the_oldest_are_dropped_beyond_the_size(make_spool, make_message):
    queue = make_spool(3000, max_count=100)
    for letter in b"abcd":
        queue.put(make_message(body=bytes([letter]) * 1200))
    assert queue.dropped == 2
    assert [body[:1] for body in bodies(queue)] == [b"c", b"d"]


def test_a_message_larger_than_all_room_is_dropped(make_spool, make_message):
    queue = make_spool(100, max_count=100)
    queue.put(make_message(body=b"x" * 200))
    assert (len(queue), queue.dropped) == (0, 1)


def test_taking_away_what_was_dropped_meanwhile_does_nothing(make_spool, make_message):
    queue = make_spool(ROOMY, max_count=1)
    queue.put(make_message(1))
    number, _ = queue.oldest()
    queue.put(make_message(2))
    queue.remove(number)
    assert bodies(queue) == [make_message(2).body]


@pytest.mark.program
@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_a_queue_in_memory_is_a_bounded_list(steps, count):
    queue, model = MessageSpool(10**9, max_count=count), []
    for number, is_put in enumerate(steps):
        if is_put:
            queue.put(Message(kind="sample", cluster="c", node="n", made_at_secs=0.0, body=b"%d" % number))
            model = [*model, b"%d" % number][-count:]
        elif (found := queue.oldest()) is not None:
            queue.remove(found[0])
            assert found[1].body == model.pop(0)
    assert bodies(queue) == model


# --- on the disk ---------------------------------------------------------------------


def test_messages_outlive_the_program(open_spool, make_message):
    first = open_spool()
    for number in range(3):
        first.put(make_message(number))
    first.close()
    again = open_spool()
    again.put(make_message(3))
    assert bodies(again) == [make_message(number).body for number in range(4)]


@pytest.mark.program
def test_messages_outlive_a_kill(open_spool):
    """A writer is killed between two of its writes, whenever that is: what is there is whole and in order."""
    code = (
        "import sys\n"
        "from jobfeatures_exporter.sinks.message import Message\n"
        "from jobfeatures_exporter.sinks.spool import MessageSpool\n"
        "queue = MessageSpool(10**8, sys.argv[1], max_count=10**6)\n"
        "number = 0\n"
        "while True:\n"
        "    queue.put(Message(kind='sample', cluster='c', node='n', made_at_secs=0.0,"
        " body=b'%d ' % number + b'x' * 20000))\n"
        "    number += 1\n"
    )
    with started([sys.executable, "-c", code, str(open_spool.folder)]):
        until(lambda: open_spool.folder.is_dir() and len(os.listdir(open_spool.folder)) > 5)
    queue = open_spool(10**8, max_count=10**6)
    numbers = [int(body.split()[0]) for body in bodies(queue)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 5
    assert queue.corrupt == 0
    assert os.listdir(open_spool.folder) == []


def test_a_half_written_file_of_a_crash_is_swept(open_spool):
    open_spool().close()
    (open_spool.folder / "00000000000000000007.new").write_bytes(b"half")
    (open_spool.folder / "README").write_text("not ours")
    assert len(open_spool()) == 0
    assert os.listdir(open_spool.folder) == ["README"]


@pytest.mark.parametrize("damage", [b"", b"{}\nx", b"\0" * 50, b"[1]\n", b'{"kind": 1}\n', None])
def test_a_damaged_file_is_set_aside_and_the_others_live(open_spool, make_message, damage):
    queue = open_spool()
    for number in range(3):
        queue.put(make_message(number))
    queue.close()
    victim = sorted(open_spool.folder.iterdir())[1]
    victim.write_bytes(victim.read_bytes()[:-1] if damage is None else damage)
    again = open_spool()
    assert bodies(again) == [make_message(0).body, make_message(2).body]
    assert again.corrupt == 1
    assert os.listdir(open_spool.folder) == [victim.name.replace(".envelope", ".corrupt")]


def test_documents_of_a_later_version_are_left_for_it_and_the_others_are_sent(
    open_spool, make_message, caplog
):
    queue = open_spool()
    texts = {}
    for number in range(1, 13):
        queue.put(make_message(number))
        if number != 5:
            path = open_spool.folder / f"{number:020}.envelope"
            texts[path] = f'{{"format": 2, "packed": {number}}}\nbytes'
            path.write_text(texts[path])
    assert bodies(queue) == [make_message(5).body]
    assert queue.corrupt == 0
    assert {path: path.read_text() for path in texts} == texts
    assert "cannot be used and is left in place" in caplog.text


def test_files_set_aside_do_not_grow_without_end(open_spool, make_message, monkeypatch):
    monkeypatch.setattr(spool, "KEPT_CORRUPT", 2)
    queue = open_spool()
    for number in range(5):
        queue.put(make_message(number))
    for each in open_spool.folder.iterdir():
        each.write_bytes(b"x")
    assert queue.oldest() is None
    assert queue.corrupt == 5
    assert sorted(each.name for each in open_spool.folder.iterdir()) == [
        "00000000000000000004.corrupt",
        "00000000000000000005.corrupt",
    ]


def test_a_number_of_a_file_set_aside_is_not_given_again(open_spool, make_message):
    for _ in range(2):
        queue = open_spool()
        queue.put(make_message(1))
        next(open_spool.folder.glob("*.envelope")).write_bytes(b"x")
        assert queue.oldest() is None
        queue.close()
    assert len(list(open_spool.folder.glob("*.corrupt"))) == 2


def test_a_link_in_the_place_of_a_document_is_not_followed(open_spool, make_message, tmp_path):
    queue = open_spool()
    queue.put(make_message(1))
    file = next(open_spool.folder.iterdir())
    (tmp_path / "secret").write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(tmp_path / "secret")
    assert queue.oldest() is None
    assert queue.corrupt == 1


def test_a_file_that_somebody_took_away_is_passed_over(open_spool, make_message):
    queue = open_spool()
    for number in range(2):
        queue.put(make_message(number))
    min(open_spool.folder.iterdir()).unlink()
    assert bodies(queue) == [make_message(1).body]


def test_a_disk_that_takes_nothing_keeps_what_there_was_and_the_rest_waits_in_memory(
    open_spool, make_message, monkeypatch
):
    queue = open_spool()
    queue.put(make_message(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool.os, "fsync", full)
    queue.put(make_message(2))
    monkeypatch.undo()
    queue.put(make_message(3))
    assert [each.name for each in sorted(open_spool.folder.iterdir())] == [
        "00000000000000000001.envelope",
        "00000000000000000003.envelope",
    ]
    assert bodies(queue) == [make_message(number).body for number in (1, 2, 3)]


def test_a_folder_that_others_may_write_is_refused(open_spool):
    open_spool.folder.mkdir(parents=True)
    open_spool.folder.chmod(0o777)
    with pytest.raises(UnsafePathError, match="writable"):
        open_spool()


def test_a_folder_in_use_is_refused(open_spool):
    open_spool()
    with pytest.raises(BlockingIOError):
        open_spool()


def test_a_folder_gets_nothing_more_from_a_queue_that_was_closed(open_spool, make_message):
    queue = open_spool()
    queue.close()
    queue.put(make_message(1))
    assert list(open_spool.folder.iterdir()) == []
    assert bodies(queue) == [make_message(1).body]


def test_the_files_are_for_us_alone(open_spool, make_message):
    open_spool().put(make_message(1))
    assert open_spool.folder.stat().st_mode & 0o777 == 0o700
    assert next(open_spool.folder.iterdir()).stat().st_mode & 0o777 == 0o600


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data):
    try:
        parse_spooled(data)
    except ParseError:
        pass


@given(st.text(max_size=20), st.floats(0, 4e9), st.binary(max_size=50))
def test_what_is_written_is_read(node, secs, body):
    message = Message(kind="sample", cluster="c", node=node, made_at_secs=secs, body=body)
    assert parse_spooled(format_spooled(message)) == message


# --- in memory while the disk does not take it --------------------------------------


def test_what_the_disk_does_not_take_waits_in_memory_within_the_same_limits(
    open_spool, make_message, full_disk
):
    queue = open_spool(ROOMY, max_count=3)
    full_disk.is_full = True
    for number in range(5):
        queue.put(make_message(number))
    assert (len(queue), queue.dropped) == (3, 2)
    assert bodies(queue) == [make_message(number).body for number in (2, 3, 4)]


def test_without_descriptors_for_the_folder_what_waits_in_memory_is_sent(
    open_spool, make_message, monkeypatch, full_disk
):
    queue = open_spool()
    queue.put(make_message(1))
    full_disk.is_full = True
    queue.put(make_message(2))
    full_disk.is_full = False

    def none_left(*_arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "opened", none_left)
        assert queue.oldest() == (2, make_message(2))
    assert bodies(queue) == [make_message(1).body, make_message(2).body]


def test_folder_and_memory_together_keep_to_the_limits(open_spool, make_message, full_disk):
    queue = open_spool(ROOMY, max_count=3)
    queue.put(make_message(1))
    queue.put(make_message(2))
    full_disk.is_full = True
    queue.put(make_message(3))
    queue.put(make_message(4))
    full_disk.is_full = False
    assert (len(queue), queue.dropped) == (3, 1)
    assert [each.name for each in open_spool.folder.iterdir()] == ["00000000000000000002.envelope"]
    assert bodies(queue) == [make_message(number).body for number in (2, 3, 4)]


def test_what_waits_in_memory_at_the_end_goes_to_a_disk_that_takes_it_again(
    open_spool, make_message, full_disk
):
    queue = open_spool()
    full_disk.is_full = True
    queue.put(make_message(1))
    full_disk.is_full = False
    queue.close()
    assert bodies(open_spool()) == [make_message(1).body]


def test_a_document_is_no_damaged_one_because_we_lack_descriptors(open_spool, make_message, monkeypatch):
    queue = open_spool()
    queue.put(make_message(1))

    def none_left(*_arguments):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(spool, "opened", none_left)
        with pytest.raises(OSError, match="Too many"):
            queue.oldest()
    assert queue.corrupt == 0
    assert bodies(queue) == [make_message(1).body]
