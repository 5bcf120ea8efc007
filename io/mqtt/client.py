"""Connections to a broker of MQTT, their settings without secrets, and their errors in words.

>>> Connection.of("ReadFromMqtt", "mqtt://ann:secret@localhost:1883", None, None, None, "5")
Connection('mqtt://***@localhost:1883')
"""

from __future__ import annotations

import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from ...frozen import frozen
from ...sdk.errors import SinkError, SourceError
from ...sdk.redaction import redacted
from ...sdk.user_code.error_text import text_or_class
from ..connections.server_connection import ServerConnection, hidden
from ..connections.tls import Tls
from ..optional_package import optional_package

# How long a broker is looked for, in seconds, before a run starts.
REACHED_WITHIN = 60.0

_PORTS = {"mqtt": 1883, "mqtts": 8883}

# Answers of a broker that no waiting mends: bad or unknown user, password, client id, method; not authorized; banned.
_REFUSALS = (
    "Bad user name or password",
    "Not authorized",
    "Client identifier not valid",
    "Bad authentication method",
    "Banned",
    "Unsupported protocol version",
)

# The answer of a broker that has another connection of the same client id.
_TAKEN_OVER = "Session taken over"

_SHARED = (
    "another connection has taken over the session of this client id, or takes it over again and again; give each "
    "pipeline a client_id of its own"
)

# Connections that are lost so soon, in seconds, and so often in a row, are taken over: older brokers don't say it.
_SOON, _OFTEN = 5.0, 5

# How long a client's keep-alive is, in seconds.
_KEEP_ALIVE = 30


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    return optional_package("paho.mqtt.client", extra="mqtt", needed_for=needed_for)


@frozen(repr=False)
class Connection(ServerConnection):
    """How to connect.  Its text shows the server only.

    Attributes:
      is_version_5: whether it speaks MQTT 5, otherwise 3.1.1.
    """

    service = "MQTT broker"

    transform: str
    shown: str
    host: str
    port: int
    user: str | None
    password: str | None
    tls: Tls | None
    is_version_5: bool

    @staticmethod
    def of(transform: str, server: Any, user: Any, password: Any, tls: Any, protocol: Any) -> Connection:
        """Return the connection for a transform's arguments.  Raises `ValueError` and `TypeError`, naming it."""
        package(transform)
        expected = f"{transform}: expected a URL such as 'mqtt://localhost:1883' or 'mqtts://localhost:8883'"
        if not isinstance(server, str):
            raise TypeError(f"{expected}, got {type(server).__name__}")
        try:
            parts = urlsplit(server)
            port = parts.port
        except ValueError:
            raise ValueError(f"{expected}; quote a password as urllib.parse.quote does") from None
        if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"{expected}, got {redacted(server)!r}")
        if str(protocol) not in ("5", "3.1.1"):
            raise ValueError(f"{transform}: protocol must be '5' or '3.1.1', got {protocol!r}")
        for name, given in (("username", user), ("password", password)):
            if given is not None and not isinstance(given, str):
                raise TypeError(f"{transform}: {name} must be text, got {type(given).__name__}")
        user = user or (unquote(parts.username) if parts.username else None)
        password = password or (unquote(parts.password) if parts.password else None)
        if password is not None and user is None:
            raise ValueError(f"{transform}: a password needs a username")
        encrypted = Tls.of(tls, transform)
        if parts.scheme == "mqtts":
            encrypted = encrypted or Tls()
        elif encrypted is not None:
            raise ValueError(f"{transform}: tls needs a URL with 'mqtts://', got {redacted(server)!r}")
        known = port or _PORTS[parts.scheme]
        is_5 = str(protocol) == "5"
        return Connection(transform, redacted(server), parts.hostname, known, user, password, encrypted, is_5)

    def said(self, error: str) -> str:
        return hidden(redacted(error), [self.password])

    def advice(self, error: str) -> str:
        if any(refusal in error for refusal in _REFUSALS[:2]):
            return "; are the credentials (username, password), and the user's rights, right?"
        return "; is a broker running there?" if "no answer" in error or "refused" in error else ""


