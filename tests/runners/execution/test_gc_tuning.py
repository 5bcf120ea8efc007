"""How often garbage is looked for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from penstock.runners.execution.gc_tuning import (
    NEW_OBJECTS,
    THOROUGH,
    look_rarely_for_garbage,
    rarely_collected,
    set_aside,
)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The collector is afterwards what it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_process_of_its_own_looks_rarely_from_then_on_and_leaves_out_what_there_was() -> None:
    """Also behind a bundle, which would else put back what was before it."""
    look_rarely_for_garbage()
    with rarely_collected():
        pass
    assert NEW_OBJECTS == gc.get_threshold()[0]
    assert gc.get_freeze_count() > 0


def test_a_collector_that_was_switched_off_stays_so() -> None:
    """The program's choice takes precedence."""
    gc.set_threshold(0)
    look_rarely_for_garbage()
    assert 0 == gc.get_threshold()[0]


class Node:
    """Something that refers to itself, which only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_what_was_set_aside_is_not_gone_through_but_now_and_then() -> None:
    """Garbage that was young goes at once; what became garbage later, within so many times."""
    young = weakref.ref(Node())
    kept = Node()
    old = weakref.ref(kept)
    set_aside()
    assert young() is None

    del kept
    gc.collect()
    assert old() is not None
    for _ in range(THOROUGH):
        set_aside()
    assert old() is None
