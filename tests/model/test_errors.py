"""Errors of user functions, and of data that a transform doesn't accept."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import attrs
import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import InvalidKeyError, NotAPairError, PenstockError, SerializationError, UserCodeError
from penstock.transforms.userstate import BagStateSpec
from penstock.windowing import FixedWindows, TimestampedValue


def failure(pipeline: Any) -> Any:
    """Return the error of running the pipeline."""
    with pytest.raises(Exception) as error:
        pipeline.run()
    return error.value


def line_of(fn: Any, offset: int = 1) -> str:
    """Where the line is that stands so many lines below a function's first one."""
    first = inspect.getsourcelines(fn)[1]
    return f"{inspect.getsourcefile(fn)}:{first + offset}"


# --- A function that fails


def half(n: int) -> float:
    return n / (n - 2)


def test_a_failing_function_is_told_with_transform_element_file_and_line(pipeline: Any) -> None:
    """As an exception of the class that it raised."""
    _ = pipeline | beam.Create([1, 2, 3]) | "halve" >> beam.Map(half)
    error = failure(pipeline)
    expected = f"ZeroDivisionError: division by zero [while running 'halve' on element 2 at {line_of(half)}]"
    assert expected == str(error)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, ZeroDivisionError))
    assert ("halve", "2", line_of(half)) == (error.transform, error.element, error.location)


def test_the_cause_has_the_users_frames_and_no_others(pipeline: Any) -> None:
    """From the function that was given, down to where it failed."""

    def outer(n: int) -> float:
        return half(n)

    _ = pipeline | beam.Create([2]) | "halve" >> beam.Map(outer)
    error = failure(pipeline)
    cause = "".join(traceback.format_exception(error.__cause__))
    frames = re.findall(r'File "(.*)", line \d+, in (\w+)', cause)
    assert [(__file__, "outer"), (__file__, "half")] == frames
    assert cause.rstrip().endswith("ZeroDivisionError: division by zero")
    assert f"at {line_of(outer)}, raised at {line_of(half)}]" in str(error)


class Fussy(beam.DoFn):
    def process(self, element: str, least: int) -> Iterator[str]:
        yield element
        if len(element) < least:
            raise KeyError(element)


