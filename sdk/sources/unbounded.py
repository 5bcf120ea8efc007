"""What a source without an end is to a runner: partitions, each with offsets and a watermark.

A runner that streams opens a reader for each partition, polls it, and keeps its offset with
every snapshot; after a failure it opens it again from there.  A runner of micro-batches asks a
reader on the driver how far a batch may go (`admit`), writes that down, and has another reader
read exactly that much elsewhere (`read_to`).

Source: MillWheel, section 4.2 (injectors and their watermarks).
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Generic, TypeVar

from ...windowing.duration import DurationTypes
from ...windowing.timestamp import Timestamp
from ..bundle import BUNDLE_SIZE, Bundle
from .lag_sketch import PERCENTILES

T = TypeVar("T")


class UnboundedSource(ABC, Generic[T]):
    """A description of an input that may go on forever; picklable.

    Attributes:
      replayable: whether a reader opened at an offset gives the elements after it again.  A
        runner that promises to lose nothing refuses a source that can't.
      repeatable: whether those are the very same elements, with the same timestamps, in the same
        order, each time, also of one opened at the beginning.  Then a subtask that has lost nothing
        needn't start again with one that reads (`--recovery=region`).
      discovery_interval: how often, as a span of time, new partitions are to be looked for; None
        where there will never be any.
      reopens: whether a partition that is finished, and that `partitions` gives again, is another
        of its name, such as a file that was removed and made anew; it is then read from its
        beginning.
      keeps_partitions: whether a run that goes on from a checkpoint reads the partitions that are in it and no
        others, whatever `partitions` gives then; for partitions that are numbers of parts of an input.

    >>> class Counter(UnboundedSource[int]):
    ...     def partitions(self):
    ...         return ["all"]
    ...     def open(self, partition, offset):
    ...         return CounterReader(offset or 0)
    >>> class CounterReader(UnboundedReader[int]):
    ...     def __init__(self, next):
    ...         self.next = next
    ...     def poll(self, max_elements, now):
    ...         first, self.next = self.next, self.next + max_elements
    ...         return Bundle(list(range(first, self.next)), now.micros)
    ...     def offset(self):
    ...         return self.next
    ...     def watermark(self, now):
    ...         return now.micros
    >>> reader = Counter().open("all", 5)
    >>> reader.poll(3, Timestamp(0)).values, reader.offset()
    ([5, 6, 7], 8)
    """

    replayable: bool = True
    repeatable: bool = False
    discovery_interval: DurationTypes | None = None
    reopens: bool = False
    keeps_partitions: bool = False

    def for_run(self) -> UnboundedSource[T]:
        """The source as a run reads it: itself, unless user code in it has to be pickled for the run."""
        return self

    @abstractmethod
    def partitions(self) -> Sequence[Any]:
        """The parts that are read independently of each other; picklable, and with a hash.

        May be called again later, and then give others too.  Raises `SourceError`, naming the
        file or address, when the input can't be reached.
        """

    @abstractmethod
    def open(self, partition: Any, offset: Any | None) -> UnboundedReader[T]:
        """A reader of one partition, from what `UnboundedReader.offset` gave, or from the beginning.

        Raises `SourceError` when what comes after the offset isn't there any more.
        """

    def identity(self) -> Mapping[str, Any]:
        """Return what partitions and offsets depend on, by name: a topic, a query, an address, a number of partitions.

        Checkpoints keep it, and a run that goes on from one is refused if the source isn't the same any more.  Values
        are text, numbers, None, or lists of these.  What may change freely, such as how event times are found, isn't
        in it; nor are passwords.
        """
        return {}

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        """Return the names in `identity` that may differ from those of a source with the identity `before`.

        `rescale` then makes offsets of this source from those of the other.
        """
        return frozenset()

    def rescale(self, before: Mapping[str, Any], offsets: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Return the offsets, by partition, with which this source goes on where another one stood.

        Args:
          before: the `identity` of the other, which differs in names that `rescalable_from` gave.
          offsets: of all of its partitions; None of those that were finished, and that are closed.
        """
        return offsets


