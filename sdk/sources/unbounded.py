"""UnboundedSource: the interface of unbounded sources: partitions, each with offsets and a watermark.

A streaming runner opens a reader for each partition, polls it, and stores its offset in every snapshot; after a failure
it opens a reader at that offset.  A micro-batch runner lets a reader on the driver plan the end of a batch (`admit`),
logs the offset, and lets a reader on a worker read up to it (`read_to`).

Source: MillWheel, section 4.2 (injectors and their watermarks).
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Generic

from ...windowing.duration import DurationTypes
from ...windowing.timestamp import Timestamp
from ..elements.bundle import BUNDLE_SIZE, Bundle
from ..type_variables import T
from .lag_sketch import PERCENTILES


class UnboundedSource(ABC, Generic[T]):
    """A description of an input that may go on forever; picklable.

    Attributes:
      replayable: whether a reader opened at an offset returns the elements after it again.  Micro-batches log the
        elements of other sources, instead of their offsets.
      repeatable: whether these are always identical elements, with the same timestamps, in the same order.  Then the
        failover region of a failed subtask may end at the source (`--recovery=region`).
      discovery_interval: the span of time between two searches for new partitions; None for never.
      reopens: whether a finished partition that `partitions` returns again is a new partition of the same name, such as
        a file that was removed and created again, and is read from its beginning.
      keeps_partitions: whether a run that resumes from a checkpoint reads the checkpoint's partitions only; for
        partitions that are numbered parts of an input.
      gives_columns: whether `poll` gives `ColumnBundle`s, which a drawing of the pipeline shows.

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
    gives_columns: bool = False

    def for_run(self) -> UnboundedSource[T]:
        """Return the source for a run: itself, unless it has user code to pickle."""
        return self

    @abstractmethod
    def partitions(self) -> Sequence[Any]:
        """Return the partitions, which are read independently.  They are picklable and hashable.

        They are the same in each process of a run; later calls may return further ones.  Raises `SourceError`, naming
        the file or address, if the input can't be reached.
        """

    @abstractmethod
    def open(self, partition: Any, offset: Any | None) -> UnboundedReader[T]:
        """Return a reader of one partition from an offset of `UnboundedReader.offset`, or from the beginning.

        Raises `SourceError` if the elements after the offset are gone.
        """

    def identity(self) -> Mapping[str, Any]:
        """Return the settings that partitions and offsets depend on, such as a topic, an address or a number of
        partitions.

        Checkpoints store them, and a run can't resume from a checkpoint if the settings have changed.  Values are text,
        numbers, None, or lists of these.  Settings that may change freely, such as event times, are left out, and so
        are passwords.
        """
        return {}

    def rescalable_from(self, before: Mapping[str, Any]) -> Set[str]:
        """Return the names in `identity` that may differ from those of a source with the identity `before`.

        `rescale` then converts the offsets of the other source to offsets of this one.
        """
        return frozenset()

    def rescale(self, before: Mapping[str, Any], offsets: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Return the offsets, by partition, at which this source continues after another one.

        Args:
          before: the `identity` of the other source, which differs in names of `rescalable_from` only.
          offsets: the offsets of all of its partitions; None for finished ones.
        """
        return offsets


class UnboundedReader(ABC, Generic[T]):
    """Reader of one partition.  It has no clock: the runner passes the time.

    `EventTimeReader` is easier to subclass: it implements watermarks and idleness.

    >>> from penstock.io import Bundle, UnboundedReader
    >>> class Numbers(UnboundedReader):
    ...     def __init__(self, next):
    ...         self.next = next
    ...     def poll(self, max_elements, now):
    ...         first, self.next = self.next, self.next + max_elements
    ...         return Bundle(list(range(first, self.next)), now.micros)
    ...     def offset(self):
    ...         return self.next
    ...     def watermark(self, now):
    ...         return now.micros
    """

    @abstractmethod
    def poll(self, max_elements: int, now: Timestamp) -> Bundle | None:
        """Return the available elements, at most `max_elements`, or None if there are none.  Never waits.

        The bundle's values are plain, with their timestamps in its column.
        """

    @abstractmethod
    def offset(self) -> Any:
        """Return the offset after all polled elements.  Offsets are picklable, and equal at the same position.

        A reader opened at the offset returns the next elements of this reader.
        """

    @abstractmethod
    def watermark(self, now: Timestamp) -> int:
        """Return the least event time, in microseconds, of future elements of this partition.

        The runner ensures that the watermark never goes back, also from one reader to the next.
        """

    def watermarks(self, now: Timestamp) -> dict[float, int]:
        """Return the percentile watermarks (see `PERCENTILES`): the event time up to which each share has arrived.

        They are never less than the watermark, which is the default.
        """
        return dict.fromkeys(PERCENTILES, self.watermark(now))

    def backlog(self) -> int | None:
        """Return the approximate number of unread elements or bytes, if it is known."""
        return None

    def is_finished(self) -> bool:
        """Return whether the partition has no more elements.  Its watermark is then the maximum timestamp."""
        return False

    def is_idle(self, now: Timestamp) -> bool:
        """Return whether the partition is idle, so that it doesn't hold back the watermark."""
        return False

    def time_jumped(self, micros: int) -> None:
        """Handle a jump of processing time by `micros` microseconds.

        Called before the next time is passed.  A reader that measures a span of time adds them to the start of the
        span.
        """

    def acknowledge(self, offset: Any) -> None:
        """Handle the durability of a checkpoint with this offset: earlier elements will not be read again."""

    def discard(self) -> None:
        """Remove what the source has made elsewhere for this partition, which won't be read again.

        Called after the acknowledgement of a checkpoint of a drained run, perhaps several times, and before `close`.
        """

    def close(self) -> None:
        """Close files and connections."""

    # Micro-batches

    def admit(self, max_elements: int, max_bytes: int | None, now: Timestamp) -> Any:
        """Advance over the elements of one micro-batch, and return the offset at its end.

        Called on the driver.  The watermark afterwards is the batch's.  This implementation reads and drops the
        elements; `read_to` reads them again.

        Args: as those of `admitted`.
        """
        for _ in self.admitted(max_elements, max_bytes, now):
            pass
        return self.offset()

    def admitted(self, max_elements: int, max_bytes: int | None, now: Timestamp) -> Iterator[Bundle]:
        """Yield the elements of one micro-batch.

        Args:
          max_elements: the largest number of elements.
          max_bytes: the size, by `size_of`, at which the batch ends; None for no limit.
        """
        size = 0
        while max_elements > 0 and (max_bytes is None or size < max_bytes):
            # With a limit in bytes, in small steps: the limit is exceeded by at most one of them.
            wanted = min(max_elements, BUNDLE_SIZE if max_bytes is None else 256)
            bundle = self.poll(wanted, now)
            if bundle is None or not len(bundle):
                break
            max_elements -= len(bundle)
            if max_bytes is not None:
                size += self.size_of(bundle)
            yield bundle

    def size_of(self, bundle: Bundle) -> int:
        """Return the approximate size of a bundle in bytes, by default that of its pickle."""
        return len(pickle.dumps(bundle.values, protocol=5))

    def read_to(self, offset_end: Any, now: Timestamp) -> Iterator[Bundle]:
        """Yield the elements from the reader's position up to an offset of `admit`.

        `now` is the time of the batch, so that a retry has the same timestamps.  Raises `SourceError` if the input ends
        before the offset.  This implementation polls element by element; subclasses may read larger units.
        """
        while (before := self.offset()) != offset_end:
            bundle = self.poll(1, now)
            if bundle is not None and len(bundle):
                yield bundle
            elif self.offset() == before:
                # Otherwise it has passed records that give no elements, as `admit` did.
                raise ended_early(self, offset_end)


def ended_early(reader: UnboundedReader[Any], offset_end: Any) -> Exception:
    """Return the error for a retried batch whose elements are gone."""
    from ..errors import SourceError

    return SourceError(
        f"{type(reader).__name__}: a batch that was planned up to offset {offset_end!r} can be read up to "
        f"{reader.offset()!r} only; has the input been cut or cleared since?"
    )