def test_the_label_is_the_full_one_of_the_step_that_failed_among_those_fused_with_it(pipeline: Any) -> None:
    """Composites first; before and after a shuffle."""

    class Outer(beam.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | "Inner" >> (beam.Map(str) | beam.ParDo(Fussy(), 2))

    words = pipeline | beam.Create(["aa", "bb", "c"]) | "first" >> beam.Map(lambda x: x)
    shuffled = words | beam.Reshuffle()
    _ = shuffled | "Outer" >> Outer() | "last" >> beam.Map(len)
    error = failure(pipeline)
    assert ("Outer/Inner/ParDo(Fussy)", "'c'") == (error.transform, error.element)
    assert isinstance(error, KeyError)
    assert f"on element 'c' at {line_of(Fussy.process, 3)}" in str(error)


def test_a_large_element_is_shortened(pipeline: Any) -> None:
    """To what fits on a line."""
    large = {"a" * 1000: list(range(1000))}
    _ = pipeline | beam.Create([large]) | "fail" >> beam.Map(lambda x: 1 / 0)
    error = failure(pipeline)
    assert error.element.startswith("{'aaaaaa")
    assert len(error.element) <= 200


class Silent:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_an_element_that_can_not_be_shown_does_not_hide_the_error(pipeline: Any) -> None:
    """Its class is shown."""
    _ = pipeline | beam.Create([1]) | beam.Map(lambda x: Silent()) | "fail" >> beam.Map(lambda x: 1 / 0)
    error = failure(pipeline)
    assert isinstance(error, ZeroDivisionError)
    assert "Silent instance at" in error.element


def test_a_built_in_function_has_no_line(pipeline: Any) -> None:
    """Only the transform and the element."""
    _ = pipeline | beam.Create([7]) | "len of it" >> beam.Map(len)
    error = failure(pipeline)
    assert "TypeError: object of type 'int' has no len() [while running 'len of it' on element 7]" == str(error)
    assert isinstance(error, TypeError)


class Odd(Exception):
    """An exception that needs more than a message."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code


class Sealed(Exception):
    __slots__ = ("x",)


class Enclosing:
    class Nested(ValueError):
        pass


@pytest.mark.parametrize(
    "raised",
    [
        Odd(7, "why"),
        Sealed("x"),
        Enclosing.Nested("n"),
        OSError(2, "gone", "file"),
        UnicodeDecodeError("u", b"a", 0, 1, "r"),
    ],
)
def test_an_exception_of_any_class_is_an_instance_of_it(pipeline: Any, raised: Exception) -> None:
    """With any arguments of that class."""

    def fail(element: Any) -> None:
        raise raised

    _ = pipeline | beam.Create([1]) | "fail" >> beam.Map(fail)
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, type(raised)))
    assert str(error).startswith(f"{type(raised).__name__}: {raised} [while running 'fail' on element 1 at ")


def test_the_end_of_an_iterator_is_not_the_end_of_the_input(pipeline: Any) -> None:
    """`next` of nothing is a mistake like any other; StopIteration would vanish in a generator."""
    _ = pipeline | beam.Create([[1], []]) | "first of" >> beam.Map(lambda xs: next(iter(xs)))
    error = failure(pipeline)
    assert ("first of", "[]") == (error.transform, error.element)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, RuntimeError))
    assert str(error).startswith("StopIteration")


# --- Functions that return what they may not


def test_a_dofn_that_returns_a_string_is_told_so(pipeline: Any) -> None:
    """Its letters are hardly what was meant."""

    class Upper(beam.DoFn):
        def process(self, line: str) -> Any:
            return line.upper()

    _ = pipeline | beam.Create(["a b"]) | "words" >> beam.ParDo(Upper())
    error = failure(pipeline)
    message = (
        "TypeError: Returning a str from a ParDo or FlatMap is not allowed: the function must return an iterable of "
        "outputs, got the str 'A B'; "
        "return a list of it, or use Map [while running 'words' on element 'a b']"
    )
    assert message == str(error)
    assert isinstance(error, TypeError)


def test_a_process_method_that_returns_a_number_is_told_so(pipeline: Any) -> None:
    """The message guesses that Map was meant."""

    class Doubled(beam.DoFn):
        def process(self, element: int) -> Any:
            return 2 * element

    _ = pipeline | beam.Create([1]) | "double" >> beam.ParDo(Doubled())
    assert "FlatMap and ParDo must return an iterable of outputs or None, got 2; did you mean Map?" in str(
        failure(pipeline)
    )


def test_a_bundle_begins_without_outputs(pipeline: Any) -> None:
    """They would be lost."""

    class Begins(beam.DoFn):
        def start_bundle(self) -> Any:
            yield "begin"

        def process(self, element: int) -> Any:
            yield element

    _ = pipeline | beam.Create([1]) | "begin" >> beam.ParDo(Begins())
    error = failure(pipeline)
    assert "start_bundle should not output any elements, but returned <generator" in str(error)
    assert "[while running 'begin'" in str(error)
    assert isinstance(error, RuntimeError)


# --- What can't be grouped


@pytest.mark.parametrize(
    ("element", "found"),
    [(7, "7 (int)"), ("ab", "'ab' (str)"), (("a", 1, 2), "('a', 1, 2) (tuple) of 3 items"), (None, "None (NoneType)")],
    ids=["int", "string of two", "triple", "None"],
)
@pytest.mark.parametrize("transform", [beam.GroupByKey, lambda: beam.CombinePerKey(sum)], ids=["group", "combine"])
def test_what_is_no_pair_can_not_be_grouped(pipeline: Any, transform: Any, element: Any, found: str) -> None:
    """A string of two letters can be unpacked, but isn't a pair."""
    elements = pipeline | beam.Create([("fine", 1), element]) | beam.Map(lambda x: x)
    _ = elements | "by key" >> transform()
    error = failure(pipeline)
    advice = "did you forget WithKeys, or a Map to a pair?"
    assert f"by key: expected a (key, value) pair, got {found}; {advice}" == str(error)
    assert (NotAPairError, "by key") == (type(error), error.transform)


def test_an_unhashable_key_can_not_be_grouped_by(pipeline: Any) -> None:
    """Fused with the step that made it, or not."""
    words = pipeline | beam.Create(["b a"])
    _ = words | "letters" >> beam.Map(lambda line: (line.split(), 1)) | "by letters" >> beam.GroupByKey()
    error = failure(pipeline)
    assert "by letters: ['b', 'a'] (a list) is unhashable, so it can't be a key: use a tuple" == str(error)
    assert (InvalidKeyError, "by letters") == (type(error), error.transform)


@attrs.frozen
class Tags:
    """Equal to others of the same names; its hash is that of the list."""

    names: list[str]


class Kept(beam.DoFn):
    SEEN = BagStateSpec("seen")

    def process(self, pair: Any, seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
        seen.add(pair[1])


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (Decimal("sNaN"), "not equal to itself"),
        (beam.Row(a={"x": 1}), r"\{'x': 1\} \(a dict\) inside it is unhashable"),
        (Tags(["a"]), r"\['a'\] \(a list\) inside it is unhashable"),
    ],
    ids=["signaling NaN", "Row", "attrs"],
)
def test_a_key_with_a_part_without_a_hash_is_told_by_each_transform_alike(
    key: Any, told: str, make_pipeline: Any, runner_name: str
) -> None:
    """In this process, and in workers."""
    transforms = {
        "group": lambda pairs: pairs | "Of" >> beam.GroupByKey(),
        "combine": lambda pairs: pairs | "Of" >> beam.CombinePerKey(sum),
        "state": lambda pairs: pairs | "Of" >> beam.ParDo(Kept()),
        "distinct": lambda pairs: pairs | beam.Keys() | "Of" >> beam.Distinct(),
    }
    for settings in [{}, {"parallelism": 2}] if runner_name == "local" else [{}]:
        for name, applied in transforms.items():
            p = make_pipeline(options=PipelineOptions([], **settings))
            _ = applied(p | beam.Create([(key, 1)]))
            error = failure(p)
            assert type(error) is InvalidKeyError, name
            assert re.match(rf"Of[^:]*: .* \(a [\w.]+\) can't be a key, for .*{told}", str(error)), str(error)


