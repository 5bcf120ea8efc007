"""AsyncWrapper: calls of a DoFn in the background."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import penstock as beam
from penstock.transforms.async_dofn import AsyncWrapper


@pytest.fixture(autouse=True)
def _without_calls_of_other_tests():
    AsyncWrapper.reset_state()
    yield
    AsyncWrapper.reset_state()


class Squares(beam.DoFn):
    """Emits the square of a value, which takes a while."""

    def __init__(self, seconds=0.05):
        self.seconds = seconds

    def process(self, element):
        time.sleep(self.seconds)
        key, n = element
        yield key, n * n


class AsyncSquares(beam.DoFn):
    async def process(self, element):
        await asyncio.sleep(0.2)
        key, n = element
        return [(key, n * n)]


class State(list):
    """A bag state of one key."""

    read = list.copy
    add = list.append


class Timer:
    """A timer, with the times that it was set to."""

    def __init__(self):
        self.times = []

    def set(self, time):
        self.times.append(time)


def wrapped(dofn, **kwargs):
    wrapper = AsyncWrapper(dofn, **kwargs)
    wrapper.setup()
    return wrapper, State(), Timer()


def wait_until_done(wrapper):
    end = time.monotonic() + 10
    while not wrapper.is_empty():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("use_asyncio", [False, True])
def test_a_bounded_input_has_the_outputs_of_all_calls(use_asyncio):
    """Keys may have equal values, and more elements than the buffer holds."""
    wrapper = AsyncWrapper(
        Squares(), parallelism=4, max_items_to_buffer=5, timeout=0.01, callback_frequency=1, use_asyncio=use_asyncio
    )
    elements = [(key, n) for key in "ab" for n in range(8)]
    assert [(key, n * n) for key, n in elements] == sorted(elements | beam.ParDo(wrapper))


def test_no_thread_stays_when_the_pipeline_has_ended():
    before = threading.active_count()
    assert [("a", 9)] == [("a", 3)] | beam.ParDo(AsyncWrapper(Squares(), parallelism=4, timeout=0.01))
    assert before == threading.active_count()


def test_coroutines_run_at_the_same_time():
    wrapper = AsyncWrapper(AsyncSquares(), max_items_to_buffer=50, use_asyncio=True)
    begin = time.monotonic()
    assert [("a", n * n) for n in range(30)] == sorted([("a", n) for n in range(30)] | beam.ParDo(wrapper))
    assert time.monotonic() - begin < 4


def test_process_emits_nothing_and_a_check_emits_what_is_done():
    wrapper, state, timer = wrapped(Squares())
    assert [] == wrapper.process(("a", 3), timer, state)
    assert [("a", 3)] == state
    assert timer.times[0] > time.time()
    wait_until_done(wrapper)
    assert [("a", 9)] == wrapper.commit_finished_items(state, timer)
    assert [] == state


def test_an_unfinished_call_stays_in_state_and_is_checked_again():
    wrapper, state, timer = wrapped(Squares(seconds=0.3))
    wrapper.process(("a", 3), timer, state)
    assert [] == wrapper.commit_finished_items(state, timer)
    assert [("a", 3)] == state
    assert 2 == len(timer.times)


def test_an_element_of_the_state_without_a_call_gets_one():
    """After a failure the state is restored, and the calls are lost."""
    wrapper, state, timer = wrapped(Squares())
    state.add(("a", 3))
    assert [] == wrapper.commit_finished_items(state, timer)
    wait_until_done(wrapper)
    assert [("a", 9)] == wrapper.commit_finished_items(state, timer)


def test_a_call_whose_element_is_not_in_the_state_is_dropped():
    wrapper, state, timer = wrapped(Squares())
    wrapper.process(("a", 1), timer, state)
    wrapper.process(("a", 2), timer, state)
    wait_until_done(wrapper)
    state.remove(("a", 1))
    assert [("a", 4)] == wrapper.commit_finished_items(state, timer)


def test_an_id_identifies_elements():
    wrapper, state, timer = wrapped(Squares(), id_fn=lambda n: n % 10)
    wrapper.process(("a", 1), timer, state)
    wrapper.process(("a", 11), timer, state)
    wait_until_done(wrapper)
    assert [("a", 1)] == wrapper.commit_finished_items(state, timer)
    assert [] == state


def test_a_failed_call_raises_its_error_and_is_repeated():
    attempts = []

    class FailsOnce(beam.DoFn):
        def process(self, element):
            attempts.append(element)
            if len(attempts) == 1:
                raise RuntimeError("unavailable")
            yield element

    wrapper, state, timer = wrapped(FailsOnce())
    wrapper.process(("a", 3), timer, state)
    wait_until_done(wrapper)
    with pytest.raises(RuntimeError, match="unavailable"):
        wrapper.commit_finished_items(state, timer)
    assert [] == wrapper.commit_finished_items(state, timer)
    wait_until_done(wrapper)
    assert [("a", 3)] == wrapper.commit_finished_items(state, timer)


def test_a_full_buffer_takes_no_more_calls():
    go_on = threading.Event()

    class Waits(beam.DoFn):
        def process(self, element):
            go_on.wait(10)
            yield element

    wrapper, _, _ = wrapped(Waits(), max_items_to_buffer=2, timeout=0.05)
    assert [True, True, False] == [wrapper.schedule_if_room(("a", n)) for n in range(3)]
    assert not wrapper.accepting_items()
    wrapper.schedule_item(("a", 2))
    assert wrapper.schedule_if_room(("a", 2), ignore_buffer=True)
    go_on.set()
    wait_until_done(wrapper)


def test_only_a_dofn_is_wrapped():
    with pytest.raises(TypeError, match="AsyncWrapper: expected a DoFn, got <built-in function len>"):
        AsyncWrapper(len)
