"""MqttMessage: a message of a broker."""

from __future__ import annotations

from typing import Any

from ...frozen import frozen
from ...persistence import stored_as

# The user property that has the id of a message of `WriteToMqtt`.
ID_PROPERTY = "penstock-id"


@stored_as("mqtt-message", 1)
@frozen
class MqttMessage:
    """A message of a broker.

    Attributes:
      topic: where it was published.
      payload: its bytes.
      qos: the quality of service that it was delivered with: 0 or 1.
      retain: whether it was published before the subscription, and kept by the broker.
      properties: user properties of MQTT 5, by name; of several with one name the last.

    >>> MqttMessage("home/kitchen", b"21.5", 1, False, {}).topic
    'home/kitchen'
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: dict[str, str]

    def __hash__(self) -> int:
        return hash((self.topic, self.payload))


def message_of(received: Any) -> MqttMessage:
    """Return a client's message."""
    pairs = getattr(received.properties, "UserProperty", None) or ()
    return MqttMessage(received.topic, bytes(received.payload), received.qos, bool(received.retain), dict(pairs))


def id_of(message: MqttMessage) -> str | None:
    """Return the id that `WriteToMqtt` has given a message; None for others."""
    return message.properties.get(ID_PROPERTY)
