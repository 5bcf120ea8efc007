"""Type hints: what fits what, and what annotations and decorators say."""

# ruff: noqa: UP006, UP007, UP035, UP045 (users write all of these)

import collections
import enum
import functools
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Dict, List, Literal, NamedTuple, NewType, Optional, Tuple, TypeVar, Union

import numpy as np
import pytest

import penstock as beam
from penstock.sdk import typehints
from penstock.sdk.dofn.dofn import (
    DoFn,
    ExpressionDoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapDoFn,
    MapTupleDoFn,
    TimestampDoFn,
)
from penstock.sdk.dofn.hints import hints_of_dofn
from penstock.sdk.elements.element_wrappers import TaggedOutput
from penstock.sdk.elements.row import Row
from penstock.sdk.errors import TypeHintError
from penstock.sdk.typehints import (
    KV,
    declared_hints,
    declared_inputs,
    describe,
    element_of,
    hints_of_callable,
    infer_type,
    is_compatible,
    is_definitely_not_pair,
    key_type,
    value_type,
    with_input_types,
    with_output_types,
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
    (tuple[str, int], KV[str, Any]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int, ...], tuple[int, int]),
    (tuple[int, ...], tuple[float, ...]),
    (tuple[()], tuple[()]),
    (tuple[int, str], Iterable[int | str]),
    (tuple[int, int], Sequence[int]),
    (Player, tuple[str, int]),
    (Player, KV[str, int]),
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
        (KV[str, Iterable[int]], str, Iterable[int]),
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


def split(line: str) -> list[str]: ...


class Splitting(DoFn):
    def process(self, element: str, suffix: bytes = b"") -> Iterator[int]: ...


class MarkedFirst(DoFn):
    def process(self, at: float = DoFn.TimestampParam, element: str = DoFn.ElementParam): ...


class Tagging(DoFn):
    def process(self, element) -> Iterable[Union[int, TaggedOutput]]: ...


class Plain(DoFn):
    def process(self, element): ...


@with_input_types(bytes)
@with_output_types(float)
class Declared(DoFn):
    def process(self, element: str) -> Iterator[int]: ...


class Inheriting(Declared):
    pass


@with_output_types(int)
class Redeclared(Declared):
    pass


@with_input_types(str)
@with_output_types(Iterable[int])
def declared(line): ...


@pytest.mark.parametrize(
    ("dofn", "hints"),
    [
        (MapDoFn(split), (str, list[str])),
        (FlatMapDoFn(split), (str, str)),
        (FilterDoFn(split), (str, None)),
        (TimestampDoFn(split), (str, None)),
        (MapTupleDoFn(split), (None, list[str])),
        (FlatMapTupleDoFn(split), (None, str)),
        (MapDoFn(declared), (str, Iterable[int])),
        (FlatMapDoFn(declared), (str, int)),
        (MapDoFn(str.upper), (str, None)),
        (MapDoFn(len), (None, None)),
        (MapDoFn(nothing), (int, NoneType)),
        (MapDoFn(Adder), (int, Adder)),
        (ExpressionDoFn("v", "E"), (None, None)),
        (Splitting(), (str, int)),
        (MarkedFirst(), (str, None)),
        (Tagging(), (None, int)),
        (Plain(), (None, None)),
        (Declared(), (bytes, float)),
        (Inheriting(), (bytes, float)),
        (Redeclared(), (bytes, int)),
    ],
    ids=lambda case: type(case).__name__,
)
def test_what_a_dofn_takes_and_produces(dofn, hints):
    assert hints == hints_of_dofn(dofn)


def test_what_a_wrapper_of_values_wraps_isnt_known():
    def stamp(a: int) -> TimestampedValue: ...

    assert (int, Any) == hints_of_dofn(MapDoFn(stamp))


def test_a_declaration_by_name_finds_the_position():
    @with_input_types(str, c=int)
    def fn(a, b, c, d): ...

    assert (str, Any, int) == declared_inputs(fn)

    @with_input_types(element=int)
    class Some(DoFn):
        def process(self, element): ...

    assert (int, None) == declared_hints(Some())


def test_a_declaration_of_an_unknown_name_is_refused():
    @with_input_types(z=int)
    def fn(a, b): ...

    with pytest.raises(TypeHintError, match="Map\\(fn\\): its type hints don't fit .* unexpected keyword argument 'z'"):
        [1] | beam.Map(fn, 2)


def test_what_cant_carry_a_declaration_says_so():
    with pytest.raises(TypeHintError) as error:
        with_output_types(int)(len)
    assert (
        "<built-in function len> can't carry type hints; "
        "use .with_input_types() and .with_output_types() of the transform"
    ) == str(error.value)


def test_beams_names_for_types_are_there():
    assert typehints.KV[str, int] == typehints.Tuple[str, int]
    assert [] == [name for name in typehints.__all__ if not hasattr(typehints, name)]
    assert is_compatible(typehints.Dict[str, typehints.List[int]], typehints.Mapping[str, typehints.Iterable[int]])


