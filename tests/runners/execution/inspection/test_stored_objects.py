"""Pickles read as plain data: nothing in them runs, and what is left as it was is written back equal."""

from __future__ import annotations

import collections
import dataclasses
import enum
import os
import pathlib
import pickle
import uuid
from typing import Any

import attrs
import cloudpickle
import pytest

from penstock.runners.execution.inspection import json_values
from penstock.runners.execution.inspection.json_values import text_of
from penstock.runners.execution.inspection.stored_objects import StoredObject, loads_plain
from penstock.sdk.errors import CheckpointMismatchError, SnapshotError
from penstock.windowing import IntervalWindow, Timestamp


class Colour(enum.Enum):
    RED = 1


class Size(enum.Enum):
    """Pickled as before Python 3.11.4."""

    SMALL = 1

    def __reduce_ex__(self, protocol: Any) -> Any:
        return getattr, (type(self), self.name)


@dataclasses.dataclass(frozen=True)
class Note:
    text: str
    tags: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: int


@attrs.frozen
class Visit:
    at: Timestamp


class Names(list[str]):
    pass


Pair = collections.namedtuple("Pair", "p q")

OF_USERS = [
    (Colour.RED, "Colour"),
    (Size.SMALL, "Size"),
    (Note("a", ["b"]), "Note"),
    (Slotted(1), "Slotted"),
    (Visit(Timestamp(3)), "Visit"),
    (Names(["x"]), "Names"),
    (Pair(1, [2]), "Pair"),
    (collections.defaultdict(list, {"a": [1]}), "defaultdict"),
]


@pytest.mark.parametrize(("value", "name"), OF_USERS, ids=lambda of: of if isinstance(of, str) else "")
def test_an_instance_of_a_class_is_shown_by_name_and_pickled_as_it_was(value: Any, name: str) -> None:
    """Also where it is part of a list, and pickled twice."""
    stored, again = loads_plain(pickle.dumps([value, value]))

    assert isinstance(stored, StoredObject)
    assert stored is again
    assert stored.type_name.endswith(f".{name}")
    assert [value, 1] == pickle.loads(pickle.dumps(loads_plain(pickle.dumps([stored, 1]))))


def test_fields_of_a_stored_object_are_attributes() -> None:
    """A missing one is named with those that there are."""
    stored = loads_plain(pickle.dumps(Note("a", ["b"])))

    assert ("a", ["b"]) == (stored.text, stored.tags)
    with pytest.raises(AttributeError, match="has no field 'count'; it has: text, tags"):
        _ = stored.count


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, path: pathlib.Path, by: Any) -> None:
        self.path, self.by = path, by

    def __reduce__(self) -> Any:
        return self.by, (f"touch {self.path}" if self.by is os.system else f"open({str(self.path)!r}, 'w')",)


@pytest.mark.parametrize("by", [os.system, eval, exec])
def test_code_in_a_pickle_is_not_run(by: Any, tmp_path: pathlib.Path) -> None:
    """It is shown; the same pickle runs where it is unpickled."""
    path = tmp_path / "ran"
    data = pickle.dumps({"value": Evil(path, by)})

    shown = text_of(loads_plain(data))

    assert not path.exists()
    assert f".{by.__name__}" in shown
    assert str(path) in shown
    pickle.loads(data)
    assert path.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cpenstock.stored\ninterval-window/1\n}X\x01\x00\x00\x00aK\x01sb.",
        b"cfractions\nFraction\nN}X\x01\x00\x00\x00aK\x01s\x86b.",
        b"cdatetime\ndatetime\nN}X\x01\x00\x00\x00aK\x01s\x86b.",
    ],
    ids=["a function of penstock", "a class in Python", "a class in C"],
)
def test_a_pickle_sets_no_attribute_of_a_function_or_class(data: bytes) -> None:
    """By the opcode BUILD."""
    with pytest.raises((AttributeError, TypeError, pickle.UnpicklingError)):
        loads_plain(data)


def test_a_class_that_was_pickled_by_value_is_shown() -> None:
    """As cloudpickle does with a local class."""

    class Local:
        def __init__(self) -> None:
            self.n = 1

    (stored,) = loads_plain(cloudpickle.dumps([Local()]))
    assert {"n": 1} == stored.fields


def test_types_of_python_and_of_penstock_are_restored() -> None:
    """Equal to what was pickled."""
    values = [
        {1, 2},
        frozenset({"a"}),
        collections.Counter("aab"),
        collections.deque([1]),
        uuid.UUID(int=5),
        IntervalWindow(0, 1),
        Timestamp(2),
    ]
    assert values == loads_plain(pickle.dumps(values))


def test_a_small_pickle_of_a_huge_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of two times the same list, forty levels deep."""
    monkeypatch.setattr(json_values, "_MOST_PARTS", 2_000)
    value: list[Any] = []
    for _ in range(40):
        value = [value, value]
    with pytest.raises(SnapshotError, match="more than 2,000 parts"):
        text_of(loads_plain(pickle.dumps(value)))


def test_a_class_that_is_missing_is_named_when_it_is_pickled() -> None:
    """It was left as it was by a migration."""
    stored = loads_plain(pickle.dumps(Note("a", [])).replace(b"Note", b"Nope"))

    with pytest.raises(CheckpointMismatchError, match=r"left an instance of .*\.Nope as it was"):
        pickle.dumps(stored)
