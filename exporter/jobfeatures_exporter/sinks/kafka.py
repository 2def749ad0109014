"""Sends documents to Kafka: to topic [PREFIX.]CLUSTER.TYPE, with the node as key.

Needs the extra ``kafka``.
"""

from __future__ import annotations

import logging
from typing import Any

from jobfeatures.errors import ConfigurationError, SinkError
from jobfeatures_exporter.sinks.config import SinksSettings
from jobfeatures_exporter.sinks.message import SEND_TIMEOUT_SECS, Message, Sink, read_secret

log = logging.getLogger(__name__)
FINAL = frozenset({"MSG_SIZE_TOO_LARGE", "INVALID_MSG", "_BAD_MSG"})


class KafkaSink(Sink):
    """Sends documents to brokers one at a time, and waits for each acknowledgement."""

    def __init__(self, config: SinksSettings) -> None:
        self._prefix = f"{config.topic_prefix}." if config.topic_prefix else ""
        self._user = config.kafka_user or config.cluster
        self._password_file = config.kafka_password_file
        self._settings = _settings(config)
        self._producer: Any = None

    def send(self, message: Message) -> None:
        """Produce one record. Raises SinkError unless the broker acknowledges it in time."""
        from confluent_kafka import KafkaException

        failures: list[Any] = []
        topic = f"{self._prefix}{message.cluster}.{message.kind}"
        try:
            producer = self._connected()
            producer.produce(
                topic,
                value=message.body,
                key=message.node.encode(),
                on_delivery=lambda failure, _record: failures.append(failure),
            )
            producer.flush(SEND_TIMEOUT_SECS + 1)
        except (KafkaException, BufferError) as error:
            self.close()
            raise SinkError(f"kafka: {error}", is_final=_is_final(error)) from error
        if not failures:
            self.close()
            raise SinkError(f"kafka: no answer within {SEND_TIMEOUT_SECS:g} s")
        if failures[0] is not None:
            raise SinkError(f"kafka: {failures[0].str()}", is_final=failures[0].name() in FINAL)

    def close(self) -> None:
        """Drop records in flight: they are unacknowledged and will be sent again."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(0)
            self._producer = None

    def _connected(self) -> Any:
        if self._producer is None:
            from confluent_kafka import Producer

            settings = dict(self._settings)
            if self._password_file is not None:
                settings["sasl.username"] = self._user
                settings["sasl.password"] = read_secret(self._password_file)
            self._producer = Producer(settings, logger=log)
        return self._producer


def _is_final(error: Exception) -> bool:
    cause = error.args[0] if error.args else None
    name = getattr(cause, "name", None)
    return callable(name) and name() in FINAL


def make_sink(config: SinksSettings) -> KafkaSink:
    """Return the sink, without contacting any broker.

    Raises ConfigurationError if no broker is set or the extra ``kafka`` is not installed.
    """
    if config.kafka_brokers is None:
        raise ConfigurationError("sonar.kafka_brokers", "must be set, because sonar.sinks names kafka")
    try:
        import confluent_kafka  # noqa: F401  # reported before a port opens
    except ImportError as error:
        raise ConfigurationError(
            "sonar.sinks", "kafka needs confluent-kafka: pip install 'jobfeatures-exporter[kafka]'"
        ) from error
    return KafkaSink(config)


def _settings(config: SinksSettings) -> dict[str, Any]:
    """Return librdkafka's settings, without the password."""
    tls, sasl = config.kafka_ca_file is not None, config.kafka_password_file is not None
    settings: dict[str, Any] = {
        "bootstrap.servers": config.kafka_brokers,
        "client.id": "jobfeatures-exporter",
        "acks": "all",
        "message.timeout.ms": max(1, int(SEND_TIMEOUT_SECS * 1000)),
        "message.max.bytes": 10_000_000,  # for a node of many processes; brokers have their own limits
        "compression.type": "gzip",
        "security.protocol": ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT"),
    }
    if tls:
        settings["ssl.ca.location"] = config.kafka_ca_file
    if sasl:
        settings["sasl.mechanism"] = "PLAIN"
    return settings