@pytest.mark.parametrize("shuffle", [beam.GroupByKey, beam.Reshuffle], ids=["group", "reshuffle"])
def test_an_element_that_can_not_be_sent_to_a_worker_is_told(pipeline: Any, runner_name: str, shuffle: Any) -> None:
    """Where one is sent at all, or kept outside of memory."""
    generators = pipeline | beam.Create([1]) | beam.Map(lambda x: ("k", (i for i in range(x))))
    _ = generators | "send" >> shuffle()
    is_kept = runner_name == "local-4" and shuffle is beam.GroupByKey
    if not (runner_name.startswith("spark") or runner_name == "local-2" or is_kept):
        assert "DONE" == pipeline.run().state
        return
    error = failure(pipeline)
    assert isinstance(error, SerializationError)
    assert error.transform.startswith("send")
    assert "generator can't be pickled, and so can't be sent to a worker" in str(error)


class Anonymous:
    pass


def test_a_key_without_a_deterministic_encoding_can_not_be_grouped_by(pipeline: Any) -> None:
    """Its hash is its address, which is another one in each process."""
    _ = pipeline | beam.Create([1]) | beam.Map(lambda x: (Anonymous(), x)) | "by what" >> beam.GroupByKey()
    error = failure(pipeline)
    assert str(error).startswith("by what: <")
    assert "has no deterministic encoding, so it can't be a key: use a tuple of simple values" in str(error)
    assert (InvalidKeyError, "by what") == (type(error), error.transform)


# --- Methods that fail: nothing is swallowed


class FailsIn(beam.DoFn):
    def __init__(self, method: str) -> None:
        self.method = method

    def reach(self, method: str) -> None:
        if method == self.method:
            raise LookupError(f"in {method}")

    def setup(self) -> None:
        self.reach("setup")

    def start_bundle(self) -> None:
        self.reach("start_bundle")

    def process(self, element: Any) -> Iterator[Any]:
        self.reach("process")
        yield element

    def finish_bundle(self) -> None:
        self.reach("finish_bundle")

    def teardown(self) -> None:
        self.reach("teardown")


@pytest.mark.parametrize("method", ["setup", "start_bundle", "process", "finish_bundle", "teardown"])
def test_a_failing_method_of_a_dofn_fails_the_run(pipeline: Any, method: str) -> None:
    """Each of them; teardown where nothing else failed."""
    _ = pipeline | beam.Create([1]) | "do" >> beam.ParDo(FailsIn(method)) | beam.Map(str)
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, LookupError))
    assert str(error).startswith(f"LookupError: in {method} [while running 'do'")
    assert error.location.endswith(line_of(FailsIn.reach, 2))


