"""Errors in elements, keys, state and user code of a stateful ParDo name the transform's label."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from support.execution.stateful_pardo import WATERMARK, Index, Work

import penstock as beam
from penstock.sdk.errors import InvalidKeyError, NotAPairError, PenstockError, SerializationError
from penstock.sdk.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer, on_window_expiration


@pytest.mark.parametrize("element", [7, "ab", ("a",), ("a", 1, 2), None])
def test_an_element_that_is_no_pair_is_an_error_that_names_the_transform(element: Any) -> None:
    """And shows the element."""
    with pytest.raises(NotAPairError, match=r"Apply: expected a \(key, value\) pair, got "):
        Work(Index()).process(("a", 1), element)


@pytest.mark.parametrize("key", [["a"], object(), float("nan")])
def test_a_key_that_can_not_be_one_is_an_error_that_names_the_transform(key: Any) -> None:
    """Unhashable, or without a deterministic encoding."""
    with pytest.raises(InvalidKeyError, match="Apply: "):
        Work(Index()).process((key, 1))


def failing(where: str) -> beam.DoFn:
    """A DoFn that fails in one of its methods."""

    class Failing(beam.DoFn):
        TIMER = TimerSpec("timer", WATERMARK)

        def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> Any:
            timer.set(1)
            if where == "process":
                raise KeyError("process")
            yield element

        @on_timer(TIMER)
        def fired(self) -> Any:
            if where == "timer":
                raise KeyError("timer")

        @on_window_expiration
        def at_last(self) -> Any:
            if where == "expiry":
                raise KeyError("expiry")
            yield 1

    return Failing()


@pytest.mark.parametrize("where", ["process", "timer", "expiry"])
def test_what_user_code_raises_is_attributed_to_it(where: str) -> None:
    """To the transform, to the line, and in process to the element."""
    work = Work(failing(where))

    def run() -> None:
        work.process(("a", "element")).watermark(20).executor.finish()
        work.executor.fire_due()

    with pytest.raises(KeyError, match=f"KeyError: '{where}' \\[while running 'Apply'") as caught:
        run()
    assert isinstance(caught.value, PenstockError)
    assert ("on element ('a', 'element')" in str(caught.value)) == (where == "process")
    assert f"{Path(__file__).name}:" in str(caught.value)


def test_a_state_value_that_can_not_be_pickled_is_an_error_that_names_transform_and_state() -> None:
    """Before anything of the bundle is sent on."""

    class Keeping(beam.DoFn):
        LOCK = ReadModifyWriteStateSpec("lock")

        def process(self, element: Any, lock: Any = beam.DoFn.StateParam(LOCK)) -> Any:
            lock.write(threading.Lock())
            yield element

    work = Work(Keeping())
    with pytest.raises(SerializationError, match="Apply: the state 'lock' of the key 'a' was given <unlocked"):
        work.process(("a", 1))
    assert [] == work.taken()


def test_process_returns_an_iterable_or_none() -> None:
    """As any DoFn's."""

    class Texting(beam.DoFn):
        STATE = ReadModifyWriteStateSpec("state")

        def process(self, element: Any, state: Any = beam.DoFn.StateParam(STATE)) -> Any:
            return "text"

    with pytest.raises(TypeError, match="must return an iterable of outputs, got the str 'text'"):
        Work(Texting()).process(("a", 1))
