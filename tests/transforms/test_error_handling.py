"""Dead letters, thresholds and error handlers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal

import pytest

import penstock as beam
from penstock.sdk.errors import PipelineError
from penstock.sdk.options import PipelineOptions
from penstock.sdk.typehints import pair_of
from penstock.sdk.userstate import CombiningValueStateSpec
from penstock.testing import TestPipeline, assert_that, equal_to
from penstock.transforms.error_handling import CollectingErrorHandler, DeadLetter, ErrorHandler
from penstock.windowing import FixedWindows, Timestamp, TimestampedValue


def inverse(x: Any) -> Any:
    return 1 / x


def elements_of(bad: Any) -> Any:
    return bad | beam.MapTuple(lambda element, error: element)


def test_what_fails_goes_to_the_second_output_and_the_rest_to_the_first() -> None:
    """Nothing is lost."""
    with TestPipeline() as p:
        good, bad = p | beam.Create([1, 0, 2, "a"]) | beam.Map(inverse).with_exception_handling()
        assert_that(good, equal_to([1.0, 0.5]), label="good")
        assert_that(elements_of(bad), equal_to([0, "a"]), label="bad")


def test_a_dead_letter_has_the_element_and_type_repr_and_traceback_of_the_exception() -> None:
    """The traceback begins with the user's function."""
    with TestPipeline() as p:
        _, bad = p | beam.Create([0]) | beam.Map(inverse).with_exception_handling()

        def check(letters: list[Any]) -> None:
            ((element, (kind, text, lines)),) = letters
            assert (0, ZeroDivisionError, "ZeroDivisionError('division by zero')") == (element, kind, text)
            assert ("Traceback (most recent call last):\n", True) == (lines[0], "in inverse" in lines[1])
            assert "ZeroDivisionError: division by zero\n" == lines[-1]

        assert_that(bad, check)


def test_outputs_can_be_named() -> None:
    """And asked for by those names."""
    with TestPipeline() as p:
        outputs = p | beam.Create([1, 0]) | beam.Map(inverse).with_exception_handling("fine", "failed")
        assert_that(outputs.fine, equal_to([1.0]), label="good")
        assert_that(elements_of(outputs["failed"]), equal_to([0]), label="bad")


def test_only_the_exceptions_that_are_named_make_dead_letters() -> None:
    """Others fail the pipeline as ever."""
    transform = beam.Map(inverse).with_exception_handling(exc_class=(ZeroDivisionError, KeyError))
    outputs = [0] | transform
    assert ([], [0]) == (outputs["good"], [element for element, _ in outputs["bad"]])
    with pytest.raises(TypeError):
        ["a"] | beam.Map(inverse).with_exception_handling(exc_class=ZeroDivisionError)


def some_then_fail(n: int) -> Iterable[int]:
    yield from range(n)
    if n > 1:
        raise ValueError(n)


@pytest.mark.parametrize(("partial", "expected"), [(False, [0]), (True, [0, 0, 1])])
def test_outputs_before_the_exception_are_dropped_unless_told_otherwise(partial: bool, expected: list[int]) -> None:
    """The dead letter is made either way."""
    with TestPipeline() as p:
        flat_map = beam.FlatMap(some_then_fail).with_exception_handling(partial=partial)
        good, bad = p | beam.Create([1, 2]) | flat_map
        assert_that(good, equal_to(expected), label="good")
        assert_that(elements_of(bad), equal_to([2]), label="bad")


class Stamped(beam.DoFn):
    """Asks for a timestamp, a side input and a bundle."""

    def start_bundle(self) -> None:
        self.seen = 0

    def process(
        self, element: Any, by: int, timestamp: Any = beam.DoFn.TimestampParam, *, add: int = 0
    ) -> Iterable[Any]:
        self.seen += 1
        if element < 0:
            yield beam.TaggedOutput("negative", element)
        yield element // by + add, timestamp, self.seen > 0

    def finish_bundle(self) -> Iterable[Any]:
        yield beam.utils.windowed_value.WindowedValue("end", 0, [beam.window.GlobalWindow()])


