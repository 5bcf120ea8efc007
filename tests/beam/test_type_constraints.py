"""Beam's type constraints: subscripts, checks of values, consistency, type variables, and conversion to `typing`."""

# ruff: noqa: UP006, UP007, UP045 (users write all of these)

import collections.abc
import pickle
import re
import subprocess
import sys
import typing

import pytest

import penstock as beam
from penstock import typehints
from penstock.beam.typehints import native_types
from penstock.beam.typehints.constraints import (
    CompositeTypeHintError,
    ListConstraint,
    SimpleTypeHintError,
    TupleConstraint,
    TupleSequenceConstraint,
    TypeConstraint,
    bind_type_variables,
    check_constraint,
    match_type_variables,
    visit_inner_types,
)
from penstock.beam.typehints.row_type import RowTypeConstraint
from penstock.beam.typehints.subscripts import (
    coerce_to_kv_type,
    get_concrete_type_from_nullable,
    get_yielded_type,
    is_consistent_with,
    is_nullable,
    key_value_types,
    normalize,
)
from penstock.sdk.typehints.compatibility import is_compatible
from penstock.sdk.typehints.schema import with_schema
from penstock.typehints import (
    KV,
    Any,
    Collection,
    Dict,
    FrozenSet,
    Generator,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeCheckError,
    TypeVariable,
    Union,
    WindowedValue,
)

A, B = TypeVariable("A"), TypeVariable("B")

SHOWN = [
    (List[int], "List[<class 'int'>]"),
    (List[List[Any]], "List[List[Any]]"),
    (List[list], "List[List[Any]]"),
    (List[typing.List[int]], "List[List[<class 'int'>]]"),
    (List[None], "List[None]"),
    (Tuple[int, str], "Tuple[<class 'int'>, <class 'str'>]"),
    (Tuple[int, ...], "Tuple[<class 'int'>, ...]"),
    (Tuple[()], "Tuple[]"),
    (KV[int, A], "Tuple[<class 'int'>, TypeVariable[A]]"),
    (Dict[str, Any], "Dict[<class 'str'>, Any]"),
    (Union[str, int], "Union[<class 'int'>, <class 'str'>]"),
    (Union[int, Union[str, None]], "Union[<class 'int'>, <class 'str'>, None]"),
    (Optional[Optional[int]], "Union[<class 'NoneType'>, <class 'int'>]"),
    (Union[int, Any], "Any"),
    (Union[int, int], "<class 'int'>"),
    (Generator[int, None, str], "Iterator[<class 'int'>]"),
    (WindowedValue[int], "WindowedValue[<class 'int'>]"),
    (Mapping[int, str], "Mapping[<class 'int'>, <class 'str'>]"),
    (List, "List"),
]


@pytest.mark.parametrize(("constraint", "text"), SHOWN)
def test_a_constraint_shows_its_types(constraint, text):
    assert text == repr(constraint)


@pytest.mark.parametrize("constraint", [constraint for constraint, _ in SHOWN])
def test_a_constraint_can_be_pickled(constraint):
    assert constraint == pickle.loads(pickle.dumps(constraint))


def test_constraints_of_the_same_types_are_equal():
    assert List[int] == List[int] != Set[int]
    assert Union[int, str] == Union[str, int]
    assert 3 == len({List[int], List[int], List[str], Tuple[int], Tuple[int]})
    assert KV[int, str] == Tuple[int, str] != Tuple[int, ...]
    assert TypeVariable("A") == A != B


@pytest.mark.parametrize(
    "make",
    [
        lambda: List[int, str],
        lambda: List["int"],
        lambda: List[5],
        lambda: List[[int]],
        lambda: List[List],
        lambda: Dict[int],
        lambda: KV[int, str, str],
        lambda: Tuple[..., int],
        lambda: Tuple[int, ..., str],
        lambda: Union[int],
        lambda: Optional[int, str],
        lambda: Iterator[int, str],
    ],
)
def test_wrong_type_parameters_are_refused(make):
    with pytest.raises(TypeError, match="must be|takes"):
        make()


