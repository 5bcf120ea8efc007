"""Keyed state: values by window, state and key; snapshots, and what changes between them."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runners.execution.state.keyed_state import Change, ChangeKind, KeyedState
from penstock.sdk.errors import SerializationError
from penstock.sdk.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    MapStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
)

VALUE = ReadModifyWriteStateSpec("value")
BAG = BagStateSpec("bag")
SET = SetStateSpec("set")
MAP = MapStateSpec("map")
TOTAL = CombiningValueStateSpec("total", sum)
LOG = OrderedListStateSpec("log")

windows = st.sampled_from(["window 1", "window 2"])
keys = st.sampled_from(["a", "b", 3])
values = st.integers(0, 4)
operations = st.one_of(
    st.tuples(st.sampled_from(["value", "bag", "set", "map", "total", "log", "clear"]), windows, keys, values),
    st.tuples(st.just("free"), windows, st.none(), values),
)


def do(state: KeyedState, operation: tuple[str, Any, Any, int]) -> None:
    """Change a cell."""
    kind, window, key, value = operation
    if kind == "value":
        VALUE.of(state, window, key).write(value)
    elif kind == "bag":
        BAG.of(state, window, key).add(value)
    elif kind == "set":
        SET.of(state, window, key).add(value)
    elif kind == "map":
        MAP.of(state, window, key).put(value, value)
    elif kind == "total":
        TOTAL.of(state, window, key).add(value)
    elif kind == "log":
        LOG.of(state, window, key).add((value, value))
    elif kind == "clear":
        [VALUE, BAG, SET, MAP, LOG][value].of(state, window, key).clear()
    else:
        state.free_namespace(window)


def contents(state: KeyedState) -> list[Any]:
    """Everything in it, in an order of its own."""
    changes = KeyedState(tracking=False)
    changes.restore(state.snapshot())
    return sorted(
        (repr(c.namespace), repr(c.key), c.name, sorted(map(repr, c.value)) if type(c.value) is dict else repr(c.value))
        for c in changes.snapshot()
    )


def test_a_key_and_window_has_cells_of_its_own() -> None:
    """Other keys and windows don't see them."""
    state = KeyedState()
    for window in ("w", "v"):
        for key in ("a", "b"):
            VALUE.of(state, window, key).write((window, key))
            BAG.of(state, window, key).add((key, window))
    VALUE.of(state, "w", "a").clear()
    assert None is VALUE.of(state, "w", "a").read()
    assert [("a", "w")] == BAG.of(state, "w", "a").read()
    assert ("v", "a") == VALUE.of(state, "v", "a").read()
    assert ("w", "b") == VALUE.of(state, "w", "b").read()


@given(st.lists(operations))
def test_keys_and_windows_are_isolated(script: list[Any]) -> None:
    """Each behaves as it does alone."""
    together = KeyedState()
    for operation in script:
        do(together, operation)
    for window in ("window 1", "window 2"):
        for key in ("a", "b", 3):
            alone = KeyedState()
            for operation in script:
                if operation[1] == window and operation[2] in (key, None):
                    do(alone, operation)
            for spec in (VALUE, BAG, SET, TOTAL, LOG):
                assert spec.of(alone, window, key).read() == spec.of(together, window, key).read()


def test_a_window_that_is_over_leaves_nothing() -> None:
    """All its cells go at once, and those of other windows stay."""
    state = KeyedState(tracking=True)
    for window in ("w", "v"):
        for key in range(10):
            VALUE.of(state, window, key).write(key)
            BAG.of(state, window, key).add(key)
    state.free_namespace("w")
    assert (20, ["v"]) == (len(state), state.namespaces())
    state.free_namespace("v")
    assert (0, []) == (len(state), state.namespaces())


# --- Snapshots


@given(st.lists(operations), st.lists(operations), st.lists(operations))
def test_a_snapshot_and_the_changes_since_give_the_state(
    before: list[Any], between: list[Any], after: list[Any]
) -> None:
    """Through pickle, whatever happened; and each stays what it was when it was taken."""
    state = KeyedState(tracking=True)
    for operation in before:
        do(state, operation)
    parts = [state.snapshot()]
    frozen = [pickle.dumps(parts[0])]
    expected = [contents_of(parts[0])]
    for script in (between, after):
        for operation in script:
            do(state, operation)
        parts.append(state.changes())
        frozen.append(pickle.dumps(parts[-1]))
        assert [contents_of(parts[0])] == expected
    restored = KeyedState(tracking=True)
    for data in frozen:
        restored.restore(pickle.loads(data))
    late = KeyedState()
    for changes in parts:
        late.restore(changes)
    assert contents(state) == contents(restored) == contents(late)


