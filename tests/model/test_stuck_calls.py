"""Functions that don't return are named in the log, wherever they run."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs
import pytest
from support.programs.running_program import wait_until

import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.sdk.elements.bundle import Bundle
from penstock.sdk.sink import Sink, SinkContext, SinkWriter
from penstock.sdk.sources.bounded import BoundedSource
from penstock.sdk.userstate import TimerSpec, on_timer
from penstock.testing import assert_that, equal_to

# Seconds, within which a function surely has begun to wait when it is looked at.
TIMEOUT = 0.3


@contextmanager
def heard() -> Iterator[list[str]]:
    """Capture the log of this process inside of the `with` block."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    listener = Listener()
    logging.getLogger().addHandler(listener)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(listener)


def waits_to_be_named(step: str) -> bool:
    """Return once the log names the step with this function."""
    with heard() as lines:
        wait_until(lambda: any(f"{step!r} has been in one call" in line for line in lines), f"the name of {step}")
        return any("in waits_to_be_named\n" in line for line in lines)


class HangsOnce(beam.DoFn):
    """Hangs in one of its methods, until it is named."""

    def __init__(self, method: str) -> None:
        self.method = method

    def _hang(self, method: str) -> None:
        if method == self.method:
            assert waits_to_be_named("Hangs")

    def setup(self) -> None:
        self._hang("setup")

    def start_bundle(self) -> None:
        self._hang("start_bundle")

    def process(self, element: int) -> Iterator[int]:
        self._hang("process")
        yield element
        self._hang("generator")

    def finish_bundle(self) -> None:
        self._hang("finish_bundle")

    def teardown(self) -> None:
        self._hang("teardown")


class CombinesAndHangs(beam.CombineFn):
    """A sum that hangs in one of its methods, until it is named."""

    def __init__(self, method: str) -> None:
        self.method = method

    def _hang(self, method: str) -> None:
        if method == self.method:
            assert waits_to_be_named("Hangs")

    def setup(self) -> None:
        self._hang("CombineFn.setup")

    def create_accumulator(self) -> int:
        self._hang("create_accumulator")
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        self._hang("add_input")
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self._hang("extract_output")
        return accumulator

    def teardown(self) -> None:
        self._hang("CombineFn.teardown")


class HangsInATimer(beam.DoFn):
    """Sets a timer that hangs until it is named."""

    TIMER = TimerSpec("timer", beam.TimeDomain.WATERMARK)

    def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> None:
        timer.set(10)

    @on_timer(TIMER)
    def fire(self) -> Iterator[int]:
        assert waits_to_be_named("Hangs")
        yield 1


class SourceThatHangs(BoundedSource[int]):
    """Brings 1, and hangs in one of its methods, until it is named."""

    def __init__(self, method: str) -> None:
        self.method = method

    def split(self, desired_splits: int) -> Sequence[Any]:
        assert self.method != "split" or waits_to_be_named("Hangs")
        return [None]

    def read(self, split: Any) -> Iterator[int]:
        assert self.method != "read" or waits_to_be_named("Hangs")
        yield 1


@attrs.define
class SinkThatHangs(Sink[int]):
    """Hangs in one of its methods, until it is named."""

    method: str

    def hang(self, method: str) -> None:
        """Hang if it is this one."""
        if method == self.method:
            assert waits_to_be_named("Hangs")

    def prepare(self, context: SinkContext) -> None:
        self.hang("prepare")

    def open_writer(self, context: SinkContext) -> SinkWriter[int]:
        return WriterThatHangs(self)

    def precommit(self, staged: Mapping[SinkContext, Sequence[Any]]) -> None:
        self.hang("precommit")

    def commit(self, context: SinkContext, staged: Sequence[Any]) -> None:
        self.hang("commit")

    def abort(self, context: SinkContext) -> None:
        pass


@attrs.define
class WriterThatHangs(SinkWriter[int]):
    """The writer of a sink that hangs."""

    sink: SinkThatHangs

    def write(self, bundle: Bundle) -> None:
        self.sink.hang("write")

    def stage(self) -> str:
        self.sink.hang("stage")
        return "staged"

    def discard(self) -> None:
        pass


def in_do_fn(numbers: Any, method: str) -> None:
    """A DoFn between two steps."""
    _ = numbers | "Hangs" >> beam.ParDo(HangsOnce(method)) | "After" >> beam.Map(str)


def in_combine_fn(numbers: Any, method: str) -> None:
    """A CombineFn behind a step."""
    pairs = numbers | beam.Map(lambda n: ("a", n))
    _ = pairs | "Hangs" >> beam.CombinePerKey(CombinesAndHangs(method))


def in_timer(numbers: Any, method: str) -> None:
    """A timer."""
    _ = numbers | beam.Map(lambda n: ("a", n)) | "Hangs" >> beam.ParDo(HangsInATimer())


def in_source(numbers: Any, method: str) -> None:
    """A source."""
    _ = numbers.pipeline | "Hangs" >> beam.io.Read(SourceThatHangs(method))


def in_sink(numbers: Any, method: str) -> None:
    """A sink."""
    _ = numbers | "Hangs" >> beam.io.Write(SinkThatHangs(method))


PLACES: list[tuple[Callable[[Any, str], None], list[str]]] = [
    (in_do_fn, ["setup", "start_bundle", "process", "generator", "finish_bundle", "teardown"]),
    (in_combine_fn, ["CombineFn.setup", "create_accumulator", "add_input", "extract_output", "CombineFn.teardown"]),
    (in_timer, ["timer"]),
    (in_source, ["split", "read"]),
    (in_sink, ["prepare", "write", "stage", "precommit", "commit"]),
]


