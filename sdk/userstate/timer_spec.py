"""TimerSpec: the declaration of a timer in a DoFn; and the decorators of the methods that timers call.

>>> import penstock as beam
>>> from penstock.sdk.userstate import BagStateSpec, TimerSpec, on_timer
>>> class Collect(beam.DoFn):
...     BUFFER = BagStateSpec("buffer")
...     END = TimerSpec("end", beam.TimeDomain.WATERMARK)
...     def process(self, element, buffer=beam.DoFn.StateParam(BUFFER), window=beam.DoFn.WindowParam,
...                 end=beam.DoFn.TimerParam(END)):
...         buffer.add(element[1])
...         end.set(window.end)
...     @on_timer(END)
...     def at_end(self, key=beam.DoFn.KeyParam, buffer=beam.DoFn.StateParam(BUFFER)):
...         yield key, list(buffer.read())
>>> [("a", 1), ("b", 2), ("a", 3)] | beam.ParDo(Collect())
[('a', [1, 3]), ('b', [2])]
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from ...persistence import stored_as

M = TypeVar("M", bound=Callable[..., Any])


@stored_as("time-domain", 1)
class TimeDomain(StrEnum):
    """The time that a timer is set in.

    >>> from penstock.transforms.userstate import TimeDomain, TimerSpec
    >>> TimerSpec("expiry", TimeDomain.WATERMARK).time_domain
    <TimeDomain.WATERMARK: 'WATERMARK'>
    """

    # Event time: the low watermark of the input.
    WATERMARK = "WATERMARK"
    # Processing time: the clock of the runner.
    REAL_TIME = "REAL_TIME"


class TimerSpec:
    """A timer's name and time domain.

    With `dynamic_timer_tag`s it is a family of timers.

    Args:
      name: unique among the timers of the DoFn.
      time_domain: `TimeDomain.WATERMARK` or `TimeDomain.REAL_TIME`; raises `ValueError` for others.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import TimerSpec, on_timer
    >>> class Reminder(beam.DoFn):
    ...     DUE = TimerSpec("due", beam.TimeDomain.WATERMARK)
    ...     def process(self, pair, due=beam.DoFn.TimerParam(DUE)):
    ...         due.set(pair[1])
    ...     @on_timer(DUE)
    ...     def at_due(self, key=beam.DoFn.KeyParam, time=beam.DoFn.TimestampParam):
    ...         yield key, time
    >>> [("a", 30), ("b", 20)] | beam.ParDo(Reminder())
    [('b', Timestamp(20)), ('a', Timestamp(30))]
    """

    def __init__(self, name: str, time_domain: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"TimerSpec: the name must be a str, got {name!r}")
        if time_domain not in list(TimeDomain):
            known = [str(domain) for domain in TimeDomain]
            raise ValueError(f"TimerSpec({name!r}): the time domain must be one of {known}, got {time_domain!r}")
        self.name = name
        self.time_domain = TimeDomain(time_domain)
        # The method decorated by `on_timer`.  A copy in a worker has its name only.
        self.callback: Callable[..., Any] | None = None
        self.callback_name = ""

    def __repr__(self) -> str:
        return f"TimerSpec({self.name})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "callback": None}


def on_timer(timer_spec: TimerSpec) -> Callable[[M], M]:
    """Mark the method of a DoFn that is called when the timer fires.

    All its parameters are `DoFn` markers.  `DoFn.TimestampParam` is the time that the timer was set to, in its time
    domain, and `DoFn.DynamicTimerTagParam` its tag.  Raises `ValueError` if another method is marked with the same
    timer.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import TimerSpec, on_timer
    >>> class Echo(beam.DoFn):
    ...     LATER = TimerSpec("later", beam.TimeDomain.WATERMARK)
    ...     def process(self, pair, later=beam.DoFn.TimerParam(LATER)):
    ...         later.set(60, dynamic_timer_tag=pair[1])
    ...     @on_timer(LATER)
    ...     def echo(self, key=beam.DoFn.KeyParam, tag=beam.DoFn.DynamicTimerTagParam):
    ...         yield key, tag
    >>> [("a", "one"), ("a", "two")] | beam.ParDo(Echo())
    [('a', 'one'), ('a', 'two')]
    """
    if not isinstance(timer_spec, TimerSpec):
        raise ValueError(f"on_timer takes a TimerSpec, got {timer_spec!r}")

    def marked(method: M) -> M:
        if not callable(method):
            raise ValueError(f"on_timer({timer_spec!r}) marks a method, got {method!r}")
        if timer_spec.callback_name:
            raise ValueError(
                f"Multiple on_timer callbacks registered for {timer_spec!r}: "
                f"{timer_spec.callback_name} and {method.__name__}"
            )
        timer_spec.callback = method
        timer_spec.callback_name = method.__name__
        return method

    return marked


def on_window_expiration(method: M) -> M:
    """Mark the method of a DoFn that is called for each key when its window expires.

    The window expires when the watermark is past its end plus the allowed lateness.  The call is the last one for this
    key and window, and the states are removed after it.  Its outputs have the timestamp of the window's end, which
    holds back the watermark until then.

    >>> import penstock as beam
    >>> from penstock.transforms.userstate import CombiningValueStateSpec, on_window_expiration
    >>> class Total(beam.DoFn):
    ...     TOTAL = CombiningValueStateSpec("total", sum)
    ...     def process(self, pair, total=beam.DoFn.StateParam(TOTAL)):
    ...         total.add(pair[1])
    ...     @on_window_expiration
    ...     def at_the_end(self, key=beam.DoFn.KeyParam, total=beam.DoFn.StateParam(TOTAL)):
    ...         yield key, total.read()
    >>> [("a", 3), ("a", 5)] | beam.ParDo(Total())
    [('a', 8)]
    """
    if not callable(method):
        raise ValueError(f"on_window_expiration marks a method, got {method!r}")
    method.__on_window_expiration__ = True  # type: ignore[attr-defined]
    return method