class UnboundedReader(ABC, Generic[T]):
    """Reads one partition.  It has no clock: what time it is, it is told.

    `EventTimeReader` is the easier one to write: it does watermarks and idleness.

    Attributes:
      over: true once a poll that takes long is to return what it has; set by the runner.
    """

    over: Any = ()

    @abstractmethod
    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        """What is there now, at most so many elements; None if nothing is.  Never waits.

        The bundle's values are plain, with their timestamps in its column.
        """

    @abstractmethod
    def offset(self) -> Any:
        """Where it stands, after all that `poll` has given; picklable, and equal where it is the same.

        Whoever is opened there gives what this reader would give next.
        """

    @abstractmethod
    def watermark(self, now: Timestamp) -> int:
        """The least event time, in microseconds, of what may still come from this partition.

        It doesn't go back; a runner sees to that too, also from one reader to the next.
        """

    def watermarks(self, now: Timestamp) -> dict[float, int]:
        """By share of the elements (see `PERCENTILES`), up to which event time that share has come.

        Never less than the watermark itself, which is what a reader that doesn't know gives.
        """
        return dict.fromkeys(PERCENTILES, self.watermark(now))

    def backlog(self) -> int | None:
        """About how many elements or bytes wait to be read, as far as that is known."""
        return None

    def is_finished(self) -> bool:
        """Return whether the partition will give nothing more; its watermark is then at the end of time."""
        return False

    def is_idle(self, now: Timestamp) -> bool:
        """Return whether it is declared idle: its watermark then holds nobody back."""
        return False

    def time_jumped(self, micros: int) -> None:
        """Processing time was set forward by so many microseconds since it was last told.

        Called before the next time is told.  A reader that measures a span of time adds them to where the span begins.
        """

    def acknowledge(self, offset: Any) -> None:
        """A checkpoint with this offset is durable: what comes before it won't be asked for again."""

    def close(self) -> None:
        """Let go of files and connections."""

    # Micro-batches

    def admit(self, max_elements: int, max_bytes: int | None, now: Timestamp) -> Any:
        """Move on by what one micro-batch may hold of what is there now, and give the offset then.

        Called on the driver; the watermark afterwards is that of the batch.  What is passed
        over may be read and dropped here, as this does; `read_to` reads it again.

        Args:
          max_elements: at most so many.
          max_bytes: stop when they have come to so many bytes, of `size_of`; None for no limit.
        """
        size = 0
        while max_elements > 0 and (max_bytes is None or size < max_bytes):
            # With a limit in bytes, in small steps: it is passed by no more than one of them.
            wanted = min(max_elements, BUNDLE_SIZE if max_bytes is None else 256)
            bundle = self.poll(wanted, now)
            if bundle is None or not len(bundle):
                break
            max_elements -= len(bundle)
            if max_bytes is not None:
                size += self.size_of(bundle)
        return self.offset()

    def size_of(self, bundle: Bundle) -> int:
        """About how many bytes of input a bundle is; here, those of its pickle."""
        return len(pickle.dumps(bundle.values, protocol=5))

    def read_to(self, offset_end: Any, now: Timestamp) -> Iterator[Bundle]:
        """The elements from where it stands up to an offset that `admit` gave, and no further.

        `now` is the time that the batch was given, so that it sees the same timestamps when it
        is run again.  Raises `SourceError` if the input ends before the offset.

        This one polls element by element; readers that can tell in advance how far to go
        do better.
        """
        while self.offset() != offset_end:
            bundle = self.poll(1, now)
            if bundle is None or not len(bundle):
                raise ended_early(self, offset_end)
            yield bundle


def ended_early(reader: UnboundedReader[Any], offset_end: Any) -> Exception:
    """The error for a batch whose elements aren't there any more when it is run again."""
    from ..errors import SourceError

    return SourceError(
        f"{type(reader).__name__}: a batch that was planned up to offset {offset_end!r} can be read up to "
        f"{reader.offset()!r} only; has the input been cut or cleared since?"
    )
