"""`--runtime_type_check`: each element is checked against the hints of functions, DoFns and transforms."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal

import pytest

import penstock as beam
from penstock.options import PipelineOptions
from penstock.sdk.errors import PenstockError, TypeHintError
from penstock.windowing import TimestampedValue


def run(transform, values=(1, 2), checked=True):
    options = PipelineOptions(["--runtime_type_check"] if checked else [])
    with beam.Pipeline(options=options) as p:
        _ = p | beam.Create(list(values)) | "hide the type" >> beam.Map(lambda x: x).with_output_types(Any) | transform


def annotated(n) -> int:
    return str(n)


class Yields(beam.DoFn):
    def process(self, n: int) -> Iterable[int | beam.TaggedOutput[Literal["odd"], str]]:
        yield beam.TaggedOutput("odd", n) if n % 2 else n


class Returns(beam.DoFn):
    def process(self, n):
        return n


def of_output(label, expected, received):
    return (
        f"Runtime type violation detected within {label}: According to type-hint expected output should be of type "
        f"{expected}. Instead, received {received}"
    )


@pytest.mark.parametrize(
    ("transform", "values", "told"),
    [
        (
            beam.Map(annotated),
            [1],
            of_output("Map(annotated)", "<class 'int'>", "'1', an instance of <class 'str'>"),
        ),
        (
            "Named" >> beam.Map(lambda n: n).with_input_types(int),
            [1, "a"],
            "Type-hint for argument: 'n' violated. Expected an instance of <class 'int'>, instead found 'a'",
        ),
        (
            beam.ParDo(Returns()),
            [5],
            "ParDo(Returns): FlatMap and ParDo must return an iterable. <class 'int'> was returned instead.",
        ),
        (
            "Named" >> beam.FlatMap(lambda text: text),
            ["ab"],
            (
                "Named: Returning a str from a ParDo or FlatMap is discouraged. "
                'Please use list("ab") if you really want this behavior.'
            ),
        ),
        (
            "Named" >> beam.FlatMap(lambda n: ["a"]).with_output_types(int),
            [1],
            of_output("Named", "<class 'int'>", "'a', an instance of <class 'str'>"),
        ),
        (
            "Named" >> beam.Map(lambda n: (n, n)).with_output_types(tuple[int, str]),
            [1],
            of_output("Named", "Tuple[<class 'int'>, <class 'str'>]", "(1, 1), an instance of <class 'tuple'>"),
        ),
        (
            "Named" >> beam.Map(lambda n: beam.window.TimestampedValue("a", 5)).with_output_types(int),
            [1],
            of_output("Named", "<class 'int'>", "'a', an instance of <class 'str'>"),
        ),
        (
            beam.ParDo(Yields()).with_outputs("odd"),
            [2, 1],
            of_output("ParDo(Yields)", "<class 'str'>", "1, an instance of <class 'int'>"),
        ),
        (
            "Named" >> beam.Map(lambda n: n).with_output_types(float),
            [1],
            of_output("Named", "<class 'float'>", "1, an instance of <class 'int'>"),
        ),
    ],
)
def test_an_element_of_another_type_is_an_error(transform, values, told):
    with pytest.raises(TypeHintError) as error:
        run(transform, values)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "transform",
    [
        beam.Map(lambda n: n).with_input_types(int).with_output_types(int),
        beam.Map(lambda n: n),
        beam.Map(lambda n: (n, [n])).with_output_types(tuple[int, list[int]]),
        beam.Filter(lambda n: n > 1).with_input_types(int),
        beam.FlatMap(lambda n: [n, n]).with_output_types(int),
        beam.Map(lambda n, by, also=0: n * by, 2, also=3).with_input_types(int),
    ],
)
def test_elements_of_the_type_pass(transform):
    run(transform)


def test_elements_are_not_checked_without_the_flag():
    run(beam.Map(annotated), checked=False)


def test_a_checked_dofn_keeps_its_parameters_and_callbacks(capsys):
    class Stamps(beam.DoFn):
        def setup(self):
            self.greeting = "at"

        def process(self, n: int, factor, timestamp=beam.DoFn.TimestampParam) -> Iterable[str]:
            yield f"{self.greeting} {float(timestamp)}: {n * factor}"

    with beam.Pipeline(options=PipelineOptions(["--runtime_type_check"])) as p:
        stamped = p | beam.Create([1]) | beam.Map(lambda n: beam.window.TimestampedValue(n, 5))
        _ = stamped | beam.ParDo(Stamps(), 3) | beam.Map(print)
    assert "at 5.0: 3\n" == capsys.readouterr().out


def test_types_are_checked_at_run_time_if_asked_for() -> None:
    """Of elements, and of each output of a coroutine or an async generator."""

    async def wrong(n: int) -> list[str]:
        return [n]  # type: ignore[list-item]

    for transform, message in [(beam.ParDo(wrong), "Ask: .*str.*received"), (beam.ParDo(Both(), 2), None)]:
        p = beam.Pipeline(options=PipelineOptions([], runtime_type_check=True))
        _ = p | beam.Create([TimestampedValue(1, 1)]) | "Ask" >> transform
        if message is None:
            p.run()
        else:
            with pytest.raises(PenstockError, match=message):
                p.run()


class Both(beam.DoFn):
    """Each element and the next one; tagged text of the time and window."""

    async def setup(self) -> None:
        await asyncio.sleep(0)
        self.step = 1

    async def process(
        self, n: int, factor: int, at: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> AsyncIterator[Any]:
        yield factor * n
        await asyncio.sleep(0.001)
        yield factor * (n + self.step)
        yield beam.TaggedOutput("when", (n, float(at), float(window.end)))