def test_a_dofn_keeps_its_parameters_its_lifecycle_and_its_other_outputs() -> None:
    """As if it weren't wrapped."""
    with TestPipeline() as p:
        by = beam.pvalue.AsSingleton(p | "by" >> beam.Create([2]))
        guarded = beam.ParDo(Stamped(), by, add=100).with_exception_handling()
        outputs = p | beam.Create([TimestampedValue(e, 5) for e in (6, -2, "x")]) | guarded
        expected = [(103, Timestamp(5), True), (99, Timestamp(5), True)]
        assert_that(outputs.negative, equal_to([-2]), label="negative")
        assert_that(outputs.good | beam.Filter(lambda e: e != "end"), equal_to(expected), label="good")
        assert_that(elements_of(outputs.bad), equal_to(["x"]), label="bad")


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (beam.MapTuple(lambda a, b, c=0: a / b + c), [0.5]),
        (beam.MapTuple(lambda a, b, t=beam.DoFn.TimestampParam: a / b), [0.5]),
        (beam.FlatMapTuple(lambda a, b: [a / b]), [0.5]),
        (beam.Filter(lambda pair: pair[0] / pair[1]), [(1, 2)]),
        (beam.ParDo(lambda pair: [pair[0] / pair[1]]), [0.5]),
        (beam.Map(lambda pair, t=beam.DoFn.TimestampParam: pair[0] / pair[1]), [0.5]),
    ],
)
def test_every_kind_of_pardo_can_be_wrapped(transform: Any, expected: list[Any]) -> None:
    """The short forms too."""
    with TestPipeline() as p:
        good, bad = p | beam.Create([(1, 2), (1, 0)]) | transform.with_exception_handling()
        assert_that(good, equal_to(expected), label="good")
        assert_that(elements_of(bad), equal_to([(1, 0)]), label="bad")


def test_a_built_in_without_a_signature_can_be_wrapped() -> None:
    """The element is its argument."""
    with TestPipeline() as p:
        good, bad = p | beam.Create(["1", "a"]) | beam.Map(int).with_exception_handling()
        assert_that(good, equal_to([1]), label="good")
        assert_that(elements_of(bad), equal_to(["a"]), label="bad")


def test_arguments_that_do_not_fit_are_found_when_the_pipeline_is_built() -> None:
    """Under the label that the user gave."""
    with pytest.raises(PipelineError, match="mine: .*inverse.* can't be called"):
        TestPipeline() | beam.Create([1]) | "mine" >> beam.Map(inverse, 3).with_exception_handling()


def test_the_counts_of_a_threshold_keep_their_labels() -> None:
    """Checkpoints know the state of the counts by them."""
    p = beam.Pipeline()
    _ = p | beam.Create([1]) | "divide" >> beam.Map(inverse).with_exception_handling(threshold=0.5)
    labels = {transform.label for transform in p.graph().transforms}
    assert {"divide/CountTotal/Count/CombinePerKey", "divide/CountBad/Count/CombinePerKey"} <= labels


def test_more_failures_than_the_threshold_fail_the_pipeline() -> None:
    """In Beam's words."""
    with pytest.raises(ValueError, match=r"exceeded the threshold: 2 / 3 = 0.66\d* > 0.5"):
        [0, 1, "a"] | beam.Map(inverse).with_exception_handling(threshold=0.5)


@pytest.mark.parametrize(("values", "threshold"), [([0, 1], 0.5), ([1, 2], 0.0), ([], 0.1)])
def test_no_more_failures_than_the_threshold_are_dead_letters(values: list[Any], threshold: float) -> None:
    """None at all is never too many."""
    outputs = values | beam.Map(inverse).with_exception_handling(threshold=threshold)
    assert values.count(0) == len(outputs["bad"])


@pytest.mark.parametrize("windowing", [None, FixedWindows(100)])
def test_the_threshold_is_for_each_window(windowing: Any) -> None:
    """Of the input, or of the windowing that is given for it."""
    elements = [TimestampedValue(x, t) for x, t in ((0, 1), (1, 11), (1, 12))]
    handling = beam.Map(inverse).with_exception_handling(threshold=0.5, threshold_windowing=windowing)

    def run() -> None:
        with TestPipeline() as p:
            p | beam.Create(elements) | beam.WindowInto(FixedWindows(10)) | handling

    if windowing is None:
        with pytest.raises(ValueError, match=r"within the window \[0.0, 10.0\) exceeded the threshold: 1 / 1"):
            run()
    else:
        run()