@pytest.mark.parametrize(("hangs", "method"), [(hangs, method) for hangs, methods in PLACES for method in methods])
@pytest.mark.parametrize("how", ["bounded", "with checkpoints"])
def test_each_function_of_users_is_named(
    hangs: Callable[[Any, str], None], method: str, how: str, tmp_path: pathlib.Path
) -> None:
    """Also outside of the steps of a stream: where it starts, takes checkpoints, commits and ends."""
    directory = str(tmp_path / "kept") if how == "with checkpoints" else None
    with beam.Pipeline(options=PipelineOptions(worker_timeout=TIMEOUT, checkpoint_dir=directory)) as p:
        hangs(p | beam.Create([1]), method)


@pytest.mark.parametrize(
    ("hangs", "method"), [(in_source, "split"), (in_sink, "prepare"), (in_sink, "precommit"), (in_sink, "commit")]
)
def test_each_function_that_the_program_calls_for_workers_is_named(
    hangs: Callable[[Any, str], None], method: str
) -> None:
    """Before the workers start, and after they have ended."""
    with beam.Pipeline(options=PipelineOptions(worker_timeout=TIMEOUT, parallelism=2)) as p:
        hangs(p | beam.Create([1]), method)


def waits_for(path: str) -> bool:
    """Return once the log names this function, or the file is there."""
    with heard() as lines:

        def is_named() -> bool:
            stuck = [line for line in lines if "has been in one call" in line]
            return pathlib.Path(path).exists() or any("'Waits'" in line and "in waits_for\n" in line for line in stuck)

        wait_until(is_named, "the name of the call")
    return True


def test_a_function_that_does_not_return_is_named_on_each_runner(
    make_pipeline: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    """In the log of the process that it runs in, or of the program; with its step's label and its stack."""
    named = tmp_path / "named"

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if re.search(r"'Waits' has been in one call.*in waits_for\n", record.getMessage(), re.DOTALL):
                named.touch()

    listener = Listener()
    logging.getLogger().addHandler(listener)
    try:
        with make_pipeline(options=PipelineOptions(worker_timeout=1.0)) as p:
            assert_that(p | beam.Create([str(named)]) | "Waits" >> beam.Map(waits_for), equal_to([True]))
    finally:
        logging.getLogger().removeHandler(listener)


def test_a_function_that_does_not_return_is_named_in_micro_batches(spark: Any, tmp_path: pathlib.Path) -> None:
    """In the log of Spark's Python worker."""
    from penstock.runners.spark import SparkMicroBatchRunner

    with beam.Pipeline(SparkMicroBatchRunner(spark_session=spark), options=PipelineOptions(worker_timeout=1.0)) as p:
        waited = p | beam.Create([str(tmp_path / "never")]) | "Waits" >> beam.Map(waits_for)
        assert_that(waited, equal_to([True]))


def test_many_calls_are_not_taken_for_one(caplog: pytest.LogCaptureFixture) -> None:
    """Of a function of C either, which has no frame of its own."""
    with beam.Pipeline(options=PipelineOptions(worker_timeout=1.0)) as p:
        pauses = p | beam.Create([0.1] * 12)
        _ = pauses | beam.Map(time.sleep) | beam.Map(lambda _: time.sleep(0.1))
    assert [] == [record for record in caplog.records if "in one call" in record.getMessage()]


async def waits_asynchronously(path: str) -> bool:
    """Return once the log names the call, or the file is there: whether the log says where it waits."""
    with heard() as lines:

        def is_named() -> bool:
            return any(ASYNC.search(line) for line in lines) or pathlib.Path(path).exists()

        # In a thread, so that the call itself waits at each moment at which it can be looked at.
        await asyncio.to_thread(wait_until, is_named, "the name of the call")
        return all(WAITS.search(line) for line in lines if ASYNC.search(line))


# With the element; and where the call waits.
ASYNC = re.compile(
    r"'Waits' has been in the async call of '[^']*named' for \d+\.\d s, which holds up the watermark", re.DOTALL
)
WAITS = re.compile(r"in waits_asynchronously\n.*in to_thread\n", re.DOTALL)


def test_an_async_call_that_does_not_return_is_named_on_each_runner(
    make_pipeline: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    """Once, with its element, and where it waits; and when it has returned."""
    named = tmp_path / "named"
    messages: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())
            if ASYNC.search(messages[-1]):
                named.touch()

    listener = Listener()
    logging.getLogger().addHandler(listener)
    try:
        with make_pipeline(options=PipelineOptions(worker_timeout=1.0)) as p:
            calls = p | beam.Create([str(named)]) | "Waits" >> beam.AsyncMap(waits_asynchronously)
            assert_that(calls, equal_to([True]))
    finally:
        logging.getLogger().removeHandler(listener)
    said = [message for message in messages if ASYNC.search(message)]
    assert len(said) <= 1
    assert all(map(WAITS.search, said))


async def waits_for_the_first(n: int) -> int:
    """Return a while after the log has named the call of 0: the greater the number, the longer."""
    with heard() as lines:
        while not any("has been in the async call of 0" in line for line in lines):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05 * n)
    return n


def test_many_async_calls_that_hang_are_said_once() -> None:
    """The oldest one of a step; the others aren't at once, when it has returned."""
    with heard() as lines, beam.Pipeline(options=PipelineOptions(worker_timeout=0.2)) as p:
        assert_that(
            p | beam.Create(range(20)) | "Waits" >> beam.AsyncMap(waits_for_the_first) | beam.Map(int),
            equal_to(range(20)),
        )
    stuck = [line for line in lines if "has been in the async call" in line]
    returned = [line for line in lines if "'Waits' has returned after" in line]
    assert 1 <= len(stuck) <= 5
    assert len(stuck) == len(returned)
