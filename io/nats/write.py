"""WriteToNats: a message of a JetStream stream for each element."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, overload

import attrs

from ...frozen import frozen
from ...sdk.coders.coder import shortened
from ...sdk.elements.bundle import Bundle
from ...sdk.errors import RejectedRecordError, SinkError
from ...sdk.sink import SinkContext
from ...sdk.type_variables import A
from ..connections.waiting import WAITS, Busy
from ..sinks.message_sink import MessageSink
from ..sinks.write_into import WriteInto
from .client import Connection, called, is_subject, js_errors

# The messages that are published before the first is acknowledged.
_AT_ONCE = 500

# How long the server may take to acknowledge them, in seconds.
_STORED_WITHIN = 30.0

# The header by which a stream drops a message that it has already.
ID_HEADER = "Nats-Msg-Id"
_STREAM_HEADER = "Nats-Expected-Stream"

# What a stream stores besides a message's subject, headers and data, in bytes, by its kind of storage.
_STORED_BESIDES = {"file": 34, "memory": 16}

# JetStream's codes of a message that a stream can't store now: it is full, or the server or the account has no room.
_NO_ROOM = frozenset({10002, 10023, 10028, 10047, 10077})


@frozen
class Limits:
    """What the stream of a subject accepts, in bytes; None for any size.

    Attributes:
      message: the size of a message.
      stream: the size of all messages, with what is stored besides.
      besides: what is stored besides a message.
    """

    message: int | None
    stream: int | None
    besides: int


@frozen
class Writing:
    """How elements become messages.

    Attributes:
      subject: a subject, or a function from an element to one.
      data: a function from an element to bytes; None for elements that are bytes.
      headers: a function from an element to headers.
      stream: the stream that has to store them; None for whichever has the subject.
    """

    connection: Connection
    subject: str | Callable[[Any], str]
    data: Callable[[Any], bytes] | None
    headers: Callable[[Any], Mapping[str, str]] | None
    stream: str | None

    @property
    def label(self) -> str:
        return self.connection.transform

    def message(self, element: Any) -> tuple[str, bytes, dict[str, str] | None]:
        """Return the subject, the bytes and the headers of an element.  Raises `SinkError`."""
        subject = self.subject(element) if callable(self.subject) else self.subject
        if not is_subject(subject, wildcards=False):
            raise SinkError(f"{self.label}: expected a subject without wildcards and spaces, got {subject!r}")
        data = element if self.data is None else self.data(element)
        if not isinstance(data, bytes):
            advice = "give a function to bytes by data=..." if self.data is None else "data=... must return bytes"
            raise SinkError(f"{self.label}: expected bytes, got {shortened(data, 100)}; {advice}")
        headers = None if self.headers is None else {str(name): str(v) for name, v in self.headers(element).items()}
        if headers and any(c in text for pair in headers.items() for text in pair for c in "\r\n"):
            raise SinkError(f"{self.label}: a header has a line break: {shortened(headers, 100)}")
        return subject, data, headers


class NatsSink(MessageSink["Streams"]):
    """Messages of streams; see `WriteToNats`."""

    def __init__(self, writing: Writing) -> None:
        super().__init__()
        self.writing = writing

    def target(self) -> str:
        shown = self.display_data()
        return f"{shown['subject']} at {shown['servers']}"

    def display_data(self) -> dict[str, Any]:
        """Return the settings to show in a drawing of the pipeline."""
        subject = self.writing.subject
        return {
            "servers": self.writing.connection.shown,
            "subject": subject if isinstance(subject, str) else "by element",
        }

    def open_for(self, label: str) -> Streams:
        return Streams(attrs.evolve(self.writing, connection=self.writing.connection.labelled(label)))

    def prepare(self, context: SinkContext) -> None:
        self.opened(context).prepare()


class Streams:
    """The streams as one transform writes to them."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing
        # True if the stream is known to exist.
        self._is_prepared = False
        # By subject.
        self.limits: dict[str, Limits] = {}

    def prepare(self) -> None:
        """Check that there is a stream."""
        if not self._is_prepared:
            called(self.writing.connection, "it can't be written to", self._checked, SinkError)
            self._is_prepared = True

    async def _checked(self, js: Any) -> None:
        subject = self.writing.subject
        await self._stream_of(js, subject if isinstance(subject, str) else None)

    async def limits_of(self, js: Any, subject: str) -> Limits:
        """Return what the stream of a subject accepts."""
        await self._stream_of(js, subject)
        name = self.writing.stream or await js.find_stream_name_by_subject(subject)
        config = (await js.stream_info(name)).config
        message, stream = (
            int(size) if size is not None and size > 0 else None for size in (config.max_msg_size, config.max_bytes)
        )
        return Limits(message, stream, _STORED_BESIDES.get(config.storage, 0) + len(subject.encode()))

    async def _stream_of(self, js: Any, subject: str | None) -> None:
        """Raise `SinkError` if there is no stream for a subject, or another one."""
        writing = self.writing
        errors = js_errors(writing.label)
        found = None
        try:
            if writing.stream is not None:
                await js.stream_info(writing.stream)
            if subject is not None:
                found = await js.find_stream_name_by_subject(subject)
        except errors.NotFoundError:
            missing = f"stream {writing.stream!r}" if found is None and subject is None else f"stream for {subject!r}"
            raise SinkError(
                f"{writing.label}: {writing.connection.server} has no {missing}; create it, with the subjects "
                "and the duplicate window that its readers need"
            ) from None
        if found is not None and writing.stream not in (None, found):
            raise SinkError(
                f"{writing.label}: subject {subject!r} belongs to stream {found!r}, expected {writing.stream!r}"
            )

    def publish(self, messages: Iterable[tuple[Any, ...]], transaction: str) -> None:
        """Publish messages, each with its id."""

        async def published(js: Any) -> None:
            remaining = iter(messages)
            while portion := list(islice(remaining, _AT_ONCE)):
                await self._publish(js, portion)

        what = f"transaction {transaction!r} can't be published"
        called(self.writing.connection, what, published, SinkError, WAITS)

    async def _publish(self, js: Any, messages: Sequence[Any]) -> None:
        """Publish messages; those that the stream has already are dropped there."""
        stream = self.writing.stream
        waiting = {
            await js.publish_async(subject, data, headers=(headers or {}) | {ID_HEADER: id}, stream=stream): at
            for at, (id, subject, data, headers) in enumerate(messages)
        }
        until = time.monotonic() + _STORED_WITHIN
        while waiting:
            done, _ = await asyncio.wait(waiting, timeout=1.0)
            for future in done:
                future.result()
                del waiting[future]
                self.writing.connection.answered = time.monotonic()
            if done or not waiting:
                continue
            # The client drops answers that are errors.  The same message again, alone, gets its answer.
            first = min(waiting, key=waiting.__getitem__)
            await self._publish_one(js, *messages[waiting[first]])
            self.writing.connection.answered = time.monotonic()
            first.cancel()
            del waiting[first]
            if time.monotonic() > until:
                raise TimeoutError(f"no answer for {_STORED_WITHIN:.0f} s")

    async def _publish_one(self, js: Any, id: str, subject: str, data: bytes, headers: dict[str, str] | None) -> None:
        """Publish a message; raise `RejectedRecordError` if the stream refuses it, and `Busy` if it has no room."""
        errors = js_errors(self.writing.label)
        try:
            await js.publish(subject, data, headers=(headers or {}) | {ID_HEADER: id}, stream=self.writing.stream)
        except errors.APIError as error:
            if error.err_code in _NO_ROOM:
                raise Busy(
                    f"the stream has no room for a message for {subject!r}: {error.description}; delete messages, or "
                    "raise its limits (max_msgs, max_bytes)"
                ) from None
            if isinstance(error, errors.ServiceUnavailableError):
                # It may answer later.
                raise
            raise self._rejection(data, f"the stream refuses a message for {subject!r}: {error.description}") from None

    def messages(self, bundle: Bundle) -> Iterable[tuple[str, bytes, dict[str, str] | None]]:
        """Return the messages of a bundle's elements; raise `SinkError` for a subject without a stream."""
        found = [self.writing.message(element) for element in bundle.values]
        self._look_up({subject for subject, _, _ in found})
        for message in found:
            self._check(*message)
            yield message

    def _look_up(self, subjects: set[str]) -> None:
        """Ask for the limits of subjects, while the run can still fail."""
        if new := subjects - self.limits.keys():

            async def found(js: Any) -> dict[str, Limits]:
                return {subject: await self.limits_of(js, subject) for subject in sorted(new)}

            self.limits |= called(self.writing.connection, "it can't be written to", found, SinkError)

    def _check(self, subject: str, data: bytes, headers: dict[str, str] | None) -> None:
        """Raise `RejectedRecordError` for a message that is larger than the server accepts."""
        size = self._size(data, headers)
        message = f"a message of {len(data)} bytes for {subject!r}, {size} with its headers, is larger than"
        limit = self.writing.connection.max_payload
        if limit is not None and size > limit:
            raise self._rejection(data, f"{message} the server accepts; its setting max_payload permits {limit}")
        limits = self.limits.get(subject)
        if limits is None:
            return
        if limits.message is not None and size > limits.message:
            raise self._rejection(data, f"{message} its stream accepts; max_msg_size permits {limits.message}")
        if limits.stream is not None and (stored := size + limits.besides) > limits.stream:
            # The server acknowledges it, and drops it at once.
            raise self._rejection(
                data, f"{message} its whole stream: it is stored in {stored}; max_bytes permits {limits.stream}"
            )

    def _size(self, data: bytes, headers: dict[str, str] | None) -> int:
        """Return the size of a message with its headers, and with those that a commit adds."""
        added = {ID_HEADER: "0" * 41} | ({} if self.writing.stream is None else {_STREAM_HEADER: self.writing.stream})
        lines = [f"{name.strip()}: {value.strip()}\r\n" for name, value in ((headers or {}) | added).items()]
        return len(data) + sum(len(line.encode()) for line in lines) + len("NATS/1.0\r\n\r\n")

    def _rejection(self, data: bytes, why: str) -> RejectedRecordError:
        shown = shortened(data, 100)
        error = RejectedRecordError(
            f"{self.writing.label}: {self.writing.connection.server}: {why}; the message: {shown}"
        )
        error.record, error.transform = shown, self.writing.label
        return error