def test_a_callback_that_fails_itself_changes_nothing() -> None:
    """It is only logged."""

    def fail(error: BaseException, element: Any) -> None:
        raise RuntimeError("no matter")

    outputs = [0, 1] | beam.Map(inverse).with_exception_handling(on_failure_callback=fail)
    assert ([1.0], [0]) == (outputs["good"], [element for element, _ in outputs["bad"]])


def test_a_callback_is_told_of_each_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """The exception, then the element."""

    def tell(error: BaseException, element: Any) -> None:
        print(f"{error!r} of {element!r}")

    [0] | beam.Map(inverse).with_exception_handling(on_failure_callback=tell)
    assert "ZeroDivisionError('division by zero') of 0\n" == capsys.readouterr().out


class Slow(beam.DoFn):
    """Doesn't return for "wait", and ends its process for "crash"."""

    def setup(self) -> None:
        self.bundles = 0

    def start_bundle(self) -> None:
        self.bundles += 1

    def process(self, element: Any, add: int = 0, timestamp: Any = beam.DoFn.TimestampParam) -> Iterable[Any]:
        if element == "wait":
            threading.Event().wait()
        if element == "crash":
            os._exit(7)
        yield 1 / element + add, timestamp, self.bundles > 0


@pytest.mark.parametrize("use_subprocess", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_call_that_takes_too_long_makes_a_dead_letter(use_subprocess: bool, parallelism: int) -> None:
    """Elements after it are processed, by the DoFn with its arguments, lifecycle and properties."""
    with TestPipeline(options=PipelineOptions(parallelism=parallelism)) as p:
        elements = [TimestampedValue(each, 5) for each in (1, "wait", 2, 0)]
        slow = beam.ParDo(Slow(), add=10).with_exception_handling(timeout=1, use_subprocess=use_subprocess)
        good, bad = p | beam.Create(elements) | slow
        assert_that(good, equal_to([(11, Timestamp(5), True), (10.5, Timestamp(5), True)]))
        kinds = bad | beam.MapTuple(lambda element, error: (element, error[0]))
        assert_that(kinds, equal_to([("wait", TimeoutError), (0, ZeroDivisionError)]))


def test_a_crash_in_a_process_of_its_own_makes_a_dead_letter() -> None:
    """Others have the traceback of their process."""
    with TestPipeline() as p:
        good, bad = (
            p | beam.Create([1, "crash", 2, 0]) | beam.ParDo(Slow()).with_exception_handling(use_subprocess=True)
        )
        assert_that(good | beam.Map(lambda out: out[0]), equal_to([1, 0.5]))

        def check(letters: list[Any]) -> None:
            by_element = dict(letters)
            kind, text, _ = by_element["crash"]
            assert BrokenProcessPool is kind
            assert "the process of Slow ended with status 7 during process" in text
            kind, text, lines = by_element[0]
            assert (ZeroDivisionError, "ZeroDivisionError('division by zero')") == (kind, text)
            assert ("Traceback (most recent call last):\n", True) == (lines[0], "in process" in lines[1])

        assert_that(bad, check)


def test_outputs_of_finish_bundle_are_refused_in_a_process_of_its_own() -> None:
    """They would be lost in a crash."""
    with pytest.raises(RuntimeError, match="Stamped: finish_bundle gave outputs"):
        [1] | beam.ParDo(Stamped(), 1).with_exception_handling(use_subprocess=True)


class Counts(beam.DoFn):
    def process(self, element: Any, seen: Any = beam.DoFn.StateParam(CombiningValueStateSpec("seen", sum))) -> None:
        seen.add(1)


@pytest.mark.parametrize("arguments", [{"use_subprocess": True}, {"timeout": 3}])
def test_state_and_timers_stay_in_their_thread(arguments: dict[str, Any]) -> None:
    """When the transform is applied."""
    with pytest.raises(ValueError, match=r"ParDo\(Counts\): with_exception_handling takes no timeout"):
        TestPipeline() | beam.Create([("a", 1)]) | beam.ParDo(Counts()).with_exception_handling(**arguments)


@pytest.mark.parametrize("arguments", [{"use_subprocess": True, "partial": True}, {"timeout": -1}])
def test_arguments_that_contradict_each_other_are_refused(arguments: dict[str, Any]) -> None:
    """When the transform is made."""
    with pytest.raises(ValueError, match=r"Map\(inverse\): with_exception_handling takes"):
        beam.Map(inverse).with_exception_handling(**arguments)


def test_declared_outputs_are_kept() -> None:
    """Dead letters are one more; with an error handler, they are its."""
    with TestPipeline() as p:
        tagged = beam.ParDo(Stamped(), 2).with_outputs("negative", main="main")
        elements = p | beam.Create([-2, "x"])
        outputs = elements | "one" >> tagged.with_exception_handling()
        assert_that(outputs.negative, equal_to([-2]))
        assert_that(elements_of(outputs.bad), equal_to(["x"]))
        with ErrorHandler(beam.MapTuple(lambda element, _: element)) as handler:
            outputs = elements | "two" >> tagged.with_error_handler(handler)
        assert_that(outputs["negative"], equal_to([-2]))
        assert_that(handler.output(), equal_to(["x"]))
        assert outputs.main is outputs["main"]


@pytest.mark.parametrize(
    "guarded",
    [
        beam.ParDo(Stamped(), 2).with_outputs("zero").with_exception_handling(),
        beam.ParDo(Stamped(), 2).with_exception_handling().with_outputs("zero"),
    ],
)
def test_tags_that_are_not_declared_are_refused(guarded: Any) -> None:
    """When they are asked for, and when the DoFn yields one; the error isn't a dead letter."""
    outputs = TestPipeline() | beam.Create([-2]) | guarded
    with pytest.raises(
        AttributeError, match=r"no output tagged 'negative'; with_outputs names \['good', 'zero', 'bad'\]"
    ):
        _ = outputs.negative
    with pytest.raises(PipelineError, match=r"got an output tagged 'negative', but .* are \['zero', 'bad'\]"):
        [-2] | guarded


@pytest.mark.parametrize(
    "tagged",
    [
        beam.ParDo(Stamped(), 2).with_outputs(),
        beam.ParDo(Stamped(), 2).with_outputs("zero", allow_unknown_tags=True),
    ],
)
def test_outputs_of_any_tag_are_kept(tagged: Any) -> None:
    """They exist once they are accessed, with an error handler, too."""
    with TestPipeline() as p, ErrorHandler(beam.MapTuple(lambda element, _: element)) as handler:
        outputs = p | beam.Create([-2, "x"]) | tagged.with_error_handler(handler)
        assert_that(outputs.negative, equal_to([-2]))


def test_the_shorter_form_takes_an_error_handler() -> None:
    """Without one it changes nothing."""
    with TestPipeline() as p:
        with ErrorHandler(beam.MapTuple(lambda element, _: element)) as handler:
            good = p | beam.Create([1, 0]) | beam.Map(inverse).with_error_handler(handler, exc_class=ArithmeticError)
        assert_that(good, equal_to([1.0]))
        assert_that(handler.output(), equal_to([0]))
    transform = beam.Map(inverse)
    assert transform is transform.with_error_handler(None)


def test_a_threshold_is_a_part() -> None:
    """Not a percentage."""
    with pytest.raises(ValueError, match="the threshold must be between 0 and 1, got 5"):
        beam.Map(inverse).with_exception_handling(threshold=5)


def test_types_of_both_outputs_are_known() -> None:
    """The first's is that of the function."""

    def parse(text: str) -> int:
        return int(text)

    good, bad = TestPipeline() | beam.Create(["1"]) | beam.Map(parse).with_exception_handling()
    assert (int, pair_of(str, tuple[type, str, list[str]])) == (good.element_type, bad.element_type)


def test_an_error_handler_takes_the_dead_letters_of_several_transforms() -> None:
    """Only the main outputs are left."""
    with TestPipeline() as p:
        numbers = p | beam.Create([0, 1])
        with ErrorHandler(beam.combiners.Count.Globally()) as handler:
            good = numbers | "one" >> beam.Map(inverse).with_exception_handling(error_handler=handler)
            numbers | "two" >> beam.Map(inverse).with_exception_handling(error_handler=handler)
        assert_that(good, equal_to([1.0]), label="good")
        assert_that(handler.output(), equal_to([2]), label="bad")


def test_a_collecting_handler_gives_the_dead_letters_themselves() -> None:
    """To do with them what one likes."""
    with TestPipeline() as p:
        with CollectingErrorHandler() as handler:
            p | beam.Create([0, 1]) | beam.Map(inverse).with_exception_handling(error_handler=handler)
        assert_that(elements_of(handler.output()), equal_to([0]))


def test_a_handler_that_nothing_was_given_to_has_no_output() -> None:
    """And fails nothing."""
    with ErrorHandler(beam.Map(print)) as handler:
        pass
    assert handler.output() is None
    handler.verify_closed()


def test_dead_letters_are_not_lost_by_a_handler_that_is_never_closed() -> None:
    """The same holds for an output that is never requested, and for a handler that was closed too early."""
    p = TestPipeline()
    handler = CollectingErrorHandler()
    p | beam.Create([0]) | beam.Map(inverse).with_exception_handling(error_handler=handler)
    with pytest.raises(PipelineError, match="no output before it is closed"):
        handler.output()
    with pytest.raises(PipelineError, match=r"Map\(inverse\)/Process: Unclosed error handler"):
        handler.verify_closed()
    handler.close()
    with pytest.raises(PipelineError, match="its CollectingErrorHandler requires the output to be retrieved"):
        handler.verify_closed()
    handler.output()
    handler.verify_closed()
    with pytest.raises(PipelineError, match="its error handler was closed before it was applied"):
        p | "more" >> beam.Create([0]) | "late" >> beam.Map(inverse).with_exception_handling(error_handler=handler)


@pytest.mark.parametrize(
    ("close", "message"),
    [
        (False, r"Map\(inverse\)/Process: Unclosed error handler"),
        (True, r"Map\(inverse\)/Process: its CollectingErrorHandler requires the output to be retrieved"),
    ],
)
def test_a_pipeline_that_would_lose_dead_letters_is_not_run(close: bool, message: str) -> None:
    """The handler is verified before anything happens."""
    seen: list[int] = []
    p = TestPipeline()
    handler = CollectingErrorHandler()
    p | beam.Create([0]) | beam.Map(inverse).with_exception_handling(error_handler=handler) | beam.Map(seen.append)
    if close:
        handler.close()
    with pytest.raises(PipelineError, match=message):
        p.run()
    assert [] == seen


@pytest.mark.parametrize("declared_first", [False, True])
def test_exceptions_are_handled_beside_tagged_outputs(declared_first: bool) -> None:
    """With the types of both, whichever comes first; the outputs are still chosen by the DoFn."""

    class Sort(beam.DoFn):
        def process(self, x: int) -> Iterable[int | beam.pvalue.TaggedOutput[Literal["small"], str]]:
            if 1 / x < 1:
                yield x
            else:
                yield beam.pvalue.TaggedOutput("small", str(x))  # type: ignore[misc]

    pardo: Any = beam.ParDo(Sort())
    with TestPipeline() as p:
        outputs = p | beam.Create([0, 1, 2]) | (
            pardo.with_outputs("small", main="large").with_exception_handling(dead_letter_tag="failed")
            if declared_first
            else pardo.with_exception_handling(dead_letter_tag="failed").with_outputs("small", main="large")
        )  # fmt: skip
        assert_that(outputs.large, equal_to([2]))
        assert_that(outputs.small, equal_to(["1"]))
        assert_that(elements_of(outputs.failed), equal_to([0]))

    assert outputs.small.element_type is str
    assert DeadLetter[int] == outputs.failed.element_type
