"""WriteToRedisStream: an entry of a Redis Stream for each element; a commit adds its entries atomically."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

from ...sdk.coders.coder import shortened
from ...sdk.errors import SinkError
from ...sdk.sink import SinkSpec
from ...sdk.type_variables import A
from ..records import as_dict, is_record
from ..sinks.dead_letters import Rejected
from ..sinks.write_into import WriteInto
from .changes import Change, Effect
from .server import RedisServer
from .sink import RedisSink

if TYPE_CHECKING:
    from ...sdk.static_types import Record


class RedisStreamSink(RedisSink):
    """Entries of a stream; see `WriteToRedisStream`."""

    spec = SinkSpec(has_dead_letters=True)

    def __init__(
        self, server: RedisServer, stream: str, fields: Callable[[Any], Any] | None, max_length: int | None
    ) -> None:
        super().__init__(server, stream, None, None)
        self.fields = fields
        self.max_length = max_length

    def display_data(self) -> dict[str, Any]:
        return {"server": self.server.shown, "stream": self.prefix}

    def check(self, client: Any, server: RedisServer) -> None:
        found = client.type(self.prefix).decode()
        if found not in ("none", "stream"):
            raise server.error(self.failed("written"), f"it holds a {found}; expected a stream, or no value", SinkError)

    def failed(self, verb: str) -> str:
        return f"stream {self.prefix!r} can't be {verb}"

    def net(self, changes: Iterable[Change], rejected: list[Rejected]) -> Iterator[Effect]:
        """Yield an entry to add for each element, in the order of its worker's elements; none is rejected."""
        limit = () if self.max_length is None else (b"MAXLEN", b"~", str(self.max_length).encode())
        for change in changes:
            assert isinstance(change.value, dict)
            fields = [part for item in change.value.items() for part in item]
            yield Effect(change.key, "add", [*limit, b"*", *fields])

    def change(self, label: str, element: Any, sign: int, version: tuple[int, int, int]) -> Change:
        record = element if self.fields is None else self.fields(element)
        if not is_record(record):
            raise SinkError(
                f"{label}: expected records, such as a dict or a Row, got {shortened(record, 100)}; give the "
                "fields of an entry by fields=..."
            )
        entry = {
            str(name).encode(): self._text(label, value, f"field {name!r} of an entry of {self.prefix!r}")
            for name, value in as_dict(record).items()
            if value is not None
        }
        if not entry:
            raise SinkError(f"{label}: an entry of {self.prefix!r} has no field that isn't None")
        return Change(self.prefix.encode(), entry, sign, version)


class WriteToRedisStream(WriteInto[A]):
    """An entry of a Redis Stream for each element, exactly once.

    Takes a `PCollection[T]` of records, or of what `fields` takes.

    A commit adds all its entries in one transaction of the server, which assigns their ids: a reader sees all of them
    or none.  Entries of one worker are in the order of its elements.  An input with retractions is refused while the
    pipeline is built, since entries of a stream can't be changed.  Needs one server (no cluster), and the extra
    `redis`.

    Args:
      url: such as 'redis://user:password@host:6379/0'.
      stream: the key of the stream.
      fields: a function from an element to a record, such as a dict or a Row, whose values are text, bytes or numbers.
        Fields that are None are left out.  Without it, elements are records.
      max_length: the approximate number of entries to keep, at least; None for all.

    Raises `MissingExtraError` while the pipeline is built if the package isn't installed, and `SinkError` before the
    run starts if the server can't be written to, or if the key holds another type.

    >>> import penstock as beam
    >>> beam.io.WriteToRedisStream("redis://:secret@localhost:6379/0", "clicks").display_data()
    {'server': 'localhost:6379/0', 'stream': 'clicks'}
    """

    @overload
    def __init__(
        self: WriteToRedisStream[Record],
        url: str,
        stream: str,
        *,
        fields: None = None,
        max_length: int | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        url: str,
        stream: str,
        *,
        fields: Callable[[A], Any],
        max_length: int | None = None,
    ) -> None: ...
    def __init__(
        self,
        url: str,
        stream: str,
        *,
        fields: Callable[[Any], Any] | None = None,
        max_length: int | None = None,
    ) -> None:
        server = RedisServer.of("WriteToRedisStream", url)
        if not isinstance(stream, str) or not stream:
            raise ValueError(f"WriteToRedisStream: expected the key of a stream, got {stream!r}")
        if fields is not None and not callable(fields):
            raise TypeError(f"WriteToRedisStream: fields must be a function, got {fields!r}")
        if max_length is not None and max_length < 1:
            raise ValueError(f"WriteToRedisStream: max_length has to be at least 1, got {max_length}")
        super().__init__(RedisStreamSink(server, stream, fields, max_length))
