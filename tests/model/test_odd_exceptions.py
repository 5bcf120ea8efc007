"""Exceptions that ask for more than a message, end programs, or fill logs: each names its transform and element."""

from __future__ import annotations

import dataclasses
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import pytest

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.errors import CorruptSnapshotError, PenstockError, UserCodeError
from penstock.transforms.userstate import TimerSpec, on_timer
from penstock.windowing import FixedWindows, NonMergingWindowFn


class WithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class WithoutRepr(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class OfTwo(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class MadeOfTwo(Exception):
    def __new__(cls, code: int, reason: str) -> Any:
        return super().__new__(cls, code)

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


class OfPenstock(PenstockError):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


@attrs.frozen
class Frozen(Exception):
    code: int
    reason: str


@dataclasses.dataclass(frozen=True)
class FrozenData(Exception):
    code: int
    reason: str


class Counted(type):
    def __call__(cls, *args: Any) -> Any:
        if len(args) != 2:
            raise LookupError("two are needed")
        return super().__call__(*args)


class WithMetaclass(OfTwo, metaclass=Counted):
    pass


class Stop(BaseException):
    pass


ODD = [
    (WithoutText, ("a",), "WithoutText: <the __str__ of WithoutText raised RuntimeError>"),
    (WithoutRepr, ("a",), "WithoutRepr: a"),
    (OfTwo, (1, "a"), "OfTwo: 1: a"),
    (MadeOfTwo, (1, "a"), "MadeOfTwo: 1: a"),
    (Frozen, (1, "a"), "Frozen: (1, 'a')"),
    (FrozenData, (1, "a"), "FrozenData: (1, 'a')"),
    (WithMetaclass, (1, "a"), "WithMetaclass: 1: a"),
    (ConnectionResetError, ("a",), "ConnectionResetError: a"),
    (EOFError, (), "EOFError"),
    (UnicodeDecodeError, ("utf-8", b"\xff", 0, 1, "a"), "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff"),
]
FLAGS = [{}, {"parallelism": 2}, {"parallelism": 2, "delivery": "strong"}]
IDS = ["alone", "in processes", "strong"]


def raising(kind: Any, arguments: tuple[Any, ...]) -> Callable[[int], int]:
    """A function that raises at 3."""

    def raises(n: int) -> int:
        if n == 3:
            raise kind(*arguments)
        return n

    return raises


def stream(transform: Any, **flags: Any) -> beam.Pipeline:
    """A stream of numbers into a transform, which isn't started again."""
    p = beam.Pipeline(options=PipelineOptions([], checkpoint_interval=0.2, max_restarts=0, **flags))
    _ = p | beam.io.GenerateSequence(0, 10, 1000, 1) | "Odd" >> transform | beam.WithKeys(0) | beam.Reshuffle()
    return p


def failure(run: Callable[[], Any]) -> Any:
    """Return the error of a run."""
    with pytest.raises(BaseException) as error:
        run()
    return error.value


def text_in_log(error: BaseException, log: pytest.LogCaptureFixture) -> str:
    """Return the log lines that a user sees."""
    return "".join([*traceback.format_exception(error), log.text])


# --- Classes


def test_an_exception_keeps_class_transform_and_element_whatever_it_is_made_of(
    make_pipeline: Callable[..., Any],
) -> None:
    """Of any arguments, frozen, of a metaclass, or without a text: on every runner."""
    on_spark = type(make_pipeline().runner).__name__.startswith("Spark")
    for kind, arguments, text in ODD[::3] if on_spark else ODD:
        p = make_pipeline()
        _ = p | beam.Create([1, 2, 3]) | "Odd" >> beam.Map(raising(kind, arguments))
        error = failure(p.run)
        assert str(error).startswith(text), text
        assert " [while running 'Odd' on element 3 at " in str(error)
        assert ("Odd", "3") == (error.transform, error.element)
        assert isinstance(error, UserCodeError)
        # By name: the Spark worker's class may be another one.
        assert kind.__name__ in [base.__name__ for base in type(error).__mro__]
        assert "".join(traceback.format_exception(error))


@pytest.mark.parametrize("flags", FLAGS, ids=IDS)
def test_the_same_holds_in_a_stream(flags: dict[str, Any]) -> None:
    """A worker that took a user's ConnectionResetError for the loss of its own connection ended without a word."""
    for kind, arguments, text in ODD if not flags else [ODD[0], ODD[2], *ODD[7:9]]:
        error = failure(lambda make=raising(kind, arguments): stream(beam.Map(make), **flags).run().wait_until_finish())
        assert str(error).startswith(text), text
        assert (True, True, "Odd", "3") == (
            isinstance(error, UserCodeError),
            isinstance(error, kind),
            error.transform,
            error.element,
        )


@pytest.mark.parametrize(
    ("kind", "arguments"), [(OfPenstock, (1, "a")), (CorruptSnapshotError, ("file", "nothing", "something"))]
)
def test_one_of_ours_keeps_its_class_with_the_label_in_front(pipeline: Any, kind: Any, arguments: Any) -> None:
    """With any number of arguments: it used to become a TypeError."""
    _ = pipeline | beam.Create([3]) | "Odd" >> beam.Map(raising(kind, arguments))
    found = failure(pipeline.run)
    assert f"Odd: {kind(*arguments)} (element: 3)" == str(found)
    assert ("Odd", kind.__name__) == (found.transform, type(found).__name__)


# --- What is long


@pytest.mark.parametrize("flags", FLAGS[:2], ids=IDS[:2])
def test_a_text_of_many_megabytes_is_cut(flags: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """In the error, in what caused it and in the log, which says so for each restart; how long it was is said."""
    caplog.set_level(logging.DEBUG)
    p = beam.Pipeline(options=PipelineOptions([], checkpoint_interval=0.2, restart_delay=0.001, **flags))
    big = beam.Map(raising(ValueError, ("x" * 5_000_000,)))
    _ = p | beam.io.GenerateSequence(0, 10, 1000, 1) | "Odd" >> big
    error = failure(lambda: p.run().wait_until_finish())
    assert re.fullmatch(r"ValueError: x{10000}\.\.\. \(5,000,000 characters\) \[while running 'Odd' on .*]", str(error))
    assert isinstance(error, ValueError)
    assert 200_000 > len(text_in_log(error, caplog))


# --- What ends programs


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_the_end_of_a_program_in_a_function_is_an_error_of_it(kind: Any, make_pipeline: Callable[..., Any]) -> None:
    """`sys.exit(3)` ended the run with exit code 3 and no line."""
    p = make_pipeline()
    _ = p | beam.Create([1, 2, 3]) | "Odd" >> beam.Map(raising(kind, (3,)))
    error = failure(p.run)
    assert str(error).startswith(f"{kind.__name__}: 3 [while running 'Odd' on element 3 at ")
    assert isinstance(error, UserCodeError)


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, KeyboardInterrupt, Stop])
def test_what_would_end_a_worker_is_told(kind: Any) -> None:
    """An interrupt can't come from outside there: workers ignore it."""
    p = stream(beam.Map(raising(kind, (3,))), parallelism=2)
    error = failure(lambda: p.run().wait_until_finish())
    assert str(error).startswith(f"{kind.__name__}: 3 [while running 'Odd' on element 3")
    assert isinstance(error, UserCodeError)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stop])
