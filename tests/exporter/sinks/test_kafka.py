"""Documents to brokers: the real client against the mock cluster of its own library, over TCP."""

import sys

import confluent_kafka
import pytest

from jobfeatures.errors import ConfigurationError, SinkError
from jobfeatures_exporter.sinks import kafka
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sinks.kafka import make_sink


def config(**settings):
    return SinksSettings(cluster="c.example.org", **settings)


@pytest.fixture(scope="module")
def brokers():
    """Return the address of a mock cluster, which lives as long as the client that started it."""
    client = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    [broker] = client.list_topics(timeout=20).brokers.values()
    yield f"{broker.host}:{broker.port}"
    client.flush(0)


@pytest.fixture
def consume(brokers):
    made = []

    def consume(topic, count):
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": brokers, "group.id": "tests", "log_level": 0}
        )
        made.append(consumer)
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, each, confluent_kafka.OFFSET_BEGINNING)
                for each in partitions
            ]
        )
        found = []
        while len(found) < count:
            record = consumer.poll(20)
            assert record is not None, f"only {len(found)} of {count} records came"
            if record.error() is None:
                found.append((record.key(), record.value()))
        return found

    yield consume
    for each in made:
        each.close()


def test_documents_arrive_in_the_topic_of_their_type_keyed_by_node(brokers, consume, make_message):
    sink = make_sink(config(kafka_brokers=brokers))
    messages = [make_message(number) for number in range(3)]
    for each in messages:
        sink.send(each)
    sink.send(make_message(kind="sysinfo"))
    sink.close()
    assert consume("hpc.example.org.sample", 3) == [(b"n1", each.body) for each in messages]
    assert len(consume("hpc.example.org.sysinfo", 1)) == 1


def test_a_prefix_stands_before_the_topic(brokers, consume, make_message):
    sink = make_sink(config(kafka_brokers=brokers, topic_prefix="test"))
    sink.send(make_message(5))
    sink.close()
    assert consume("test.hpc.example.org.sample", 1) == [(b"n1", make_message(5).body)]


def test_a_document_larger_than_brokers_take_is_refused_for_good(brokers, make_message):
    sink = make_sink(config(kafka_brokers=brokers))
    with pytest.raises(SinkError) as raised:
        sink.send(make_message(body=b"x" * 11_000_000))
    assert raised.value.is_final
    sink.send(make_message())
    sink.close()


def test_brokers_that_are_away_cost_the_timeout_and_are_asked_again(
    make_message, unused_tcp_port, monkeypatch
):
    monkeypatch.setattr(kafka, "SEND_TIMEOUT_SECS", 0.5)
    sink = make_sink(config(kafka_brokers=f"127.0.0.1:{unused_tcp_port}"))
    for _ in range(2):
        with pytest.raises(SinkError) as raised:
            sink.send(make_message())
        assert not raised.value.is_final
    sink.close()


def test_the_sink_needs_brokers():
    with pytest.raises(ConfigurationError, match=r"sonar\.kafka_brokers"):
        make_sink(config())


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigurationError, match=r"\[kafka\]"):
        make_sink(config(kafka_brokers="a:1"))


def test_authentication_needs_its_password(tmp_path, make_message):
    sink = make_sink(config(kafka_brokers="a:1", kafka_password_file=str(tmp_path / "none")))
    with pytest.raises(SinkError, match="none"):
        sink.send(make_message())
