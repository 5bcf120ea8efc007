"""WriteToKafka: a record of a topic for each element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...sdk.sink import Sink
from ..sinks.write_into import WriteInto
from .client import Connection, Settings, package
from .registry.formats import RegistryFormat
from .serialization import Encoder, encoder_of
from .sink import KafkaSink, Retractions, Writing

if TYPE_CHECKING:
    from ...sdk.static_types import Record  # noqa: F401 (in parameters of classes)

_OWN_SETTINGS = {
    "transactional.id": "each start of the pipeline has one of its own",
    "enable.idempotence": "the transform decides it",
    "on_delivery": "the transform reports errors itself",
    "delivery.report.only.error": "the transform decides it",
    "error_cb": "the transform reports errors itself",
}


class WriteToKafka(WriteInto["tuple[Any, Any] | Record"]):
    """A record of a topic for each element, which is a pair of a key and a value; exactly once.

    Takes a `PCollection[tuple[K, V]]` for serializers of K and V, or one of records.

    Records are staged until a checkpoint is complete, and then published in one transaction of Kafka, together with a
    token in the compacted topic `control_topic`; a recovery reads the token, and publishes what is missing.  Readers
    need `isolation.level=read_committed`.  The records of one worker with the same key keep their order.  Needs the
    extra `kafka`, and brokers with version 2.5 or later.

    The limits of topics are asked for while records are staged: a record, with its headers, may be as large as the
    topic's `max.message.bytes`, unless `message.max.bytes` in `producer_config` is smaller.  A larger one, and one
    whose topic doesn't exist, fails the run before a checkpoint is complete.

    An input with retractions is refused while the pipeline is built, unless `retractions` says what they become.

    Args:
      producer_config: librdkafka's settings, such as {"bootstrap.servers": "localhost:9092"}.
      topic: the name of a topic that exists, or a function from an element to a name.
      key_serializer, value_serializer: a function from a value to bytes, or the name of one of Kafka's own, such as
        'org.apache.kafka.common.serialization.StringSerializer'; or a format of a `SchemaRegistry`, which takes Rows.
        Without it, keys and values are bytes.  None stays None: a record without a key, or a tombstone.
      with_headers: elements are Rows with the fields key, value and headers: a dict, or pairs of a name and bytes.
      retractions: 'upsert': each key's latest value of a commit, or a tombstone if all were retracted; or 'changelog':
        a record for each change, with '+1' or '-1' in the header `penstock-sign`.
      delivery: 'exactly_once'; or 'at_least_once', which writes records at once, and again after a failure.
      control_topic, staging_topic: the topics of tokens, and of staged records; created if they don't exist.  Staged
        records are removed after a week: a checkpoint must be committed until then.

    Raises `MissingExtraError`, and `ValueError` for settings that the client refuses, while the pipeline is built, and
    `SinkError` before the run starts if the topic is missing or the cluster can't be reached.

    >>> import penstock as beam
    >>> config = {"bootstrap.servers": "localhost:9092", "sasl.password": "secret"}
    >>> beam.io.WriteToKafka(config, "counts").display_data()
    {'servers': 'localhost:9092', 'topic': 'counts'}
    """

    byte_array_serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"

    def __init__(
        self,
        producer_config: Mapping[str, Any],
        topic: str | Callable[[Any], str],
        key_serializer: str | Encoder | RegistryFormat = byte_array_serializer,
        value_serializer: str | Encoder | RegistryFormat = byte_array_serializer,
        with_headers: bool = False,
        expansion_service: Any = None,
        *,
        retractions: str | None = None,
        delivery: str = "exactly_once",
        control_topic: str = "penstock-commits",
        staging_topic: str = "penstock-staged",
    ) -> None:
        name = type(self).__name__
        package(name)
        settings = Settings(producer_config, name, "producer_config")
        settings.check(name, _OWN_SETTINGS)
        if not callable(topic) and not (isinstance(topic, str) and topic):
            raise ValueError(f"{name}: expected the name of a topic, or a function, got {topic!r}")
        if retractions is not None and retractions not in list(Retractions):
            raise ValueError(f"{name}: retractions must be 'upsert' or 'changelog', got {retractions!r}")
        if delivery not in ("exactly_once", "at_least_once"):
            raise ValueError(f"{name}: delivery must be 'exactly_once' or 'at_least_once', got {delivery!r}")
        if delivery == "at_least_once" and retractions == Retractions.UPSERT:
            raise ValueError(f"{name}: retractions='upsert' needs delivery='exactly_once', which nets the changes")
        key = encoder_of(key_serializer, "key_serializer", name)
        value = encoder_of(value_serializer, "value_serializer", name)
        writing = Writing(
            Connection(name, settings),
            topic,
            key,
            value,
            with_headers,
            None if retractions is None else Retractions(retractions),
            delivery == "exactly_once",
            control_topic,
            staging_topic,
        )
        sink: Sink[Any] = KafkaSink(writing)
        super().__init__(sink)