def test_what_fails_in_teardown_does_not_hide_what_failed_before(pipeline: Any) -> None:
    """The first error is the one to know of."""

    class Both(FailsIn):
        def teardown(self) -> None:
            raise ArithmeticError("second")

    _ = pipeline | beam.Create([1]) | "do" >> beam.ParDo(Both("process"))
    assert isinstance(failure(pipeline), LookupError)


class FailingCombiner(beam.CombineFn):
    def __init__(self, method: str) -> None:
        self.method = method

    def reach(self, method: str) -> None:
        if method == self.method:
            raise LookupError(f"in {method}")

    def setup(self) -> None:
        self.reach("setup")

    def create_accumulator(self) -> int:
        self.reach("create_accumulator")
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        self.reach("add_input")
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        self.reach("merge_accumulators")
        return sum(accumulators)

    def compact(self, accumulator: int) -> int:
        self.reach("compact")
        return accumulator

    def extract_output(self, accumulator: int) -> int:
        self.reach("extract_output")
        return accumulator

    def teardown(self) -> None:
        self.reach("teardown")


@pytest.mark.parametrize(
    "method",
    ["setup", "create_accumulator", "add_input", "merge_accumulators", "compact", "extract_output", "teardown"],
)
def test_a_failing_method_of_a_combiner_fails_the_run(pipeline: Any, method: str) -> None:
    """Each of them; with fanout, so that there is something to merge and compact on every runner."""
    pairs = pipeline | beam.Create([("k", i) for i in range(100)]) | beam.Reshuffle()
    _ = pairs | "sum" >> beam.CombinePerKey(FailingCombiner(method)).with_hot_key_fanout(3)
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, LookupError))
    assert str(error).startswith(f"LookupError: in {method} [while running 'sum")
    assert error.location.endswith(line_of(FailingCombiner.reach, 2))


class FailingWindows(FixedWindows):
    def __init__(self, method: str) -> None:
        super().__init__(10)
        self.method = method

    def assign_windows(self, context: Any) -> Any:
        if self.method == "assign":
            raise LookupError("in assign")
        return super().assign_windows(context)

    @property
    def is_merging(self) -> bool:
        return True

    def merge_windows(self, context: Any) -> None:
        raise LookupError("in merge")


@pytest.mark.parametrize(("method", "transform"), [("assign", "my windows"), ("merge", "by key")])
def test_a_failing_window_function_fails_the_run(pipeline: Any, method: str, transform: str) -> None:
    """While windows are assigned, or while they are merged."""
    pairs = pipeline | beam.Create([TimestampedValue(("k", t), t) for t in (1, 2)])
    _ = pairs | "my windows" >> beam.WindowInto(FailingWindows(method)) | "by key" >> beam.GroupByKey()
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, LookupError))
    assert transform == error.transform


class Ticket:
    """A key whose coder fails."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ticket)

    def __hash__(self) -> int:
        return 7


class TicketCoder(beam.coders.Coder):
    def encode(self, value: Any) -> bytes:
        raise LookupError("in encode")

    def decode(self, encoded: bytes) -> Any:
        return Ticket()

    def is_deterministic(self) -> bool:
        return True


def test_a_failing_coder_fails_the_run(pipeline: Any) -> None:
    """The coder of a key, that says which group it belongs to."""
    beam.coders.registry.register_coder(Ticket, TicketCoder)
    _ = pipeline | beam.Create([1]) | beam.Map(lambda x: (Ticket(), x)) | "by ticket" >> beam.GroupByKey()
    error = failure(pipeline)
    assert (True, True) == (isinstance(error, UserCodeError), isinstance(error, LookupError))
    assert str(error).startswith("LookupError: in encode [while running 'by ticket/EncodeKeys'")


def test_a_failing_equality_or_hash_fails_the_run(pipeline: Any) -> None:
    """It isn't taken for a key without a hash."""

    class Touchy:
        def __hash__(self) -> int:
            raise LookupError("in hash")

    _ = pipeline | beam.Create([1]) | beam.Map(lambda x: (Touchy(), x)) | "by touchy" >> beam.GroupByKey()
    error = failure(pipeline)
    assert isinstance(error, LookupError)
    assert "by touchy" == error.transform


def test_errors_are_penstocks_own_where_they_are_about_a_pipeline() -> None:
    """One class to catch them all."""
    assert issubclass(UserCodeError, PenstockError)