def contents_of(snapshot: list[Change]) -> list[Any]:
    """Return the content of a snapshot."""
    state = KeyedState()
    state.restore(snapshot)
    return contents(state)


@given(st.lists(operations), st.lists(operations))
def test_a_restored_state_goes_on_like_the_one_it_was_taken_of(before: list[Any], after: list[Any]) -> None:
    """Both may go on in one process: they share nothing that either changes."""
    state = KeyedState(tracking=True)
    for operation in before:
        do(state, operation)
    copies = [KeyedState(tracking=True), KeyedState(tracking=False)]
    snapshot = state.snapshot()
    for copied in copies:
        copied.restore(snapshot)
    for operation in after:
        for each in (state, *copies):
            do(each, operation)
    assert contents(state) == contents(copies[0]) == contents(copies[1])


def test_only_what_has_changed_is_in_the_changes() -> None:
    """Of a bag, what was added."""
    state = KeyedState(tracking=True)
    for key in range(100):
        VALUE.of(state, "w", key).write(0)
        BAG.of(state, "w", key).add(0)
    assert 200 == len(state.snapshot())
    VALUE.of(state, "w", 7).write(1)
    BAG.of(state, "w", 8).add(2)
    VALUE.of(state, "w", 9).clear()
    BAG.of(state, "w", 10).clear()
    BAG.of(state, "w", 10).add(3)
    changes = sorted(state.changes(), key=lambda change: change.key)
    assert [
        Change("w", 7, "value", ChangeKind.PUT, 1),
        Change("w", 8, "bag", ChangeKind.APPEND, [2]),
        Change("w", 9, "value", ChangeKind.REMOVE),
    ] == changes[:3]
    assert (10, ChangeKind.PUT, [3]) == (changes[3].key, changes[3].kind, list(changes[3].value))
    assert [] == state.changes()


def test_a_bag_that_many_snapshots_were_taken_of_is_read_in_one_piece() -> None:
    """Chunks are joined when there are many."""
    state = KeyedState(tracking=True)
    for i in range(1_000):
        BAG.of(state, "w", "k").add(i)
        assert [i] == list(state.changes()[0].value)[-1:]
    assert list(range(1_000)) == BAG.of(state, "w", "k").read()


def test_without_snapshots_nothing_is_remembered_of_changes() -> None:
    """A batch runner takes none."""
    state = KeyedState()
    BAG.of(state, "w", "k").add(1)
    state.free_namespace("w")
    assert [] == state.changes()


# --- Values that can't be pickled


@pytest.mark.parametrize("spec", [VALUE, BAG, MAP, LOG])
def test_a_value_that_can_not_be_pickled_is_an_error_that_names_the_state(spec: Any) -> None:
    """And the key, and the type."""
    state = KeyedState()
    for key in ("good", "bad"):
        value: Any = threading.Lock() if key == "bad" else (1, 2)
        cell = spec.of(state, "w", key)
        add = getattr(cell, "write", None) or getattr(cell, "add", None)
        if spec is MAP:
            cell.put("name", value)
        else:
            assert add is not None
            add((0, value) if spec is LOG else value)
    with pytest.raises(SerializationError, match=f"the state '{spec.name}' of the key 'bad' was given <unlocked"):
        state.check()
    state.check()


def test_it_is_looked_at_now_and_then_within_a_bundle() -> None:
    """Values that have been replaced don't pile up."""
    state = KeyedState()
    cell = VALUE.of(state, "w", "k")
    for _ in range(999):
        cell.write(threading.Lock())
    with pytest.raises(SerializationError, match="can't be pickled"):
        cell.write(threading.Lock())


def test_classes_and_functions_without_an_importable_name_can_be_kept() -> None:
    """As they can be sent through a shuffle."""

    class Local:
        pass

    state = KeyedState()
    VALUE.of(state, "w", "k").write(Local())
    VALUE.of(state, "w", "l").write(lambda: 1)
    state.check()
