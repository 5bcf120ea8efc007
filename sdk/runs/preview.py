"""The elements of a PCollection in the program: `collect`, `show`, `to_pandas`, and its form in a notebook.

Each runs the transforms that the PCollection depends on, and no others, with the pipeline's runner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from .. import graph
from ..elements.bundle import Bundle
from ..elements.element_wrappers import WindowedValue
from ..elements.row import fields_of
from ..errors import PenstockError, UnsupportedError, missing_extra
from ..options import PipelineOptions, scoped_pipeline_options
from ..options.context import inside_a_run
from ..pvalue import PCollection
from ..runner import DEFAULT_RUNNER, Runner, create_runner
from ..sink import LabelledSink
from ..sources.bounded import BoundedSource
from ..type_variables import T
from ..typehints import describe
from .run_on_values import CollectingSink

# Elements of each source that a notebook's form is made of, and rows that it shows.
_READ, _SHOWN = 1_000, 10

# Options of the whole pipeline: a job would restore, or write, its checkpoints, and its ports may be in use.
_PORTS = {f"{name}_{end}" for name in ("metrics", "health", "ui") for end in ("port", "host")}
_OF_THE_WHOLE = {"checkpoint_dir", *_PORTS}


class _FirstElements(BoundedSource[Any]):
    """The first elements of a source, for a preview in this process."""

    def __init__(self, source: BoundedSource[Any], limit: int) -> None:
        self.source = source
        self.left = limit
        self.is_cut = False

    def split(self, desired_splits: int) -> Sequence[Any]:
        return self.source.split(1)

    def read_bundles(self, split: Any) -> Iterator[Bundle]:
        for bundle in self.source.read_bundles(split):
            if self.left <= 0:
                self.is_cut = True
                return
            whole = len(bundle)
            kept = min(whole, self.left)
            self.left -= kept
            self.is_cut |= kept < whole
            yield bundle if kept == whole else bundle.part(0, kept)


def collect(pcoll: PCollection[T], n: int | None = None) -> list[T]:
    """Return the elements of a PCollection, by running what it depends on.

    Retracted elements are left out, and the order isn't defined.  The functions run again each time.

    Args:
      pcoll: a bounded PCollection, or one of a `TestStream`.
      n: the number of elements to return at most; all are computed.

    Raises `UnsupportedError` for an unbounded PCollection, and for one that depends on a write.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> words = p | beam.Create(["to be", "or not"]) | beam.FlatMap(str.split)
    >>> beam.collect(words)
    ['to', 'be', 'or', 'not']
    """
    values = _values(pcoll, _ancestors(pcoll, "collect"), pcoll.pipeline.runner, pcoll.pipeline.options)
    return values if n is None else values[:n]


def collect_windowed(pcoll: PCollection[Any]) -> list[WindowedValue]:
    """Return the elements as `collect` does, each as a `WindowedValue` with its timestamp, windows and pane.

    Raises `UnsupportedError` for a PCollection with retractions, too.

    >>> import penstock as beam
    >>> p = beam.Pipeline()
    >>> words = p | beam.Create(["to"]) | beam.WithTimestamps(lambda word: 5)
    >>> [(word.value, word.timestamp) for word in collect_windowed(words)]
    [('to', Timestamp(5))]
    """
    if pcoll.retracted_by:
        raise UnsupportedError(f"collect: {pcoll!r} has retractions, which are shown without windows only")
    part = _ancestors(pcoll, "collect")
    return _values(pcoll, part, pcoll.pipeline.runner, pcoll.pipeline.options, windowed=True)


def _ancestors(pcoll: PCollection[Any], asks: str) -> graph.Graph:
    """Return the part of the graph that a PCollection depends on."""
    if not isinstance(pcoll, PCollection):
        raise TypeError(f"{asks}: expected a PCollection, got {pcoll!r}")
    # Before the outline: the output of a write is added to the pipeline when its number is asked for.
    needed = {pcoll.id}
    outline = pcoll.pipeline.outline()
    kept = []
    for transform in reversed(outline.transforms):
        if needed.isdisjoint(transform.outputs.values()):
            continue
        is_sink = isinstance(transform.primitive, graph.ParDo) and transform.primitive.sink is not None
        if is_sink or any(pcoll.pipeline.pcollection(i).is_written for i in transform.outputs.values()):
            raise UnsupportedError(
                f"{asks}: {pcoll!r} depends on the write {transform.label}, which would write again; read what it has "
                "written in a pipeline of its own"
            )
        kept.append(transform)
        needed |= {*transform.inputs, *(side.pcollection for side in transform.side_inputs)}
    # The other outputs of these transforms are made, too.
    made = needed.union(*(transform.outputs.values() for transform in kept))
    part = graph.Graph(tuple(reversed(kept)), {i: node for i, node in outline.pcollections.items() if i in made})
    if not pcoll.is_bounded and not part.has_script:
        raise UnsupportedError(
            f"{asks}: {pcoll!r} is unbounded, so its elements have no end; write them by a sink, or bound the source"
        )
    return part


def _values(
    pcoll: PCollection[Any], part: graph.Graph, runner: Runner, options: PipelineOptions, windowed: bool = False
) -> list[Any]:
    sink = CollectingSink(windowed)
    end = max(part.pcollections) + 1
    written = graph.Transform(
        "Collect",
        graph.ParDo(None, sink=LabelledSink(sink, "Collect"), retracted=bool(pcoll.retracted_by)),
        (pcoll.id,),
        {None: end},
    )
    node = attrs.evolve(part.pcollections[pcoll.id], id=end, producer="Collect", tag=None)
    transforms = tuple(attrs.evolve(t, primitive=graph.for_run(t.primitive)) for t in (*part.transforms, written))
    whole = graph.Graph(transforms, {**part.pcollections, end: node})
    given = {name: value for name, value in options.given().items() if name not in _OF_THE_WHOLE}
    for_this = PipelineOptions(**given)
    with scoped_pipeline_options(for_this), inside_a_run():
        runner.run_pipeline(whole, for_this).wait_until_finish()
    return sink.values


def columns_of(values: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the columns of rows, dicts, tuples or other values, by name.

    >>> import penstock as beam
    >>> columns_of([beam.Row(item="tea", cups=2)])
    {'item': ['tea'], 'cups': [2]}
    >>> columns_of([("a", 1), ("b", 2)])
    {'0': ['a', 'b'], '1': [1, 2]}
    >>> columns_of([5, 6])
    {'value': [5, 6]}
    """
    rows = [_fields(value) for value in values]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _fields(value: Any) -> dict[str, Any]:
    fields = fields_of(value)
    if fields is not None:
        return {str(name): part for name, part in fields.items()}
    return {str(i): part for i, part in enumerate(value)} if isinstance(value, tuple) else {"value": value}