class Repeat:
    """Functions with types for an element and an argument."""

    @staticmethod
    def annotated(text: str, times: int) -> str:
        return text * times

    @staticmethod
    @with_input_types(str, int)
    def declared(text, times):
        return text * times

    @staticmethod
    @with_input_types(str, times=int)
    def by_name(text, times):
        return text * times


@pytest.mark.parametrize("fn", [Repeat.annotated, Repeat.declared, Repeat.by_name])
def test_arguments_are_checked_against_the_types_of_the_function(fn):
    assert ["aa"] == ["a"] | beam.Map(fn, 2)
    assert ["aa"] == ["a"] | beam.Map(fn, times=2)
    with pytest.raises(TypeHintError, match="requires <class 'int'> but got <class 'str'> for times"):
        ["a"] | beam.Map(fn, "z")


def test_side_inputs_are_checked_against_the_types_of_the_function():
    def joined(glue: str, items: Iterable[str]) -> str:
        return glue.join(items)

    p = beam.Pipeline()
    numbers = p | beam.Create([1])
    with pytest.raises(TypeHintError, match="requires Iterable.*str.* but got List.*int.* for items"):
        p | "Glue" >> beam.Create(["-"]) | beam.Map(joined, beam.pvalue.AsIter(numbers))
    with pytest.raises(TypeHintError, match="requires <class 'str'> but got <class 'int'> for item"):
        (
            p
            | "Other" >> beam.Create(["-"])
            | beam.Map(lambda glue, item: glue, beam.pvalue.AsSingleton(numbers)).with_input_types(str, str)
        )


def test_all_arguments_are_checked_together():
    @with_input_types(str, int)
    def repeat(text, *times):
        return text * times[0]

    with pytest.raises(
        TypeHintError, match=r"requires Tuple\[<class 'int'>, ...\] but got Tuple\[<class 'str'>, ...\]"
    ):
        ["a"] | beam.Map(repeat, "z")
    with pytest.raises(TypeHintError, match="the arguments don't fit its typed function: missing a required argument"):
        ["a"] | beam.Map(Repeat.declared)


def test_the_elements_of_a_list_have_a_type():
    with pytest.raises(TypeHintError, match="Type hint violation"):
        [1, 2] | beam.Map(str.upper)


@pytest.mark.parametrize("result", [int, str, int | None])
def test_a_function_of_several_outputs_returns_an_iterable(result):
    def fn(element):
        return element

    fn.__annotations__["return"] = result
    with pytest.raises(TypeHintError, match="is not iterable") as raised:
        [1] | beam.FlatMap(fn)
    assert isinstance(raised.value, ValueError)


def test_the_types_of_a_decorated_function_are_those_of_its_transform():
    @beam.ptransform_fn
    @with_input_types(int)
    def before(pcoll):
        return pcoll | beam.Map(lambda x: x)

    @with_input_types(int)
    @beam.ptransform_fn
    def behind(pcoll):
        return pcoll | beam.Map(lambda x: x)

    for transform in before, behind:
        assert [1] == [1] | transform()
        with pytest.raises(TypeHintError, match="expected <class 'int'>, got <class 'str'>"):
            ["a"] | transform()


def test_each_of_several_inputs_has_a_type_by_position_or_by_name():
    @beam.ptransform_fn
    @with_input_types(str, int)
    def by_position(pcolls):
        return pcolls[0]

    @beam.ptransform_fn
    @with_input_types(words=str, numbers=int)
    def by_name(pcolls):
        return pcolls["words"]

    p = beam.Pipeline()
    words, numbers = p | "words" >> beam.Create(["a"]), p | "numbers" >> beam.Create([1])
    (words, numbers) | "right" >> by_position()
    {"words": words, "numbers": numbers} | "named" >> by_name()
    for given, transform in (((numbers, words), by_position()), ({"words": numbers, "numbers": words}, by_name())):
        with pytest.raises(TypeHintError, match="expected <class 'str'>, got <class 'int'>"):
            given | "wrong" >> transform


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (beam.combiners.Count.Globally(), int),
        (beam.combiners.Count.PerElement(), Tuple[int, int]),
        (beam.combiners.Mean.Globally(), float),
        (beam.combiners.Top.Largest(2), list[int]),
        (beam.combiners.ToList(), list[int]),
        (beam.combiners.ToSet(), set[int]),
        (beam.combiners.Sample.FixedSizeGlobally(1), list[int]),
        (beam.CombineGlobally(max), Any),
    ],
)
def test_results_of_combiners_have_types(combine, expected):
    assert expected == (beam.Pipeline() | beam.Create([1, 2]) | combine).element_type


def test_results_by_key_have_types():
    p = beam.Pipeline()
    pairs = p | beam.Create([("a", 1)])
    assert Tuple[str, float] == (pairs | beam.combiners.Mean.PerKey()).element_type
    assert dict[str, int] == (pairs | beam.combiners.ToDict()).element_type


def test_a_combiner_with_another_result_doesnt_inherit_its_type():
    class Joined(beam.combiners.ToListCombineFn):
        def extract_output(self, accumulator):
            return ",".join(accumulator)

    assert Any is (beam.Pipeline() | beam.Create(["a"]) | beam.CombineGlobally(Joined())).element_type
