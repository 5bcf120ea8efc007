"""Buffering of the elements of `BatchElements` from one bundle to the next, for a limited time."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...sdk.dofn.dofn import DoFn
from ...sdk.process.task_name import worker_id
from ...sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimeDomain,
    TimerSpec,
    on_timer,
)


class AssignBuffers(DoFn):
    """Keys elements by the worker and by the bucket of their lengths: each key is a buffer."""

    # Each worker has its own buffers.
    deterministic = False

    def __init__(self, length_of: Callable[[Any], int] | None, boundaries: Sequence[int]) -> None:
        self._length_of = length_of
        self._boundaries = boundaries

    def setup(self) -> None:
        self._worker = worker_id()

    def process(self, element: Any) -> Iterable[Any]:
        bucket = 0 if self._length_of is None else bisect_right(self._boundaries, self._length_of(element))
        return (((self._worker, bucket), element),)


class Buffered(DoFn):
    """Emits the elements of a buffer as a list when there are enough, or the first has waited for some time.

    Args:
      estimator: a `BatchSizeEstimator`.
      seconds: the longest waiting time of an element, in processing time.
      clock: returns processing time in seconds; None for the runner's clock.
    """

    # The size of a list depends on measured times.
    deterministic = False

    VALUES = BagStateSpec("values")
    SIZE = CombiningValueStateSpec("size", sum)
    TARGET = ReadModifyWriteStateSpec("target")
    WINDOW_END = TimerSpec("window end", TimeDomain.WATERMARK)
    WAITED = TimerSpec("waited", TimeDomain.REAL_TIME)

    def __init__(
        self,
        estimator: Any,
        size_of: Callable[[Any], int] | None,
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._estimator = estimator
        self._size_of = size_of
        self._seconds = seconds
        self._clock = None if clock in (time.time, time.monotonic) else clock

    def setup(self) -> None:
        self._estimator.ignore_next_timing()

    def process(
        self,
        element: Any,
        window: Any = DoFn.WindowParam,
        values: Any = DoFn.StateParam(VALUES),
        size: Any = DoFn.StateParam(SIZE),
        target: Any = DoFn.StateParam(TARGET),
        window_end: Any = DoFn.TimerParam(WINDOW_END),
        waited: Any = DoFn.TimerParam(WAITED),
    ) -> Iterator[Any]:
        value = element[1]
        added = 1 if self._size_of is None else self._size_of(value)
        buffered, most = size.read(), target.read()
        if most is not None and buffered + added > most:
            yield from self._flushed(values, size, target, waited)
            buffered, most = 0, None
        values.add(value)
        size.add(added)
        if most is None:
            most = self._estimator.next_batch_size()
            target.write(most)
            window_end.set(window.end)
            if self._clock is None:
                waited.set_relative(self._seconds)
            else:
                waited.set(self._clock() + self._seconds)
        if buffered + added >= most:
            window_end.clear()
            yield from self._flushed(values, size, target, waited)

    @on_timer(WINDOW_END)
    def at_window_end(
        self,
        values: Any = DoFn.StateParam(VALUES),
        size: Any = DoFn.StateParam(SIZE),
        target: Any = DoFn.StateParam(TARGET),
        waited: Any = DoFn.TimerParam(WAITED),
    ) -> Iterator[Any]:
        return self._flushed(values, size, target, waited)

    @on_timer(WAITED)
    def after_a_while(
        self,
        values: Any = DoFn.StateParam(VALUES),
        size: Any = DoFn.StateParam(SIZE),
        target: Any = DoFn.StateParam(TARGET),
        waited: Any = DoFn.TimerParam(WAITED),
    ) -> Iterator[Any]:
        return self._flushed(values, size, target, waited)

    def _flushed(self, values: Any, size: Any, target: Any, waited: Any) -> Iterator[Any]:
        batch, batch_size = values.read(), size.read()
        for state in (values, size, target, waited):
            state.clear()
        if batch:
            with self._estimator.record_time(batch_size):
                yield list(batch)