class WriteToNats(WriteInto[A]):
    """A message of a JetStream stream for each element: once within the stream's duplicate window.

    Takes a `PCollection[bytes]`, or of what `data` takes.

    Messages are part of a checkpoint until it is complete.  Then they are published, each with an id in the header
    `Nats-Msg-Id`.  If a commit is interrupted, and repeated within the stream's `duplicate_window` (two minutes unless
    the stream says otherwise), the server drops the messages that it has.  A commit that is repeated later doubles
    messages.  The messages of one worker keep their order.  A stream that is full is tried again for a minute.  An
    input with retractions is refused while the pipeline is built.  Needs the extra `nats`.

    Args:
      servers: a URL such as 'nats://localhost:4222', or several; 'tls://' encrypts.
      subject: the subject of a stream that exists, or a function from an element to one.
      data: a function from an element to bytes.  Without it, elements are bytes.
      headers: a function from an element to a dict of headers.
      stream: the name of the stream that has to store the messages.
      user, password, token, user_credentials, nkeys_seed, tls: as those of `ReadFromNats`.

    Raises `MissingExtraError`, `ValueError` and `TypeError` while the pipeline is built, and `SinkError` before the run
    starts if the stream is missing, the credentials are wrong, or no server answers for a minute.

    >>> import penstock as beam
    >>> beam.io.WriteToNats("nats://ann:secret@localhost:4222", "counts.words").display_data()
    {'servers': 'nats://***@localhost:4222', 'subject': 'counts.words'}
    """

    @overload
    def __init__(
        self: WriteToNats[bytes],
        servers: str | Sequence[str],
        subject: str | Callable[[Any], str],
        *,
        data: None = None,
        headers: Callable[[Any], Mapping[str, str]] | None = None,
        stream: str | None = None,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        user_credentials: str | None = None,
        nkeys_seed: str | None = None,
        tls: bool | Mapping[str, str] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        servers: str | Sequence[str],
        subject: str | Callable[[Any], str],
        *,
        data: Callable[[A], bytes],
        headers: Callable[[Any], Mapping[str, str]] | None = None,
        stream: str | None = None,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        user_credentials: str | None = None,
        nkeys_seed: str | None = None,
        tls: bool | Mapping[str, str] | None = None,
    ) -> None: ...
    def __init__(
        self,
        servers: str | Sequence[str],
        subject: str | Callable[[Any], str],
        *,
        data: Callable[[Any], bytes] | None = None,
        headers: Callable[[Any], Mapping[str, str]] | None = None,
        stream: str | None = None,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        user_credentials: str | None = None,
        nkeys_seed: str | None = None,
        tls: bool | Mapping[str, str] | None = None,
    ) -> None:
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
        if not callable(subject) and not is_subject(subject, wildcards=False):
            raise ValueError(f"{name}: expected a subject without wildcards and spaces, or a function, got {subject!r}")
        for given, parameter in ((data, "data"), (headers, "headers")):
            if given is not None and not callable(given):
                raise TypeError(f"{name}: {parameter} must be a function, got {given!r}")
        super().__init__(NatsSink(Writing(connection, subject, data, headers, stream)))
