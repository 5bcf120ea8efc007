"""ReadFromKafka: the records of topics."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import attrs

from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.runner import Capability
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.type_variables import A
from ...sdk.watermark_estimators import EstimatorTypes, MonotonicWatermarkEstimator
from ...transforms.read import Read
from ...windowing.duration import DurationTypes, seconds_of_span
from ...windowing.timestamp import Timestamp
from ..first_elements import FirstElements, ReadLimits, without_watermark
from ..record_types import hint_of_type
from .bounded import KafkaRanges
from .client import Connection, Settings, package
from .columns import DecodingDoFn, fields_of
from .decoding import Decoding, decoded, of_pair
from .records import Elements, KafkaRecord, TimestampPolicy
from .registry.formats import RegistryFormat
from .serialization import Decoder, decoder_of, type_of
from .source import KafkaSource, Reading, Start

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    KeyT = TypeVar("KeyT", default=bytes)
    ValueT = TypeVar("ValueT", default=bytes)

_OWN_SETTINGS = {
    "enable.auto.commit": "offsets are in the checkpoints; use commit_offset_in_finalize=True to commit them as well",
    "enable.auto.offset.store": "offsets are in the checkpoints",
    "enable.partition.eof": "the transform needs these reports itself",
    "error_cb": "the transform reports errors itself",
}

_RESETS = {"earliest": "earliest", "beginning": "earliest", "smallest": "earliest", "error": "error"}
_RESETS |= dict.fromkeys(("latest", "end", "largest"), "latest")


def _as_bytes(value: bytes) -> bytes:
    """Stand for the default of a deserializer, for type checkers."""
    return value


class ReadFromKafka(PTransform[PBegin, PCollection[A]]):
    """A pair of key and value, or a `KafkaRecord`, for each record of topics.

    Returns a `PCollection[tuple[K, V]]` for deserializers with results of types K and V, or a
    `PCollection[KafkaRecord]`.

    A partition of a topic is a partition of the source.  Offsets are in the checkpoints, so every record counts once.
    Without a checkpoint, reading begins at `start_offsets` and `start_read_time` if they are given, else at the
    committed offset of the group (`group.id`), else where `auto.offset.reset` says: at the 'latest' record, unless it
    is 'earliest'.  Partitions that are added later are read from their first record.  Only committed records are read,
    unless `isolation.level` is 'read_uncommitted'.  Needs the extra `kafka`.

    On a batch runner, and with `bounded=True`, it reads the records that there are when the run begins; then reading
    begins at the earliest record if nothing else is said.

    Args:
      consumer_config: librdkafka's settings, such as {"bootstrap.servers": "localhost:9092"}.
      topics: the name of a topic, or several names.
      key_deserializer, value_deserializer: a function from bytes to a value, or the name of one of Kafka's own, such as
        'org.apache.kafka.common.serialization.LongDeserializer'; or a format of a `SchemaRegistry`, which gives Rows.
        Bytes without it.  None stays None.
      start_read_time: where reading begins: milliseconds since 1970, or a `Timestamp`.
      max_num_records, max_read_time: a number of records, and of seconds, after which reading ends.
      commit_offset_in_finalize: commits the offsets of durable checkpoints to the group, for others to see.
      timestamp_policy: the event time of a record: 'ProcessingTime', when it is read; 'CreateTime', its producer's; or
        'LogAppendTime', its broker's.
      with_metadata: gives `KafkaRecord`s, which have topic, partition, offset, timestamp and headers.
      dynamic_read_poll_interval_seconds: the time between two searches for new partitions.
      start_offsets: by topic and partition, where reading begins.
      bounded: reads the records that there are; None for True on a runner without unbounded sources.
      on_lost_offsets: what to do if records were removed before they were read: 'fail', or go on with an error in the
        log, at the 'earliest' or the 'latest' record.
      timestamp_fn: a function from an element, before keys and values are decoded, to its event time.
      watermark_estimator, idle_after: see `EventTimes`.  Without them the watermark follows the clock for
        'ProcessingTime', and the last record's time otherwise.

    Raises `MissingExtraError`, and `ValueError` for settings that the client refuses, while the pipeline is built;
    `SourceError` when the run starts if the cluster can't be reached or a topic is missing.

    >>> import penstock as beam
    >>> config = {"bootstrap.servers": "localhost:9092", "sasl.password": "secret"}
    >>> beam.io.ReadFromKafka(config, ["clicks"]).display_data()
    {'servers': 'localhost:9092', 'topics': 'clicks'}
    """

    byte_array_deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    processing_time_policy = "ProcessingTime"
    create_time_policy = "CreateTime"
    log_append_time = "LogAppendTime"

    @overload
    def __init__(
        self: ReadFromKafka[KafkaRecord],
        consumer_config: Mapping[str, Any],
        topics: str | Sequence[str],
        key_deserializer: str | Decoder | RegistryFormat = ...,
        value_deserializer: str | Decoder | RegistryFormat = ...,
        *,
        start_read_time: int | Timestamp | None = ...,
        max_num_records: int | None = ...,
        max_read_time: float | None = ...,
        commit_offset_in_finalize: bool = ...,
        timestamp_policy: str = ...,
        consumer_polling_timeout: int = ...,
        with_metadata: Literal[True],
        expansion_service: Any = ...,
        redistribute: bool = ...,
        redistribute_num_keys: int = ...,
        allow_duplicates: bool = ...,
        dynamic_read_poll_interval_seconds: DurationTypes | None = ...,
        start_offsets: Mapping[tuple[str, int], int] | None = ...,
        bounded: bool | None = ...,
        on_lost_offsets: str = ...,
        timestamp_fn: Callable[[Any], Any] | None = ...,
        watermark_estimator: EstimatorTypes | None = ...,
        idle_after: Any = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromKafka[tuple[KeyT, ValueT]],
        consumer_config: Mapping[str, Any],
        topics: str | Sequence[str],
        key_deserializer: Callable[[bytes], KeyT] = _as_bytes,  # type: ignore[assignment]
        value_deserializer: Callable[[bytes], ValueT] = _as_bytes,  # type: ignore[assignment]
        start_read_time: int | Timestamp | None = ...,
        max_num_records: int | None = ...,
        max_read_time: float | None = ...,
        commit_offset_in_finalize: bool = ...,
        timestamp_policy: str = ...,
        consumer_polling_timeout: int = ...,
        with_metadata: bool = ...,
        expansion_service: Any = ...,
        redistribute: bool = ...,
        redistribute_num_keys: int = ...,
        allow_duplicates: bool = ...,
        dynamic_read_poll_interval_seconds: DurationTypes | None = ...,
        *,
        start_offsets: Mapping[tuple[str, int], int] | None = ...,
        bounded: bool | None = ...,
        on_lost_offsets: str = ...,
        timestamp_fn: Callable[[Any], Any] | None = ...,
        watermark_estimator: EstimatorTypes | None = ...,
        idle_after: Any = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromKafka[Any],
        consumer_config: Mapping[str, Any],
        topics: str | Sequence[str],
        key_deserializer: str | Decoder | RegistryFormat = ...,
        value_deserializer: str | Decoder | RegistryFormat = ...,
        start_read_time: int | Timestamp | None = ...,
        max_num_records: int | None = ...,
        max_read_time: float | None = ...,
        commit_offset_in_finalize: bool = ...,
        timestamp_policy: str = ...,
        consumer_polling_timeout: int = ...,
        with_metadata: bool = ...,
        expansion_service: Any = ...,
        redistribute: bool = ...,
        redistribute_num_keys: int = ...,
        allow_duplicates: bool = ...,
        dynamic_read_poll_interval_seconds: DurationTypes | None = ...,
        *,
        start_offsets: Mapping[tuple[str, int], int] | None = ...,
        bounded: bool | None = ...,
        on_lost_offsets: str = ...,
        timestamp_fn: Callable[[Any], Any] | None = ...,
        watermark_estimator: EstimatorTypes | None = ...,
        idle_after: Any = ...,
    ) -> None: ...
    def __init__(
        self,
        consumer_config: Mapping[str, Any],
        topics: str | Sequence[str],
        key_deserializer: str | Decoder | RegistryFormat = byte_array_deserializer,
        value_deserializer: str | Decoder | RegistryFormat = byte_array_deserializer,
        start_read_time: int | Timestamp | None = None,
        max_num_records: int | None = None,
        max_read_time: float | None = None,
        commit_offset_in_finalize: bool = False,
        timestamp_policy: str = processing_time_policy,
        consumer_polling_timeout: int = 2,
        with_metadata: bool = False,
        expansion_service: Any = None,
        redistribute: bool = False,
        redistribute_num_keys: int = 0,
        allow_duplicates: bool = False,
        dynamic_read_poll_interval_seconds: DurationTypes | None = None,
        *,
        start_offsets: Mapping[tuple[str, int], int] | None = None,
        bounded: bool | None = None,
        on_lost_offsets: str = "fail",
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        package(name)
        settings = Settings(consumer_config, name)
        settings.check(name, _OWN_SETTINGS)
        self._topics = _names(topics, name)
        self._key = decoder_of(key_deserializer, "key_deserializer", name)
        self._value = decoder_of(value_deserializer, "value_deserializer", name)
        self._types = (type_of(key_deserializer), type_of(value_deserializer))
        for (_, number), offset in (start_offsets or {}).items():
            if offset < 0:
                raise ValueError(
                    f"{name}: start_offsets must be 0 or more, got {offset!r} for partition {number}; use "
                    "'auto.offset.reset' to begin at the first or the last record"
                )
        if start_read_time is not None and _milliseconds(start_read_time) < 0:
            raise ValueError(f"{name}: start_read_time must not be before 1970, got {start_read_time!r}")
        if on_lost_offsets not in ("fail", "earliest", "latest"):
            raise ValueError(f"{name}: on_lost_offsets must be 'fail', 'earliest' or 'latest', got {on_lost_offsets!r}")
        if commit_offset_in_finalize and settings.get("group.id") is None:
            raise ValueError(f"{name}: commit_offset_in_finalize needs 'group.id' in consumer_config")
        self._limits = ReadLimits.of(name, max_num_records, max_read_time)
        self._bounded = bounded
        self._dead_letters: Mapping[str, Any] | None = None
        self._commits = commit_offset_in_finalize
        self._every = dynamic_read_poll_interval_seconds
        if self._every is not None and seconds_of_span(self._every) <= 0:
            raise ValueError(f"{name}: dynamic_read_poll_interval_seconds must be more than 0, got {self._every!r}")
        policy = _policy(timestamp_policy, name)
        by_record = policy is not TimestampPolicy.PROCESSING_TIME
        default = MonotonicWatermarkEstimator.default_provider() if by_record else None
        self._times = EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after, default)
        start = Start(
            None if start_read_time is None else _milliseconds(start_read_time),
            dict(start_offsets or {}),
            _reset(settings, name),
            settings.get("group.id") is not None,
        )
        self._with_metadata = with_metadata
        has_decoder = self._key is not None or self._value is not None
        elements = Elements.PLACED if has_decoder else Elements.PAIRS
        if with_metadata:
            elements = Elements.RECORDS
        elif has_decoder and timestamp_fn is not None:
            self._times = attrs.evolve(self._times, timestamp_fn=partial(of_pair, timestamp_fn))
        self._reading = Reading(Connection(name, settings), self._topics, start, policy, elements, on_lost_offsets)

    def expand(self, pbegin: PBegin) -> PCollection[A]:
        elements: Any = self._expanded(pbegin)
        return cast("PCollection[A]", elements)

    def _expanded(self, pbegin: PBegin) -> Any:
        label = pbegin.pipeline.full_label
        reading = attrs.evolve(self._reading, connection=self._reading.connection.labelled(label))
        streams = pbegin.pipeline.runner.supports(Capability.UNBOUNDED_SOURCES)
        if self._limits.is_bounded:
            endless = KafkaSource(reading, without_watermark(self._times), commits=False, discovery_interval=None)
            source: Any = FirstElements(endless, self._limits, label)
        elif self._bounded or (self._bounded is None and not streams):
            start = reading.start
            if "auto.offset.reset" not in reading.connection.settings.all:
                start = attrs.evolve(start, otherwise="earliest")
            source = KafkaRanges(attrs.evolve(reading, start=start), self._times)
        else:
            source = KafkaSource(reading, self._times, self._commits, self._every)
        # With its fields, so that a wrong name of one is an error when the pipeline is built.
        record_type = hint_of_type(KafkaRecord)
        if self._key is None and self._value is None:
            return pbegin | Read(source).with_output_types(record_type if self._with_metadata else tuple[bytes, bytes])
        key, key_type = self._decoder("key", self._key, self._types[0], label)
        value, value_type = self._decoder("value", self._value, self._types[1], label)
        decoding = Decoding(key, value, label)
        if self._with_metadata:
            records: Any = pbegin | Read(source).with_output_types(record_type)
            return decoded(records, decoding.record, record_type, self._dead_letters)
        pairs: Any = pbegin | Read(source)
        fields = fields_of(value, self._types[1])
        decode = decoding.pair if fields is None else DecodingDoFn(decoding, fields)
        return decoded(pairs, decode, tuple[key_type, value_type], self._dead_letters)  # type: ignore[valid-type]

    def _decoder(self, field: str, given: Any, kind: Any, label: str) -> tuple[Decoder | None, Any]:
        """Return the decoder of keys or values, and the type of what it returns."""
        if not isinstance(given, RegistryFormat):
            return given, _with_fields(kind)
        reader = given.reader(field, self._topics, label)
        return reader, reader.element_type

    def with_exception_handling(self, **options: Any) -> ReadFromKafka[Any]:
        """Return the transform with a second output, of the records that can't be decoded.

        Args:
          options: as those of `ParDo.with_exception_handling`.

        >>> import json, penstock as beam
        >>> config = {"bootstrap.servers": "localhost:9092"}
        >>> read = beam.io.ReadFromKafka(config, "clicks", value_deserializer=json.loads).with_exception_handling()
        """
        if self._key is None and self._value is None:
            raise ValueError(f"{type(self).__name__}: without a deserializer no record can fail")
        read = copy.copy(self)
        read._dead_letters = options
        return cast("ReadFromKafka[Any]", read)

    def default_label(self) -> str:
        return "ReadFromKafka"

    def display_data(self) -> dict[str, Any]:
        return {"servers": self._reading.connection.settings.servers, "topics": ", ".join(self._topics)}


def _with_fields(kind: Any) -> Any:
    """Return the hint of values of a declared type, with its fields if they are known."""
    try:
        return hint_of_type(kind)
    except (NameError, TypeError):
        # Annotations that can't be resolved.
        return kind


def _names(topics: Any, transform: str) -> tuple[str, ...]:
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{transform}: expected the name of a topic, or several names, got {topics!r}")
    return names


def _policy(given: Any, transform: str) -> TimestampPolicy:
    try:
        return TimestampPolicy(given)
    except ValueError:
        known = ", ".join(repr(policy.value) for policy in TimestampPolicy)
        raise ValueError(f"{transform}: timestamp_policy must be one of {known}, got {given!r}") from None


def _reset(settings: Settings, transform: str) -> str:
    given = str(settings.get("auto.offset.reset", "latest"))
    if given not in _RESETS:
        raise ValueError(f"{transform}: 'auto.offset.reset' must be 'earliest', 'latest' or 'error', got {given!r}")
    return _RESETS[given]


def _milliseconds(time: int | Timestamp) -> int:
    return time.micros // 1000 if isinstance(time, Timestamp) else int(time)
