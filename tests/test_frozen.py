"""Frozen classes behave as those of `attrs.frozen`, which are built more slowly."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from architecture.imports import modules

from penstock.frozen import frozen

Decorator = Callable[..., Any]


@frozen
class Reading:
    """A class that can be pickled."""

    sensor: str
    value: float = 0.0


def classes_of(decorator: Decorator) -> dict[str, Any]:
    """Return classes of many kinds, by name."""

    @decorator
    class Empty:
        pass

    @decorator
    class Plain:
        first: Any
        second: Any = 5

    @decorator
    class Other:
        first: Any
        second: Any = 5

    @decorator
    class More(Plain):
        third: Any = 7

    @decorator(eq=False)
    class ByIdentity:
        first: Any

    @decorator(repr=False, slots=False)
    class Unshown:
        first: Any

        def __repr__(self) -> str:
            return "unshown"

    @decorator
    class Ignored:
        first: Any
        second: Any = attrs.field(default=1, eq=False, repr=False)
        third: Any = attrs.field(factory=dict, hash=False)

    @decorator
    class Own:
        first: Any

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 3

        def __repr__(self) -> str:
            return "own"

    classes = (Empty, Plain, Other, More, ByIdentity, Unshown, Ignored, Own)
    return {each.__name__: each for each in classes}


def instances_of(decorator: Decorator) -> list[Any]:
    """Return instances of all classes, some of which are equal."""
    kinds = classes_of(decorator)
    instances = [kinds["Empty"](), kinds["Empty"](), kinds["More"](1, 2, 3), kinds["More"](1, 2)]
    for name in ("Plain", "Other", "ByIdentity", "Unshown", "Ignored", "Own"):
        instances += [kinds[name](1), kinds[name](1), kinds[name]("a")]
    return [*instances, kinds["Ignored"](1, 2), kinds["Ignored"](1, 1, {"a": 1}), kinds["Plain"](first=1, second=6)]


def test_values_are_compared_hashed_and_shown_as_those_of_attrs() -> None:
    """Of each two of them, and with the methods and flags of their classes."""
    ours, theirs = instances_of(frozen), instances_of(attrs.frozen)

    assert [[a == b for b in theirs] for a in theirs] == [[a == b for b in ours] for a in ours]
    assert [[a != b for b in theirs] for a in theirs] == [[a != b for b in ours] for a in ours]
    # Equal values have equal hashes; attrs' own are other numbers.
    assert all(hash(a) == hash(b) for a in ours for b in ours if a == b)
    assert [_without_addresses(a) for a in theirs] == [_without_addresses(a) for a in ours]


def _without_addresses(value: Any) -> str:
    return repr(value).partition(" object at ")[0]


def test_fields_cannot_be_assigned_and_classes_are_of_attrs() -> None:
    """So `attrs.evolve` and pickles work."""
    reading = Reading("a", 1.5)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        reading.value = 2.0  # type: ignore[misc]

    assert ("sensor", "value") == tuple(field.name for field in attrs.fields(Reading))
    assert Reading("a", 2.0) == attrs.evolve(reading, value=2.0)
    assert reading == pickle.loads(pickle.dumps(reading)) == copy.deepcopy(reading)
    assert not hasattr(reading, "__dict__")


def test_a_value_within_itself_is_shown_once() -> None:
    """As by `attrs.frozen`."""
    values: list[Any] = []
    values.append(Reading("a", values))  # type: ignore[arg-type]

    assert "Reading(sensor='a', value=[...])" == repr(values[0])


def test_the_package_builds_its_classes_with_it() -> None:
    """But those that are ordered, and its examples, which are for users."""
    of_attrs = [
        name
        for name, path in modules().items()
        if not name.startswith(("examples.", "frozen"))
        and re.search(r"^ *@attrs\.frozen(?!\(order=True)", path.read_text(), re.MULTILINE)
    ]

    assert [] == of_attrs