def to_pandas(pcoll: PCollection[Any]) -> Any:
    """Return all elements as a `pandas.DataFrame`.  Raises `MissingExtraError` without pandas."""
    from importlib import import_module

    try:
        pandas = import_module("pandas")
    except ImportError:
        raise missing_extra("pandas", "dataframes", "to_pandas") from None
    return pandas.DataFrame(columns_of(collect(pcoll)))


def show(pcoll: PCollection[Any], n: int) -> None:
    """Display the first elements: as a table in a notebook, otherwise as text."""
    values = collect(pcoll)
    title = f"{pcoll!r}: {len(values):,} elements" + (f", of which {n:,} are shown" if len(values) > n else "")
    display = display_of_notebook()
    if display is None:
        print(title, *map(repr, values[:n]), sep="\n")
        return
    display({"text/html": _table(title, values[:n]), "text/plain": title}, raw=True)


def display_of_notebook() -> Any:
    """Return the function that displays in the notebook that runs this program, or None."""
    import sys

    # A kernel has imported it; importing it elsewhere would take half a second.
    shell = sys.modules.get("IPython.core.getipython")
    if shell is None or shell.get_ipython() is None:
        return None
    return sys.modules["IPython.display"].display


def to_html(pcoll: PCollection[Any]) -> str:
    """Return the schema and the first elements, of a run on the first thousand elements of each source.

    A PCollection that is unbounded, or depends on a write, is shown without elements.
    """
    from html import escape

    title = f"{escape(repr(pcoll))}: {escape(describe(pcoll.hint))}"
    try:
        part = _ancestors(pcoll, "preview")
    except UnsupportedError:
        return f"<p><code>{title}</code>, not computed: see <code>help(penstock.collect)</code></p>"
    sources = {
        transform.label: _FirstElements(transform.primitive.source, _READ)
        for transform in part.transforms
        if isinstance(transform.primitive, graph.Read) and isinstance(transform.primitive.source, BoundedSource)
    }
    transforms = tuple(
        attrs.evolve(one, primitive=graph.Read(sources[one.label])) if one.label in sources else one
        for one in part.transforms
    )
    limited = graph.Graph(transforms, part.pcollections)
    try:
        values = _values(pcoll, limited, create_runner(DEFAULT_RUNNER), PipelineOptions(progress=False))
    except PenstockError as error:
        return f"<p><code>{title}</code>, not computed: {escape(str(error))}</p>"
    cut = [label for label, source in sources.items() if source.is_cut]
    note = f", of the first {_READ:,} elements of {escape(', '.join(cut))}" if cut else ""
    return _table(f"{title}; {len(values[:_SHOWN])} of {len(values):,} elements{note}", values[:_SHOWN])


def _table(title: str, values: Sequence[Any]) -> str:
    from html import escape

    columns = columns_of(values)
    types = {name: " | ".join(dict.fromkeys(type(cell).__name__ for cell in cells)) for name, cells in columns.items()}
    head = "".join(f"<th>{escape(name)}<br><small>{escape(types[name])}</small></th>" for name in columns)
    rows = (
        "<tr>" + "".join(f"<td>{escape(_short(cell))}</td>" for cell in cells) + "</tr>"
        for cells in zip(*columns.values(), strict=True)
    )
    return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _short(cell: Any) -> str:
    text = cell if isinstance(cell, str) else repr(cell)
    return text if len(text) <= 80 else f"{text[:79]}…"
