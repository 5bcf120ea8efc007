"""Types of functions, DoFns and transforms: from annotations and decorators, and checked against their inputs."""

# ruff: noqa: UP006, UP007, UP035 (users write all of these)

from collections.abc import Iterable, Iterator
from typing import Any, Tuple, Union

import pytest

import penstock as beam
from penstock.sdk.dofn.arrangement import WHOLE, ArrangementDoFn
from penstock.sdk.dofn.dofn import (
    DoFn,
    FilterDoFn,
    FlatMapDoFn,
    FlatMapTupleDoFn,
    MapDoFn,
    MapTupleDoFn,
    TimestampDoFn,
)
from penstock.sdk.dofn.hints import hints_of_dofn
from penstock.sdk.elements.element_wrappers import TaggedOutput
from penstock.sdk.errors import TypeHintError
from penstock.sdk.typehints import (
    declared_hints,
    declared_inputs,
    with_input_types,
    with_output_types,
)
from penstock.windowing import TimestampedValue

NoneType = type(None)


def nothing(a: int) -> None: ...


class Wrapper:
    def __init__(self, a: int) -> None:
        self.a = a


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
        (MapDoFn(Wrapper), (int, Wrapper)),
        (ArrangementDoFn(WHOLE, "E"), (None, None)),
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
    with pytest.raises(TypeHintError, match="requires .*Iterable.*str.* but got (List|list).*int.* for items"):
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

    with pytest.raises(TypeHintError, match=r"requires (T|t)uple\[.*int.*, ...\] but got (T|t)uple\[.*str.*, ...\]"):
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

    assert Any is (beam.Pipeline() | beam.Create(["a"]) | beam.CombineGlobally(Joined())).hint
