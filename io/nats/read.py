"""ReadFromNats: the messages of a JetStream stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.runner import Capability
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.watermark_estimators import EstimatorTypes, MonotonicWatermarkEstimator
from ...transforms.read import Read
from ...windowing.timestamp import Timestamp
from ..first_elements import FirstElements, ReadLimits, without_watermark
from .bounded import NatsRanges
from .client import Connection, is_subject, overlapping
from .messages import NatsMessage
from .pulling import Reading
from .source import NatsSource, Start


class ReadFromNats(PTransform):
    """A `NatsMessage` for each message of a JetStream stream; each one once.

    Returns a `PCollection[NatsMessage]`.

    Positions are sequences of the stream, and are part of the checkpoints.  Messages are read by their positions after
    a failure, so the stream has to keep them until then: retention 'limits', or 'interest' with `durable`; a work
    queue is refused.  Needs the extra `nats`.

    On a batch runner, and with `bounded=True`, it reads the messages that there are when the run begins.

    Args:
      servers: a URL such as 'nats://localhost:4222', or several; 'tls://' encrypts.
      stream: the name of a stream that exists.
      subjects: a filter such as 'orders.*', or several that don't overlap, which are read in parallel; None for all.
      start: where reading begins without a checkpoint: 'earliest', 'latest', the sequence of a message, or a
        `Timestamp`.
      durable: the name of a durable consumer, which acknowledges messages once a checkpoint covers them.  It is made if
        it doesn't exist; otherwise reading begins at its position.  It must not have other users.
      user, password, token, user_credentials, nkeys_seed: credentials; the last two are paths of files.
      tls: True, or a dict with `ca_file`, `cert_file` and `key_file`.
      bounded: reads the messages that there are; None for True on a runner without unbounded sources.
      max_num_records, max_read_time: a number of messages, and of seconds, after which reading ends.
      on_lost_messages: what to do if messages were removed before they were read: 'fail', or 'continue' with an error
        in the log.
      timestamp_fn, watermark_estimator, idle_after: see `EventTimes`.  Without them the event time of a message is the
        time at which the server stored it, and the watermark follows the last message.

    Raises `MissingExtraError`, `ValueError` and `TypeError` while the pipeline is built, and `SourceError` when the run
    starts if the stream is missing, the credentials are wrong, or no server answers for a minute.

    >>> import penstock as beam
    >>> beam.io.ReadFromNats("nats://ann:secret@localhost:4222", "orders").display_data()
    {'servers': 'nats://***@localhost:4222', 'stream': 'orders'}
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        stream: str,
        subjects: str | Sequence[str] | None = None,
        *,
        start: str | int | Timestamp = "earliest",
        durable: str | None = None,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        user_credentials: str | None = None,
        nkeys_seed: str | None = None,
        tls: bool | Mapping[str, str] | None = None,
        bounded: bool | None = None,
        max_num_records: int | None = None,
        max_read_time: float | None = None,
        on_lost_messages: str = "fail",
        timestamp_fn: Callable[[NatsMessage], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        connection = Connection.of(
            name,
            servers,
            tls,
            user=user,
            password=password,
            token=token,
            user_credentials=user_credentials,
            nkeys_seed=nkeys_seed,
        )
        check_name(stream, "stream", name)
        if durable is not None:
            check_name(durable, "durable", name)
        self._subjects = _subjects(subjects, name)
        if on_lost_messages not in ("fail", "continue"):
            raise ValueError(f"{name}: on_lost_messages must be 'fail' or 'continue', got {on_lost_messages!r}")
        self._limits = ReadLimits.of(name, max_num_records, max_read_time)
        self._bounded = bounded
        if durable is not None and (bounded or self._limits.is_bounded):
            raise ValueError(
                f"{name}: a bounded read has no checkpoints to acknowledge messages after; leave out durable"
            )
        self._start = _start(start, durable, name)
        monotonic = MonotonicWatermarkEstimator.default_provider()
        self._times = EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after, monotonic)
        self._reading = Reading(connection, stream, None, on_lost_messages)

    def expand(self, pbegin: PBegin) -> PCollection[NatsMessage]:
        pipeline = pbegin.pipeline
        reading = attrs.evolve(self._reading, connection=self._reading.connection.labelled(pipeline.full_label))
        streams = pipeline.runner.supports(Capability.UNBOUNDED_SOURCES)
        is_bounded = self._limits.is_bounded or self._bounded or (self._bounded is None and not streams)
        times, durable = self._times, self._start.durable
        if is_bounded:
            times, durable = without_watermark(times), None
        source: Any = NatsSource(reading, self._subjects, self._start, times, durable)
        if self._limits.is_bounded:
            source = FirstElements(source, self._limits, reading.label)
        elif is_bounded:
            source = NatsRanges(source)
        messages: PCollection[NatsMessage] = pbegin | Read(source).with_output_types(NatsMessage)
        return messages

    def default_label(self) -> str:
        return "ReadFromNats"

    def display_data(self) -> dict[str, Any]:
        shown = {"servers": self._reading.connection.shown, "stream": self._reading.stream}
        if self._subjects != (None,):
            shown["subjects"] = ", ".join(map(str, self._subjects))
        return shown


def check_name(name: Any, parameter: str, transform: str) -> None:
    """Raise `ValueError` for a name that a stream or a consumer can't have."""
    if not isinstance(name, str) or not name or any(c.isspace() or c in ".*>/\\" for c in name):
        raise ValueError(
            f"{transform}: {parameter} must be a name without spaces, '.', '*', '>' and slashes, got {name!r}"
        )


def _subjects(given: Any, transform: str) -> tuple[str | None, ...]:
    if given is None or given == ">":
        return (None,)
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not is_subject(name, wildcards=True):
            raise ValueError(f"{transform}: subjects must be filters such as 'orders.*', got {name!r}")
    if not names:
        raise ValueError(f"{transform}: expected a filter of subjects, or None for all, got none")
    if (both := overlapping(names)) is not None:
        raise ValueError(
            f"{transform}: a message may have both the subjects {both[0]!r} and {both[1]!r}, and would be read twice; "
            "give filters that don't overlap"
        )
    return names


def _start(given: Any, durable: str | None, transform: str) -> Start:
    if given in ("earliest", "latest"):
        return Start(at=given, durable=durable)
    if isinstance(given, Timestamp):
        return Start(at=given.micros, durable=durable)
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return Start(sequence=given, durable=durable)
    raise ValueError(
        f"{transform}: start must be 'earliest', 'latest', a sequence above 0 or a Timestamp, got {given!r}"
    )
