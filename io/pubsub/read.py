"""ReadFromPubSub: the messages of a topic or a subscription."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import attrs

from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.type_variables import A
from ...sdk.watermark_estimators import BoundedOutOfOrdernessWatermarkEstimator
from ...sdk.watermark_estimators.estimator import EstimatorTypes
from ...transforms import Map
from ...transforms.read import Read
from ..first_elements import FirstElements, ReadLimits, without_watermark
from .client import Resource, package
from .lease import Reading
from .messages import PubsubMessage
from .source import Input, PubsubSource

# Seconds: how far out of order messages may be, unless an estimator says otherwise.
_OUT_OF_ORDER = 10


class ReadFromPubSub(PTransform[PBegin, PCollection[A]]):
    """The messages of a Pub/Sub topic or subscription, each once: bytes, or `PubsubMessage`s.

    Returns a `PCollection[bytes]`, or a `PCollection[PubsubMessage]`.

    A message is acknowledged once a checkpoint that covers it is durable; its lease is extended meanwhile.  Pub/Sub
    delivers the others again after a failure.  Of these, messages whose ids a checkpoint has are dropped: the last
    `max_ids` ids are part of each checkpoint.  One reader reads a subscription; each pipeline needs one of its own.

    With `max_num_records` or `max_read_time` the read is bounded.  It acknowledges no message of a `subscription`,
    since a run in batch may fail later: they come again, to this pipeline or another one.  Needs the extra
    `pubsub`.  The credentials are those of Google's clients; `PUBSUB_EMULATOR_HOST` is the address of another server.

    Args:
      topic: 'projects/PROJECT/topics/NAME': messages from the start of the pipeline on, by a subscription of its own,
        which is removed when the run is drained, and otherwise by Pub/Sub, a week after it was read last.
      subscription: instead, 'projects/PROJECT/subscriptions/NAME'.
      id_label: the attribute that has a message's id; of messages with the same id, one is read.  By default Pub/Sub's.
      with_attributes: gives `PubsubMessage`s; without it, elements are bytes.
      timestamp_attribute: the attribute that has the event time: milliseconds since 1970, or a time of RFC 3339.  By
        default it is the time of publication.
      max_in_flight: the greatest number of messages between two checkpoints, and in a bounded read of a subscription.
      max_ids: the number of ids in a checkpoint, of 12 bytes each; at least `max_in_flight`.
      max_num_records, max_read_time: a number of messages, and of seconds, after which reading ends.
      timestamp_fn: a function from an element to its event time, instead of an attribute.
      watermark_estimator: by default event times may be 10 seconds out of order.  While no message has come for 10
        seconds, the watermark is 10 seconds behind the clock.
      idle_after: see `EventTimes`.

    Raises `MissingExtraError`, `ValueError` and `TypeError` while the pipeline is built, and `SourceError` when the run
    starts if there is no such topic or subscription.

    >>> import penstock as beam
    >>> beam.io.ReadFromPubSub(subscription="projects/shop/subscriptions/orders").display_data()
    {'subscription': 'projects/shop/subscriptions/orders'}
    """

    @overload
    def __init__(
        self: ReadFromPubSub[bytes],
        topic: str | None = None,
        subscription: str | None = None,
        id_label: str | None = None,
        with_attributes: Literal[False] = False,
        timestamp_attribute: str | None = None,
        *,
        max_in_flight: int = 10_000,
        max_ids: int = 100_000,
        max_num_records: int | None = None,
        max_read_time: float | None = None,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromPubSub[PubsubMessage],
        *,
        topic: str | None = None,
        subscription: str | None = None,
        id_label: str | None = None,
        with_attributes: Literal[True],
        timestamp_attribute: str | None = None,
        max_in_flight: int = 10_000,
        max_ids: int = 100_000,
        max_num_records: int | None = None,
        max_read_time: float | None = None,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None: ...
    @overload
    def __init__(
        self: ReadFromPubSub[Any],
        topic: str | None = None,
        subscription: str | None = None,
        id_label: str | None = None,
        with_attributes: bool = False,
        timestamp_attribute: str | None = None,
        *,
        max_in_flight: int = 10_000,
        max_ids: int = 100_000,
        max_num_records: int | None = None,
        max_read_time: float | None = None,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None: ...
    def __init__(
        self,
        topic: str | None = None,
        subscription: str | None = None,
        id_label: str | None = None,
        with_attributes: bool = False,
        timestamp_attribute: str | None = None,
        *,
        max_in_flight: int = 10_000,
        max_ids: int = 100_000,
        max_num_records: int | None = None,
        max_read_time: float | None = None,
        timestamp_fn: Callable[[Any], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        package(name)
        if (topic is None) == (subscription is None):
            raise ValueError(f"{name}: expected either a topic or a subscription")
        of = Resource.of(name, topic or subscription, "subscriptions" if topic is None else "topics")
        if not isinstance(max_in_flight, int) or max_in_flight < 1:
            raise ValueError(f"{name}: max_in_flight must be at least 1, got {max_in_flight!r}")
        if not isinstance(max_ids, int) or max_ids < max_in_flight:
            raise ValueError(f"{name}: max_ids must be at least max_in_flight, {max_in_flight}; got {max_ids!r}")
        if timestamp_fn is not None and timestamp_attribute is not None:
            raise ValueError(f"{name}: timestamp_fn and timestamp_attribute exclude each other")
        self._limits = ReadLimits.of(name, max_num_records, max_read_time)
        if topic is None and (max_num_records or 0) > max_in_flight:
            raise ValueError(
                f"{name}: max_num_records must be at most max_in_flight, {max_in_flight}, for a subscription, whose "
                f"messages a bounded read doesn't acknowledge; got {max_num_records}"
            )
        default = BoundedOutOfOrdernessWatermarkEstimator.default_provider(_OUT_OF_ORDER)
        self._times = EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after, default)
        self.with_attributes = with_attributes
        self._of = of
        reading = Reading(of, id_label, max_in_flight, max_ids)
        self._input = Input(reading, None if topic is None else of, timestamp_attribute, with_attributes)

    def expand(self, pbegin: PBegin) -> PCollection[A]:
        label = pbegin.pipeline.full_label
        source: Any = PubsubSource(self._input.labelled(label), self._times)
        if self._limits.is_bounded:
            # A run in batch may fail after its messages were read, and then they would be lost.
            is_own = source.input.topic is not None
            own = attrs.evolve(source.input, is_temporary=is_own, acknowledges=is_own)
            source = FirstElements(PubsubSource(own, without_watermark(self._times)), self._limits, label)
        kind = PubsubMessage if self.with_attributes else bytes
        messages: PCollection[Any] = pbegin | Read(source).with_output_types(kind)
        return messages

    def default_label(self) -> str:
        return type(self).__name__

    def display_data(self) -> dict[str, Any]:
        return {self._of.kind[:-1]: self._of.path}


class ReadStringsFromPubSub(PTransform):
    """The messages of a topic or a subscription, as text.

    Returns a `PCollection[str]`.

    Args: as those of `ReadFromPubSub`.

    >>> import penstock as beam
    >>> beam.io.ReadStringsFromPubSub(subscription="projects/shop/subscriptions/orders").default_label()
    'ReadStringsFromPubSub'
    """

    def __init__(self, topic: str | None = None, subscription: str | None = None, id_label: str | None = None) -> None:
        super().__init__()
        self._read = ReadFromPubSub(topic, subscription, id_label)

    def expand(self, pbegin: PBegin) -> PCollection[str]:
        texts: PCollection[str] = pbegin | self._read | "DecodeString" >> Map(_decoded).with_output_types(str)
        return texts


def _decoded(data: bytes) -> str:
    return data.decode("utf-8")
