"""The types of keys, compared with those of a checkpoint."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import attrs
import pytest

import penstock as beam
from penstock.runners.execution.state.key_types import KeyTypes, described, type_of, types_of
from penstock.sdk.coders import StrUtf8Coder, registry
from penstock.sdk.coders.coded_key import coded
from penstock.sdk.errors import CheckpointMismatchError
from penstock.windowing import GlobalWindow, IntervalWindow


class Named(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass(frozen=True)
class Data:
    a: Any
    b: Any


@attrs.frozen
class Frozen:
    a: Any
    b: Any


def row(a: Any, b: Any) -> beam.Row:
    return beam.Row(a=a, b=b)


def pair(a: Any, b: Any) -> tuple[Any, Any]:
    return a, b


def members(a: Any, b: Any) -> frozenset[Any]:
    return frozenset({a, b})


def within(a: Any, b: Any) -> tuple[Any, ...]:
    return ("k", frozenset({("x", Data(1, Frozen(a, b)))}))


COMPOSED = [pair, Named, Data, Frozen, row, members, within]


def is_refused(before: list[Any], after: list[Any]) -> bool:
    try:
        KeyTypes("Step", types_of(before)).check(after)
    except CheckpointMismatchError:
        return True
    return False


@pytest.mark.parametrize("composed", COMPOSED)
def test_types_are_compared_through_containers_and_fields(composed: Any) -> None:
    """At each depth; numbers of all types are one."""
    assert is_refused([composed(1, 2)], [composed("1", "2")])
    assert not is_refused([composed(1, 2)], [composed(3, 4.5), composed(Decimal("1.5"), 7)])


@pytest.mark.parametrize("composed", [pair, Named, Data, Frozen, row])
def test_what_may_be_none_is_no_reason_to_refuse_keys_and_hides_no_change(composed: Any) -> None:
    """A part that is None in some keys is compared as it is in the others."""
    assert not is_refused([composed(1, None)], [composed(1, 2)])
    assert not is_refused([composed(1, 2)], [composed(1, None)])
    assert not is_refused([composed(1, None)], [composed(1, "2")])
    assert not is_refused([None], ["a"])
    assert is_refused([composed(1, None), composed(1, 2)], [composed(1, "2")])
    assert is_refused([None, 1], ["1"])
    assert is_refused([None, 1], [None, "1"])


def test_keys_of_several_types_go_on_with_each_of_them() -> None:
    both = [1, "a", ("a", 1), ("a", "b"), frozenset({1, "a"}), frozenset()]
    for key in both:
        assert not is_refused(both, [key])
    assert is_refused(both, [b"a"])
    assert is_refused(both, [frozenset({b"a"})])


def test_an_empty_frozenset_says_nothing_of_its_members() -> None:
    assert not is_refused([frozenset()], [frozenset({1})])
    assert not is_refused([frozenset({1})], [frozenset()])
    assert is_refused([frozenset(), frozenset({1})], [frozenset({"1"})])


def test_a_named_tuple_is_a_tuple_and_other_classes_are_themselves() -> None:
    """As keys a tuple and a named tuple of equal parts are equal; records of two classes aren't."""
    assert not is_refused([Named(1, "a")], [(1, "a")])
    assert not is_refused([(1, "a")], [Named(1, "a")])
    assert is_refused([Data(1, 2)], [Frozen(1, 2)])
    assert is_refused([Data(1, 2)], [(1, 2)])
    assert is_refused([beam.Row(a=1)], [beam.Row(b=1)])


def test_classes_of_one_name_are_shown_with_their_modules() -> None:
    def local() -> type:
        @dataclasses.dataclass(frozen=True)
        class Key:
            a: int

        return Key

    here, there = local(), local()
    there.__module__ = "elsewhere"
    match = r"type elsewhere\..*Key\(number\), and those in the checkpoint of type .*test_key_types\..*Key\(number\)"
    with pytest.raises(CheckpointMismatchError, match=match):
        KeyTypes("Step", types_of([here(1)])).check([there(1)])


class Color(enum.Enum):
    RED = 1


def test_types_are_described_in_words() -> None:
    moment = dt.datetime(2020, 1, 1)
    keys = {
        "None": None,
        "number": 1.5,
        "str": "a",
        "bytes": b"a",
        "datetime": moment,
        "datetime with a time zone": moment.replace(tzinfo=dt.UTC),
        "date": moment.date(),
        "time": moment.time(),
        "timedelta": dt.timedelta(1),
        "UUID": uuid.UUID(int=1),
        "Color": Color.RED,
        "GlobalWindow": GlobalWindow(),
        "(number, number)": IntervalWindow(0, 1),
        "empty frozenset": frozenset(),
        "frozenset of number or str": frozenset({1, "a"}),
        "Data((str), None)": Data(("a",), None),
        "Row(a=number, b=str)": beam.Row(a=1, b="x"),
    }
    assert list(keys) == [described([type_of(key)]) for key in keys.values()]


class Name:
    def __init__(self, name: str) -> None:
        self.name = name


class NameCoder(StrUtf8Coder):
    def encode(self, value: Any) -> bytes:
        return str(value.name).encode()


class OtherCoder(NameCoder):
    pass


def test_the_coder_of_a_part_belongs_to_the_type() -> None:
    """Its bytes are others with another coder, and so are those of the whole key."""
    before = registry.registered()
    try:
        registry.register_coder(Name, NameCoder)
        then = types_of([coded(("k", Name("a")))])
        registry.register_coder(Name, OtherCoder)
        match = r"type \(str, Name \(by OtherCoder\)\), and those in the checkpoint of type \(str, Name \(by NameCoder"
        with pytest.raises(CheckpointMismatchError, match=match):
            KeyTypes("Step", then).check([coded(("k", Name("a")))])
    finally:
        registry.register_all(before)