FITTING = [
    (List[int], [1, 2]),
    (List[Any], [1, "a"]),
    (Tuple[int, str], (1, "a")),
    (Tuple[int, ...], ()),
    (Dict[int, str], {1: "a"}),
    (Union[int, str], "a"),
    (Optional[int], None),
    (Union[int, None], None),
    (Set[int], {1}),
    (FrozenSet[int], frozenset([1])),
    (Iterable[str], "ab"),
    (Iterable[int], iter(["not looked at"])),
    (Iterator[int], 5),
    (Sequence[int], (1, 2)),
    (Mapping[int, str], {1: "a"}),
    (Collection[int], {1}),
    (A, 5),
    (Any, None),
]


@pytest.mark.parametrize(("constraint", "value"), FITTING)
def test_a_fitting_value_is_accepted(constraint, value):
    assert constraint.type_check(value) is None


@pytest.mark.parametrize(
    ("constraint", "value", "reason"),
    [
        (List[int], 1, "List[<class 'int'>]: expected a list, got 1 of type int"),
        (List[int], [1, "a"], "List[<class 'int'>]: element 1 is 'a', expected <class 'int'>"),
        (
            List[List[int]],
            [1],
            "List[List[<class 'int'>]]: element 0: List[<class 'int'>]: expected a list, got 1 of type int",
        ),
        (Tuple[int], (1, 2), "Tuple[<class 'int'>]: expected 1 items, got (1, 2) of type tuple"),
        (Tuple[int, str], (1, 2), "Tuple[<class 'int'>, <class 'str'>]: item 1 is 2, expected <class 'str'>"),
        (Tuple[int, ...], (1, "a"), "Tuple[<class 'int'>, ...]: element 1 is 'a', expected <class 'int'>"),
        (Dict[int, str], {"a": "a"}, "Dict[<class 'int'>, <class 'str'>]: a key is 'a', expected <class 'int'>"),
        (Dict[int, str], {1: 2}, "Dict[<class 'int'>, <class 'str'>]: the value of 1 is 2, expected <class 'str'>"),
        (Union[int, str], 1.5, "Union[<class 'int'>, <class 'str'>]: got 1.5 of type float"),
        (Set[int], [1], "Set[<class 'int'>]: expected a set, got [1] of type list"),
        (Iterable[int], "a", "Iterable[<class 'int'>]: element 0 is 'a', expected <class 'int'>"),
        (Iterator[int], "a", "Iterator[<class 'int'>]: a yielded value is 'a', expected <class 'int'>"),
        (Sequence[int], {1}, "Sequence[<class 'int'>]: expected a Sequence, got {1} of type set"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error(constraint, value, reason):
    with pytest.raises(CompositeTypeHintError) as error:
        constraint.type_check(value)
    assert reason == str(error.value)


def test_a_value_of_another_class_is_a_simple_error():
    check_constraint(int, True)
    for hint, value in ((int, 5.0), (float, 5), (None, 5)):
        with pytest.raises(SimpleTypeHintError):
            check_constraint(hint, value)


@pytest.mark.parametrize(
    ("sub", "base", "expected"),
    [
        (int, float, True),
        (bool, int, True),
        (float, int, False),
        (list, List[int], True),
        (List[int], List[float], True),
        (List[int], Iterable[float], True),
        (List[int], Sequence[int], True),
        (Set[int], Collection[int], True),
        (FrozenSet[int], Set[int], False),
        (Tuple[int, str], Iterable[int], False),
        (Tuple[int, int], Tuple[int, ...], True),
        (Tuple[int, ...], Tuple[int, int], False),
        (Tuple[int], Tuple[int, int], False),
        (Tuple[int, str], KV[Any, Any], True),
        (int, Optional[int], True),
        (None, Optional[int], True),
        (Optional[int], int, False),
        (Union[int, str], Union[None, str, int], True),
        (Union[int, str], object, True),
        (Any, int, True),
        (object, int, False),
        (Dict[int, str], dict, True),
        (Dict[int, str], Mapping[int, Any], True),
        (Dict[int, str], Iterable[int], False),
        (str, Iterable[str], False),
        (A, int, True),
        (5, 6, False),
        (typing.List[int], list[int], True),
    ],
)
def test_types_are_consistent_as_in_beam(sub, base, expected):
    assert expected == is_consistent_with(sub, base)


@pytest.mark.parametrize(
    ("constraint", "concrete", "expected"),
    [
        (A, int, {A: int}),
        (Tuple[A, B], Tuple[int, str], {A: int, B: str}),
        (List[A], List[Tuple[int, str]], {A: Tuple[int, str]}),
        (Iterable[A], List[int], {A: int}),
        (Iterable[A], Tuple[int, str], {A: Union[int, str]}),
        (List[A], int, {}),
        (Tuple[A, B], Tuple[int], {}),
        (int, int, {}),
    ],
)
def test_type_variables_are_matched_and_bound(constraint, concrete, expected):
    assert expected == match_type_variables(constraint, concrete)


def test_type_variables_are_replaced():
    assert Dict[int, List[str]] == bind_type_variables(Dict[A, List[B]], {A: int, B: str})
    assert Union[int, str] == bind_type_variables(Union[A, str], {A: int})
    assert List[A] == bind_type_variables(List[A], {B: int})


@pytest.mark.parametrize(
    ("hint", "constraint", "back"),
    [
        (typing.List[int], List[int], list[int]),
        (typing.Tuple[int, ...], Tuple[int, ...], tuple[int, ...]),
        (tuple[int, str], Tuple[int, str], tuple[int, str]),
        (typing.Optional[int], Optional[int], typing.Optional[int]),
        (int | str, Union[int, str], typing.Union[int, str]),
        (typing.Dict[int, typing.Set[str]], Dict[int, Set[str]], dict[int, set[str]]),
        (collections.abc.Iterable[int], Iterable[int], collections.abc.Iterable[int]),
        (typing.Generator[int, None, str], Iterator[int], collections.abc.Iterator[int]),
        (typing.DefaultDict[int, str], Dict[int, str], dict[int, str]),
        (typing.Counter[str], Dict[str, int], dict[str, int]),
        (typing.Mapping[int, str], Mapping[int, str], collections.abc.Mapping[int, str]),
        (typing.Any, Any, typing.Any),
        (typing.Callable[[int], str], Any, typing.Any),
        ("Name", Any, typing.Any),
        (int, int, int),
        (None, None, None),
    ],
)
def test_hints_of_typing_are_converted_and_back(hint, constraint, back):
    assert constraint == native_types.convert_to_beam_type(hint)
    assert back == native_types.convert_to_python_type(constraint)


def test_bare_containers_are_normalized():
    assert [List[Any], Dict[Any, Any], Tuple[Any, ...], int] == [*map(normalize, (list, dict, tuple, int))]
    assert type(None) is normalize(None, none_as_type=True)


def test_parts_of_constraints_are_attributes():
    assert (int, (int, str), int, str) == (
        List[int].inner_type,
        Tuple[int, str].tuple_types,
        Dict[int, str].key_type,
        Dict[int, str].value_type,
    )
    assert [int, str] == Union[str, int].union_types
    assert int is Iterator[int].yielded_type
    assert isinstance(List[int], ListConstraint)
    assert isinstance(Any, TypeConstraint)
    assert isinstance(Tuple[int, ...], TupleSequenceConstraint)


def test_questions_about_types_are_answered():
    assert is_nullable(Optional[int])
    assert not is_nullable(int)
    assert int is get_concrete_type_from_nullable(Optional[int])
    assert Union[int, str] == get_yielded_type(Tuple[int, str])
    with pytest.raises(ValueError):
        get_yielded_type(str)
    assert KV[Union[int, float], str] == coerce_to_kv_type(Union[KV[int, str], KV[float, str]])
    with pytest.raises(ValueError):
        coerce_to_kv_type(Tuple[int, str, str], "Group")
    assert (int, str) == key_value_types(KV[int, str])
    seen = []
    visit_inner_types(List[Tuple[int, A]], lambda hint, into: into.append(hint), seen)
    assert [List[Tuple[int, A]], Tuple[int, A], int, A] == seen


def test_constraints_are_hints_of_transforms_and_functions():
    def lengths(word: str) -> KV[str, int]:
        return word, len(word)

    with beam.Pipeline() as p:
        pairs = p | beam.Create(["a"]) | beam.Map(lengths)
        assert tuple[str, int] == pairs.element_type
        declared = pairs | beam.Map(lambda pair: [pair]).with_output_types(List[KV[str, int]])
        assert list[tuple[str, int]] == declared.element_type
        _ = pairs | beam.GroupByKey()
        with pytest.raises(TypeCheckError):
            _ = declared | "wrong" >> beam.Map(str).with_input_types(Dict[str, int])


def test_a_constraint_equals_the_same_hint_of_typing():
    """Programs compare a PCollection's type with either."""
    assert Tuple[str, int] == tuple[str, int] == KV[str, int]
    assert List[Tuple[int, str]] == typing.List[typing.Tuple[int, str]]
    assert Tuple[str, int] != tuple[str, str]
    assert Tuple[str, Iterable[int]] == beam.GroupByKey().infer_output_type(KV[str, int])


def test_the_type_of_a_pcollection_is_a_constraint():
    """Composites such as Beam's OrderedWindowElements choose by its class; `hint` is the hint of `typing`."""
    p = beam.Pipeline()
    pairs = p | "pairs" >> beam.Create([("a", 1)])
    rows = p | "rows" >> beam.Create([beam.Row(a=1, b="x")])
    groups = pairs | beam.GroupByKey()

    assert (TupleConstraint, (str, int)) == (type(pairs.element_type), pairs.element_type.tuple_types)
    assert (tuple[str, int], "Tuple[<class 'str'>, Iterable[<class 'int'>]]") == (pairs.hint, repr(groups.element_type))
    assert isinstance((p | "lists" >> beam.Create([[1]])).element_type, ListConstraint)
    assert str is (p | "strings" >> beam.Create(["a"])).element_type
    assert isinstance(rows.element_type, RowTypeConstraint)
    assert [("a", int), ("b", str)] == list(rows.element_type.fields)


def test_a_type_converted_from_a_hint_keeps_it():
    """Fields may have types of Arrow that Beam has no class for."""
    hint = with_schema(beam.Row, [("at", "timestamp[us]"), ("n", "int8")])
    pcoll = beam.PCollection(beam.Pipeline(), element_type=hint)

    assert hint == pcoll.hint == pickle.loads(pickle.dumps(pcoll.element_type)).to_python_type()
    pcoll.element_type = KV[str, int]
    assert tuple[str, int] == pcoll.hint


def test_a_coder_is_found_for_a_constraint():
    coder = beam.coders.registry.get_coder(KV[str, Iterable[int]])
    assert beam.coders.registry.get_coder(tuple[str, collections.abc.Iterable[int]]) == coder


def test_constraints_are_imported_when_used():
    program = "import sys, penstock; print([m for m in sys.modules if 'beam.typehints' in m])"
    assert "[]\n" == subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout


def test_a_union_matches_type_variables_on_which_its_alternatives_agree():
    a, b = TypeVariable("A"), TypeVariable("B")
    assert {a: str} == Union[a, int].match_type_variables(str)
    assert {} == Union[a, b, int].match_type_variables(str)
    assert {a: int} == Union[Tuple[str, a], Tuple[float, a]].match_type_variables(Tuple[Any, int])


def test_dictionaries_of_a_union_are_one():
    assert Dict[Union[int, str], float] == Union[Dict[int, float], Dict[str, float]]


def test_generic_classes_of_users_stay_as_they_are():
    assert re.Pattern[str] == normalize(re.Pattern[str])
    assert is_consistent_with(re.Pattern[str], re.Pattern)
    assert not is_consistent_with(re.Pattern, re.Pattern[str])


def test_a_constraint_of_any_type_equals_that_of_typing():
    assert Any == typing.Any
    assert Union[int, str] == typing.Union[int, str]


def test_a_mapping_is_an_iterable_of_its_keys():
    assert is_consistent_with(Mapping[str, int], Iterable[str])
    assert not is_consistent_with(Mapping[str, int], Iterable[int])


def test_bare_unions_are_refused():
    with pytest.raises(ValueError, match="needs types"):
        normalize(typing.Union)


def test_beams_names_for_types_are_there():
    assert typehints.KV[str, int] == typehints.Tuple[str, int]
    assert [] == [name for name in typehints.__all__ if not hasattr(typehints, name)]
    assert is_compatible(typehints.Dict[str, typehints.List[int]], typehints.Mapping[str, typehints.Iterable[int]])
