"""Documents made when due, checked, and given to all sinks."""

import json
import threading

import pytest

from jobfeatures.errors import SourceError
from jobfeatures.formats.sonar.envelopes import SAMPLE, data_envelope
from jobfeatures_exporter.sonar import sender as module
from jobfeatures_exporter.sonar.sender import Sender
from tests.running import until


class FakeKeeper:
    """Takes messages."""

    def __init__(self) -> None:
        self.name = "fake"
        self.taken = []
        self.came = threading.Condition()

    def put(self, message):
        with self.came:
            self.taken.append(message)
            self.came.notify_all()

    def start(self):
        pass

    def stop(self):
        pass

    def wait_for(self, count):
        with self.came:
            assert self.came.wait_for(lambda: len(self.taken) >= count, 60)


@pytest.fixture
def keepers():
    return [FakeKeeper(), FakeKeeper()]


@pytest.fixture
def sender(origin, keepers, clock):
    made = Sender(origin, keepers, clock)
    yield made
    made.stop()


@pytest.fixture
def document(origin):
    head = {"time": "2027-01-15T08:00:00Z", "cluster": origin.cluster, "node": origin.node}
    return data_envelope(origin, SAMPLE, {**head, "jobs": []})


def test_a_document_goes_to_every_sink_as_one_line(sender, keepers, document, clock):
    sender.send(SAMPLE, lambda: [document])
    for keeper in keepers:
        [message] = keeper.taken
        assert json.loads(message.body) == document
        assert b"\n" not in message.body
        assert (message.kind, message.node, message.made_at_secs) == (SAMPLE, "n1", clock.now_secs())


def test_a_document_that_breaks_the_format_is_counted_and_not_sent(sender, keepers, document, caplog):
    document["data"]["attributes"]["node"] = "no host"
    sender.send(SAMPLE, lambda: [document])
    assert keepers[0].taken == []
    assert sender.faulty == {SAMPLE: 1}
    assert "data.attributes.node" in caplog.text


def test_what_hinders_a_document_is_sent_in_its_place(sender, keepers):
    def fail():
        raise SourceError("the controller does not answer")

    sender.send(SAMPLE, fail)
    sent = json.loads(keepers[0].taken[0].body)
    assert sent["errors"][0]["detail"] == "the controller does not answer"
    assert "data" not in sent


def test_a_fault_of_ours_is_sent_without_its_inside(sender, keepers, caplog):
    def fail():
        raise KeyError("secret")

    sender.send(SAMPLE, fail)
    assert json.loads(keepers[0].taken[0].body)["errors"][0]["detail"] == "internal error: KeyError"
    assert "unexpected error in making a document" in caplog.text


def test_a_number_that_json_has_not_ends_nothing(sender, origin, keepers, document, caplog, clock):
    rounds = [[document], [data_envelope(origin, SAMPLE, {"load1": float("nan")})]]
    sender.add(SAMPLE, 60.0, lambda: rounds.pop() if rounds else [], at_start=True)
    sender.start()
    until(lambda: "sending failed" in caplog.text)
    clock.advance(60)
    keepers[0].wait_for(1)
    assert len(keepers[0].taken) == 1


def test_several_documents_are_sent_in_order(sender, keepers, document):
    documents = [
        {
            **document,
            "data": {**document["data"], "attributes": {**document["data"]["attributes"], "time": time}},
        }
        for time in ("2027-01-15T08:00:00Z", "2027-01-15T08:00:01Z")
    ]
    sender.send(SAMPLE, lambda: iter(documents))
    assert [json.loads(each.body) for each in keepers[0].taken] == documents


@pytest.fixture
def lookers(clock, monkeypatch):
    """Return the names of the threads that have read the clock, each time that one has."""
    names, read = [], clock.now_secs

    def now_secs():
        now = read()
        names.append(threading.current_thread().name)
        return now

    monkeypatch.setattr(clock, "now_secs", now_secs)
    return names


def test_what_is_wanted_at_the_start_is_sent_at_once_and_the_rest_when_due(
    sender, keepers, document, clock, lookers, monkeypatch
):
    monkeypatch.setattr(module, "LOOK_SECS", 0.01)
    clock.now = 1_800_000_010.0
    sender.add("sysinfo", 86400, lambda: [document], at_start=True)
    sender.add("sample", 300, lambda: [document])
    sender.start()
    keepers[0].wait_for(1)
    until(lambda: "sonar-sample" in lookers)  # else it would not know the time before
    assert [each.kind for each in keepers[0].taken] == ["sysinfo"]
    clock.now = 1_800_000_300.0
    keepers[0].wait_for(2)
    assert [each.kind for each in keepers[0].taken] == ["sysinfo", "sample"]


def test_a_clock_that_is_set_back_delays_by_no_more_than_an_interval(
    sender, keepers, document, clock, lookers, monkeypatch
):
    monkeypatch.setattr(module, "LOOK_SECS", 0.01)
    clock.now = 1_800_000_010.0
    sender.add("sample", 300, lambda: [document])
    sender.start()
    until(lambda: lookers)
    clock.now = 1_799_990_010.0
    lookers.clear()
    until(lambda: len(lookers) >= 2)  # the first may have read the clock before it was set
    clock.now = 1_799_990_110.0  # past the next multiple of 300 after the time it was set to
    keepers[0].wait_for(1)


def test_one_kind_that_hangs_does_not_keep_the_others_waiting(sender, keepers, document):
    release = threading.Event()

    def hang():
        release.wait(20)
        return []

    sender.add("job", 3600, hang, at_start=True)
    sender.add("sample", 3600, lambda: [document], at_start=True)
    sender.start()
    keepers[0].wait_for(1)
    release.set()
    assert keepers[0].taken[0].kind == "sample"
