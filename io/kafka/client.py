"""Clients of a Kafka cluster, their settings without secrets, and their errors in words.

A setting's secrets are shown nowhere:

>>> settings = Settings({"bootstrap.servers": "localhost:9092", "sasl.password": "secret"}, "ReadFromKafka")
>>> settings
Settings('localhost:9092')
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from ...sdk.redaction import redacted
from ..connections.server_connection import ServerConnection
from ..connections.waiting import Outage, is_stopping
from ..optional_package import optional_package

# How long a cluster is looked for, in seconds, before a run starts and when it ends: Java's clients do as long.
REACHED_WITHIN = 60.0

# How long the brokers may need to know a new topic, in seconds.
_CREATED_WITHIN = 3.0

# How long, in seconds, answers of before a loss may still be under way from the client's threads.
_UNDER_WAY = 0.5

# How long, in seconds, a call waits that serves no reports of the client.
_UNREPORTED = 1.0

# The names of the client's reports: that a partition's end is reached, and that an offset isn't there.
PARTITION_EOF = "_PARTITION_EOF"
OFFSET_LOST = "_AUTO_OFFSET_RESET"

# librdkafka's numbers of the errors that nothing came in time, and that a client can't be used any more.
_TIMED_OUT = -185
_FATAL = -150

# The names of errors that no waiting mends.
_REFUSALS = (
    "_AUTHENTICATION",
    "_SSL",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
)

# Clients that are open.  A process that was forked meanwhile has none of their threads, and must not close them.
_open: set[Any] = set()


def package(needed_for: str) -> Any:
    """Import and return the client's package.  Raises `MissingExtraError`."""
    return optional_package("confluent_kafka", extra="kafka", needed_for=needed_for)


def administration(needed_for: str) -> Any:
    """Import and return the part of the client's package that creates and describes topics."""
    return optional_package("confluent_kafka.admin", extra="kafka", needed_for=needed_for)


class Settings:
    """The settings of a client, as librdkafka names them.  Their text shows the servers only.

    Raises `ValueError`, without showing values, for settings that the client refuses.
    """

    def __init__(self, given: Any, transform: str, name: str = "consumer_config") -> None:
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise TypeError(f"{transform}: {name} must be a dict of settings, got {type(given).__name__}")
        if not given.get("bootstrap.servers"):
            raise ValueError(
                f"{transform}: {name} needs 'bootstrap.servers', such as 'localhost:9092'; found "
                f"{', '.join(map(repr, sorted(given))) or 'no settings'}"
            )
        self.all: dict[str, Any] = {key: _plain(value) for key, value in given.items()}
        self._name = name

    @property
    def servers(self) -> str:
        return redacted(str(self.all["bootstrap.servers"]))

    def get(self, name: str, default: Any = None) -> Any:
        return self.all.get(name, default)

    def check(self, transform: str, own: Mapping[str, str]) -> None:
        """Raise `ValueError` for a setting that the client doesn't know, or that the transform decides itself.

        Args:
          own: by name of a setting, what to use instead.
        """
        for name, instead in own.items():
            if name in self.all:
                raise ValueError(f"{transform}: {self._name} can't have {name!r}: {instead}")
        kafka = package(transform)
        kind = kafka.Consumer if self._name == "consumer_config" else kafka.Producer
        # Each producer of a sink is idempotent, which other settings may contradict.
        needed: dict[str, Any] = {"group.id": "penstock"} if kind is kafka.Consumer else {"enable.idempotence": True}
        try:
            client = kind(needed | self.all | {"log_level": 0}, logger=_silent)
        except (kafka.KafkaException, ValueError, TypeError) as error:
            # The error may repeat a value, such as a password.
            known = _without(str(_first(error)), self.all)
            raise ValueError(f"{transform}: the client refuses {self._name}: {known}") from None
        if kind is kafka.Consumer:
            client.close()

    def __repr__(self) -> str:
        return f"Settings({self.servers!r})"


