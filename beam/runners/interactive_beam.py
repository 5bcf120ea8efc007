"""Beam's `interactive_beam`, by convention `ib`: the elements of PCollections, in a notebook or a program.

Each call runs what its PCollections depend on.  Nothing is recorded: sources are read again each time, so that there is
nothing to clear or to stop.

>>> import penstock as beam
>>> from penstock.beam.runners import interactive_beam as ib
>>> p = beam.Pipeline()
>>> ib.collect(p | beam.Create([1, 2]), raw_records=True)
[1, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, NoReturn

import attrs

from ...dataframe.convert import to_pcollection
from ...dataframe.frames import DeferredFrame
from ...sdk.drawing.drawing import to_text
from ...sdk.elements.row import fields_of
from ...sdk.errors import UnsupportedError, missing_extra
from ...sdk.pipeline import Pipeline
from ...sdk.pvalue import PCollection
from ...sdk.runner import PipelineState
from ...sdk.runs import preview

__all__ = [
    "clusters",
    "collect",
    "compute",
    "evict_recorded_data",
    "options",
    "recordings",
    "show",
    "show_graph",
    "watch",
]

# What notebooks show of a PCollection without `n`.
_SHOWN = 20


@attrs.define
class Options:
    """Options of Beam's notebooks.  None has an effect, since nothing is recorded."""

    enable_recording_replay: bool = True
    enable_capture_replay: bool = True
    recordable_sources: set[Any] = attrs.field(factory=set)
    recording_duration: Any = "60s"
    capture_duration: Any = "60s"
    recording_size_limit: float = 1e9
    capture_size_limit: float = 1e9
    display_timestamp_format: str = "%Y-%m-%d %H:%M:%S.%f%z"
    display_timezone: Any = None
    cache_root: str | None = None


class Recordings:
    """The recordings of pipelines: there are none.

    >>> Recordings().describe(Pipeline())["size"]
    0
    """

    def describe(self, pipeline: Pipeline | None = None) -> dict[Any, Any]:
        """Return a description of a pipeline's recordings; without a pipeline, those of all."""
        empty = {"size": 0, "start": None, "end": None, "state": PipelineState.DONE, "pipeline": pipeline}
        return {} if pipeline is None else empty

    def clear(self, pipeline: Pipeline) -> bool:
        """Return True: there is nothing to clear."""
        return True

    def stop(self, pipeline: Pipeline) -> None:
        """Do nothing."""

    def record(self, pipeline: Pipeline) -> bool:
        """Return False: no recording was started."""
        return False


class Clusters:
    """Flink's clusters on Dataproc, which penstock doesn't start."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"ib.clusters.{name}: penstock starts no clusters; run the pipeline on one that is there, by --runner=spark"
        )


options = Options()
recordings = Recordings()
clusters = Clusters()


def watch(watchable: Any) -> None:
    """Do nothing: a PCollection knows what it depends on, wherever it was defined."""


def show(
    *pcolls: Any, include_window_info: bool = False, visualize_data: bool = False, n: Any = "inf", duration: Any = "inf"
) -> None:
    """Display elements of PCollections: as tables in a notebook, otherwise as text.

    Args:
      pcolls: PCollections, or dicts or iterables of them, or deferred DataFrames.
      include_window_info: displays timestamps, windows and panes, too.
      visualize_data: Beam's; has no effect.
      n: the number of elements to display at most.
      duration: Beam's; has no effect, since bounded PCollections are read to their end.

    Raises `UnsupportedError` for an unbounded PCollection.
    """
    for pcoll in _flat(pcolls):
        limit = _SHOWN if n == "inf" else int(n)
        if include_window_info:
            display(collect(pcoll, limit, include_window_info=True))
        else:
            pcoll.show(limit)


def display(frame: Any) -> None:
    """Display a DataFrame: in a notebook as its table, otherwise as text."""
    found = preview.display_of_notebook()
    if found is None:
        print(frame)
    else:
        found(frame)


def collect(
    *pcolls: Any,
    n: Any = "inf",
    duration: Any = "inf",
    include_window_info: bool = False,
    force_compute: bool = False,
    raw_records: bool = False,
    **ignored: Any,
) -> Any:
    """Return the elements of PCollections as `pandas.DataFrame`: of one PCollection it, of several a tuple.

    Args:
      pcolls: PCollections, or deferred DataFrames.
      n: the number of elements at most.
      include_window_info: adds the columns `event_time` in microseconds, `windows` and `pane_info`.
      raw_records: returns lists of elements instead.
      duration, force_compute: Beam's; have no effect.

    Raises `UnsupportedError` for an unbounded PCollection, and `MissingExtraError` without pandas.
    """
    given = list(pcolls)
    if len(given) == 2 and (given[1] == "inf" or isinstance(given[1], int)):
        # As in Beam before 2.55, where `n` was the second parameter.
        n = given.pop()
    limit = None if n == "inf" else int(n)
    found = [_collected(pcoll, limit, include_window_info, raw_records) for pcoll in _flat(given)]
    return found[0] if len(found) == 1 else tuple(found)


def compute(*pcolls: Any, **ignored: Any) -> None:
    """Run what PCollections depend on.  As nothing is recorded, this only finds out whether they can be computed."""
    for pcoll in _flat(pcolls):
        preview.collect(pcoll)


def show_graph(pipeline: Pipeline) -> None:
    """Display the graph of a pipeline: in a notebook as a drawing, otherwise as text."""
    found = preview.display_of_notebook()
    if found is None:
        print(to_text(pipeline.outline()))
    else:
        found(pipeline)


def evict_recorded_data(pipeline: Pipeline | None = None) -> None:
    """Do nothing: there are no recordings."""


def _flat(pcolls: Iterable[Any]) -> list[PCollection[Any]]:
    """Return the PCollections of arguments."""
    found: list[PCollection[Any]] = []
    for one in pcolls:
        if isinstance(one, PCollection):
            found.append(one)
        elif isinstance(one, DeferredFrame):
            found.append(to_pcollection(one))
        elif isinstance(one, Mapping):
            found += _flat(one.values())
        elif isinstance(one, Iterable) and not isinstance(one, (str, bytes)):
            found += _flat(one)
        else:
            raise TypeError(f"expected a PCollection, got {one!r}")
    if not found:
        raise TypeError("expected a PCollection, got none")
    return found


def _collected(pcoll: PCollection[Any], n: int | None, include_window_info: bool, raw_records: bool) -> Any:
    if not include_window_info:
        values = preview.collect(pcoll, n)
        return values if raw_records else _frame(values)
    windowed = preview.collect_windowed(pcoll)[:n]
    if raw_records:
        return windowed
    pandas = _pandas()
    about = [(one.micros, one.windows, one.pane_info) for one in windowed]
    values_frame = _frame([one.value for one in windowed])
    return pandas.concat(
        [values_frame, pandas.DataFrame(about, columns=["event_time", "windows", "pane_info"])], axis=1
    )


def _frame(values: list[Any]) -> Any:
    pandas = _pandas()
    if values and isinstance(values[0], (pandas.DataFrame, pandas.Series)):
        return pandas.concat(values)
    rows = [value if (fields := fields_of(value)) is None else fields for value in values]
    return pandas.DataFrame(rows)


def _pandas() -> Any:
    try:
        return import_module("pandas")
    except ImportError:
        raise missing_extra("pandas", "dataframes", "ib.collect") from None
