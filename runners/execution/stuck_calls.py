"""Stuck calls: detects user code that doesn't return, from samples of a thread's stack, and reports its step and stack.

Two samples show the same call if they have the same frames, from the runner's own down to the first of user code.
Otherwise the call has returned in between, and another one has begun.  The watched thread has no overhead.

Calls of async DoFns run beside the thread.  A watch asks those that were given to `watch_too`.

For a step of a stream, the watch of its slot knows more (`runners/local/workers/watch.py`).
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Protocol

from ...sdk.metrics import STEPS_OF_LINES
from ...sdk.redaction import logger_of
from ...sdk.user_code.own_code import is_ours
from ...sdk.user_code.thread_frames import frames_of

_logger = logger_of(__name__)

# The longest interval between samples in seconds, and the number of samples within the time-out.
_SELDOM, _LOOKS = 0.25, 10

# Local variables with a step's label in functions of this package.
_LABELS = "label", "transform"

# Packages whose frames are not user code: PySpark runs our generators, and in Py4J a driver waits for the JVM.
_RUNNERS, _JVM = f"{os.sep}pyspark{os.sep}", f"{os.sep}py4j{os.sep}"


def is_of_pyspark(file: str) -> bool:
    """Return True for the code of PySpark, which runs our generators."""
    return _RUNNERS in file


class Sampler(Protocol):
    """Samples a watched thread, from another one."""

    def due_in(self) -> float:
        """Return the seconds until the next sample is due."""

    def sample(self) -> None:
        """Take a sample if it is due."""


# The watches, by the identity of the frame at which each begins.  A watch ends at the frame of another.
_roots: dict[int, CallWatch] = {}


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


class _Call(NamedTuple):
    """A call in one sample.

    Attributes:
      path: the frames of this package, and the first one of user code.
      place: for a call of C code, the position in the innermost frame, with its local variables and the lengths of
        lists, which grow while a loop runs.
    """

    path: tuple[FrameType, ...]
    place: tuple[int, tuple[tuple[Any, int], ...]] | None

    def is_same_as(self, other: _Call) -> bool:
        """Return True if it has not returned between the two samples."""
        if len(self.path) != len(other.path) or any(a is not b for a, b in zip(self.path, other.path, strict=True)):
            return False
        if self.place is None or other.place is None:
            return self.place is other.place
        (line, mine), (other_line, theirs) = self.place, other.place
        if line != other_line or len(mine) != len(theirs):
            return False
        return all(a is b and n == m for (a, n), (b, m) in zip(mine, theirs, strict=True))


class CallWatch(AbstractContextManager["CallWatch"]):
    """Watches the thread that enters it, within the function that does.

    Args:
      timeout: seconds after which a call is reported.
      tell: called with `Stuck` and `Returned` calls, on the sampling thread; None logs them.
      is_elsewhere: true while another watch has the thread.
      has_thread: False if the owner takes the samples, by calling `look`.
      clock: seconds, of any beginning.
    """

    def __init__(
        self,
        timeout: float,
        tell: Callable[[Stuck | Returned], None] | None = None,
        is_elsewhere: Callable[[], bool] = lambda: False,
        has_thread: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout = timeout
        self._tell = log_call if tell is None else tell
        self._is_elsewhere = is_elsewhere
        self._clock = clock
        self._pause = min(_SELDOM, timeout / _LOOKS)
        self._sampler: Sampler | None = None
        self._next = 0.0
        self._watched = 0
        self._root: FrameType | None = None
        # The call of the last sample, and the time when it was first seen.
        self._call: _Call | None = None
        self._since = 0.0
        # The step of the reported call.
        self._told: str | None = None
        self._is_over, self._wakeup = False, threading.Event()
        self._thread: threading.Thread | None = None
        if has_thread:
            self._thread = threading.Thread(target=self._run, name="penstock call watch", daemon=True)

    def __enter__(self) -> CallWatch:
        self._watched, self._root = threading.get_ident(), sys._getframe(1)
        _roots[id(self._root)] = self
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over = True
        self._wakeup.set()
        if self._thread is not None:
            self._thread.join(1.0)
        if self._told is not None and kind is None:
            self._tell(Returned(self._told, self._clock() - self._since))
        # A later watch, of another run, would report them.
        for calls in [calls for calls in _beside if calls.is_over]:
            self._report(calls, is_told=kind is None)
        _roots.pop(id(self._root), None)
        self._root = self._call = None

    def sample_by(self, sampler: Sampler | None) -> None:
        """Let a sampler take its samples, on the watch's thread; None ends this."""
        self._sampler = sampler
        if sampler is not None:
            self._wakeup.set()

    def _run(self) -> None:
        while True:
            sampler = self._sampler
            self._wakeup.wait(self._pause if sampler is None else min(self._pause, sampler.due_in()))
            # In this order no wake-up is lost: `_is_over` is set before.
            self._wakeup.clear()
            if self._is_over:
                return
            if (sampler := self._sampler) is not None:
                sampler.sample()
            self.look()

    def _report(self, calls: CallsBeside, is_told: bool = True) -> None:
        """Report the news of calls, which are forgotten when they are over."""
        if calls.is_over:
            _beside.discard(calls)
        for each in calls.news(self._timeout):
            if is_told:
                self._tell(each)

    def look(self) -> None:
        """Take a sample, unless the last one is recent; report a call that has not returned, or has at last."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._pause
        for calls in list(_beside):
            self._report(calls)
        with frames_of(self._watched) as frame:
            news = self._seen_at(None if self._is_elsewhere() else frame, now)
        if news is not None:
            self._tell(news)

    def _seen_at(self, frame: FrameType | None, now: float) -> Stuck | Returned | None:
        call = None if frame is None else self._call_at(frame)
        if call is None or self._call is None or not call.is_same_as(self._call):
            since, told = self._since, self._told
            self._call, self._since, self._told = call, now, None
            return None if told is None else Returned(told, now - since)
        if self._told is None and now - self._since >= self._timeout and frame is not None:
            self._call = call
            step = step_of(frame)
            # Without a step it is the runner's own work.
            if step is not None:
                self._told = step
                return Stuck(step, now - self._since, stack_of(frame))
        return None

    def _call_at(self, innermost: FrameType) -> _Call | None:
        """Return the call that a thread is in; None if the thread isn't within this watch."""
        stack = []
        frame: FrameType | None = innermost
        while frame is not None and id(frame) not in _roots:
            if _JVM in frame.f_code.co_filename:
                return None
            stack.append(frame)
            frame = frame.f_back
        if frame is None or _roots.get(id(frame)) is not self or is_of_pyspark(innermost.f_code.co_filename):
            return None
        stack.append(frame)
        stack.reverse()
        path = []
        for frame in stack:
            path.append(frame)
            if not is_ours(frame.f_code.co_filename) and not is_of_pyspark(frame.f_code.co_filename):
                return _Call(tuple(path), None)
        variables = tuple((value, len(value) if type(value) is list else 0) for value in innermost.f_locals.values())
        return _Call(tuple(path), (innermost.f_lasti, variables))


