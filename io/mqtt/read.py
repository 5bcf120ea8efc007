"""ReadFromMqtt: the messages of topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ...sdk.ptransform import PTransform
from ...sdk.pvalue import PBegin, PCollection
from ...sdk.sources.event_time_reader import EventTimes
from ...sdk.watermark_estimators import EstimatorTypes
from ...transforms.read import Read
from ...windowing.duration import DurationTypes, seconds_of_span
from ..first_elements import FirstElements, ReadLimits, without_watermark
from .bounded import OwnSessionSource
from .client import Connection, is_topic
from .messages import MqttMessage, id_of
from .session import Reading
from .source import MqttSource


class ReadFromMqtt(PTransform):
    """An `MqttMessage` for each message of topics; once for messages with ids, otherwise at least once.

    Returns a `PCollection[MqttMessage]`.

    The broker keeps a session, named by `client_id`, and the messages that are not acknowledged; a message is
    acknowledged once a checkpoint that covers it is durable.  After a failure the broker sends the others again.  Of
    these, messages with ids that a checkpoint covers are dropped; `WriteToMqtt` gives messages ids.  Messages
    that were published with quality of service 0 are at most once.  Needs the extra `mqtt`.

    With `max_num_records` or `max_read_time` the read is bounded: it uses a session of its own, which ends with it, and
    takes no messages from others.

    Args:
      server: a URL such as 'mqtt://localhost:1883'; 'mqtts://' encrypts.
      topics: a filter such as 'home/+/temperature', or several.
      client_id: names the session.  It must have no other users.
      id_fn: returns a message's id: text, bytes or a whole number, which no other message of the topics has; or None
        for a message without.
      username, password: credentials, unless the URL has them.
      tls: a dict with `ca_file`, `cert_file` and `key_file`.
      protocol: '5' or '3.1.1'.
      session_expiry: how long the broker keeps the session while no pipeline is connected, with MQTT 5.
      max_in_flight: the greatest number of messages between two checkpoints, and of ids in a checkpoint, up to 65,535.
        With 3.1.1 the broker decides it.
      on_lost_session: what to do if the broker has lost the session, and perhaps messages: 'fail', or 'continue' with
        an error in the log.
      max_num_records, max_read_time: a number of messages, and of seconds, after which reading ends.
      timestamp_fn, watermark_estimator, idle_after: see `EventTimes`.  Without them the event time of a message is the
        time of reading: messages of MQTT have none.

    Raises `MissingExtraError`, `ValueError` and `TypeError` while the pipeline is built, and `SourceError` when the run
    starts if the credentials are wrong, or no broker answers for a minute.

    >>> import penstock as beam
    >>> beam.io.ReadFromMqtt("mqtt://ann:secret@localhost", "home/#", client_id="kitchen").display_data()
    {'server': 'mqtt://***@localhost', 'topics': 'home/#'}
    """

    def __init__(
        self,
        server: str,
        topics: str | Sequence[str],
        *,
        client_id: str | None = None,
        id_fn: Callable[[MqttMessage], Any] | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: Mapping[str, str] | None = None,
        protocol: str = "5",
        session_expiry: DurationTypes = 7 * 86_400,
        max_in_flight: int = 10_000,
        on_lost_session: str = "fail",
        max_num_records: int | None = None,
        max_read_time: float | None = None,
        timestamp_fn: Callable[[MqttMessage], Any] | None = None,
        watermark_estimator: EstimatorTypes | None = None,
        idle_after: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        connection = Connection.of(name, server, username, password, tls, protocol)
        filters = (topics,) if isinstance(topics, str) else tuple(topics)
        if not filters or not all(is_topic(topic, wildcards=True) for topic in filters):
            raise ValueError(f"{name}: expected filters of topics such as 'home/+/temperature', got {topics!r}")
        self._limits = ReadLimits.of(name, max_num_records, max_read_time)
        if client_id is None and not self._limits.is_bounded:
            raise ValueError(
                f"{name}: give a client_id, which names the session in which the broker keeps messages for this "
                "pipeline; or max_num_records or max_read_time for a bounded read"
            )
        if client_id is not None and (not isinstance(client_id, str) or not client_id):
            raise ValueError(f"{name}: client_id must be a text, got {client_id!r}")
        if not isinstance(max_in_flight, int) or not 0 < max_in_flight <= 65_535:
            raise ValueError(f"{name}: max_in_flight must be from 1 to 65,535, got {max_in_flight!r}")
        if on_lost_session not in ("fail", "continue"):
            raise ValueError(f"{name}: on_lost_session must be 'fail' or 'continue', got {on_lost_session!r}")
        seconds = int(seconds_of_span(session_expiry))
        if seconds <= 0:
            raise ValueError(f"{name}: session_expiry must be at least a second, got {session_expiry!r}")
        if id_fn is not None and not callable(id_fn):
            raise TypeError(f"{name}: id_fn must be a function, got {id_fn!r}")
        self._times = EventTimes.of(name, timestamp_fn, watermark_estimator, idle_after)
        self._reading = Reading(
            connection,
            filters,
            client_id or "penstock",
            min(seconds, 0xFFFF_FFFE),
            max_in_flight,
            id_fn or id_of,
            on_lost_session,
        )

    def expand(self, pbegin: PBegin) -> PCollection[MqttMessage]:
        label = pbegin.pipeline.full_label
        reading = attrs.evolve(self._reading, connection=self._reading.connection.labelled(label))
        source: Any = MqttSource(reading, self._times)
        if self._limits.is_bounded:
            own = OwnSessionSource(reading, without_watermark(self._times))
            source = FirstElements(own, self._limits, label)
        messages: PCollection[MqttMessage] = pbegin | Read(source).with_output_types(MqttMessage)
        return messages

    def default_label(self) -> str:
        return "ReadFromMqtt"

    def display_data(self) -> dict[str, Any]:
        return {"server": self._reading.connection.shown, "topics": ", ".join(self._reading.topics)}