@attrs.define(repr=False, eq=False)
class Connection(ServerConnection):
    """What a client of librdkafka reports from its own thread: lost brokers are logged, refusals are kept."""

    service = "Kafka"

    transform: str
    settings: Settings
    _refusal: Any = attrs.field(init=False, default=None)
    _outage: Outage = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._outage = self.outage()

    @property
    def shown(self) -> str:
        return self.settings.servers

    def said(self, error: Any) -> str:
        if isinstance(error, SystemError):
            # As `Producer` has it, from another client.
            error = fatal()
        return redacted(_without(str(_first(error)), self.settings.all))

    def is_own(self, error: Exception) -> bool:
        return isinstance(error, (package(self.transform).KafkaException, ValueError, SystemError))

    def advice(self, error: Any) -> str:
        found = error_of(error)
        if found is not None and found.name() in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"):
            return "; are the credentials ('sasl.username', 'sasl.password', 'sasl.mechanism') right?"
        if found is not None and found.name() in ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_RESOLVE"):
            return "; is a broker running there, and are 'bootstrap.servers' and 'security.protocol' right?"
        return ""

    def common(self) -> dict[str, Any]:
        """Return the settings of each client."""
        return self.settings.all | {"error_cb": self._reported, "logger": _silent}

    def consumer(self, **settings: Any) -> Any:
        """Return a new consumer, which isn't a member of its group and keeps no offsets."""
        wanted = {
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # A position that isn't there is reported, and never replaced silently.
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
        config = {"group.id": "penstock", "isolation.level": "read_committed"} | self.common() | wanted | settings
        return opened(package(self.transform).Consumer(config))

    def reader(self, topic: str, offset: int, **settings: Any) -> Any:
        """Return a consumer that reads the first partition of a topic from an offset, up to its end, without delay."""
        consumer = self.consumer(**{"fetch.wait.max.ms": 20} | settings)
        try:
            # If it knows the leader the client looks for the first offset at once, else after half a second.
            metadata(self, consumer, topic)
            consumer.assign([package(self.transform).TopicPartition(topic, 0, offset)])
        except BaseException:
            closed(consumer)
            raise
        return consumer

    def producer(self, **settings: Any) -> Producer:
        """Return a new producer."""
        client = package(self.transform).Producer(self.common() | settings)
        producer: Producer = opened(Producer(client, "transactional.id" in settings))
        return producer

    def admin(self) -> Any:
        """Return a new client for topics."""
        skipped = ("group.id", "auto.offset.reset", "enable.auto.commit", "isolation.level")
        return administration(self.transform).AdminClient(
            {name: value for name, value in self.common().items() if name not in skipped}
        )

    def raise_refusal(self) -> None:
        """Raise the error that a client has reported and that waiting doesn't mend, if there is one."""
        if self._refusal is not None:
            raise package(self.transform).KafkaException(self._refusal)

    def answers(self) -> None:
        """Note that the cluster has answered."""
        self._outage.over(_UNDER_WAY)

    def _reported(self, error: Any) -> None:
        if is_refusal(error) or error.fatal():
            self._refusal = self._refusal or error
        elif error.name() in ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_RESOLVE"):
            self._outage.lost(error.str())

    def __getstate__(self) -> tuple[str, Settings]:
        return self.transform, self.settings

    def __setstate__(self, state: tuple[str, Settings]) -> None:
        self.__init__(*state)  # type: ignore[misc]


class Producer:
    """A producer of librdkafka's that raises its fatal errors.

    The client raises a fatal error in whatever call serves its reports.  If the call has deliveries to report too, it
    loses the error, and raises `SystemError`.

    Args:
      client: the client's producer.
      has_transactions: whether it has a `transactional.id`.
    """

    def __init__(self, client: Any, has_transactions: bool) -> None:
        self.client = client
        self._has_transactions = has_transactions
        # It serves no reports.
        self.produce = client.produce
        self.purge = client.purge

    def poll(self, seconds: float) -> int:
        return self._called("poll", seconds)  # type: ignore[no-any-return]

    def flush(self, seconds: float) -> int:
        return self._called("flush", seconds)  # type: ignore[no-any-return]

    def init_transactions(self, seconds: float) -> None:
        self._waiting("init_transactions", seconds)

    def begin_transaction(self) -> None:
        self._called("begin_transaction")

    def commit_transaction(self, seconds: float) -> None:
        self._waiting("commit_transaction", seconds)

    def abort_transaction(self, seconds: float) -> None:
        self._called("abort_transaction", seconds)

    def _waiting(self, name: str, seconds: float) -> None:
        """Call a method that serves no reports, and goes on with what it has begun when it is called again."""
        called = time.monotonic()
        until = called + seconds
        while True:
            began = time.monotonic()
            wanted = min(_UNREPORTED, until - began)
            try:
                self._called(name, wanted)
            except Exception as exception:
                error, now = error_of(exception), time.monotonic()
                has_waited = error is not None and error.name() == "_TIMED_OUT" and now - began > 0.9 * wanted
                # Another time-out is that of a request.
                if not has_waited or now >= until or is_stopping(called):
                    raise
                self.poll(0)
            else:
                return

    def _called(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.client, name)(*arguments)
        except SystemError as lost:
            if self._has_transactions:
                # The client keeps a fatal error, and raises it again.
                self.client.abort_transaction(10.0)
            raise fatal() from lost


class _Silent(logging.Logger):
    """librdkafka's own log: what matters of it is reported by errors."""

    def __init__(self) -> None:
        super().__init__("librdkafka", logging.CRITICAL + 1)

    def __reduce__(self) -> Any:
        return _silenced, ()


_silent = _Silent()


def _silenced() -> _Silent:
    return _silent


def opened(client: Any) -> Any:
    """Return a client, and keep it until `closed`."""
    _open.add(client)
    return client


def closed(client: Any) -> None:
    """Close a consumer, or drop a producer's unsent records."""
    if hasattr(client, "purge"):
        client.purge()
    else:
        client.close()
    _open.discard(client)


def fetched(consumer: Any, number: int, seconds: float) -> list[Any]:
    """Return the messages that there are, at most `number`; if there are none, wait for the first."""
    first: list[Any] = consumer.consume(number, 0)
    if first or seconds <= 0:
        return first
    first = consumer.consume(1, seconds)
    return first + consumer.consume(number - 1, 0) if first and number > 1 else first


def is_refusal(error: Any) -> bool:
    """Return True for an error that waiting doesn't mend: wrong credentials, or missing rights."""
    return error.name() in _REFUSALS


def waits(error: Any) -> bool:
    """Return True if the cluster may answer later."""
    return bool(error.retriable()) or error.name() in (
        "_TRANSPORT",
        "_ALL_BROKERS_DOWN",
        # Of a question to a broker whose connection is replaced meanwhile.
        "_DESTROY_BROKER",
        "_TIMED_OUT",
        "_TIMED_OUT_QUEUE",
        "_MSG_TIMED_OUT",
        "_WAIT_COORD",
        "_RESOLVE",
        "_FAIL",
        "REQUEST_TIMED_OUT",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "BROKER_NOT_AVAILABLE",
        "CONCURRENT_TRANSACTIONS",
    )


def error_of(exception: BaseException) -> Any:
    """Return the `KafkaError` of a `KafkaException`, or None."""
    first = exception.args[0] if exception.args else None
    return first if hasattr(first, "retriable") else None


def _first(exception: BaseException) -> Any:
    error = error_of(exception)
    return error.str() if error is not None else exception


def metadata(connection: Connection, client: Any, topic: str | None = None, seconds: float | None = None) -> Any:
    """Return the cluster's topics, or the one topic's.  Raises `KafkaException`; a refusal at once.

    Args:
      seconds: how long the cluster is looked for; None for `REACHED_WITHIN`.
    """
    kafka = package(connection.transform)
    seconds = REACHED_WITHIN if seconds is None else seconds
    until = time.monotonic() + seconds
    while True:
        try:
            found = client.list_topics(topic, timeout=min(seconds, 2.0)) if topic else client.list_topics(timeout=2.0)
        except kafka.KafkaException as exception:
            connection.raise_refusal()
            client.poll(0)
            connection.raise_refusal()
            error = error_of(exception)
            if error is None or not waits(error) or time.monotonic() > until:
                raise
        else:
            connection.answers()
            return found


def described(connection: Connection, client: Any, topic: str, seconds: float | None = None) -> Any:
    """Return the metadata of a topic, or None if there is none; a topic that was just created is waited for.

    Raises `KafkaException` as `metadata` does.
    """
    until = time.monotonic() + _CREATED_WITHIN
    while True:
        # All topics: asked for one, a broker may create it.
        found = metadata(connection, client, seconds=seconds).topics.get(topic)
        if found is not None or time.monotonic() > until:
            return found
        time.sleep(0.1)


def attempts() -> Iterator[Callable[[], bool]]:
    """Yield again and again, with pauses that grow to a second; what is yielded tells if the time has passed."""
    until, pause = time.monotonic() + REACHED_WITHIN, 0.05
    while True:
        yield lambda: time.monotonic() > until
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def timed_out() -> Exception:
    """Return the client's error for an answer that doesn't come in time."""
    import confluent_kafka

    error: Exception = confluent_kafka.KafkaException(confluent_kafka.KafkaError(_TIMED_OUT))
    return error


def fatal() -> Exception:
    """Return the client's error for one that it has lost, and after which it can't be used any more."""
    import confluent_kafka

    error: Exception = confluent_kafka.KafkaException(
        confluent_kafka.KafkaError(_FATAL, "a fatal error, which the client has lost", True)
    )
    return error


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool)) or callable(value) else str(value)


def _without(text: str, settings: Mapping[str, Any]) -> str:
    """Return a text without the values of settings that may be secret."""
    for name, value in settings.items():
        secret = any(part in name for part in ("password", "secret", "key", "pem", "oauth", "jaas", "user.info"))
        if secret and isinstance(value, str) and value:
            text = text.replace(value, "***")
    return text
