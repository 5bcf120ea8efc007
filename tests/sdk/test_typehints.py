"""Type hints: what fits what, and what annotations and decorators say."""

# ruff: noqa: UP006, UP007, UP035, UP045 (users write all of these)

import collections
import enum
import functools
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Dict, Generic, List, Literal, NamedTuple, NewType, Optional, Tuple, TypeVar, Union

import numpy as np
import pytest

import penstock as beam
from penstock.sdk.elements.row import Row
from penstock.sdk.errors import TypeHintError
from penstock.typehints import (
    describe,
    element_of,
    hints_of_callable,
    infer_type,
    is_compatible,
    is_definitely_not_pair,
    key_type,
    value_type,
)
from penstock.windowing import TimestampedValue

T = TypeVar("T")
UserId = NewType("UserId", int)
NoneType = type(None)


class Animal:
    pass


class Dog(Animal):
    pass


class Box(typing.Generic[T]):
    pass


class Player(NamedTuple):
    name: str
    score: int


class Movie(typing.TypedDict):
    name: str


class Sized(typing.Protocol):
    def size(self) -> int: ...


class Color(enum.Enum):
    RED = 1


FITTING = [
    (int, Any),
    (Any, int),
    (object, int),
    (int, object),
    (int, int),
    (bool, int),
    (int, float),
    (bool, complex),
    (float, complex),
    (np.int64, int),
    (np.float32, float),
    (Dog, Animal),
    (None, NoneType),
    (None, Optional[int]),
    (int, Optional[int]),
    (int, int | str),
    (int | str, str | int | None),
    (bool | int, float),
    (tuple[str, int], Tuple[str, int]),
    (tuple[str, int], tuple[str, float]),
    (tuple[str, int], tuple),
    (tuple, tuple[str, int]),
    (tuple[str, int], tuple[str, Any]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int, ...], tuple[int, int]),
    (tuple[int, ...], tuple[float, ...]),
    (tuple[()], tuple[()]),
    (tuple[int, str], Iterable[int | str]),
    (tuple[int, int], Sequence[int]),
    (Player, tuple[str, int]),
    (Player, tuple[str, int]),
    (list[int], List[int]),
    (list[bool], Sequence[int]),
    (list[int], Iterable[float]),
    (list[int], list),
    (set[int], typing.AbstractSet[int]),
    (frozenset[int], typing.Collection[int]),
    (collections.deque[int], Iterable[int]),
    (Generator[int, None, None], Iterator[int]),
    (Generator[int, None, None], Iterable[int]),
    (dict[str, int], Mapping[str, float]),
    (dict[str, int], Dict[str, int]),
    (dict[str, int], Iterable[str]),
    (collections.Counter, Mapping[str, int]),
    (str, Iterable[str]),
    (str, Sequence[str]),
    (Literal["a"], str),
    (Literal["a"], Literal["a", "b"]),
    (str, Literal["a"]),
    (UserId, int),
    (int, UserId),
    (Annotated[int, "x"], int),
    (T, int),
    (int, T),
    ("Unresolved", int),
    (list["Unresolved"], list[int]),  # noqa: F821
    (Box[int], Box[str]),
    (Box, Box[int]),
    (type[Dog], type[Animal]),
    (Callable[[int], str], Callable[[str], int]),
    (Callable[[int], str], Callable),
    (Movie, dict[str, str]),
    (dict[str, str], Movie),
    (Row, Player),
    (Dog, Sized),
    (TimestampedValue, int),
    (Color, enum.Enum),
    (5, int),
    (int, [1, 2]),
]

UNFIT = [
    (int, str),
    (float, int),
    (str, bytes),
    (Animal, Dog),
    (None, int),
    (Optional[int], int),
    (int | str, int),
    (int, str | bytes),
    (tuple[str, int], tuple[str, str]),
    (tuple[str, int], tuple[str]),
    (tuple[str, str], tuple[int, ...]),
    (tuple[str, ...], tuple[int, int]),
    (tuple[int, str], Iterable[int]),
    (tuple[int, int], list[int]),
    (tuple[str, tuple[int, str]], tuple[str, tuple[int, int]]),
    (Player, tuple[str, str]),
    (list[int], list[str]),
    (Iterable[int], list[int]),
    (set[int], Sequence[int]),
    (dict[str, int], Mapping[str, str]),
    (dict[str, int], Iterable[int]),
    (str, Iterable[int]),
    (int, Iterable[int]),
    (int, Callable[[int], int]),
    (Literal[1], str),
    (UserId, str),
    (int, tuple[str, int]),
    (Box[int], Animal),
    (list[int], Movie),
    (np.float64, int),
]


