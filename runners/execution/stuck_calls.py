"""Stuck calls: detects user code that doesn't return, by the slot of its thread, and reports its step and stack.

A slot that doesn't move is in one call.  The stack is taken when that is reported, and not before.

Calls of async DoFns run beside the thread.  A watch asks those that were given to `watch_too`.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from traceback import FrameSummary
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from ...sdk.redaction import logger_of
from ...sdk.user_code.own_code import is_ours
from ...sdk.user_code.step_slot import FusedSteps, here
from ...sdk.user_code.thread_stack import stack_of_thread

_logger = logger_of(__name__)

# The longest interval between two looks in seconds, and the number of looks within the time-out.
_SELDOM, _LOOKS = 0.25, 10

# Packages whose frames are not user code: PySpark runs our generators, and in Py4J a driver waits for the JVM.
_RUNNERS, _JVM = f"{os.sep}pyspark{os.sep}", f"{os.sep}py4j{os.sep}"


def is_of_pyspark(file: str) -> bool:
    """Return True for the code of PySpark, which runs our generators."""
    return _RUNNERS in file


class Stuck(NamedTuple):
    """A call that has not returned.

    Attributes:
      step: the label of the step whose function it is.
      seconds: the time since it was first seen.
      stack: its stack, formatted like a traceback.
      element: for an async call, the element as text.
    """

    step: str
    seconds: float
    stack: str
    element: str | None = None

    def __str__(self) -> str:
        if self.element is not None:
            return (
                f"{self.step!r} has been in the async call of {self.element} for {self.seconds:.1f} s, which holds up "
                f"the watermark, and the end of a batch; does the call need a timeout? It is at\n{self.stack}"
            )
        return (
            f"{self.step!r} has been in one call for {self.seconds:.1f} s, and nothing else is done here meanwhile; "
            f"the call is at\n{self.stack}"
        )


class Returned(NamedTuple):
    """A call that was reported as `Stuck` has returned, after this many seconds."""

    step: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.step!r} has returned after {self.seconds:.1f} s"


class CallsBeside(Protocol):
    """Calls that run beside the watched threads."""

    @property
    def is_over(self) -> bool:
        """True once there will be no more calls."""

    def news(self, timeout: float) -> Iterable[Stuck | Returned]:
        """Return a call that has not returned within a timeout in seconds, or that has returned at last.

        Each one once.  May be called from any thread.
        """


# The calls beside the threads of this process.
_beside: weakref.WeakSet[Any] = weakref.WeakSet()


def watch_too(calls: CallsBeside) -> None:
    """Let each watch of this process report calls, until they are over or gone."""
    _beside.add(calls)


class CallWatch(AbstractContextManager["CallWatch"]):
    """Watches the thread that enters it, on a thread of its own.

    Args:
      timeout: seconds after which a call is reported.
      tell: called with `Stuck` and `Returned` calls, on the watch's thread; None logs them.
      look_on: called on that thread, again and again, while a call is stuck.
      clock: seconds, of any beginning.
    """

    def __init__(
        self,
        timeout: float,
        tell: Callable[[Stuck | Returned], None] | None = None,
        look_on: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = timeout
        self._tell = log_call if tell is None else tell
        self._look_on = look_on
        self._clock = clock
        self._pause = min(_SELDOM, timeout / _LOOKS)
        self._slot = here.slot
        # The slot's moves at the last look, and the time when they were first seen.
        self._moves = -1
        self._since = 0.0
        # The step of the reported call.
        self._told: str | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock call watch", daemon=True)

    def __enter__(self) -> CallWatch:
        self._slot = here.slot
        self._slot.watches.append(self)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join(1.0)
        self._slot.watches.remove(self)
        if self._told is not None and kind is None:
            self._tell(Returned(self._told, self._clock() - self._since))
        # A later watch, of another run, would report them.
        for calls in [calls for calls in _beside if calls.is_over]:
            self._report(calls, is_told=kind is None)

    def _run(self) -> None:
        while not self._is_over.wait(self._pause):
            self.look()

    def _report(self, calls: CallsBeside, is_told: bool = True) -> None:
        """Report the news of calls, which are forgotten when they are over."""
        if calls.is_over:
            _beside.discard(calls)
        for each in calls.news(self._timeout):
            if is_told:
                self._tell(each)

    def look(self) -> None:
        """Report a call that has not returned, or has at last."""
        for calls in list(_beside):
            self._report(calls)
        slot, now = self._slot, self._clock()
        step, moves = slot.step, slot.moves
        # Within a call of this run another one may have the thread.
        if step is None or moves != self._moves or slot.watches[-1:] != [self]:
            told, since = self._told, self._since
            self._moves, self._since, self._told = moves, now, None
            if told is not None:
                self._tell(Returned(told, now - since))
        elif self._told is not None:
            self._look_on()
        elif now - self._since >= self._timeout:
            self._report_stuck(step, now)

    def _report_stuck(self, step: str | FusedSteps, now: float) -> None:
        stack = stack_of_thread(self._slot.thread)
        if self._slot.moves != self._moves:
            # It has returned meanwhile.
            return
        if any(_JVM in entry.filename for entry in stack):
            self._since = now
            return
        self._told = step_in(step, stack)
        self._tell(Stuck(self._told, now - self._since, _text_of(stack)))


def log_call(news: Stuck | Returned) -> None:
    """Log a call."""
    _logger.warning("%s", news)


def step_in(step: str | FusedSteps, stack: Sequence[FrameSummary]) -> str:
    """Return the label of the step that a thread with this stack is in."""
    if isinstance(step, str):
        return step
    lines = [entry.lineno for entry in stack if entry.filename == step.code.co_filename]
    return step.label if not lines or lines[-1] is None else step.label_at(lines[-1])


def _text_of(stack: list[FrameSummary]) -> str:
    """Return the part of a stack behind its last frame of this package; all of it if there is none."""
    ours = [i for i, entry in enumerate(stack) if is_ours(entry.filename)]
    own = stack[ours[-1] + 1 :] if ours else stack
    return "".join(traceback.format_list(own or stack[-5:])).rstrip() or "(unknown)"


def stack_of_awaited(awaited: Any) -> str:
    """Return the stack of a suspended coroutine or async generator: where it waits, and what for."""
    frames = []
    while awaited is not None:
        frame = next((f for name in ("cr_frame", "ag_frame", "gi_frame") if (f := getattr(awaited, name, None))), None)
        if frame is not None:
            frames.append((frame, frame.f_lineno))
        names = ("cr_await", "ag_await", "gi_yieldfrom")
        awaited = next((a for name in names if (a := getattr(awaited, name, None)) is not None), None)
    return "".join(traceback.StackSummary.extract(iter(frames)).format()).rstrip()


if hasattr(os, "register_at_fork"):
    # A child has none of the event loop's calls.
    os.register_at_fork(after_in_child=_beside.clear)