def test_an_interrupt_passes_with_a_note_of_what_was_running(kind: Any) -> None:
    """As what the user has pressed Ctrl-C for; and so does a class of the user's own that is no Exception."""
    p = beam.Pipeline()
    _ = p | beam.Create([1, 2, 3]) | "Odd" >> beam.Map(raising(kind, (3,)))
    error = failure(p.run)
    assert (kind, ["[while running 'Odd' on element 3]"]) == (type(error), error.__notes__)


class Exiting:
    """Ends the program in one of its methods."""

    def __init__(self, where: str) -> None:
        self.where = where

    def exit(self, here: str) -> None:
        if here == self.where:
            sys.exit(3)


class Exits(Exiting, beam.DoFn):
    def setup(self) -> None:
        self.exit("setup")

    def start_bundle(self) -> None:
        self.exit("start_bundle")

    def process(self, element: Any) -> Iterable[Any]:
        self.exit("process")
        yield element
        self.exit("after")

    def finish_bundle(self) -> None:
        self.exit("finish_bundle")

    def teardown(self) -> None:
        self.exit("teardown")


class ExitsInTimer(beam.DoFn):
    DUE = TimerSpec("due", beam.TimeDomain.WATERMARK)

    def process(self, element: Any, due: Any = beam.DoFn.TimerParam(DUE)) -> None:
        due.set(5)

    @on_timer(DUE)
    def expired(self) -> None:
        sys.exit(3)


