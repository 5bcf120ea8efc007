"""WriteToRedisStream: an entry of a Redis Stream for each element, all that a commit adds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs

from ...sdk.coders.coder import shortened
from ...sdk.errors import SinkError
from ..dead_letters import Rejected
from ..records import as_dict, is_record
from ..write_into import WriteInto
from .changes import Change
from .server import check_url, package
from .sink import RedisSink


class RedisStreamSink(RedisSink):
    """Entries of a stream; see `WriteToRedisStream`."""

    accepts_retractions: ClassVar[bool] = False

    def __init__(
        self, url: str, stream: str, fields: Callable[[Any], Any] | None, max_length: int | None, transform: str
    ) -> None:
        super().__init__(url, stream, None, None, transform)
        self.fields = fields
        self.max_length = max_length

    def display_data(self) -> dict[str, Any]:
        return {"server": self.server, "stream": self.prefix}

    def check(self, client: Any) -> None:
        found = client.type(self.prefix).decode()
        if found not in ("none", "stream"):
            raise SinkError(
                f"{self.transform}: {self.prefix!r} of Redis at {self.server} holds a {found}; expected a stream, or "
                "nothing yet"
            )

    def net(self, changes: Sequence[Change]) -> tuple[list[Any], list[Rejected]]:
        """What is to be done: an entry for each element, in the order in which its worker had them."""
        return [_Entry(change.key, change.value, self.max_length) for change in changes], []

    def change(self, element: Any, sign: int, place: tuple[int, int, int]) -> Change:
        record = element if self.fields is None else self.fields(element)
        if not is_record(record):
            raise SinkError(
                f"{self.transform}: expected records, such as a dict or a Row, got {shortened(record, 100)}; say by "
                "fields=... what is in an entry"
            )
        entry = {
            str(name).encode(): self._text(value, f"field {name!r} of an entry of {self.prefix!r}")
            for name, value in as_dict(record).items()
            if value is not None
        }
        if not entry:
            raise SinkError(f"{self.transform}: an entry of {self.prefix!r} has no field that isn't None")
        return Change(self.prefix.encode(), entry, sign, place)


@attrs.frozen
class _Entry:
    """An entry that is to be added."""

    stream: bytes
    fields: Any
    max_length: int | None

    def apply(self, pipe: Any) -> None:
        """Say it to Redis."""
        pipe.xadd(self.stream, self.fields, maxlen=self.max_length, approximate=True)


class WriteToRedisStream(WriteInto):
    """An entry of a Redis Stream for each element, once.

    A commit adds all its entries in one transaction of the server, which gives them their ids; whoever reads sees all
    of them, or none.  Their order is that of each worker's elements, and no other.  An input with retractions is
    refused when the pipeline is built: what is in a stream stays there.  Needs one server (no cluster), and the extra
    `redis`.

    Args:
      url: such as 'redis://user:password@host:6379/0'.
      stream: its key.
      fields: a function from an element to a record, such as a dict or a Row, whose values are text, bytes or
        numbers; those that are None are left out.  Without, elements are records.
      max_length: about how many entries are kept, at least; None for all.

    Raises `MissingExtraError` while the pipeline is built if the package isn't installed, and `SinkError` before
    anything runs if the server can't be written to, or if the key holds something else.

    >>> import penstock as beam
    >>> beam.io.WriteToRedisStream("redis://:secret@localhost:6379/0", "clicks").display_data()
    {'server': 'localhost:6379/0', 'stream': 'clicks'}
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        fields: Callable[[Any], Any] | None = None,
        max_length: int | None = None,
    ) -> None:
        package("WriteToRedisStream")
        check_url(url, "WriteToRedisStream")
        if not isinstance(stream, str) or not stream:
            raise ValueError(f"WriteToRedisStream: expected the key of a stream, got {stream!r}")
        if fields is not None and not callable(fields):
            raise TypeError(f"WriteToRedisStream: fields must be a function, got {fields!r}")
        if max_length is not None and max_length < 1:
            raise ValueError(f"WriteToRedisStream: max_length has to be at least 1, got {max_length}")
        super().__init__(RedisStreamSink(url, stream, fields, max_length, type(self).__name__))
