"""What a thread makes durable while processing goes on."""

import threading
from typing import Any

import pytest

from penstock.runners.local.workers.snapshot_thread import WrittenBehind


def test_work_is_done_in_order_and_told_of_in_the_thread_that_polls() -> None:
    """Whoever polls needs no lock for what it does then."""
    behind, told = WrittenBehind(), list[tuple[Any, str]]()
    for number in range(20):
        behind.begin(lambda number=number: number, lambda n, _: told.append((n, threading.current_thread().name)))
    assert behind.is_busy
    behind.finish()
    name = threading.current_thread().name
    assert [(number, name) for number in range(20)] == told
    assert not behind.is_busy


def test_what_fails_is_told_and_what_comes_after_it_is_done() -> None:
    """A full disk may have room again."""
    behind, told = WrittenBehind(), list[Any]()

    def fail() -> None:
        raise OSError("no space left")

    behind.begin(fail, lambda result, error: told.append(str(error)))
    behind.begin(lambda: 7, lambda result, error: told.append(result))
    behind.finish()
    assert ["no space left", 7] == told


def test_no_thread_stays_when_there_is_nothing_to_write() -> None:
    """A process that forks later is alone then."""
    behind = WrittenBehind()
    behind.begin(lambda: None, lambda result, error: None)
    behind.finish()
    assert "penstock snapshots" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_what_is_given_up_is_not_told_of_and_not_begun(begun: int) -> None:
    """What is being written comes to its end, and nobody hears of it."""
    behind, goes_on, done, told = WrittenBehind(), threading.Event(), list[int](), list[Any]()
    for number in range(begun):

        def work(number: int = number) -> None:
            goes_on.wait(60)
            done.append(number)

        behind.begin(work, lambda result, error: told.append(result))
    giving_up = threading.Thread(target=behind.abandon)
    giving_up.start()
    while behind._todo:
        pass
    goes_on.set()
    giving_up.join()
    behind.poll()
    assert ([], False) == (told, behind.is_busy)
    assert len(done) <= 1