@pytest.mark.parametrize(("produced", "accepted"), FITTING, ids=repr)
def test_what_fits(produced, accepted):
    assert is_compatible(produced, accepted)


@pytest.mark.parametrize(("produced", "accepted"), UNFIT, ids=repr)
def test_what_does_not_fit(produced, accepted):
    assert not is_compatible(produced, accepted)


@pytest.mark.parametrize(
    ("hint", "element"),
    [
        (list[int], int),
        (Iterable[tuple[str, int]], tuple[str, int]),
        (Iterator[int], int),
        (Generator[int, None, str], int),
        (Optional[list[int]], int),
        (list[int] | set[str], int | str),
        (dict[str, int], str),
        (tuple[int, str], Union[int, str]),
        (tuple[int, ...], int),
        (str, str),
        (Iterable, Any),
        (list, Any),
        (None, Any),
        (int, Any),
        (Any, Any),
        (Iterable[T], Any),
        (Iterable[TimestampedValue], Any),
    ],
    ids=repr,
)
def test_the_elements_of(hint, element):
    assert element == element_of(hint)


@pytest.mark.parametrize(
    ("hint", "key", "value"),
    [
        (tuple[str, int], str, int),
        (tuple[str, Iterable[int]], str, Iterable[int]),
        (Player, str, int),
        (tuple[str, ...], str, str),
        (tuple[str, int] | tuple[int, int], Union[str, int], int),
        (tuple[str, int, int], Any, Any),
        (tuple, Any, Any),
        (int, Any, Any),
        (Any, Any, Any),
    ],
    ids=repr,
)
def test_key_and_value_of(hint, key, value):
    assert (key, value) == (key_type(hint), value_type(hint))


@pytest.mark.parametrize(
    "hint", [int, str, None, tuple[int], tuple[int, int, int], tuple[()], dict[str, int], int | str]
)
def test_no_pair(hint):
    assert is_definitely_not_pair(hint)


@pytest.mark.parametrize(
    "hint", [Any, tuple, tuple[int, int], tuple[int, ...], Player, list[int], int | tuple[int, int], T, Dog, Row]
)
def test_perhaps_a_pair(hint):
    assert not is_definitely_not_pair(hint)


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ([], Any),
        ([1, 2], int),
        ([None], NoneType),
        ([1, None], Optional[int]),
        ([1, "a"], Union[int, str]),
        ([1, "a", 1.5, b"", None], Any),
        ([("a", 1), ("b", 2)], tuple[str, int]),
        ([("a", 1), ("b", None)], tuple[str, Optional[int]]),
        ([("a", 1), ("b",)], tuple),
        ([()], tuple[()]),
        ([("a", [1]), ("b", [2])], tuple[str, list[int]]),
        ([("a", [(1, 2)])], tuple[str, list[tuple]]),
        ([[1], ["a"], []], list[Union[int, str]]),
        ([[]], list),
        ([{"a": 1}], dict[str, int]),
        ([{}], dict),
        ([{1}], set[int]),
        ([Player("a", 1)], Player),
        ([Dog(), Dog()], Dog),
        ([1] * 100 + ["a"], int),
    ],
    ids=lambda case: repr(case)[:40],
)
def test_the_type_of_values(values, hint):
    assert hint == infer_type(values)
    assert is_compatible(infer_type(values[:50]), hint)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (Optional[int], "int | None"),
        (Tuple[str, List[int]], "tuple[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (tuple[()], "tuple[()]"),
        (Dog, "Dog"),
        (Iterable[Dog], "Iterable[Dog]"),
        (Callable[[int, str], bool], "Callable[[int, str], bool]"),
        (T, "T"),
        (UserId, "UserId"),
        (Literal["a", 1], "Literal['a', 1]"),
        (List, "list"),
        ("Forward", "Forward"),
        (Box[int], "Box[int]"),
    ],
    ids=repr,
)
def test_a_hint_as_text(hint, text):
    assert text == describe(hint)