class ExitsInCombining(Exiting, beam.CombineFn):
    def setup(self) -> None:
        self.exit("setup")

    def create_accumulator(self) -> int:
        self.exit("create_accumulator")
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        self.exit("add_input")
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self.exit("extract_output")
        return accumulator

    def teardown(self) -> None:
        self.exit("teardown")


class ExitsInAssigning(NonMergingWindowFn):
    def assign(self, context: Any) -> Any:
        sys.exit(3)

    def get_window_coder(self) -> Any:
        return FixedWindows(1).get_window_coder()


class Unhashed:
    def __reduce__(self) -> Any:
        sys.exit(3)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __hash__(self) -> int:
        raise SystemExit(3)


METHODS = ["setup", "start_bundle", "process", "after", "finish_bundle", "teardown"]
COMBINING = ["setup", "create_accumulator", "add_input", "extract_output", "teardown"]
PLACES: list[tuple[str, Callable[[Any], Any]]] = [
    *((f"DoFn.{name}", lambda ns, name=name: ns | "Odd" >> beam.ParDo(Exits(name))) for name in METHODS),
    ("timer", lambda ns: ns | beam.WithKeys(0) | "Odd" >> beam.ParDo(ExitsInTimer())),
    *(
        (
            f"CombineFn.{name}",
            lambda ns, name=name: ns | beam.WithKeys(0) | "Odd" >> beam.CombinePerKey(ExitsInCombining(name)),
        )
        for name in COMBINING
    ),
    ("windows", lambda ns: ns | "Odd" >> beam.WindowInto(ExitsInAssigning())),
    ("key function", lambda ns: ns | "Odd" >> beam.GroupBy(lambda n: sys.exit(3))),
    ("key", lambda ns: ns | beam.Map(lambda n: (Unhashed(), n)) | "Odd" >> beam.GroupByKey()),
    ("partition function", lambda ns: (ns | "Odd" >> beam.Partition(lambda n, k: sys.exit(3), 2))[0]),
    ("filter", lambda ns: ns | "Odd" >> beam.Filter(lambda n: sys.exit(3))),
]


@pytest.mark.parametrize("place", [place for _, place in PLACES], ids=[name for name, _ in PLACES])
@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
def test_wherever_user_code_ends_the_program_the_transform_is_named(
    place: Callable[[Any], Any], is_stream: bool
) -> None:
    """In each method that a runner calls."""
    p = beam.Pipeline(options=PipelineOptions([], max_restarts=0))
    numbers = p | (beam.io.GenerateSequence(0, 10, 1000, 1) if is_stream else beam.Create([1, 2, 3]))
    _ = place(numbers | beam.WindowInto(FixedWindows(60)))
    error = failure(lambda: p.run().wait_until_finish())
    assert isinstance(error, UserCodeError)
    assert "SystemExit: 3 [while running 'Odd" in str(error)
