"""AsyncWrapper: a DoFn whose calls run in the background, so that slow ones don't hold up their key.

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
import inspect
import math
import random
import threading
import time
import uuid
from collections.abc import AsyncIterable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any, ClassVar

from ..sdk.dofn.dofn import DoFn
from ..sdk.userstate import BagStateSpec, TimeDomain, TimerSpec, on_timer, on_window_expiration


class AsyncWrapper(DoFn):
    """The calls of a DoFn in the background: `process` only starts them.

    An element is kept in state until its outputs are emitted, so none is lost by a failure: after it, elements without
    a call get one.  A timer of each key emits the outputs of finished calls.  The end of the window
    waits for all calls.  Elements of a key with the same id that are in flight at the same time have one call.  Each
    call is a bundle of its own: `start_bundle`, `process`, `finish_bundle`.  The input elements are pairs of key and
    value.

    Args:
      sync_fn: the DoFn to call.  Calls run at the same time, so its attributes need a lock if calls change them.
      parallelism: the greatest number of simultaneous calls in a worker process, without `use_asyncio`.
      callback_frequency: the time between two checks of a key for finished calls, in seconds.
      max_items_to_buffer: the greatest number of started calls in a worker process; by default twice `parallelism`, and
        at least 10.
      timeout: how long an element waits for a place among these, in seconds; then a later check starts its call.
      max_wait_time: the longest time between two attempts to get one, in seconds.
      id_fn: returns the hashable id of an element's value; the default is the value itself.
      use_asyncio: runs the calls as coroutines of one event loop, rather than in threads; `process` may be `async`.
    """

    # The time of an output depends on the time that calls take.
    deterministic = False

    TIMER = TimerSpec("timer", TimeDomain.REAL_TIME)
    TO_PROCESS = BagStateSpec("to_process")

    # The calls of this process, by the wrapper's id, since a process may have several copies of a wrapper.  The lock is
    # reentrant: a call that is done already runs its callback immediately.
    _lock: ClassVar[threading.RLock] = threading.RLock()
    _processing_elements: ClassVar[dict[str, dict[Any, tuple[Any, Future[list[Any]]]]]] = {}
    _items_in_buffer: ClassVar[dict[str, int]] = {}
    _pools: ClassVar[dict[str, ThreadPoolExecutor]] = {}
    # How many instances that are set up use a pool.
    _users: ClassVar[dict[str, int]] = {}
    _event_loop: ClassVar[asyncio.AbstractEventLoop | None] = None
    _event_loop_thread: ClassVar[threading.Thread | None] = None

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
        self._callback_frequency = callback_frequency
        self._max_items_to_buffer = max(2 * parallelism, 10) if max_items_to_buffer is None else max_items_to_buffer
        self._timeout = timeout
        self._max_wait_time = max_wait_time
        self._id_fn = id_fn or _itself
        self._use_asyncio = use_asyncio
        self._uuid = uuid.uuid4().hex

    def setup(self) -> None:
        """Set up the wrapped DoFn, and start what runs the calls."""
        self._sync_fn.setup()
        cls = AsyncWrapper
        with cls._lock:
            cls._processing_elements.setdefault(self._uuid, {})
            cls._items_in_buffer.setdefault(self._uuid, 0)
            if not self._use_asyncio:
                cls._pools.setdefault(self._uuid, ThreadPoolExecutor(self._parallelism))
                cls._users[self._uuid] = cls._users.get(self._uuid, 0) + 1
            elif cls._event_loop is None:
                cls._event_loop = asyncio.new_event_loop()
                cls._event_loop_thread = threading.Thread(target=cls._event_loop.run_forever, daemon=True)
                cls._event_loop_thread.start()

    def teardown(self) -> None:
        """End the threads when their last user ends, and tear down the wrapped DoFn."""
        cls, pool = AsyncWrapper, None
        with cls._lock:
            if self._uuid in cls._users:
                cls._users[self._uuid] -= 1
                if not cls._users[self._uuid]:
                    del cls._users[self._uuid]
                    pool = cls._pools.pop(self._uuid, None)
        # Calls that end need the lock.
        if pool is not None:
            pool.shutdown()
        self._sync_fn.teardown()

    @staticmethod
    def reset_state() -> None:
        """Cancel the calls of all wrappers in this process, and wait for those that are running: for tests."""
        cls = AsyncWrapper
        with cls._lock:
            loop, thread, pools = cls._event_loop, cls._event_loop_thread, list(cls._pools.values())
            cls._event_loop = cls._event_loop_thread = None
            cls._pools.clear()
            cls._users.clear()
        # Calls that end need the lock.
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)
        with cls._lock:
            cls._processing_elements.clear()
            cls._items_in_buffer.clear()

    def accepting_items(self) -> bool:
        """Return whether there is room for another call."""
        with AsyncWrapper._lock:
            return AsyncWrapper._items_in_buffer[self._uuid] < self._max_items_to_buffer

    def is_empty(self) -> bool:
        """Return whether all calls have ended."""
        with AsyncWrapper._lock:
            return not AsyncWrapper._items_in_buffer[self._uuid]

    def schedule_if_room(self, element: Any, ignore_buffer: bool = False) -> bool:
        """Start the call of an element if there is room, or `ignore_buffer`, and it hasn't started yet.

        Returns:
          Whether the call has started, now or before.
        """
        cls = AsyncWrapper
        with cls._lock:
            element_id = self._id_of(element)
            calls = cls._processing_elements[self._uuid]
            if element_id in calls:
                return True
            if not (ignore_buffer or self.accepting_items()):
                return False
            cls._items_in_buffer[self._uuid] += 1
            if self._use_asyncio:
                assert cls._event_loop is not None
                call = asyncio.run_coroutine_threadsafe(self.async_fn_process(element), cls._event_loop)
            else:
                call = cls._pools[self._uuid].submit(self.sync_fn_process, element)
            calls[element_id] = (element, call)
            call.add_done_callback(self._ended)
            return True

    def schedule_item(self, element: Any, ignore_buffer: bool = False) -> None:
        """Start the call of an element.  If there is no room within the timeout, a later check starts it."""
        end = time.monotonic() + self._timeout
        pause = 0.02
        while not self.schedule_if_room(element, ignore_buffer) and time.monotonic() < end:
            time.sleep(min(pause, self._max_wait_time, max(end - time.monotonic(), 0)))
            pause *= 2

    def _ended(self, call: Future[list[Any]]) -> None:
        with AsyncWrapper._lock:
            if self._uuid in AsyncWrapper._items_in_buffer:
                AsyncWrapper._items_in_buffer[self._uuid] -= 1

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

    def next_time_to_fire(self, key: Any) -> float:
        """Return the time of a key's next check, in seconds since 1970: checks of different keys are spread."""
        interval = self._callback_frequency
        offset = random.Random(repr(key)).random() * interval
        return (math.floor(time.time() / interval) + 1) * interval + offset

    def process(
        self,
        element: Any,
        timer: Any = DoFn.TimerParam(TIMER),
        to_process: Any = DoFn.StateParam(TO_PROCESS),
    ) -> Iterable[Any]:
        """Start the call of the element, and set the timer of its key."""
        self.schedule_item(element)
        to_process.add(element)
        timer.set(self.next_time_to_fire(element[0]))
        return []

    def commit_finished_items(
        self,
        to_process: Any = DoFn.StateParam(TO_PROCESS),
        timer: Any = DoFn.TimerParam(TIMER),
    ) -> list[Any]:
        """Return the outputs of a key's finished calls, and remove their elements from its state.

        Calls whose element isn't in the state any more are cancelled, and elements without a call get one.  The
        exception of a failed call is raised, and the call forgotten: the next attempt calls again.
        """
        elements = list(to_process.read())
        outputs: list[Any] = []
        unfinished: list[Any] = []
        without_call: list[Any] = []
        with AsyncWrapper._lock:
            calls = AsyncWrapper._processing_elements[self._uuid]
            expected = set(map(self._id_of, elements))
            keys = [key for key, _ in elements]
            for element_id, (element, call) in list(calls.items()):
                if element[0] in keys and element_id not in expected:
                    call.cancel()
                    del calls[element_id]
            finished = set()
            for element in elements:
                element_id = self._id_of(element)
                if element_id in finished:
                    continue
                if element_id not in calls:
                    without_call.append(element)
                elif calls[element_id][1].done():
                    finished.add(element_id)
                    outputs += calls.pop(element_id)[1].result()
                    continue
                unfinished.append(element)
        # Waiting for room under the lock would keep calls from ending.
        for element in without_call:
            self.schedule_item(element)
        to_process.clear()
        for element in unfinished:
            to_process.add(element)
        if unfinished:
            timer.set(self.next_time_to_fire(unfinished[0][0]))
        return outputs

    @on_timer(TIMER)
    def timer_callback(
        self,
        to_process: Any = DoFn.StateParam(TO_PROCESS),
        timer: Any = DoFn.TimerParam(TIMER),
    ) -> Iterable[Any]:
        """Emit the outputs of the key's finished calls."""
        return self.commit_finished_items(to_process, timer)

    @on_window_expiration
    def at_window_end(self, to_process: Any = DoFn.StateParam(TO_PROCESS)) -> Iterable[Any]:
        """Emit the outputs of all calls of the key, since its state ends with the window."""
        outputs: list[Any] = []
        for element in to_process.read():
            self.schedule_if_room(element, ignore_buffer=True)
        calls = AsyncWrapper._processing_elements[self._uuid]
        for element_id in dict.fromkeys(map(self._id_of, to_process.read())):
            call = calls[element_id][1]
            wait_for([call])
            with AsyncWrapper._lock:
                del calls[element_id]
            outputs += call.result()
        return outputs

    def _id_of(self, element: Any) -> Any:
        key, value = element
        return key, self._id_fn(value)


def _itself(value: Any) -> Any:
    return value


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
