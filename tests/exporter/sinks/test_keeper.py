"""One sink and its queue: a far side that is away, that refuses, that hangs."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import SinkError
from jobfeatures_exporter.sinks import keeper as module
from jobfeatures_exporter.sinks.keeper import SinkKeeper, compute_retry_secs
from jobfeatures_exporter.sinks.spool import MessageSpool

ROOMY = 10**6


class FakeSink:
    """Takes messages while it is up."""

    def __init__(self) -> None:
        self.taken = []
        self.is_up = True
        self.refused = set()
        self.release = threading.Event()
        self.release.set()
        self.came = threading.Condition()
        self.attempts = 0

    def send(self, message):
        self.release.wait(20)
        with self.came:
            self.attempts += 1
            try:
                if not self.is_up:
                    raise SinkError("away")
                if message.body in self.refused:
                    raise SinkError("never", is_final=True)
                self.taken.append(message.body)
            finally:
                self.came.notify_all()

    def close(self):
        pass

    def wait_for(self, condition):
        with self.came:
            assert self.came.wait_for(condition, 60)


@pytest.fixture
def sink():
    return FakeSink()


@pytest.fixture
def make_keeper(sink, clock, monkeypatch):
    monkeypatch.setattr(module, "FIRST_RETRY_SECS", 0.01)
    monkeypatch.setattr(module, "MAX_RETRY_SECS", 0.02)
    made = []

    def make(**more):
        made.append(SinkKeeper("fake", sink, clock, **{"max_bytes": ROOMY, **more}))
        return made[-1]

    yield make
    sink.release.set()
    for each in made:
        each.stop()


def test_a_message_goes_out_and_is_counted(make_keeper, sink, make_message, clock):
    keeper = make_keeper()
    keeper.put(make_message(1))
    assert keeper.status.waiting == 1
    assert keeper.send_waiting()
    status = keeper.status
    assert (status.sent, status.failed, status.waiting) == ({"sample": 1}, {}, 0)
    assert status.last_success_secs == clock.now_secs()


def test_what_cannot_be_sent_waits_and_goes_out_in_order_later(make_keeper, sink, make_message):
    keeper = make_keeper()
    sink.is_up = False
    keeper.start()
    for number in range(3):
        keeper.put(make_message(number))
    sink.wait_for(lambda: sink.attempts >= 3)
    assert sink.taken == []
    sink.is_up = True
    sink.wait_for(lambda: len(sink.taken) == 3)
    assert sink.taken == [make_message(number).body for number in range(3)]
    assert keeper.status.failed["sample"] >= 3


def test_what_is_refused_for_good_does_not_block_the_others(make_keeper, sink, make_message):
    keeper = make_keeper()
    sink.refused = {make_message(1).body}
    for number in range(3):
        keeper.put(make_message(number))
    assert keeper.send_waiting()
    assert sink.taken == [make_message(0).body, make_message(2).body]
    assert (keeper.status.refused, keeper.status.failed) == (1, {"sample": 1})


def test_a_sink_that_hangs_keeps_nobody_else_waiting(make_keeper, sink, make_message):
    keeper = make_keeper(max_bytes=100 * len(make_message(100).body))
    sink.release.clear()
    keeper.start()
    for number in range(100, 250):  # documents of one length
        keeper.put(make_message(number))
    assert keeper.status.dropped >= 49
    assert keeper.status.waiting <= 100
    sink.release.set()
    sink.wait_for(lambda: len(sink.taken) >= 100)


def test_an_outage_is_logged_once(make_keeper, sink, make_message, caplog):
    keeper = make_keeper()
    sink.is_up = False
    keeper.start()
    keeper.put(make_message(1))
    sink.wait_for(lambda: sink.attempts >= 4)
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == [
        "document not sent: away"
    ]


def test_a_fault_in_a_sink_does_not_end_the_sending(make_keeper, sink, make_message, caplog):
    keeper = make_keeper()
    original, calls = sink.send, []

    def faulty(message):
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        original(message)

    sink.send = faulty
    keeper.start()
    keeper.put(make_message(1))
    sink.wait_for(lambda: sink.taken)
    assert "failed unexpectedly" in caplog.text


def test_what_waited_in_a_folder_goes_first_after_a_restart(make_keeper, sink, make_message, tmp_path):
    queue = MessageSpool(ROOMY, str(tmp_path / "spool"))
    queue.put(make_message(1))
    queue.close()
    keeper = make_keeper(directory=str(tmp_path / "spool"))
    keeper.start()
    sink.wait_for(lambda: len(sink.taken) == 1)
    keeper.put(make_message(2))
    sink.wait_for(lambda: len(sink.taken) == 2)
    assert sink.taken == [make_message(1).body, make_message(2).body]


def test_without_its_folder_it_sends_all_the_same(make_keeper, sink, make_message, caplog):
    keeper = make_keeper(directory="/proc/no/such/place")
    keeper.start()
    keeper.put(make_message(1))
    sink.wait_for(lambda: sink.taken)
    assert "documents wait in memory" in caplog.text


def test_a_full_disk_silences_no_sink(make_keeper, sink, make_message, tmp_path, full_disk, caplog):
    sink.is_up = False
    keeper = make_keeper(directory=str(tmp_path / "spool"))
    keeper.start()
    keeper.put(make_message(1))
    full_disk.is_full = True
    keeper.put(make_message(2))
    keeper.put(make_message(3))
    full_disk.is_full = False
    keeper.put(make_message(4))
    sink.is_up = True
    sink.wait_for(lambda: len(sink.taken) == 4)
    assert sink.taken == [make_message(number).body for number in (1, 2, 3, 4)]
    assert keeper.status.dropped == 0
    assert caplog.text.count("documents wait in memory") == 1


@given(st.integers(1, 10_000))
def test_retries_are_ever_rarer_up_to_five_minutes(failures):
    assert 1 <= compute_retry_secs(failures) <= compute_retry_secs(failures + 1) <= 300