def log_call(news: Stuck | Returned) -> None:
    """Log a call."""
    _logger.warning("%s", news)


def step_of(frame: FrameType | None) -> str | None:
    """Return the label of the step that a thread is in; None if none is found."""
    while frame is not None:
        if (label := label_of_line(frame)) is not None:
            return label
        if is_ours(frame.f_code.co_filename):
            label = _label_in(frame.f_locals)
            if label is not None:
                return label
        frame = frame.f_back
    return None


def label_of_line(frame: FrameType) -> str | None:
    """Return the label of the step that a line of generated code belongs to; None for other code."""
    labels, line = frame.f_globals.get(STEPS_OF_LINES), frame.f_lineno
    # Python gives no line for instructions that belong to none.
    if labels is None or line is None:
        return None
    return str(labels[line - 1]) if labels[line - 1] else None


def _label_in(variables: dict[str, Any]) -> str | None:
    for found in map(variables.get, _LABELS):
        if isinstance(found, str):
            return found
    label = None
    with suppress(Exception):
        label = variables["self"].label
    return label if isinstance(label, str) else None


def stack_of(frame: FrameType) -> str:
    """Return the stack of a thread from its last frame of this package on; all of it if there is none."""
    entries = traceback.extract_stack(frame)
    ours = [i for i, entry in enumerate(entries) if is_ours(entry.filename)]
    own = entries[ours[-1] + 1 :] if ours else entries
    return "".join(traceback.format_list(own or entries[-5:])).rstrip()


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
