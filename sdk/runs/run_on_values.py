"""`[1, 2, 3] | transform`: apply a transform to values, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from ...frozen import frozen
from ...windowing.timestamp import Timestamp
from .. import graph
from ..elements.bundle import Bundle
from ..elements.element_wrappers import WindowedValue, unwrapped
from ..errors import InputError, PenstockError, PipelineError
from ..pipeline import Pipeline
from ..ptransform import PTransform, unnamed
from ..pvalue import DoOutputsTuple, PCollection, PipelineUnderConstruction, PValue
from ..side_inputs import AsSideInput
from ..sink import LabelledSink, Sink, SinkContext, SinkSpec, SinkWriter
from ..sources.bounded import ValuesSource
from ..typehints import infer_type
from ..user_code.error_text import bounded
from ..user_code.serialization import dumps
from ..windowing_strategy import DEFAULT_WINDOWING


@frozen
class TaggedResults:
    """The values of tagged outputs: `results.errors`, `results["errors"]`, or unpacked in order.

    As those of a `DoOutputsTuple`: an unnamed main output is `results[None]`, and not unpacked.

    >>> import penstock as beam
    >>> def parse(word):
    ...     yield int(word) if word.isdigit() else beam.TaggedOutput("errors", word)
    >>> numbers, errors = ["1", "x", "2"] | beam.FlatMap(parse).with_outputs("errors", main="numbers")
    >>> numbers, errors
    ([1, 2], ['x'])
    """

    by_tag: dict[str | None, Any]

    def __iter__(self) -> Iterator[Any]:
        return (values for tag, values in self.by_tag.items() if tag is not None)

    def __len__(self) -> int:
        return sum(tag is not None for tag in self.by_tag)

    def __getitem__(self, tag: int | str | None) -> Any:
        try:
            return self.by_tag[str(tag) if isinstance(tag, int) else tag]
        except KeyError:
            raise PipelineError(f"there is no output tagged {tag!r}; with_outputs names {list(self.by_tag)}") from None

    def __getattr__(self, tag: str) -> Any:
        if tag.startswith("_") or tag not in self.by_tag:
            raise AttributeError(f"there is no output tagged {tag!r}")
        return self.by_tag[tag]


class CollectingSink(Sink[Any]):
    """Sink that collects a PCollection's values in the process that runs the pipeline.

    `values` has them once the pipeline is done, without retracted ones.

    Args:
      windowed: collects each as a `WindowedValue`.
    """

    spec = SinkSpec(accepts_retractions=True)

    def __init__(self, windowed: bool = False) -> None:
        self.values: list[Any] = []
        self._windowed = windowed

    def prepare(self, context: SinkContext) -> None:
        self.values = []

    def open_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _WindowedWriter() if self._windowed else _CollectingWriter()

    def commit(self, context: SinkContext, staged: Sequence[Staged]) -> None:
        added = [value for unit in staged for value in unit.added]
        self.values = _without([value for unit in staged for value in unit.retracted], added)

    def abort(self, context: SinkContext) -> None:
        self.values = []


class Staged(NamedTuple):
    """Values of one writer, by their sign."""

    added: list[Any]
    retracted: list[Any]


class _CollectingWriter(SinkWriter[Any]):
    def __init__(self) -> None:
        self.staged = Staged([], [])

    def write(self, bundle: Bundle) -> None:
        if bundle.signs == 1:
            self.staged.added.extend(bundle.values)
            return
        signs = bundle.signs if isinstance(bundle.signs, list) else repeat(bundle.signs)
        for value, sign in zip(bundle.values, signs):
            (self.staged.added if sign > 0 else self.staged.retracted).append(value)

    def stage(self) -> Staged:
        return self.staged

    def discard(self) -> None:
        self.staged = Staged([], [])


class _WindowedWriter(_CollectingWriter):
    def write(self, bundle: Bundle) -> None:
        for value, micros, windows, pane, sign in bundle.rows():
            windowed = WindowedValue(value, Timestamp.of_micros(micros), windows, pane)
            (self.staged.added if sign > 0 else self.staged.retracted).append(windowed)


def _without(retracted: list[Any], added: list[Any]) -> list[Any]:
    """Return the added values without one for each retracted value: an equal value, or else one with the same pickle.

    >>> nan = float("nan")
    >>> _without([1, [2], nan], [1, 1, [2], [3], float("nan"), 4])
    [1, [3], 4]
    """
    if not retracted:
        return added
    hashable: Counter[Any] = Counter()
    others: list[Any] = []
    for value in retracted:
        try:
            hashable[value] += 1
        except TypeError:
            others.append(value)
    left = []
    for value in added:
        try:
            if hashable[value] > 0:
                hashable[value] -= 1
                continue
        except TypeError:
            index = next((i for i, other in enumerate(others) if _are_equal(other, value)), None)
            if index is not None:
                del others[index]
                continue
        left.append(value)
    # Values that are equal to no copy of themselves, such as NaN, arrays, and objects without `__eq__`.
    for value in [*hashable.elements(), *others]:
        pickled = dumps(value)
        index = next(
            (i for i, other in enumerate(left) if type(other) is type(value) and dumps(other) == pickled), None
        )
        if index is None:
            raise PenstockError(f"a value was retracted that is not among the results: {bounded(repr(value))}")
        del left[index]
    return left


def _are_equal(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except (TypeError, ValueError):  # an array, for one
        return False


class _Values(PTransform):
    def __init__(self, values: list[Any]) -> None:
        super().__init__("values")
        self.values = values

    def expand(self, pbegin: Any) -> PCollection[Any]:
        hint = infer_type([unwrapped(value)[0] for value in self.values[:100]])
        return pbegin.pipeline.add(graph.Read(ValuesSource(self.values)), [], DEFAULT_WINDOWING, hint)[None]  # type: ignore[no-any-return]


class _Collect(PTransform):
    def __init__(self, sink: CollectingSink) -> None:
        super().__init__("Collect")
        self.sink = sink

    def expand(self, pcoll: Any) -> PCollection[Any]:
        sink = LabelledSink(self.sink, pcoll.pipeline.full_label)
        return pcoll.pipeline.add(graph.ParDo(None, sink=sink), [pcoll], pcoll.windowing)[None]  # type: ignore[no-any-return]


def apply_to_operand(operand: Any, transform: PTransform) -> Any:
    """Apply a transform to the PCollections in a tuple, list or dict, or run it on values.

    A list among PCollections is an input with these elements.
    A transform with a given pipeline, such as `Flatten(pipeline=p)`, is applied to an empty container.
    """
    if operand is None:
        raise PipelineError(
            f"{transform.label}: it is applied to None; "
            "did the expand of the transform before it return no PCollection?"
        )
    if isinstance(operand, Iterator):
        operand = list(operand)
    if isinstance(operand, (set, frozenset)) and any(isinstance(part, PCollection) for part in operand):
        # In the order in which they were made, which is the same in each process.
        operand = tuple(sorted(operand, key=lambda part: part.id))
    if not isinstance(operand, Iterable):
        raise InputError(f"{transform.label}: expected PCollections, or an iterable of elements, got {operand!r}")
    pipeline = _pipeline_of(operand)
    if pipeline is not None:
        return pipeline.apply(transform, _with_created_inputs(operand, pipeline, transform.label))
    told = unnamed(transform)[0].pipeline
    if told is not None and isinstance(operand, (dict, tuple, list)) and not operand:
        return told.apply(transform)
    return run_on_values(operand, transform)


def _pipeline_of(operand: Any) -> PipelineUnderConstruction | None:
    """Return the pipeline of the PCollections in a tuple, list or dict, and in those in it; None if there are none."""
    if not isinstance(operand, (dict, tuple, list)):
        return None
    parts = list(operand.values() if isinstance(operand, dict) else operand)
    # A tuple or list has either PCollections or elements.
    nested = [value for part in parts if isinstance(part, (tuple, list)) for value in part[:1]]
    pipelines = {id(value.pipeline): value.pipeline for value in parts + nested if isinstance(value, PValue)}
    if len(pipelines) > 1:
        raise PipelineError("the PCollections are of different pipelines")
    return next(iter(pipelines.values()), None)


def _with_created_inputs(operand: Any, pipeline: PipelineUnderConstruction, label: str) -> Any:
    """Return the container of PCollections with a PCollection in the place of each list of values."""

    def created(key: Any, part: Any) -> Any:
        if not isinstance(part, list) or any(isinstance(value, (PValue, DoOutputsTuple)) for value in part):
            return part
        return pipeline | f"{label} values {key}" >> _Values(part)

    if isinstance(operand, dict):
        return {key: created(key, part) for key, part in operand.items()}
    return _like(operand, [created(i, part) for i, part in enumerate(operand)])


def run_on_values(values: Any, transform: PTransform) -> Any:
    """Return the results of a transform on a list of values, or on a tuple or dict of lists.

    Results have the structure of the transform's output: a list for each PCollection, in the same tuple, named tuple,
    list or dict; a `TaggedResults` for tagged outputs; None for a write; other objects themselves.  Retracted values
    are removed.
    """
    pipeline = Pipeline("local")
    inputs: Any
    if isinstance(values, dict):
        inputs = {key: pipeline | f"values {key}" >> _Values(list(part)) for key, part in values.items()}
    elif _are_inputs(values, transform):
        inputs = _like(values, [pipeline | f"values {i}" >> _Values(list(part)) for i, part in enumerate(values)])
    else:
        inputs = pipeline | _Values(list(values))
    output = pipeline.apply(transform, inputs)
    collected = _collected(output, "collect")
    pipeline.run().wait_until_finish()
    return _results(collected)


def _are_inputs(values: Any, transform: PTransform) -> bool:
    is_container = isinstance(values, tuple) or unnamed(transform)[0].takes_listed_inputs
    return is_container and bool(values) and all(isinstance(part, (list, tuple)) for part in values)


def _collected(output: Any, label: str) -> Any:
    """Return the output with each PCollection replaced by a sink."""
    if isinstance(output, PCollection):
        sink = CollectingSink()
        output | label >> _Collect(sink)
        return sink
    if isinstance(output, DoOutputsTuple):
        return TaggedResults(_collected(output.by_tag(), label))
    if isinstance(output, dict):
        return {key: _collected(part, f"{label} {key}") for key, part in output.items()}
    if isinstance(output, (tuple, list)):
        return _like(output, [_collected(part, f"{label} {i}") for i, part in enumerate(output)])
    if isinstance(output, AsSideInput):
        return _View(output, _collected(output.pvalue, label))
    return None if isinstance(output, PValue) else output


def _results(collected: Any) -> Any:
    if isinstance(collected, CollectingSink):
        return collected.values
    if isinstance(collected, TaggedResults):
        return TaggedResults(_results(collected.by_tag))
    if isinstance(collected, dict):
        return {key: _results(part) for key, part in collected.items()}
    if isinstance(collected, (tuple, list)):
        return _like(collected, [_results(part) for part in collected])
    if isinstance(collected, _View):
        return collected.side_input.view.of(collected.sink.values)
    return collected


def _like(structure: Any, parts: list[Any]) -> Any:
    """Return the parts in a tuple, named tuple or list of the same type as `structure`."""
    kind = type(structure)
    return kind._make(parts) if hasattr(kind, "_make") else kind(parts)


@frozen
class _View:
    side_input: AsSideInput
    sink: CollectingSink