def annotated(a: int, b: "Dog", c: "Unresolved", d, *rest: str, e: int = 0) -> "list[int]": ...  # noqa: F821


def bare(a, b=1): ...


def nothing(a: int) -> None: ...


class Adder:
    def __init__(self, n: int):
        self.n = n

    def __call__(self, other: float) -> float: ...

    def method(self, a: str) -> bytes: ...

    @classmethod
    def of(cls, a: str) -> "Adder": ...

    @staticmethod
    def static(a: str) -> bool: ...


@functools.wraps(annotated)
def wrapped(*args): ...


LIST_OF_INT = list[int]


@pytest.mark.parametrize(
    ("fn", "inputs", "output"),
    [
        (annotated, (int, Dog, Any, Any), LIST_OF_INT),
        (wrapped, (int, Dog, Any, Any), LIST_OF_INT),
        (bare, None, None),
        (lambda x: x, None, None),
        (nothing, (int,), NoneType),
        (len, None, None),
        (print, None, None),
        (str.upper, (str,), None),
        (int, None, int),
        (dict.fromkeys, None, None),
        (Adder, (int,), Adder),
        (Adder(1), (float,), float),
        (Adder(1).method, (str,), bytes),
        (Adder.of, (str,), Adder),
        (Adder.static, (str,), bool),
        (functools.partial(annotated, 1), (Dog, Any, Any), LIST_OF_INT),
        (functools.partial(Adder(1).method), (str,), bytes),
        (functools.partial(Adder(1)), (float,), float),
        (5, None, None),
    ],
)
def test_what_a_callable_is_annotated_with(fn, inputs, output):
    assert (inputs, output) == hints_of_callable(fn)


def test_the_self_of_an_unbound_method_is_skipped():
    assert ((str,), bytes) == hints_of_callable(Adder.method, skip_self=True)


def test_names_of_the_enclosing_function_are_resolved():
    class Local: ...

    def fn(a: "Local") -> "list[Local]":
        return [Local()]

    assert ((Local,), list[Local]) == hints_of_callable(fn)


class _Boxed(beam.DoFn[T, list[T]], Generic[T]):
    def process(self, element):
        yield [element]


class _BoxedInts(_Boxed[int]):
    pass


class _Lengths(beam.PTransform[beam.PCollection[str], beam.PCollection[int]]):
    def expand(self, pcoll):
        return pcoll | beam.Map(lambda x: len(x))


class _Texts(beam.PTransform[beam.PCollection[int], beam.PCollection[str]]):
    def expand(self, pcoll: beam.PCollection[float]):
        return pcoll | beam.Map(str)


@pytest.mark.parametrize(
    ("transform", "elements", "hint"),
    [
        (beam.ParDo(_BoxedInts()), [1], list[int]),
        (_Lengths(), ["a"], int),
        (_Texts(), [1.5], str),
    ],
)
def test_the_parameters_of_a_class_are_the_types_of_its_elements(transform, elements, hint) -> None:
    """Those of a base class included; an annotation counts before them."""
    p = beam.Pipeline()
    assert hint == (p | beam.Create(elements) | transform).hint


@pytest.mark.parametrize("transform", [beam.ParDo(_BoxedInts()), _Texts()])
def test_elements_of_another_type_than_the_parameters_of_a_class_are_an_error(transform) -> None:
    """While the pipeline is built."""
    p = beam.Pipeline()
    with pytest.raises(TypeHintError, match="requires|expected"):
        _ = p | beam.Create(["a"]) | transform


def test_open_parameters_of_a_class_declare_nothing() -> None:
    """A generic DoFn takes elements of any type."""
    p = beam.Pipeline()
    boxed = p | beam.Create(["a"]) | beam.ParDo(_Boxed())
    assert list[Any] == boxed.hint
