# ruff: noqa: UP006, UP007, UP035, UP031, UP045
"""Result types that are inferred from the code of functions, and their use by pipelines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, Optional, Tuple, Union

import pytest

import penstock as beam
from penstock.sdk.errors import TypeHintError
from penstock.sdk.typehints.results import infer_result
from penstock.typehints import infer_type, with_input_types, with_output_types


class Point(NamedTuple):
    x: int
    name: str


@dataclasses.dataclass
class Order:
    price: float


class Doubler:
    def __call__(self, x):
        return self.twice(x)

    def twice(self, x):
        return 2 * x


def pairs(line):
    for word in line.split():
        yield word, len(word)


def delegating(line):
    yield from line.split()


def parsed(text):
    try:
        return int(text)
    except ValueError:
        return None


def length_of_file(path):
    with open(path) as file:
        return len(file.read())


def counted(words):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def text_of(x):
    if isinstance(x, int):
        return str(x)
    return x


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def endless(x):
    while True:
        x = (x,)


def adding(n):
    return lambda x: x + n


@pytest.mark.parametrize(
    ("fn", "inputs", "result"),
    [
        (lambda x: x, [int], int),
        (lambda x: x.anything, [int], Any),
        (lambda word: (word, 1), [str], tuple[str, int]),
        (lambda pair: pair[0], [tuple[int, str]], int),
        (lambda pair: pair[1:], [tuple[int, str]], tuple[str]),
        (lambda pair: (pair[0], sum(pair[1])), [tuple[str, list[int]]], tuple[str, int]),
        (lambda key, values: (key, len(values)), [str, Any], tuple[str, int]),
        (lambda line: line.strip().lower().split(","), [str], list[str]),
        (lambda line: [(w, 1) for w in line.split()], [str], list[tuple[str, int]]),
        (lambda line: {w: len(w) for w in line.split()}, [str], dict[str, int]),
        (lambda line: [], [str], list),
        (lambda x: {"n": x, "m": 2.0}, [int], dict[str, int | float]),
        (lambda x: f"{x!r:>{10}}", [Any], str),
        (lambda x: "%s" % x, [Any], str),
        (lambda x: "a,b".split(x), [Any], list[str]),
        (lambda x: x if x > 2 else None, [int], Optional[int]),
        (lambda x: x or 3, [Optional[int]], int),
        (lambda x: 0 if x is None else x, [Optional[int]], int),
        (lambda x: x > 2 and not x, [Any], bool),
        (lambda x: -x / 2, [int], float),
        (lambda x: x**2, [int], Any),
        (lambda x: json.loads(x), [str], Any),
        (lambda x: print(x), [int], type(None)),
        (lambda x: sorted(x, key=lambda y: -y), [set[int]], list[int]),
        (lambda x, n=1: n, [int], Any),
        (lambda p: (p.name, p.x), [Point], tuple[str, int]),
        (lambda order: order.price, [Order], float),
        (lambda x: Point(x, "a"), [int], Point),
        (lambda d: d.items(), [dict[str, int]], Iterable[tuple[str, int]]),
        (pairs, [str], Iterable[tuple[str, int]]),
        (delegating, [str], Iterable[str]),
        (parsed, [str], Optional[int]),
        (length_of_file, [str], int),
        (counted, [list[str]], dict),
        (text_of, [Union[int, str]], Any),
        (fibonacci, [int], Any),
        (endless, [int], Any),
        (adding(2.5), [int], float),
        (Doubler(), [int], int),
        (Doubler().twice, [str], str),
        (partial(lambda a, b: (a, b), 3), [str], tuple[int, str]),
        (str.upper, [Any], str),
        ("{}".format, [int], str),
        (len, [str], int),
    ],
)
def test_the_result_type_of_a_function_is_known_from_its_code(fn, inputs, result):
    assert result == infer_result(fn, inputs)


def test_inference_neither_calls_the_function_nor_raises():
    def failing(x):
        raise AssertionError("called")

    class Odd:
        def __getattr__(self, name):
            raise KeyError(name)

    odd = Odd()
    assert Any is infer_result(failing, [int])
    assert Any is infer_result(lambda x: odd.name(x), [int])
    assert Any is infer_result(odd, [int])


class Parse(beam.DoFn):
    def process(self, line, window=beam.DoFn.WindowParam):
        if not line:
            yield beam.pvalue.TaggedOutput("empty", 0)
        yield line, len(line)


class Timed(beam.DoFn):
    def process(self, line):
        yield beam.window.TimestampedValue(line, 0)


class AtTheEnd(beam.DoFn):
    def process(self, line):
        yield 1

    def finish_bundle(self):
        yield beam.utils.windowed_value.WindowedValue("end", 0, [beam.window.GlobalWindow()])


@pytest.mark.parametrize(
    ("transform", "type_of_elements"),
    [
        (beam.Map(lambda x: (x, 1)), tuple[str, int]),
        (beam.FlatMap(lambda x: x.split()), str),
        (beam.Map(lambda x: (x, 1)) | beam.MapTuple(lambda x, n: n), int),
        (beam.Filter(lambda x: x), str),
        (beam.Map(lambda x, n=1: n, "a"), Any),
        (beam.ParDo(Parse()), tuple[str, int]),
        (beam.ParDo(Timed()), Any),
        (beam.ParDo(AtTheEnd()), Any),
    ],
)
def test_the_elements_of_a_transform_without_hints_have_the_inferred_type(transform, type_of_elements):
    assert type_of_elements == (beam.Pipeline() | beam.Create(["a"]) | transform).element_type


def test_a_mismatch_of_inferred_types_is_refused_when_the_pipeline_is_built():
    def double(n: int) -> int:
        return 2 * n

    words = beam.Pipeline() | beam.Create(["a"])
    with pytest.raises(TypeHintError, match="Type hint violation for 'Doubled': requires <class 'int'> but got"):
        _ = words | "Upper" >> beam.Map(lambda word: word.upper()) | "Doubled" >> beam.Map(double)
    with pytest.raises(TypeHintError, match="did you forget WithKeys"):
        _ = words | "Lengths" >> beam.Map(lambda word: len(word)) | beam.GroupByKey()


@pytest.mark.parametrize("hint", [5, [int], (int, str), {"a": int}])
def test_a_value_that_is_no_type_hint_is_refused(hint):
    """As in Beam, where a list of types is no type."""
    with pytest.raises(TypeError, match="must be a non-sequence, a type, or a TypeConstraint"):
        beam.Map(len).with_input_types(hint)
    with pytest.raises(TypeError, match="must be a non-sequence, a type, or a TypeConstraint"):
        beam.ParDo(Parse()).with_output_types(hint)
    with pytest.raises(TypeError, match="must be a non-sequence, a type, or a TypeConstraint"):
        with_input_types(hint)(len)


def test_the_output_of_a_composite_is_of_its_declared_type():
    class Lengths(beam.PTransform):
        def expand(self, words: beam.PCollection[str]) -> beam.PCollection[str]:
            return words | beam.Map(len)

    words = beam.Pipeline() | beam.Create(["a"])
    with pytest.raises(TypeHintError, match="Output type hint violation at Lengths: expected <class 'str'>, got"):
        _ = words | "Lengths" >> Lengths()


def test_types_of_a_combiners_decorators_count():
    @with_input_types(int)
    @with_output_types(float)
    class Average(beam.CombineFn):
        def create_accumulator(self):
            return 0, 0

        def add_input(self, accumulator, element):
            return accumulator[0] + element, accumulator[1] + 1

        def merge_accumulators(self, accumulators):
            totals, counts = zip(*accumulators)
            return sum(totals), sum(counts)

        def extract_output(self, accumulator):
            return accumulator[0] / accumulator[1]

    pairs = beam.Pipeline() | beam.Create([("a", 1)])
    assert Tuple[str, float] == (pairs | beam.CombinePerKey(Average())).hint
    words = beam.Pipeline() | beam.Create(["a"])
    with pytest.raises(TypeHintError, match="expected <class 'int'>, got <class 'str'>"):
        _ = words | beam.CombineGlobally(Average())


def test_a_variable_that_one_branch_assigns_has_its_type():
    def number(flag):
        if flag == 1:
            result = 1
        elif flag == 2:
            result = 1.5
        return result

    assert Union[int, float] == infer_result(number, [int])


def test_an_argument_that_one_branch_assigns_is_unknown():
    def number(flag, other=None):
        if flag:
            other = 1
        return other

    assert Any is infer_result(number, [int])


def test_getattr_of_a_constant_name_is_the_field():
    class Point(NamedTuple):
        x: int

    assert infer_result(lambda point: getattr(point, "x"), [Point]) is int  # noqa: B009 (as users write)


def test_an_empty_tuple_has_no_items():
    assert tuple[()] == infer_type([()])
