"""AsyncWrapper: a DoFn whose calls run in the background (Beam's name), by the engine of async DoFns.

>>> import penstock as beam
>>> class Slow(beam.DoFn):
...     def process(self, element):
...         key, n = element
...         yield key, n * n
>>> sorted([("a", 1), ("b", 2), ("a", 3)] | beam.ParDo(AsyncWrapper(Slow(), parallelism=3)))
[('a', 1), ('a', 9), ('b', 4)]
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import AsyncIterable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..sdk.dofn.dofn import DoFn


class AsyncWrapper(DoFn):
    """The calls of a DoFn in the background: in threads, or as coroutines of the worker's event loop.

    It is an async DoFn (docs/async.md): elements in flight are part of each snapshot and hold the watermark, and
    outputs are emitted when their call ends.  Each call is a bundle of its own: `start_bundle`, `process`,
    `finish_bundle`.  The input elements are pairs of key and value.  Elements of a key with the same id that are in
    flight at the same time have one call.

    Args:
      sync_fn: the DoFn to call.  Calls run at the same time, so its attributes need a lock if calls change them.
      parallelism: the greatest number of simultaneous calls in each subtask, without `use_asyncio`.
      callback_frequency: has no effect: no timer looks for finished calls.
      max_items_to_buffer: the greatest number of simultaneous calls with `use_asyncio`; by default twice `parallelism`,
        and at least 10.  Without it has no effect.
      timeout, max_wait_time: have no effect: elements wait in front of the step while there is no room.
      id_fn: returns the hashable id of an element's value; the default is the value itself.
      use_asyncio: runs the calls as coroutines; `process` may be `async`.  Otherwise they run in threads.
    """

    # The time of an output depends on the time that calls take.
    deterministic = False

    def __init__(
        self,
        sync_fn: DoFn,
        parallelism: int = 1,
        callback_frequency: float = 5,
        max_items_to_buffer: int | None = None,
        timeout: float = 1,
        max_wait_time: float = 0.5,
        id_fn: Callable[[Any], Any] | None = None,
        use_asyncio: bool = False,
    ) -> None:
        if not isinstance(sync_fn, DoFn):
            raise TypeError(f"AsyncWrapper: expected a DoFn, got {sync_fn!r}")
        if callback_frequency <= 0:
            raise ValueError(f"AsyncWrapper: callback_frequency must be over 0 seconds, got {callback_frequency!r}")
        self._sync_fn = sync_fn
        self._parallelism = parallelism
        self._id_fn = id_fn
        self._use_asyncio = use_asyncio
        most = max(2 * parallelism, 10) if max_items_to_buffer is None else max_items_to_buffer
        self.concurrency = most if use_asyncio else parallelism  # type: ignore[misc]
        self._pool: ThreadPoolExecutor | None = None
        # By key and id, the calls in flight.
        self._in_flight: dict[Any, asyncio.Future[None]] = {}

    def setup(self) -> None:
        """Set up the wrapped DoFn, and start the threads."""
        self._sync_fn.setup()
        if not self._use_asyncio:
            self._pool = ThreadPoolExecutor(self._parallelism, "async-calls")

    def teardown(self) -> None:
        """End the threads, and tear down the wrapped DoFn."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        self._sync_fn.teardown()

    @staticmethod
    def reset_state() -> None:
        """Do nothing: calls end with their pipeline."""

    async def process(self, element: Any) -> list[Any]:
        """Return the outputs of the wrapped DoFn; none for an element whose like is in flight."""
        key, value = element
        id = (key, value if self._id_fn is None else self._id_fn(value))
        if (before := self._in_flight.get(id)) is not None:
            # It ends when the other one does, and fails if that does.
            await asyncio.shield(before)
            return []
        mine = self._in_flight[id] = asyncio.get_running_loop().create_future()
        try:
            outputs = await (self.async_fn_process(element) if self._use_asyncio else self._in_a_thread(element))
        except BaseException as error:
            mine.set_exception(error)
            # Nothing may wait for it, which isn't worth a warning.
            mine.exception()
            raise
        else:
            mine.set_result(None)
            return outputs
        finally:
            del self._in_flight[id]

    async def _in_a_thread(self, element: Any) -> list[Any]:
        # With the context, in which metrics of this call are reported.
        run = contextvars.copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._pool, run, self.sync_fn_process, element)

    def sync_fn_process(self, element: Any) -> list[Any]:
        """Return the outputs of the wrapped DoFn for an element, as a bundle."""
        self._sync_fn.start_bundle()
        outputs = _listed(self._sync_fn.process(element))
        return outputs + _listed(self._sync_fn.finish_bundle())

    async def async_fn_process(self, element: Any) -> list[Any]:
        """Return the outputs of the wrapped DoFn, whose methods may be coroutines or generate asynchronously."""
        self._sync_fn.start_bundle()
        outputs = await _awaited(self._sync_fn.process(element))
        return outputs + await _awaited(self._sync_fn.finish_bundle())


def _listed(result: Any) -> list[Any]:
    if result is None:
        return []
    return list(result) if isinstance(result, Iterable) and not isinstance(result, (str, bytes)) else [result]


async def _awaited(result: Any) -> list[Any]:
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterable):
        return [output async for output in result]
    return _listed(result)