class Client:
    """A client with a thread of its own, which connects again whenever the connection is lost.

    Args:
      client_id: names the session.
      session_seconds: how long the broker keeps the session without a connection; 0 for none.
      max_in_flight: the greatest number of messages that the broker sends before the first is acknowledged.
      on_connected: called in the thread, after each connection, with whether the broker has had the session.
      on_lost: called in the thread when the connection is lost.

    Attributes:
      client: paho's.
      refusal: what the broker has said that waiting doesn't mend; None if nothing.
      is_closed: whether it will not connect again.
    """

    def __init__(
        self,
        connection: Connection,
        client_id: str,
        session_seconds: int = 0,
        max_in_flight: int = 65_535,
        on_connected: Callable[[bool], None] = lambda had_session: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.connection = connection
        self.refusal: str | None = None
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._session_seconds = session_seconds
        self._max_in_flight = max_in_flight
        self._has_connected = threading.Event()
        self._said: str | None = None
        self._outage = connection.outage()
        self._connected_at = 0.0
        self._soon_lost = 0
        self.is_closed = False
        paho = package(connection.transform)
        clean = {} if connection.is_version_5 else {"clean_session": not session_seconds}
        self.client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5 if connection.is_version_5 else paho.MQTTv311,
            manual_ack=True,
            **clean,
        )
        if connection.user is not None:
            self.client.username_pw_set(connection.user, connection.password)
        if connection.tls is not None:
            self.client.tls_set_context(connection.tls.context())
        self.client.reconnect_delay_set(1, 5)
        self.client.on_connect = self._connected
        self.client.on_connect_fail = self._failed
        self.client.on_disconnect = self._disconnected

    def start(self) -> None:
        """Connect, in the thread."""
        settings: dict[str, Any] = {}
        if self.connection.is_version_5:
            settings = {"clean_start": not self._session_seconds, "properties": self._properties()}
        self.client.connect_async(self.connection.host, self.connection.port, _KEEP_ALIVE, **settings)
        before = set(threading.enumerate())
        self.client.loop_start()
        for thread in set(threading.enumerate()) - before:
            if thread.name.startswith("paho-mqtt-client"):
                # `penstock ...` are threads beside which snapshots fork.
                thread.name = "penstock mqtt"

    def _properties(self) -> Any:
        properties = properties_of("CONNECT")
        properties.SessionExpiryInterval = self._session_seconds
        properties.ReceiveMaximum = self._max_in_flight
        return properties

    def wait(self, what: str, kind: type[SourceError] | type[SinkError] = SourceError) -> None:
        """Wait for the connection.  Raises an error of `kind` if the broker refuses it, or doesn't answer in time."""
        until = time.monotonic() + REACHED_WITHIN
        while not self._has_connected.wait(0.05):
            self.raise_refusal(what, kind)
            if time.monotonic() > until:
                said = f"no answer for {REACHED_WITHIN:.0f} s" + (f" ({self._said})" if self._said else "")
                raise self.connection.error(what, said, kind)

    def raise_refusal(self, what: str, kind: type[SourceError] | type[SinkError] = SourceError) -> None:
        """Raise an error of `kind` if the broker has refused the client."""
        if self.refusal is not None:
            raise self.connection.error(what, self.refusal, kind)

    def close(self) -> None:
        """Disconnect, and end the thread.  The broker keeps the session as long as it was told."""
        self.is_closed = True
        with suppress(Exception):
            self.client.disconnect()
        with suppress(Exception):
            self.client.loop_stop()

    # In the thread

    def _connected(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self._said = str(reason)
            if self._said in _REFUSALS:
                self.refusal = self._said
            else:
                self._note_loss(self._said)
            return
        self._outage.over()
        self._connected_at = time.monotonic()
        self._on_connected(bool(flags.session_present))
        self._has_connected.set()

    def _failed(self, client: Any, userdata: Any) -> None:
        # The client calls this where it handles the error.
        error = sys.exc_info()[1]
        if isinstance(error, ssl.SSLCertVerificationError):
            self.refusal = f"{text_or_class(error)}; are the files of tls right?"
        self._note_loss("no connection" if error is None else text_or_class(error))

    def _disconnected(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._on_lost()
        if self.is_closed:
            return
        self._soon_lost = self._soon_lost + 1 if time.monotonic() - self._connected_at < _SOON else 0
        if str(reason) == _TAKEN_OVER or (self._session_seconds and self._soon_lost >= _OFTEN):
            self.refusal = _SHARED
            # Otherwise both would take it over for ever.
            self.is_closed = True
            client.disconnect()
            return
        self._note_loss(str(reason))

    def _note_loss(self, said: str) -> None:
        self._said = said
        if not self.is_closed:
            self._outage.lost(said)


def properties_of(packet: str) -> Any:
    """Return new properties of MQTT 5 for a type of packet, such as 'CONNECT'."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    return Properties(getattr(PacketTypes, packet))  # type: ignore[no-untyped-call]


def forget(connection: Connection, client_id: str) -> None:
    """Let the broker forget a session, if it answers: a connection without one ends it."""
    client = Client(connection, client_id)
    client.start()
    with suppress(SourceError):
        client.wait(f"the session of {client_id!r} can't be ended")
    client.close()


def is_topic(topic: Any, wildcards: bool) -> bool:
    """Return True for a valid topic, or filter of topics.

    >>> is_topic("home/kitchen", False), is_topic("home/+/temperature", False), is_topic("home/#/x", True)
    (True, False, False)
    """
    if not isinstance(topic, str) or not topic or "\0" in topic or len(topic.encode()) > 65_535:
        return False
    levels = topic.split("/")
    if not wildcards:
        return not any(c in topic for c in "+#")
    return all(level in ("+", "#") or not any(c in level for c in "+#") for level in levels) and "#" not in levels[:-1]
